//! Execution of calls: [`Call`] → port call → [`Completion`]. Every call runs in its own task, and every task
//! ends in exactly one completion, also when the port hangs or panics.
//!
//! ```text
//! start(id, call) ─► task: permit of its class ─► port call within its limit ─► next() ─► (id, completion)
//!                                                  │ limit passed │ panic
//!                                                  └──────────────┴─► `unanswered`: outcome unknown
//! ```
//! The engine serializes changes of one lease's workload, as the cluster port guarantees to backends: the
//! engine requests the next change after the previous one has ended.
//!
//! A call without a response *may have taken effect*. For a transaction the result is `Unknown`, never an
//! error, because an error of `Broadcast` means that the transaction was certainly not sent.

mod composite;

use super::audit_trail;
use super::meter::Meter;
use crate::audit::{ActOutcome, AuditedAct};
use crate::chain::{BidFilter, ChainClient, PageRequest};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::engine::{Call, Completion, EffectId};
use crate::error::{Error, ErrorKind, Failure};
use crate::pricing::PricingStrategy;
use crate::types::{Address, Bid, BidState, BlockTime, Msg, OrderId, TxOutcome};
use composite::{deploy, list_workloads, teardown};
use futures::future::try_join_all;
use rustc_hash::FxHashMap;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of concurrent queries, so that a start with thousands of open orders does not overload a
/// node.
const QUERIES: usize = 32;
/// Maximum number of concurrent deploys, teardowns and listings.
const CLUSTER_CALLS: usize = 16;
/// Maximum number of concurrent calls that store a record. Deploys have a separate limit, so that
/// a slow deploy does not delay a tenant's manifest.
const RECORDS: usize = 16;
/// Maximum number of concurrent price calculations. With a higher limit, a calculation could reach its
/// timeout while it waits for a process.
const PRICES: usize = 32;
/// Number of bids at which the count for an order stops. The chain allows at most 500 bids per order.
const BIDS_COUNTED: u32 = 1000;
/// Maximum timeout of a transaction, measured with the time stamps of blocks.
const TX_EXPIRY: Duration = Duration::from_secs(60);

/// Maximum time that a call waits for its entry in the audit log. After this time, the call fails.
const AUDIT_WAIT: Duration = Duration::from_secs(60);
/// Delay between two attempts to store an intent.
const AUDIT_RETRY: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
pub(crate) struct Ports {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) chain: Arc<dyn ChainClient>,
    pub(crate) pricing: Arc<dyn PricingStrategy>,
}

/// Executes the calls of the engine.
#[derive(Debug)]
pub(crate) struct Executor {
    room: Arc<CallContext>,
    tasks: JoinSet<Result<Completion, Failure>>,
    calls: FxHashMap<Id, RunningCall>,
    meter: Meter,
}

#[derive(Debug)]
struct RunningCall {
    id: EffectId,
    call: Arc<Call>,
    act: Option<Arc<AuditedAct>>,
    started: Instant,
}

/// State shared by the tasks of all calls.
#[derive(Debug)]
struct CallContext {
    ports: Ports,
    provider: Address,
    query_timeout: Duration,
    cluster_timeout: Duration,
    pricing_timeout: Duration,
    tx_timeout: Duration,
    queries: Semaphore,
    cluster_calls: Semaphore,
    records: Semaphore,
    prices: Semaphore,
    /// Cancelled during shutdown: calls no longer wait for the audit log.
    draining: CancellationToken,
}

impl Executor {
    pub(crate) fn new(ports: Ports, config: &Config) -> Self {
        let room = CallContext {
            ports,
            provider: config.provider.clone(),
            query_timeout: config.query_timeout,
            cluster_timeout: config.cluster_timeout,
            pricing_timeout: config.pricing_timeout,
            tx_timeout: config.tx_timeout,
            queries: Semaphore::new(QUERIES),
            cluster_calls: Semaphore::new(CLUSTER_CALLS),
            records: Semaphore::new(RECORDS),
            prices: Semaphore::new(PRICES),
            draining: CancellationToken::new(),
        };
        Self {
            room: Arc::new(room),
            tasks: JoinSet::new(),
            calls: FxHashMap::default(),
            meter: Meter::default(),
        }
    }

    pub(crate) fn with_meter(self, meter: Meter) -> Self {
        Self { meter, ..self }
    }

    /// Starts a call without waiting. `act` is the audited act of the call.
    pub(crate) fn start(&mut self, id: EffectId, call: Call, act: Option<Arc<AuditedAct>>) {
        // Shared with the task, so that a call that hangs or panics can be reported and completed.
        let call = Arc::new(call);
        let task = limited(Arc::clone(&self.room), Arc::clone(&call), act.clone());
        let handle = self.tasks.spawn(task);
        let running = RunningCall {
            id,
            call,
            act,
            started: Instant::now(),
        };
        self.calls.insert(handle.id(), running);
    }

    /// Ends the wait for the audit log. The waiting calls fail.
    pub(crate) fn drain(&self) {
        self.room.draining.cancel();
    }

    /// Returns the next completed call, or `None` if no call is in progress.
    pub(crate) async fn next(&mut self, block_time: &BlockTime) -> Option<(EffectId, Completion)> {
        let ended = self.tasks.join_next_with_id().await?;
        self.ended(ended, *block_time)
    }

    pub(crate) fn try_next(&mut self, block_time: BlockTime) -> Option<(EffectId, Completion)> {
        let ended = self.tasks.try_join_next_with_id()?;
        self.ended(ended, block_time)
    }

    /// Returns the calls in progress, oldest first.
    pub(crate) fn in_flight(&self) -> Vec<(EffectId, &Call)> {
        let mut calls: Vec<_> = self
            .calls
            .values()
            .map(|running| (running.id, running.call.as_ref()))
            .collect();
        calls.sort_unstable_by_key(|(id, _)| *id);
        calls
    }

    fn ended(
        &mut self,
        ended: Result<(Id, Result<Completion, Failure>), JoinError>,
        block_time: BlockTime,
    ) -> Option<(EffectId, Completion)> {
        let (task, answer) = match ended {
            Ok((task, answer)) => (task, answer),
            Err(error) => (error.id(), Err(defect(error))),
        };
        let RunningCall {
            id,
            call,
            act,
            started,
        } = self.calls.remove(&task)?;
        let completion = answer.unwrap_or_else(|failure| {
            tracing::warn!(effect = id.0, call = name(&call), error = %failure, "call to the chain, the cluster or the pricing strategy panicked, outcome unknown; report this as a bug");
            // Counted from the end of the call, which may have sent the transaction at its last moment.
            let expires = block_time.plus(self.room.tx_timeout).plus(TX_EXPIRY);
            unanswered(&call, failure, expires)
        });
        self.meter.completed(&call, &completion, started.elapsed());
        if let (Some(act), Some(outcome)) = (act, audit_trail::outcome(&completion)) {
            let receipt = match &*call {
                Call::Broadcast(msg) => self.room.ports.chain.receipt_of(msg),
                _ => None,
            };
            act.record_outcome(ActOutcome { receipt, ..outcome });
        }
        // The log contains the failure, because the reply to the tenant does not.
        if let (Call::FetchDeployment(_), Completion::Deployment(Err(failure)))
        | (Call::Record(_), Completion::Cluster(Err(failure))) = (&*call, &completion)
        {
            tracing::warn!(call = name(&call), error = %failure, "cannot check or store a manifest; the tenant gets an error without details, and must send the manifest again");
        }
        Some((id, completion))
    }
}

/// Returns a readable name of a call, such as `fetch order`.
pub(super) fn name(call: &Call) -> String {
    call.name().replace('_', " ")
}

fn unanswered(call: &Call, failure: Failure, expires: BlockTime) -> Completion {
    match call {
        Call::FetchOrder(_) => Completion::Order(Err(failure)),
        Call::CountBids(_) => Completion::BidCount(Err(failure)),
        Call::FetchProvider => Completion::Provider(Err(failure)),
        Call::FetchBalances(_) => Completion::Balances(Err(failure)),
        Call::FetchAudit(_) => Completion::Audit(Err(failure)),
        Call::FetchBid(_) => Completion::Bid(Err(failure)),
        Call::FetchLease(_) => Completion::Lease(Err(failure)),
        Call::FetchDeployment(_) => Completion::Deployment(Err(failure)),
        Call::FetchSnapshot => Completion::Snapshot(Err(failure)),
        Call::CalculatePrice(_) => Completion::Price(Err(failure)),
        Call::Broadcast(_) => Completion::Tx(Ok(TxOutcome::Unknown { expires })),
        Call::Record(_) | Call::Deploy { .. } => Completion::Cluster(Err(failure)),
        Call::Teardown(_) => Completion::Teardown(Err(failure)),
        Call::ListWorkloads => Completion::Workloads(Err(failure)),
    }
}

/// Converts a panic in the implementation of a port to a transient failure.
fn defect(error: JoinError) -> Failure {
    let message = match error.try_into_panic() {
        Ok(payload) => format!(
            "the implementation of the port panicked: {}",
            panic_text(payload.as_ref())
        ),
        Err(error) => format!("task of a call was canceled: {error}"),
    };
    Failure::transient(ErrorKind::Internal, message)
}

pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic without a message")
}

fn not_made(call: &Call, failure: Failure) -> Completion {
    match call {
        Call::Broadcast(_) => Completion::Tx(Err(failure)),
        // The time is used only for transactions.
        _ => unanswered(call, failure, BlockTime::default()),
    }
}

/// Executes one call within the concurrency limit and the timeout of its class. Returns `Err` if the call had
/// no response.
async fn limited(
    room: Arc<CallContext>,
    call: Arc<Call>,
    act: Option<Arc<AuditedAct>>,
) -> Result<Completion, Failure> {
    let (class, limit) = room.class(&call);
    // Before the permit, so that a delayed act does not delay other calls.
    if let Some(act) = act
        && let Err(failure) = room.record_intent(&act).await
    {
        return Ok(not_made(&call, failure));
    }
    // The wait for a permit does not count against the timeout, because it is caused by this limit.
    let _permit: Option<SemaphorePermit<'_>> = match class {
        // The semaphore is never closed.
        Some(class) => class.acquire().await.ok(),
        None => None,
    };
    match tokio::time::timeout(limit, room.make(&call)).await {
        Ok(completion) => completion,
        Err(_) => Err(Failure::transient(
            ErrorKind::Timeout,
            format!("{}: no response within {limit:?}", name(&call)),
        )),
    }
}

impl CallContext {
    fn class(&self, call: &Call) -> (Option<&Semaphore>, Duration) {
        match call {
            Call::FetchOrder(_)
            | Call::CountBids(_)
            | Call::FetchProvider
            | Call::FetchBalances(_)
            | Call::FetchAudit(_)
            | Call::FetchBid(_)
            | Call::FetchLease(_)
            | Call::FetchDeployment(_)
            | Call::FetchSnapshot => (Some(&self.queries), self.query_timeout),
            Call::CalculatePrice(_) => (Some(&self.prices), self.pricing_timeout),
            // The transaction sender sorts pending transactions by priority; a limit here would delay closes
            // behind bids.
            Call::Broadcast(_) => (None, self.tx_timeout),
            Call::Record(_) => (Some(&self.records), self.cluster_timeout),
            Call::Deploy { .. } | Call::Teardown(_) | Call::ListWorkloads => {
                (Some(&self.cluster_calls), self.cluster_timeout)
            }
        }
    }

    /// Records the intent of an act. Waits while the audit log cannot store an intent that must be durable.
    async fn record_intent(&self, act: &AuditedAct) -> Result<(), Failure> {
        let until = Instant::now() + AUDIT_WAIT;
        loop {
            let Err(error) = act.record_intent().await else {
                return Ok(());
            };
            let failure = failure(error.transient());
            tokio::select! {
                biased;
                () = self.draining.cancelled() => return Err(failure),
                () = tokio::time::sleep(AUDIT_RETRY) => {}
            }
            if Instant::now() >= until {
                return Err(failure);
            }
        }
    }

    async fn make(&self, call: &Call) -> Result<Completion, Failure> {
        let Ports {
            cluster,
            chain,
            pricing,
        } = &self.ports;
        Ok(match call {
            Call::FetchOrder(id) => Completion::Order(chain.order(id).await.map_err(failure)),
            Call::CountBids(id) => {
                Completion::BidCount(count_bids(chain.as_ref(), id).await.map_err(failure))
            }
            Call::FetchProvider => {
                Completion::Provider(chain.provider(&self.provider).await.map_err(failure))
            }
            Call::FetchBalances(denoms) => {
                // All balances or none, because a missing balance would look like an empty one.
                let balances = denoms.iter().map(|denom| chain.balance(&self.provider, denom));
                Completion::Balances(try_join_all(balances).await.map_err(failure))
            }
            Call::FetchAudit(auditor) => {
                let audit = chain.auditor_attributes(auditor, &self.provider).await;
                Completion::Audit(audit.map_err(failure))
            }
            Call::FetchBid(id) => Completion::Bid(chain.bid(id).await.map_err(failure)),
            Call::FetchLease(id) => Completion::Lease(chain.lease(id).await.map_err(failure)),
            Call::FetchDeployment(id) => Completion::Deployment(chain.deployment(id).await.map_err(failure)),
            Call::FetchSnapshot => {
                let snapshot = chain.snapshot(&self.provider).await;
                Completion::Snapshot(snapshot.map(Arc::new).map_err(failure))
            }
            Call::CalculatePrice(request) => {
                Completion::Price(pricing.calculate_price(request).await.map_err(failure))
            }
            Call::Broadcast(msg) => return broadcast(chain.as_ref(), msg).await,
            Call::Record(deployment) => {
                Completion::Cluster(cluster.record(deployment).await.map_err(failure))
            }
            Call::Deploy {
                deployment,
                purge_hostnames,
            } => {
                let done = deploy(cluster.as_ref(), deployment, purge_hostnames).await;
                Completion::Cluster(done.map_err(failure))
            }
            Call::Teardown(lease) => {
                Completion::Teardown(teardown(cluster.as_ref(), lease).await.map_err(failure))
            }
            Call::ListWorkloads => {
                Completion::Workloads(list_workloads(cluster.as_ref()).await.map_err(failure))
            }
        })
    }
}

fn failure(error: Error) -> Failure {
    error.to_failure()
}

/// Broadcasts a message. After a timeout, returns an error instead of a completion, because the transaction
/// may have been sent.
async fn broadcast(chain: &dyn ChainClient, msg: &Msg) -> Result<Completion, Failure> {
    match chain.broadcast_msgs(vec![msg.clone()]).await {
        Err(error) if error.kind() == ErrorKind::Timeout => Err(error.to_failure()),
        answer => Ok(Completion::Tx(answer.map_err(failure))),
    }
}

/// Counts the bids on an order, without lost bids. The limit of the chain does not include lost bids. Stops
/// after the page that reaches [`BIDS_COUNTED`] bids.
async fn count_bids(chain: &dyn ChainClient, order: &OrderId) -> Result<u32, Error> {
    let filter = BidFilter {
        order: Some(order.clone()),
        ..BidFilter::default()
    };
    let mut counted = 0u32;
    let mut page = PageRequest::default();
    loop {
        let answer = chain.bids(&filter, page).await?;
        // A node may return other bids than requested.
        let counts = |bid: &&Bid| bid.id.order == *order && bid.state != BidState::Lost;
        let some = answer.items.iter().filter(counts).count();
        counted = counted.saturating_add(u32::try_from(some).unwrap_or(u32::MAX));
        // Bounded, because a node may return an endless series of empty pages.
        match answer
            .next
            .filter(|_| counted < BIDS_COUNTED && !answer.items.is_empty())
        {
            Some(key) => {
                page = PageRequest {
                    key: Some(key),
                    limit: 0,
                }
            }
            None => return Ok(counted),
        }
    }
}

#[cfg(test)]
mod tests;
