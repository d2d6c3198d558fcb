//! Concurrent streams of several leases, printed as messages arrive.

use super::client::ProviderRequest;
use super::error::{ProviderError, Retry};
use super::json::Json;
use super::lease::TenantClient;
use super::lease_query::{lease_path, report};
use super::output::OutputWriter;
use super::resume::{HISTORY_MAX, NewMessages, PrintedMessages};
use super::stream::{Data, StreamReader};
use crate::args::LeaseArgs;
use akash_provider_core::error::chain_text;
use akash_provider_core::types::LeaseId;
use akash_provider_gateway::auth::Scope;
use futures::StreamExt;
use futures::stream::{self, LocalBoxStream};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Initial and maximum back-off of reconnects. Each failure doubles the back-off.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Maximum duration of an outage before the client stops reconnecting.
const OUTAGE_MAX: Duration = Duration::from_secs(30 * 60);
/// Maximum duration of an outage while the provider rejects requests; enough to load all leases after a
/// restart.
const REJECTION_MAX: Duration = Duration::from_secs(60);
/// Duration after which a stream counts as stable. The next back-off then starts at its initial value.
const STABLE_AFTER: Duration = Duration::from_secs(30);

/// Function that creates an empty history for a stream with these query parameters.
pub(super) type NewHistory = fn(&[(String, String)]) -> PrintedMessages;

/// Endpoint and query that all streams of a command share.
pub(super) struct Subscription<'a> {
    /// Last segment of the path.
    pub(super) endpoint: &'static str,
    pub(super) scope: Scope,
    pub(super) query: Vec<(String, String)>,
    /// Function that creates the message history of a stream. `None` without `--follow`.
    pub(super) new_history: Option<NewHistory>,
    /// Function that formats a message, and returns `None` for an unknown kind of message.
    pub(super) show: &'a (dyn Fn(&LeaseId, Json) -> anyhow::Result<Option<String>> + 'a),
}

/// Prints the messages of all selected leases until all streams end or standard output closes.
///
/// # Errors
/// Returns an error if no lease is found. If only some leases fail, prints the failures and returns exit code
/// 1.
pub(super) async fn follow(
    tenant: &TenantClient,
    which: &LeaseArgs,
    subscription: &Subscription<'_>,
) -> anyhow::Result<ExitCode> {
    let mut streams = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for lease in tenant.leases(which).await? {
        match open(tenant, &lease, subscription, &subscription.query).await {
            Ok(reader) => streams.push(messages(LeaseStream::new(tenant, subscription, lease, reader))),
            // The streams of other providers go on if one provider fails.
            Err(error) => {
                code = ExitCode::FAILURE;
                report(&lease, error);
            }
        }
    }
    let mut output = OutputWriter::stdout();
    let mut all = stream::select_all(streams);
    while let Some((lease, messages)) = all.next().await {
        let history = messages.and_then(|messages| text(subscription, &lease, messages));
        match history {
            Ok(text) => {
                // A closed pipe (`… | head`) is not a failure.
                if output.write(text.as_bytes()).await.is_err() {
                    return Ok(code);
                }
            }
            Err(error) => {
                code = ExitCode::FAILURE;
                report(&lease, error);
            }
        }
    }
    Ok(code)
}

/// Formats messages. Messages of unknown kinds are left out.
fn text(subscription: &Subscription<'_>, lease: &LeaseId, messages: Vec<Json>) -> anyhow::Result<String> {
    let mut text = String::new();
    for message in messages {
        text.push_str(&(subscription.show)(lease, message)?.unwrap_or_default());
    }
    Ok(text)
}

async fn open(
    tenant: &TenantClient,
    lease: &LeaseId,
    subscription: &Subscription<'_>,
    query: &[(String, String)],
) -> anyhow::Result<StreamReader> {
    let client = tenant.client(&lease.provider).await?;
    let ids = lease_path(lease);
    let path: Vec<&str> = ids
        .iter()
        .map(String::as_str)
        .chain([subscription.endpoint])
        .collect();
    // Each request has a new token.
    let request = ProviderRequest {
        query,
        ..ProviderRequest::get(&path, subscription.scope)
    };
    // Nothing is sent, so the writer is dropped; the reader still responds to pings.
    let (reader, _) = client.open(request).await?.split();
    Ok(reader)
}

/// Returns the messages of a lease as a stream. A failure is the last item.
fn messages<'a>(stream: LeaseStream<'a>) -> LocalBoxStream<'a, (LeaseId, anyhow::Result<Vec<Json>>)> {
    let next = move |state: Option<LeaseStream<'a>>| async move {
        let mut stream = state?;
        let lease = stream.lease.clone();
        match stream.next().await {
            Ok(None) => None,
            Ok(Some(messages)) => Some(((lease, Ok(messages)), Some(stream))),
            Err(error) => Some(((lease, Err(error)), None)),
        }
    };
    stream::unfold(Some(stream), next).boxed_local()
}

/// Stream of one lease. After an interruption, the stream is opened again.
struct LeaseStream<'a> {
    tenant: &'a TenantClient,
    subscription: &'a Subscription<'a>,
    lease: LeaseId,
    /// Reader of the connection; `None` after the end of the stream.
    reader: Option<StreamReader>,
    history: Option<PrintedMessages>,
    opened: Instant,
    /// True if a message arrived since the last reconnect; initially true.
    has_new: bool,
    outage: Option<ConnectionOutage>,
}

/// Period without a connection.
#[derive(Debug, Clone, Copy)]
struct ConnectionOutage {
    since: Instant,
    pause: Duration,
    is_reported: bool,
}

/// Result of waiting for a message.
enum NextMessage {
    Message(Json),
    /// No message arrived, and buffered messages must be printed now.
    Quiet,
    /// The stream was closed.
    End,
}

impl<'a> LeaseStream<'a> {
    fn new(
        tenant: &'a TenantClient,
        subscription: &'a Subscription<'a>,
        lease: LeaseId,
        reader: StreamReader,
    ) -> Self {
        Self {
            tenant,
            subscription,
            lease,
            reader: Some(reader),
            history: subscription.new_history.map(|begin| begin(&subscription.query)),
            opened: Instant::now(),
            has_new: true,
            outage: None,
        }
    }

    /// Returns the next messages to print, or `None` at the end.
    async fn next(&mut self) -> anyhow::Result<Option<Vec<Json>>> {
        loop {
            let Some(reader) = &mut self.reader else {
                return Ok(None);
            };
            let due = self.history.as_ref().and_then(PrintedMessages::next_flush);
            match receive(reader, due).await {
                Ok(NextMessage::Message(message)) => {
                    let Some(history) = &mut self.history else {
                        return Ok(Some(vec![message]));
                    };
                    let fresh = history.add(message, Instant::now());
                    if let Some(messages) = self.take_new(fresh) {
                        return Ok(Some(messages));
                    }
                }
                Ok(NextMessage::Quiet) => {
                    let fresh = self
                        .history
                        .as_mut()
                        .map(|history| history.flush_due(Instant::now()));
                    if let Some(messages) = fresh.and_then(|fresh| self.take_new(fresh)) {
                        return Ok(Some(messages));
                    }
                }
                Ok(NextMessage::End) => {
                    let is_over = reader.is_closed() || !self.has_new || self.history.is_none();
                    // Both a finished stream and a provider that stops close the connection. The first time, the stream
                    // is reopened; if there is nothing new, the stream has ended.
                    if is_over || !self.reconnect(None).await? {
                        return Ok(self.last());
                    }
                }
                Err(failure) => {
                    if !self.reconnect(Some(failure)).await? {
                        return Ok(self.last());
                    }
                }
            }
        }
    }

    /// Returns the messages to print. Warns if lines may be missing.
    fn take_new(&mut self, fresh: NewMessages) -> Option<Vec<Json>> {
        for pod in &fresh.gaps {
            let lease = &self.lease;
            eprintln!(
                "warning: lease {lease}: log lines of {pod} may be missing: more than {HISTORY_MAX} lines were written while disconnected"
            );
        }
        if fresh.messages.is_empty() {
            return None;
        }
        self.has_new = true;
        Some(fresh.messages)
    }

    /// Ends the stream, and returns the messages that are still buffered.
    fn last(&mut self) -> Option<Vec<Json>> {
        self.reader = None;
        let fresh = self.history.as_mut().map(PrintedMessages::finish)?;
        self.take_new(fresh)
    }

    /// Reconnects, with retries. Returns `true` for an open stream, and `false` if the lease is closed.
    /// Returns an error if the outage is too long.
    async fn reconnect(&mut self, mut failure: Option<ProviderError>) -> anyhow::Result<bool> {
        let now = Instant::now();
        // Only a stable stream ends an outage. Otherwise a stream that opens and breaks immediately would be reopened
        // indefinitely.
        if self.has_new || now - self.opened >= STABLE_AFTER {
            self.outage = None;
        }
        let mut outage = self.outage.unwrap_or(ConnectionOutage {
            since: now,
            pause: BACKOFF.0,
            is_reported: false,
        });
        let auth = self.reader.as_ref().map(StreamReader::auth);
        loop {
            if let (Some(failure), Some(auth)) = (failure.take(), auth) {
                let retry = failure.retry(auth);
                if self.history.is_none() || !outage.permits(retry) {
                    return Err(failure.into());
                }
                if retry != Retry::NewToken && !outage.is_reported {
                    eprintln!("lease {}: {}; retrying", self.lease, chain_text(&failure));
                    outage.is_reported = true;
                }
                // An expired token is not an outage: the first new token is used without a back-off.
                if retry == Retry::NewToken && outage.pause == BACKOFF.0 {
                    outage.pause = Duration::ZERO;
                }
            }
            // The back-off applies to streams with a normal end too: otherwise a stream that always ends immediately
            // would be reopened without a pause.
            sleep(outage.pause).await;
            // The lower bound applies after a back-off of zero.
            outage.pause = (outage.pause * 2).clamp(BACKOFF.0, BACKOFF.1);
            // The chain is queried first, because a provider rejects closed leases and unknown leases with the same
            // status.
            if let Some(over) = self.tenant.is_over(&self.lease).await {
                eprintln!("{over}");
                return Ok(false);
            }
            let query = resume_query(self.subscription);
            match open(self.tenant, &self.lease, self.subscription, &query).await {
                Ok(reader) => {
                    if outage.is_reported {
                        eprintln!("lease {}: stream resumed", self.lease);
                    }
                    self.reader = Some(reader);
                    self.history.as_mut().map(PrintedMessages::reopen);
                    (self.opened, self.has_new, self.outage) = (Instant::now(), false, Some(outage));
                    return Ok(true);
                }
                Err(error) => match error.downcast::<ProviderError>() {
                    Ok(failed) => failure = Some(failed),
                    // The address of the provider cannot be queried on the chain.
                    Err(error) if outage.permits(Retry::Outage) => {
                        tracing::debug!(error = %format_args!("{error:#}"), "cannot reopen stream");
                    }
                    Err(error) => return Err(error),
                },
            }
        }
    }
}

impl ConnectionOutage {
    /// Returns true if the outage is short enough for another reconnect.
    fn permits(&self, retry: Retry) -> bool {
        let lasted = self.since.elapsed();
        match retry {
            Retry::NewToken | Retry::Outage => lasted < OUTAGE_MAX,
            Retry::Brief => lasted < REJECTION_MAX,
            Retry::Never => false,
        }
    }
}

/// Receives the next message. Returns `NextMessage::Quiet` if no message arrives before `due`.
async fn receive(reader: &mut StreamReader, due: Option<Instant>) -> Result<NextMessage, ProviderError> {
    let receive = match due {
        None => reader.next().await?,
        Some(due) => match timeout_at(due, reader.next()).await {
            Ok(receive) => receive?,
            Err(_) => return Ok(NextMessage::Quiet),
        },
    };
    let Some(Data::Text(bytes) | Data::Binary(bytes)) = receive else {
        return Ok(NextMessage::End);
    };
    let message = serde_json::from_slice(&bytes);
    Ok(NextMessage::Message(
        message.map_err(|e| reader.invalid(&chain_text(&e)))?,
    ))
}

/// Returns the query that resumes a stream. A log query requests the last `HISTORY_MAX` lines.
fn resume_query(subscription: &Subscription<'_>) -> Vec<(String, String)> {
    let mut query = subscription.query.clone();
    // Only logs can be limited by lines. All events are sent again.
    if subscription.scope == Scope::Logs {
        query.retain(|(name, _)| name != TAIL);
        query.push((TAIL.to_owned(), HISTORY_MAX.to_string()));
    }
    query
}

/// Query parameter for the number of last log lines.
pub(super) const TAIL: &str = "tail";

pub(super) fn service_query(service: &str, follow: bool) -> Vec<(String, String)> {
    let mut query = vec![("follow".to_owned(), follow.to_string())];
    if !service.is_empty() {
        query.push(("service".to_owned(), service.to_owned()));
    }
    query
}
