//! [`Call`] → port call → [`Completion`]: every call is a task of its own, every task ends in exactly one
//! completion, also when the port hangs or panics.
//!
//! ```text
//! start(id, call) ─► task: permit of its class ─► port call within its limit ─► next() ─► (id, completion)
//!                                                  │ limit passed │ panic
//!                                                  └──────────────┴─► `unanswered`: what is then known
//! ```
//! That changes of one lease's workload are made one at a time, as the cluster port promises its backends, is the
//! engine's doing: it asks for the next one when the one before has ended.
//!
//! A call that did not answer *may have been done*. For a transaction that means `Unknown`, never an error,
//! because an error of `Broadcast` says that it was certainly not sent.

mod composite;

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

/// Queries at once: a start with thousands of open orders must not flood a node; 32 at 50 ms each are more
/// than 600 a second, far above what a block brings.
const QUERIES: usize = 32;
/// Deploys, teardowns and listings at once: each is tens of requests to the backend's API server.
const CLUSTER_CALLS: usize = 16;
/// Records at once: small and a tenant waits for each, so they have a line of their own beside slow deploys.
const RECORDS: usize = 16;
/// Prices at once: a strategy bounds its own processes; this bounds how many calls wait at it, so that
/// waiting there stays far below the limit of a calculation.
const PRICES: usize = 32;
/// Bids of an order that are counted at most: the chain's own limit is never above 500.
const BIDS_COUNTED: u32 = 1000;
/// What a transaction's own timeout in block time may be; the chain writer uses the same.
const TX_EXPIRY: Duration = Duration::from_secs(60);

/// The ports the engine's calls go to.
#[derive(Debug, Clone)]
pub(crate) struct Ports {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) chain: Arc<dyn ChainClient>,
    pub(crate) pricing: Arc<dyn PricingStrategy>,
}

/// Makes calls; lives in the loop.
#[derive(Debug)]
pub(crate) struct Executor {
    room: Arc<Room>,
    tasks: JoinSet<Result<Completion, Failure>>,
    calls: FxHashMap<Id, (EffectId, Arc<Call>)>,
}

/// What every call's task shares.
#[derive(Debug)]
struct Room {
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
}

impl Executor {
    pub(crate) fn new(ports: Ports, config: &Config) -> Self {
        let room = Room {
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
        };
        Self {
            room: Arc::new(room),
            tasks: JoinSet::new(),
            calls: FxHashMap::default(),
        }
    }

    /// Starts a call; never waits.
    pub(crate) fn start(&mut self, id: EffectId, call: Call) {
        // Shared with the task, so that a call that hangs or panics can still be named and answered for.
        let call = Arc::new(call);
        let task = limited(Arc::clone(&self.room), Arc::clone(&call));
        let handle = self.tasks.spawn(task);
        self.calls.insert(handle.id(), (id, call));
    }

    /// The next call that ended; `None` when none is under way. `block_time` is that of the newest block.
    pub(crate) async fn next(&mut self, block_time: &BlockTime) -> Option<(EffectId, Completion)> {
        let ended = self.tasks.join_next_with_id().await?;
        self.ended(ended, *block_time)
    }

    /// The same for a call that has ended already.
    pub(crate) fn try_next(&mut self, block_time: BlockTime) -> Option<(EffectId, Completion)> {
        let ended = self.tasks.try_join_next_with_id()?;
        self.ended(ended, block_time)
    }

    /// The calls under way, oldest first.
    pub(crate) fn in_flight(&self) -> Vec<(EffectId, &Call)> {
        let mut calls: Vec<_> = self
            .calls
            .values()
            .map(|(id, call)| (*id, call.as_ref()))
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
        let (id, call) = self.calls.remove(&task)?;
        let completion = answer.unwrap_or_else(|failure| {
            tracing::warn!(effect = id.0, call = name(&call), error = %failure, "call did not answer");
            // Counted from the end of the call, which may have sent it at its last moment.
            let expires = block_time.plus(self.room.tx_timeout).plus(TX_EXPIRY);
            unanswered(&call, failure, expires)
        });
        // The tenant's reply has no text of the failure, so the log has it.
        if let (Call::FetchDeployment(_), Completion::Deployment(Err(failure)))
        | (Call::Record(_), Completion::Cluster(Err(failure))) = (&*call, &completion)
        {
            tracing::warn!(call = name(&call), error = %failure, "manifest not accepted");
        }
        Some((id, completion))
    }
}

/// A short name of a call, for people.
pub(crate) const fn name(call: &Call) -> &'static str {
    match call {
        Call::FetchOrder(_) => "fetch order",
        Call::CountBids(_) => "count bids",
        Call::FetchProvider => "fetch provider",
        Call::FetchBalances(_) => "fetch balances",
        Call::FetchAudit(_) => "fetch audit",
        Call::FetchBid(_) => "fetch bid",
        Call::FetchLease(_) => "fetch lease",
        Call::FetchDeployment(_) => "fetch deployment",
        Call::FetchSnapshot => "fetch snapshot",
        Call::CalculatePrice(_) => "calculate price",
        Call::Broadcast(_) => "broadcast",
        Call::Record(_) => "record",
        Call::Deploy { .. } => "deploy",
        Call::Teardown(_) => "teardown",
        Call::ListWorkloads => "list workloads",
    }
}

/// The completion of a call of which only is known that it did not answer.
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

/// A panic in a port as data. The same call may well succeed later, so it is transient.
fn defect(error: JoinError) -> Failure {
    let message = match error.try_into_panic() {
        Ok(payload) => format!("panic in a port: {}", panic_text(payload.as_ref())),
        Err(error) => format!("task of a call ended early: {error}"),
    };
    Failure {
        kind: ErrorKind::Internal,
        transient: true,
        message,
    }
}

/// The text of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

/// One call in its class and within its limit; `Err` when it did not answer.
async fn limited(room: Arc<Room>, call: Arc<Call>) -> Result<Completion, Failure> {
    let (class, limit) = room.class(&call);
    // Waiting in line does not count against the limit: the line is of our own making.
    let _permit: Option<SemaphorePermit<'_>> = match class {
        // Never closed, so there is a permit in the end.
        Some(class) => class.acquire().await.ok(),
        None => None,
    };
    match tokio::time::timeout(limit, room.make(&call)).await {
        Ok(completion) => completion,
        Err(_) => Err(Failure {
            kind: ErrorKind::Timeout,
            transient: true,
            message: format!("{}: no answer within {limit:?}", name(&call)),
        }),
    }
}

impl Room {
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
            // The chain writer sorts what waits by priority; a line here would hide closes behind bids.
            Call::Broadcast(_) => (None, self.tx_timeout),
            Call::Record(_) => (Some(&self.records), self.cluster_timeout),
            Call::Deploy { .. } | Call::Teardown(_) | Call::ListWorkloads => {
                (Some(&self.cluster_calls), self.cluster_timeout)
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
                // All or none: a balance that is missing would look like an empty one.
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

/// `Err` when it did not answer, as for every call. A port that reports a timeout as an error cannot know
/// that nothing was sent, so that counts as no answer too.
async fn broadcast(chain: &dyn ChainClient, msg: &Msg) -> Result<Completion, Failure> {
    match chain.broadcast_msgs(vec![msg.clone()]).await {
        Err(error) if error.kind() == ErrorKind::Timeout => Err(error.to_failure()),
        answer => Ok(Completion::Tx(answer.map_err(failure))),
    }
}

/// Bids on an order that count against the chain's limit: lost ones do not. Nobody needs more than
/// [`BIDS_COUNTED`] of them, whatever a node sends.
async fn count_bids(chain: &dyn ChainClient, order: &OrderId) -> Result<u32, Error> {
    let filter = BidFilter {
        order: Some(order.clone()),
        ..BidFilter::default()
    };
    let mut counted = 0u32;
    let mut page = PageRequest::default();
    loop {
        let answer = chain.bids(&filter, page).await?;
        // A node may answer with more than it was asked for.
        let counts = |bid: &&Bid| bid.id.order == *order && bid.state != BidState::Lost;
        let some = answer.items.iter().filter(counts).count();
        counted = counted.saturating_add(u32::try_from(some).unwrap_or(u32::MAX));
        // Empty pages that go on for ever must not keep us here.
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
