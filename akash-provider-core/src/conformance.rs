//! Shared parts of all conformance suites: named rules, and a time limit for every call.
//!
//! A call that does not complete in time fails with a timeout. A call that blocks its thread cannot be
//! canceled. In this case, a guard thread prints the name of the call and exits the process.

#![expect(clippy::disallowed_methods, reason = "a suite tests a backend in real time")]

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

/// Maximum number of items that a search reads, because a stream may be endless.
const ITEMS_MAX: u32 = 100_000;
/// A call may block its thread for this time plus twice the time limit of the call. After a longer block, the
/// process exits.
const BLOCKED: Duration = Duration::from_secs(5);
/// Interval at which the suite looks for calls that block their thread.
const LOOK: Duration = Duration::from_millis(100);

/// A rule for the implementations of a trait, with the time limit of each call.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    name: Cow<'static, str>,
    timeout: Duration,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Rule {
    pub(crate) fn new(name: impl Into<Cow<'static, str>>, timeout: Duration) -> Self {
        let name = name.into();
        Self { name, timeout }
    }

    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    #[expect(clippy::panic, reason = "a suite reports a violation by panicking")]
    pub(crate) fn broken(&self, message: impl fmt::Display) -> ! {
        panic!("{self}: {message}")
    }

    pub(crate) fn holds(&self, is_so: bool, message: impl fmt::Display) {
        if !is_so {
            self.broken(message);
        }
    }

    /// Waits for the result of `call`, up to the time limit.
    pub(crate) async fn answer<T>(&self, call: &str, answer: impl Future<Output = T>) -> T {
        let _watch = Watch::begin(self, call);
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => self.broken(format!(
                "`{call}` was expected to respond within {:?} and did not",
                self.timeout
            )),
        }
    }

    /// Runs a synchronous call. If the call blocks too long, the process exits.
    pub(crate) fn at_once<T>(&self, call: &str, answer: impl FnOnce() -> T) -> T {
        let _watch = Watch::begin(self, call);
        answer()
    }

    /// Waits for the result of a `call` that must succeed.
    pub(crate) async fn ok<T>(&self, call: &str, answer: impl Future<Output = Result<T, Error>>) -> T {
        match self.answer(call, answer).await {
            Ok(value) => value,
            Err(error) => self.failed(call, &error),
        }
    }

    /// Returns the value in `found`, or panics with the name of `call`.
    pub(crate) fn there<T>(&self, call: &str, found: Option<T>) -> T {
        found.unwrap_or_else(|| self.broken(format!("`{call}` was expected to find a value and found none")))
    }

    pub(crate) fn failed(&self, call: &str, error: &Error) -> ! {
        let (kind, text) = (error.kind(), chain_text(error));
        self.broken(format!(
            "`{call}` was expected to succeed and failed with {kind:?}: {text}"
        ))
    }

    /// Panics unless `call` returns an error of this `kind`. The message contains the reason `why`.
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

    /// Reads a stream until `wanted` returns a value for an item, within limits for time and number of items.
    pub(crate) async fn find<T, R>(
        &self,
        call: &str,
        stream: &mut BoxStream<'static, T>,
        mut wanted: impl FnMut(T) -> Option<R>,
    ) -> SearchResult<R> {
        let until = tokio::time::Instant::now() + self.timeout;
        for _ in 0..ITEMS_MAX {
            let _watch = Watch::begin(self, call);
            match tokio::time::timeout_at(until, stream.next()).await {
                Err(_) => return SearchResult::Late,
                Ok(None) => return SearchResult::Ended,
                Ok(Some(item)) => {
                    if let Some(found) = wanted(item) {
                        return SearchResult::Item(found);
                    }
                }
            }
            // The timer fires only when other tasks run.
            tokio::task::yield_now().await;
            if tokio::time::Instant::now() >= until {
                return SearchResult::Late;
            }
        }
        self.broken(format!(
            "`{call}` returned {ITEMS_MAX} items without a pause and without the expected item"
        ))
    }
}

/// Function that changes a backend from outside, for example to start an outage.
pub type ActionFn<'a> = Box<dyn Fn() -> BoxFuture<'a, ()> + Send + Sync + 'a>;

/// Functions that start and end an outage of a backend.
pub struct Outage<'a> {
    /// Starts the outage: the backend cannot observe the current state.
    pub start: ActionFn<'a>,
    /// Ends the outage.
    pub end: ActionFn<'a>,
}

impl fmt::Debug for Outage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outage").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SearchResult<R> {
    /// The stream delivered this item.
    Item(R),
    /// The stream ended without the expected item.
    Ended,
    /// The time limit passed without the expected item.
    Late,
}

/// Calls in progress, each with its deadline and the message that is printed after the deadline. The key is
/// the number of the call.
static UNDER_WAY: Mutex<BTreeMap<u64, (Instant, String)>> = Mutex::new(BTreeMap::new());
static NUMBER: AtomicU64 = AtomicU64::new(0);
static GUARD: Once = Once::new();

/// Key of a call in [`UNDER_WAY`]. Dropping the key removes the call.
struct Watch(u64);

impl Watch {
    fn begin(rule: &Rule, call: &str) -> Self {
        GUARD.call_once(|| drop(std::thread::spawn(guard)));
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let limit = rule.timeout.saturating_mul(2).saturating_add(BLOCKED);
        let message = format!(
            "{rule}: `{call}` was expected to release its thread and blocked it for {limit:?}; the suite exits"
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
            // Written directly, because the test harness captures the output of the macros, which would be
            // lost with the process.
            let _ = writeln!(std::io::stderr(), "\n{message}");
            std::process::exit(101);
        }
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("panic without a message")
}

/// Runs a suite and returns its failure, if any.
#[cfg(test)]
pub(crate) async fn verdict(suite: impl Future<Output = ()>) -> Option<String> {
    use futures::FutureExt;
    let panic = std::panic::AssertUnwindSafe(suite).catch_unwind().await.err()?;
    Some(panic_text(&*panic).to_owned())
}

#[cfg(test)]
mod tests;
