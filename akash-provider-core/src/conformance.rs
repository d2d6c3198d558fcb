//! What the suites of all ports share: a rule with its name, and a limit of time around every call.
//!
//! A call that waits for ever ends with a timeout. One that never gives its thread back cannot be ended from
//! within; a thread beside says which call it was and ends the process, so that nobody looks at a test that hangs.

#![expect(
    clippy::disallowed_methods,
    reason = "a suite runs beside what it tests, in real time"
)]

use crate::error::{Error, ErrorKind, chain_text};
use crate::feed::lock;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// Items of a stream that are read for one answer. A stream that always has another is not waited for.
const ITEMS_MAX: u32 = 100_000;
/// What a call that blocks its thread has, beyond its patience, before the process is ended.
const BLOCKED: Duration = Duration::from_secs(5);
/// Between two looks at the calls under way.
const LOOK: Duration = Duration::from_millis(100);

/// A rule of a port, and how long each call under it may take.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    name: Cow<'static, str>,
    patience: Duration,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Rule {
    pub(crate) fn new(name: impl Into<Cow<'static, str>>, patience: Duration) -> Self {
        let name = name.into();
        Self { name, patience }
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    /// Fails the suite.
    #[expect(clippy::panic, reason = "a suite says what a backend does wrong by panicking")]
    pub(crate) fn broken(&self, message: impl fmt::Display) -> ! {
        panic!("{self}: {message}")
    }

    /// Fails the suite unless it is so.
    pub(crate) fn holds(&self, is_so: bool, message: impl fmt::Display) {
        if !is_so {
            self.broken(message);
        }
    }

    /// The answer of `call`, which comes in time.
    pub(crate) async fn answer<T>(&self, call: &str, answer: impl Future<Output = T>) -> T {
        let _watch = Watch::begin(self, call);
        match tokio::time::timeout(self.patience, answer).await {
            Ok(answer) => answer,
            Err(_) => self.broken(format!(
                "`{call}` was expected to answer within {:?} and did not",
                self.patience
            )),
        }
    }

    /// The same of a call that does not wait.
    pub(crate) fn at_once<T>(&self, call: &str, answer: impl FnOnce() -> T) -> T {
        let _watch = Watch::begin(self, call);
        answer()
    }

    /// The answer of a `call` that is to succeed.
    pub(crate) async fn ok<T>(&self, call: &str, answer: impl Future<Output = Result<T, Error>>) -> T {
        match self.answer(call, answer).await {
            Ok(value) => value,
            Err(error) => self.failed(call, &error),
        }
    }

    /// What `call` was to find.
    pub(crate) fn there<T>(&self, call: &str, found: Option<T>) -> T {
        found.unwrap_or_else(|| self.broken(format!("`{call}` was expected to find something and did not")))
    }

    pub(crate) fn failed(&self, call: &str, error: &Error) -> ! {
        let (kind, text) = (error.kind(), chain_text(error));
        self.broken(format!(
            "`{call}` was expected to succeed and failed with {kind:?}: {text}"
        ))
    }

    /// Fails the suite unless `call` is refused with this kind of error; `why` it has to be.
    pub(crate) async fn refused<T>(
        &self,
        call: &str,
        kind: ErrorKind,
        why: &str,
        answer: impl Future<Output = Result<T, Error>>,
    ) {
        let got = match self.answer(call, answer).await {
            Ok(_) => "succeeded".to_owned(),
            Err(error) if error.kind() == kind => return,
            Err(error) => format!("failed with {:?}: {}", error.kind(), chain_text(&error)),
        };
        self.broken(format!(
            "`{call}` was expected to be refused with {kind:?}, because {why}; it {got}"
        ));
    }

    /// Reads a stream until `wanted` makes something of an item; `None` when the stream ends before. The time and
    /// the items that this may take are limited, also on a stream that never has nothing to say.
    pub(crate) async fn find<T, R>(
        &self,
        call: &str,
        stream: &mut BoxStream<'static, T>,
        mut wanted: impl FnMut(T) -> Option<R>,
    ) -> Found<R> {
        let until = tokio::time::Instant::now() + self.patience;
        for _ in 0..ITEMS_MAX {
            let _watch = Watch::begin(self, call);
            match tokio::time::timeout_at(until, stream.next()).await {
                Err(_) => return Found::Late,
                Ok(None) => return Found::Ended,
                Ok(Some(item)) => {
                    if let Some(found) = wanted(item) {
                        return Found::Item(found);
                    }
                }
            }
            // The timer is looked at only when others get their turn.
            tokio::task::yield_now().await;
            if tokio::time::Instant::now() >= until {
                return Found::Late;
            }
        }
        self.broken(format!(
            "`{call}` said {ITEMS_MAX} things without a pause and what was expected was not among them"
        ))
    }
}

/// Does something to a backend, without its knowledge.
pub type Act<'a> = Box<dyn Fn() -> BoxFuture<'a, ()> + Send + Sync + 'a>;

/// Start and end of an outage of what a backend reports on.
pub struct Outage<'a> {
    /// Starts the outage: from here on the backend cannot know the present state.
    pub begin: Act<'a>,
    /// Ends the outage.
    pub end: Act<'a>,
}

impl fmt::Debug for Outage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outage").finish_non_exhaustive()
    }
}

/// What came of reading a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<R> {
    /// It was there.
    Item(R),
    /// The stream ended before.
    Ended,
    /// The time was over before.
    Late,
}

/// Calls under way: until when each has to be over, and what is said when it is not.
static UNDER_WAY: Mutex<BTreeMap<u64, (Instant, String)>> = Mutex::new(BTreeMap::new());
static NUMBER: AtomicU64 = AtomicU64::new(0);
static GUARD: Once = Once::new();

/// A call that is under way until this is dropped.
struct Watch(u64);

impl Watch {
    fn begin(rule: &Rule, call: &str) -> Self {
        GUARD.call_once(|| drop(std::thread::spawn(guard)));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let limit = rule.patience.saturating_mul(2).saturating_add(BLOCKED);
        let message = format!(
            "{rule}: `{call}` was expected to give its thread back and has not for {limit:?}; the suite ends here"
        );
        if let Some(until) = Instant::now().checked_add(limit) {
            lock(&UNDER_WAY).insert(number, (until, message));
        }
        Self(number)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&UNDER_WAY).remove(&self.0);
    }
}

fn guard() {
    loop {
        std::thread::sleep(LOOK);
        let now = Instant::now();
        let overdue = {
            let under_way = lock(&UNDER_WAY);
            let mut late = under_way.values().filter(|(until, _)| *until < now);
            late.next().map(|(_, message)| message.clone())
        };
        if let Some(message) = overdue {
            // Not through the macros: a test's output is kept back, and would go with the process.
            let _ = writeln!(std::io::stderr(), "\n{message}");
            std::process::exit(101);
        }
    }
}

/// Message of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked without a message")
}

/// What a suite says of a backend; `None` when it passes.
#[cfg(test)]
pub(crate) async fn verdict(suite: impl Future<Output = ()>) -> Option<String> {
    use futures::FutureExt;
    let said = std::panic::AssertUnwindSafe(suite).catch_unwind().await.err()?;
    Some(panic_text(&*said).to_owned())
}

#[cfg(test)]
mod tests;
