//! Server of the socket: the provider side.

use super::{ControlRequest, LeaseLine, REQUEST_MAX, Response, WORK_LIMIT, capacity, path};
use crate::audit::{Audit, HELP, user};
use crate::history::{History, HistoryHealth, HistoryStore, OrderRecord, Summary};
use crate::logging;
use crate::run::cluster_proxy::ClusterProxy;
use akash_provider_core::audit::Actor;
use akash_provider_core::cluster::Health;
use akash_provider_core::engine::status::LeaseInfo;
use akash_provider_core::engine::{LeasePhase, Status};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::provider::statistics::LeaseEarnings;
use akash_provider_core::types::{Address, BlockTime, Dec, DecCoin, LeaseId};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// 9999-12-31T23:59:59Z, the last RFC 3339 date, in seconds since the Unix epoch.
const LAST_DATE: u64 = 253_402_300_799;

/// Milliseconds of 30 days.
const MONTH_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// File mode of the socket: access for its owner and root only.
const MODE: u32 = 0o600;
/// Maximum number of concurrent requests. Further clients wait.
const AT_ONCE: usize = 8;
/// Time limit to receive a request, and to send its response.
const LINE_LIMIT: Duration = Duration::from_secs(5);
/// Delay after a failed accept.
const PAUSE: Duration = Duration::from_secs(1);

/// Handler of socket requests; cloned for each connection.
#[derive(Debug, Clone)]
pub(crate) struct SocketHandler {
    /// Running provider.
    pub(crate) handle: ProviderHandle,
    /// Kubernetes cluster; `None` for the in-memory cluster.
    pub(crate) cluster: Option<ClusterProxy>,
    /// Order history; `None` if disabled.
    pub(crate) history: Option<History>,
    /// Audit log; `None` if disabled.
    pub(crate) audit: Option<Audit>,
}

/// Listening socket; the file is removed on drop.
struct ListeningSocket {
    listener: UnixListener,
    path: PathBuf,
    owner: u32,
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        // The next provider of this home directory replaces a leftover file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves requests on the socket until `until` is cancelled. Returns at once if the socket cannot be opened.
pub(crate) async fn serve(home: PathBuf, handler: SocketHandler, until: CancellationToken) {
    let socket = match open(&path(&home)) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(
                path = %path(&home).display(),
                %error,
                "command socket provider.sock is not available, so commands to this process fail; check the home directory"
            );
            return;
        }
    };
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let accepting = async {
            // The semaphore is never closed.
            let turn = Arc::clone(&turns).acquire_owned().await.ok();
            (turn, socket.listener.accept().await)
        };
        let Some((turn, accepted)) = until.run_until_cancelled(accepting).await else {
            return;
        };
        match accepted {
            Ok((stream, _)) if is_allowed(&stream, socket.owner) => {
                let (handler, until) = (handler.clone(), until.clone());
                tokio::spawn(async move {
                    let _turn = turn;
                    tokio::select! {
                        biased;
                        () = until.cancelled() => {}
                        done = converse(stream, &handler) => {
                            if let Err(error) = done {
                                tracing::debug!(%error, "operator request failed");
                            }
                        }
                    }
                });
            }
            Ok(_) => tracing::warn!(
                "connection to the command socket provider.sock rejected: the client runs as another system user"
            ),
            Err(error) => {
                tracing::warn!(%error, "cannot accept connection to the command socket provider.sock, retrying");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Removes the socket of an earlier process, and opens a new socket. Never removes any other file.
fn open(path: &Path) -> io::Result<ListeningSocket> {
    match fs::symlink_metadata(path) {
        // Links are not followed, because their target is unknown.
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("not a socket; move the file away")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    let owner = fs::symlink_metadata(path)?.uid();
    Ok(ListeningSocket {
        listener,
        path: path.to_owned(),
        owner,
    })
}

/// Returns true if the peer is root or the owner of the socket. This check is necessary, because another user
/// can connect before the file mode is set.
fn is_allowed(stream: &UnixStream, owner: u32) -> bool {
    const ROOT: u32 = 0;
    stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == owner || peer.uid() == ROOT)
}

async fn converse(stream: UnixStream, handler: &SocketHandler) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    let actor = user(peer.uid(), peer.pid());
    let (reading, mut writing) = stream.into_split();
    let mut line = Vec::new();
    let mut reading = BufReader::new(reading.take(REQUEST_MAX + 1));
    // A longer request is truncated, and is invalid JSON.
    timeout(LINE_LIMIT, reading.read_until(b'\n', &mut line)).await??;
    let response = match serde_json::from_slice(&line) {
        Ok(request) => handler.execute(request, actor).await,
        Err(error) => refused(format!("invalid request: {error}")),
    };
    let mut line = serde_json::to_vec(&response)?;
    line.push(b'\n');
    timeout(LINE_LIMIT, writing.write_all(&line)).await??;
    Ok(())
}

impl SocketHandler {
    /// Executes a request. The audit log records requests that can change something.
    async fn execute(&self, request: ControlRequest, actor: Actor) -> Response {
        let act = request.act(actor);
        let act = self.audit.as_ref().zip(act).map(|(audit, act)| audit.act(act));
        if let Some(act) = &act
            && let Err(error) = act.record_intent().await
        {
            return refused(format!("nothing was done: {}; {HELP}", error.message()));
        }
        let response = timeout(WORK_LIMIT, self.respond(request))
            .await
            .unwrap_or_else(|_| {
                refused(format!(
                    "the request did not finish within {WORK_LIMIT:?} and may have been executed in part; repeat the command"
                ))
            });
        if let Some(act) = act {
            act.record_outcome(response.outcome());
        }
        response
    }

    async fn respond(&self, request: ControlRequest) -> Response {
        match request {
            ControlRequest::Breaker => self.with_status(breaker).await,
            ControlRequest::ReleaseBreaker { owner } => self.release(owner).await,
            ControlRequest::Scan { dry_run, confirm } => self.scan(dry_run, confirm).await,
            ControlRequest::Leases => self.with_status(|status| leases(status, &self.handle)).await,
            ControlRequest::Capacity => self.with_status(capacity::respond).await,
            ControlRequest::Operators => {
                let operators = self
                    .cluster
                    .as_ref()
                    .map(ClusterProxy::operators)
                    .unwrap_or_default();
                let named = operators
                    .into_iter()
                    .map(|(name, status)| (name.to_owned(), status));
                Response::Operators {
                    operators: named.collect(),
                }
            }
            ControlRequest::Harden { lease } => match self.harden(&lease).await {
                Ok(()) => Response::Hardened,
                Err(message) => refused(message),
            },
            ControlRequest::EndLease { lease, reason } => match self.handle.end_lease(&lease, reason).await {
                Ok(()) => {
                    tracing::warn!(%lease, ?reason, "the command `end-lease` started to close a lease");
                    Response::Ending
                }
                Err(refusal) => refused(refusal.message),
            },
            ControlRequest::LogLevel { level } => log_level(level.as_deref()).unwrap_or_else(refused),
            ControlRequest::Orders { filter } => self.orders(move |store| filter.read(store)).await,
            ControlRequest::Order { order } => {
                let height = self.handle.try_status().await.map(|status| status.height);
                self.orders(move |store| order.read_with_accrued(store, height))
                    .await
            }
            ControlRequest::Summary { since } => self.summary(since).await,
            ControlRequest::History => Response::History {
                health: self.history.as_ref().map(History::health),
            },
        }
    }

    async fn orders(
        &self,
        read: impl FnOnce(&HistoryStore) -> Result<Vec<OrderRecord>, redb::Error> + Send + 'static,
    ) -> Response {
        self.read_history(|store, health| {
            Ok(Response::Orders {
                orders: read(store)?,
                health,
            })
        })
        .await
    }

    async fn summary(&self, since: u64) -> Response {
        let height = self.handle.try_status().await.map(|status| status.height);
        self.read_history(move |store, health| {
            let summary = Summary::read(store, since, height)?;
            Ok(Response::Summary { summary, health })
        })
        .await
    }

    async fn read_history(
        &self,
        read: impl FnOnce(&HistoryStore, HistoryHealth) -> Result<Response, redb::Error> + Send + 'static,
    ) -> Response {
        let Some(history) = self.history.clone() else {
            return refused(
                "the order history is disabled; start the provider with --order-history".to_owned(),
            );
        };
        let reading = tokio::task::spawn_blocking(move || {
            let store = history.store();
            let health = history.health();
            match store {
                Some(store) => read(&store, health).unwrap_or_else(|error| refused(error.to_string())),
                None => refused(format!(
                    "the order history is unavailable: {}",
                    health
                        .problem
                        .unwrap_or_else(|| "the provider still opens the file; repeat the command".to_owned())
                )),
            }
        });
        let panicked = |error: tokio::task::JoinError| refused(error.to_string());
        reading.await.unwrap_or_else(panicked)
    }

    async fn scan(&self, dry_run: bool, confirm: bool) -> Response {
        // Holds are read first, because missing records also fail the comparison with the cluster.
        let operators = match (&self.cluster, confirm) {
            (Some(cluster), true) => cluster.confirm_deletions(),
            (Some(cluster), false) => held_deletions(&cluster.operators()),
            (None, _) => Vec::new(),
        };
        match self.handle.scan(dry_run).await {
            Ok(findings) => Response::Scanned {
                findings: [operators, findings].concat(),
            },
            Err(refusal) if operators.is_empty() => refused(refusal.message),
            Err(refusal) => refused(format!("{}; {}", refusal.message, operators.join("; "))),
        }
    }

    async fn with_status(&self, response: impl FnOnce(&Status) -> Response) -> Response {
        match self.handle.try_status().await {
            Some(status) => response(&status),
            None => refused("the provider does not respond; repeat the command".to_owned()),
        }
    }

    async fn release(&self, owner: Option<Address>) -> Response {
        // The waiting leases are unknown after the release.
        let before = self.handle.try_status().await;
        let released = match owner.clone() {
            Some(owner) => self.handle.release_breaker_for(owner).await,
            None => self.handle.release_breaker().await,
        };
        if let Err(refusal) = released {
            return refused(refusal.message);
        }
        tracing::warn!(
            owner = owner.as_ref().map(Address::as_str),
            "the command `breaker release` released the circuit breaker, the provider can close leases again"
        );
        let before = before.map(|status| status.breaker.clone()).unwrap_or_default();
        let is_shut = before.tripped || before.records_missing.is_some();
        // While the breaker is tripped for all, the leases of one owner continue to wait.
        let goes_on = |lease: &&LeaseId| owner.as_ref().is_none_or(|o| lease.owner() == o && !is_shut);
        let waited = before.waiting.iter().filter(goes_on);
        Response::Released {
            was_tripped: is_shut || !before.held_owners.is_empty(),
            waited: waited.map(ToString::to_string).collect(),
        }
    }

    async fn harden(&self, lease: &LeaseId) -> Result<(), String> {
        let Some(cluster) = &self.cluster else {
            return Err("leases run in memory and cannot be hardened".to_owned());
        };
        // A standby does not write, and an unknown state may be a standby.
        if !self.handle.try_status().await.is_some_and(|status| status.leader) {
            return Err(
                "this provider is not the leader, or does not respond; repeat the command on the leader"
                    .to_owned(),
            );
        }
        let is_ours = || async { self.handle.has_lease(lease).await.map_err(|e| e.to_string()) };
        // Checked before and after, because the lease may end while it is hardened.
        if !is_ours().await? {
            return Err(format!("{lease} is not an active lease of this provider"));
        }
        cluster.harden(lease).await.map_err(|e| e.to_string())?;
        if !is_ours().await? {
            tracing::warn!(%lease, "lease ended while `harden` changed its objects; the next full scan removes the remaining objects");
        }
        Ok(())
    }
}

/// Returns one line for each embedded operator with withheld deletions.
fn held_deletions(operators: &BTreeMap<&'static str, Value>) -> Vec<String> {
    let lines = operators.iter().filter_map(|(name, status)| {
        let hold = status.get("hold")?;
        let remedy = hold["remedy"].as_str().unwrap_or_default();
        Some(format!(
            "{name} operator: deletions held, records missing: {}; {remedy}",
            hold["names"]
        ))
    });
    lines.collect()
}

fn log_level(level: Option<&str>) -> Result<Response, String> {
    let before = match level {
        Some(level) => logging::set_level(level)?,
        None => logging::level()?,
    };
    let level = level.unwrap_or(&before).to_owned();
    if level != before {
        tracing::warn!(level, before, "the command `log-level` changed the log level");
    }
    Ok(Response::LogLevel { level, before })
}

fn breaker(status: &Status) -> Response {
    let breaker = &status.breaker;
    Response::Breaker {
        tripped: breaker.tripped,
        held_owners: breaker.held_owners.iter().map(ToString::to_string).collect(),
        recent: breaker.recent,
        allowed: breaker.allowed,
        waiting: breaker.waiting.iter().map(ToString::to_string).collect(),
        shut_because: breaker.shut_because.clone(),
    }
}

fn leases(status: &Status, handle: &ProviderHandle) -> Response {
    let is_listed = |lease: &LeaseId| status.leases.iter().any(|info| info.lease == *lease);
    let held_closes = status.breaker.held.iter().filter(|end| !is_listed(&end.lease));
    let leftovers = held_closes.map(|end| LeaseLine {
        lease: end.lease.clone(),
        phase: LeasePhase::Teardown.to_string(),
        health: Health::Unknown,
        known_unhealthy_ms: 0,
        unhealthy_limit_ms: None,
        record_problem: None,
        waiting_for: Some(end.because.clone()),
        held_since: Some(date(end.since)),
        last_error: None,
        payout_error: None,
        price: None,
        price_30_days: None,
        accrued: None,
        withdrawn: None,
    });
    Response::Leases {
        leases: status
            .leases
            .iter()
            .map(|info| lease_line(status, info, handle.earnings(&info.lease)))
            .chain(leftovers)
            .collect(),
    }
}

fn lease_line(status: &Status, info: &LeaseInfo, earnings: Option<LeaseEarnings>) -> LeaseLine {
    let mut held_close = status.breaker.held.iter();
    let held_close = held_close.find(|end| end.lease == info.lease);
    let coin = |amount: Dec| DecCoin::new(&info.price.denom, amount);
    let blocks = MONTH_MS.checked_div(status.average_block_ms);
    LeaseLine {
        lease: info.lease.clone(),
        phase: info.phase.to_string(),
        health: info.health,
        known_unhealthy_ms: info.known_unhealthy_ms,
        unhealthy_limit_ms: info.unhealthy_limit_ms,
        record_problem: info.record_problem.clone(),
        waiting_for: info.waiting_for.clone(),
        held_since: held_close.map(|end| date(end.since)),
        last_error: info.last_error.clone(),
        payout_error: info.payout_error.clone(),
        price: Some(info.price.clone()),
        price_30_days: blocks.and_then(|blocks| info.price.for_blocks(blocks)).map(coin),
        accrued: earnings.map(|earnings| coin(earnings.accrued)),
        withdrawn: earnings.and_then(|earnings| earnings.withdrawn).map(coin),
    }
}

/// Formats a block time as an RFC 3339 date.
fn date(at: BlockTime) -> String {
    let seconds = u64::try_from(at.0 / 1000).unwrap_or_default().min(LAST_DATE);
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

fn refused(message: String) -> Response {
    Response::Refused { message }
}
