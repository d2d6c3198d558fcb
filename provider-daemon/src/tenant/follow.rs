//! Streams of several leases at once, shown as they come.

use super::client::Ask;
use super::json::Json;
use super::lease::Tenant;
use super::lease_status::lease_path;
use super::output::Output;
use super::resume::{Fresh, KEPT, Shown};
use super::stream::{Heard, Hearing};
use super::trouble::{Hope, Trouble, with_causes};
use crate::args::tenant::LeaseArgs;
use akash_provider_core::types::LeaseId;
use akash_provider_gateway::auth::Scope;
use futures::StreamExt;
use futures::stream::{self, LocalBoxStream};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// The pauses between tries: the first, and the longest, up to which each is twice the one before.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A provider that is away for longer is not waited for.
const AWAY_AT_MOST: Duration = Duration::from_secs(30 * 60);
/// A provider that starts knows all its leases within this; one that says no for longer means it.
const NO_AT_MOST: Duration = Duration::from_secs(60);
/// A stream that has lasted so long was no mere try.
const STEADY: Duration = Duration::from_secs(30);

/// How what was shown begins, for a query.
pub(super) type Begin = fn(&[(String, String)]) -> Shown;

/// What is listened to.
pub(super) struct Listening<'a> {
    /// The last part of the path.
    pub(super) what: &'static str,
    pub(super) scope: Scope,
    pub(super) query: Vec<(String, String)>,
    /// What was shown, which makes that a stream goes on when it breaks off; `None` where what there is is shown
    /// once.
    pub(super) follows: Option<Begin>,
    /// How a message is shown; `None` for what is no such message.
    pub(super) show: &'a (dyn Fn(&LeaseId, Json) -> anyhow::Result<Option<String>> + 'a),
}

/// Shows what comes from all leases that are meant, until all streams have ended or nobody reads any more.
///
/// # Errors
/// No lease can be asked. What fails at one of them is told, and the exit code is 1.
pub(super) async fn follow(
    tenant: &Tenant,
    which: &LeaseArgs,
    listening: &Listening<'_>,
) -> anyhow::Result<ExitCode> {
    let mut streams = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for lease in tenant.leases(which).await? {
        match open(tenant, &lease, listening, &listening.query).await {
            Ok(hearing) => streams.push(messages(Following::new(tenant, listening, lease, hearing))),
            // One provider that is away keeps nobody from seeing the streams of the others.
            Err(error) => {
                code = ExitCode::FAILURE;
                tell(&lease, &error);
            }
        }
    }
    let mut output = Output::stdout();
    let mut all = stream::select_all(streams);
    while let Some((lease, messages)) = all.next().await {
        let shown = messages.and_then(|messages| text(listening, &lease, messages));
        match shown {
            Ok(text) => {
                // As with `… | head`: that nobody reads any more is no failure of ours.
                if output.show(text.as_bytes()).await.is_err() {
                    return Ok(code);
                }
            }
            Err(error) => {
                code = ExitCode::FAILURE;
                tell(&lease, &error);
            }
        }
    }
    Ok(code)
}

/// Messages as they are shown; a kind that this version does not know is not.
fn text(listening: &Listening<'_>, lease: &LeaseId, messages: Vec<Json>) -> anyhow::Result<String> {
    let mut text = String::new();
    for message in messages {
        text.push_str(&(listening.show)(lease, message)?.unwrap_or_default());
    }
    Ok(text)
}

fn tell(lease: &LeaseId, error: &anyhow::Error) {
    eprintln!("error: lease {lease}: {error:#}");
}

async fn open(
    tenant: &Tenant,
    lease: &LeaseId,
    listening: &Listening<'_>,
    query: &[(String, String)],
) -> anyhow::Result<Hearing> {
    let client = tenant.client(&lease.provider).await?;
    let ids = lease_path(lease);
    let path: Vec<&str> = ids.iter().map(String::as_str).chain([listening.what]).collect();
    // Each request has a token of its own.
    let ask = Ask {
        query,
        ..Ask::get(&path, listening.scope)
    };
    // Nothing is said, so that half is dropped; the other one still answers pings.
    let (hearing, _) = client.open(ask).await?.split();
    Ok(hearing)
}

/// The messages of one stream; one that ends badly ends with the reason.
fn messages<'a>(following: Following<'a>) -> LocalBoxStream<'a, (LeaseId, anyhow::Result<Vec<Json>>)> {
    let next = move |state: Option<Following<'a>>| async move {
        let mut following = state?;
        let lease = following.lease.clone();
        match following.next().await {
            Ok(None) => None,
            Ok(Some(messages)) => Some(((lease, Ok(messages)), Some(following))),
            Err(error) => Some(((lease, Err(error)), None)),
        }
    };
    stream::unfold(Some(following), next).boxed_local()
}

/// One lease's stream, opened again as often as needed.
struct Following<'a> {
    tenant: &'a Tenant,
    listening: &'a Listening<'a>,
    lease: LeaseId,
    /// `None` when all is over but for what is still to be shown.
    hearing: Option<Hearing>,
    shown: Option<Shown>,
    opened: Instant,
    /// Something new has come since then.
    is_fresh: bool,
    outage: Option<Outage>,
}

/// A time without the stream.
#[derive(Debug, Clone, Copy)]
struct Outage {
    since: Instant,
    pause: Duration,
    is_told: bool,
}

/// What came of listening, or of waiting for what is held back.
enum Next {
    Message(Json),
    /// Nothing, for as long as something may be held back.
    Quiet,
    /// The stream ended, with a goodbye or by a connection that was closed.
    End,
}

impl<'a> Following<'a> {
    fn new(tenant: &'a Tenant, listening: &'a Listening<'a>, lease: LeaseId, hearing: Hearing) -> Self {
        Self {
            tenant,
            listening,
            lease,
            hearing: Some(hearing),
            shown: listening.follows.map(|begin| begin(&listening.query)),
            opened: Instant::now(),
            is_fresh: true,
            outage: None,
        }
    }

    /// What is to be shown next; `None` at the end.
    async fn next(&mut self) -> anyhow::Result<Option<Vec<Json>>> {
        loop {
            let Some(hearing) = &mut self.hearing else {
                return Ok(None);
            };
            let due = self.shown.as_ref().and_then(Shown::next_settling);
            match heard(hearing, due).await {
                Ok(Next::Message(message)) => {
                    let Some(shown) = &mut self.shown else {
                        return Ok(Some(vec![message]));
                    };
                    let fresh = shown.take(message, Instant::now());
                    if let Some(messages) = self.fresh(fresh) {
                        return Ok(Some(messages));
                    }
                }
                Ok(Next::Quiet) => {
                    let fresh = self.shown.as_mut().map(|shown| shown.settle(Instant::now()));
                    if let Some(messages) = fresh.and_then(|fresh| self.fresh(fresh)) {
                        return Ok(Some(messages));
                    }
                }
                Ok(Next::End) => {
                    let is_over = hearing.is_closed() || !self.is_fresh || self.shown.is_none();
                    // Providers end streams by closing the connection, and so do those that stop. The first time
                    // it may be either; where nothing new has come since, it is the end.
                    if is_over || !self.again(None).await? {
                        return Ok(self.last());
                    }
                }
                Err(trouble) => {
                    if !self.again(Some(trouble)).await? {
                        return Ok(self.last());
                    }
                }
            }
        }
    }

    /// What of it is shown; what may be missing is told.
    fn fresh(&mut self, fresh: Fresh) -> Option<Vec<Json>> {
        for pod in &fresh.gaps {
            let lease = &self.lease;
            eprintln!(
                "warning: lease {lease}: lines of {pod} may be missing here: more than {KEPT} came meanwhile"
            );
        }
        if fresh.messages.is_empty() {
            return None;
        }
        self.is_fresh = true;
        Some(fresh.messages)
    }

    /// What was held back when all is over.
    fn last(&mut self) -> Option<Vec<Json>> {
        self.hearing = None;
        let fresh = self.shown.as_mut().map(Shown::end)?;
        self.fresh(fresh)
    }

    /// Opens the stream again, as often as there is hope; `false` when the lease is over.
    async fn again(&mut self, mut trouble: Option<Trouble>) -> anyhow::Result<bool> {
        let now = Instant::now();
        // Only a stream that has proved itself ends an outage. One that opens and breaks at once would be tried for
        // ever.
        if self.is_fresh || now - self.opened >= STEADY {
            self.outage = None;
        }
        let mut outage = self.outage.unwrap_or(Outage {
            since: now,
            pause: PAUSES.0,
            is_told: false,
        });
        let means = self.hearing.as_ref().map(Hearing::means);
        loop {
            if let (Some(trouble), Some(means)) = (trouble.take(), means) {
                let hope = trouble.hope(means);
                if self.shown.is_none() || !outage.leaves(hope) {
                    return Err(trouble.into());
                }
                if hope != Hope::NewToken && !outage.is_told {
                    eprintln!("lease {}: {}; trying again", self.lease, with_causes(&trouble));
                    outage.is_told = true;
                }
                // A token that has come to its end is no outage: the first new one is tried at once.
                if hope == Hope::NewToken && outage.pause == PAUSES.0 {
                    outage.pause = Duration::ZERO;
                }
            }
            // Also after a stream that ended well: one that ends at once each time would be asked for without a
            // pause.
            sleep(outage.pause).await;
            // Clamped from below as well, for the pause before may have been none.
            outage.pause = (outage.pause * 2).clamp(PAUSES.0, PAUSES.1);
            // The chain first: a provider has the same no for a lease that is over and for one it does not
            // know yet.
            if let Some(over) = self.tenant.is_over(&self.lease).await {
                eprintln!("{over}");
                return Ok(false);
            }
            let query = query_again(self.listening);
            match open(self.tenant, &self.lease, self.listening, &query).await {
                Ok(hearing) => {
                    if outage.is_told {
                        eprintln!("lease {}: the stream goes on", self.lease);
                    }
                    self.hearing = Some(hearing);
                    self.shown.as_mut().map(Shown::reopen);
                    (self.opened, self.is_fresh, self.outage) = (Instant::now(), false, Some(outage));
                    return Ok(true);
                }
                Err(error) => match error.downcast::<Trouble>() {
                    Ok(failed) => trouble = Some(failed),
                    // The chain cannot be asked where the provider is.
                    Err(error) if outage.leaves(Hope::Return) => {
                        tracing::debug!("opening a stream again: {error:#}");
                    }
                    Err(error) => return Err(error),
                },
            }
        }
    }
}

impl Outage {
    /// True while there is hope left.
    fn leaves(&self, hope: Hope) -> bool {
        let lasted = self.since.elapsed();
        match hope {
            Hope::NewToken | Hope::Return => lasted < AWAY_AT_MOST,
            Hope::Moment => lasted < NO_AT_MOST,
            Hope::None => false,
        }
    }
}

/// The next message, or the time at which what was held back is due.
async fn heard(hearing: &mut Hearing, due: Option<Instant>) -> Result<Next, Trouble> {
    let heard = match due {
        None => hearing.next().await?,
        Some(due) => match timeout_at(due, hearing.next()).await {
            Ok(heard) => heard?,
            Err(_) => return Ok(Next::Quiet),
        },
    };
    let Some(Heard::Text(bytes) | Heard::Binary(bytes)) = heard else {
        return Ok(Next::End);
    };
    let message = serde_json::from_slice(&bytes);
    Ok(Next::Message(
        message.map_err(|e| hearing.strange(&with_causes(&e)))?,
    ))
}

/// The query of a stream that is opened again: as much of the past as is remembered.
fn query_again(listening: &Listening<'_>) -> Vec<(String, String)> {
    let mut query = listening.query.clone();
    // Only logs can be asked for by lines. Events come again as all there are.
    if listening.scope == Scope::Logs {
        query.retain(|(name, _)| name != TAIL);
        query.push((TAIL.to_owned(), KEPT.to_string()));
    }
    query
}

/// How many of the last lines are wanted.
pub(super) const TAIL: &str = "tail";

/// The query that chooses services, as providers read it.
pub(super) fn chosen(service: &str, follow: bool) -> Vec<(String, String)> {
    let mut query = vec![("follow".to_owned(), follow.to_string())];
    if !service.is_empty() {
        query.push(("service".to_owned(), service.to_owned()));
    }
    query
}
