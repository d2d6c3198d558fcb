//! Execution of calls. A call may be executed, not executed, or have an unknown outcome, and its response may
//! be outdated or wrong.

use crate::chain::{TX_LIFE, Tx, View};
use crate::faults::{self, Faults};
use crate::ids::PROVIDER;
use crate::random::Random;
use crate::world::World;
use akash_provider_core::engine::{Call, Completion, EffectId};
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::pricing::PriceRequest;
use akash_provider_core::types::{Agreement, BidState, Dec, DecCoin, LeaseId, Msg, Observed, TxOutcome};
use std::collections::BTreeSet;

/// Value of `Listing::place` that marks a cluster list with missing entries.
pub(crate) const INCOMPLETE: &str = "incomplete list";

/// Pending call of an engine.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) id: EffectId,
    pub(crate) call: Call,
    /// Response to the call, stored when the call is executed.
    pub(crate) answer: Option<Completion>,
    /// Leases in the cluster when `ListWorkloads` was executed: the listed leases, then the omitted leases.
    pub(crate) there: Option<(BTreeSet<LeaseId>, BTreeSet<LeaseId>)>,
    /// The call sent a transaction and waits for a block.
    pub(crate) sent: bool,
}

fn agreement(random: &mut Random, faults: &Faults) -> Agreement {
    if random.percent(faults.disagreeing) {
        return [Agreement::Disputed, Agreement::Unreachable][random.index(2)];
    }
    [Agreement::Single, Agreement::Confirmed][random.index(2)]
}

fn observed<T>(random: &mut Random, faults: &Faults, view: &View, value: Option<T>) -> Observed<T> {
    let found = !random.percent(faults.not_found);
    Observed::new(value.filter(|_| found), view.height, agreement(random, faults))
}

/// Returns a price that is usually below the tenant's maximum.
fn price(request: &PriceRequest) -> Result<DecCoin, Failure> {
    let maximum = request
        .maximum()
        .map_err(|e| Failure::permanent(ErrorKind::Invalid, e.to_string()))?;
    let share = maximum.amount.checked_mul_int(3);
    let share = share.and_then(|s| s.div_floor_int(Dec::from_int(4))).unwrap_or(0);
    Ok(DecCoin::new(
        &maximum.denom,
        Dec::from_int(i64::try_from(share).unwrap().max(5)),
    ))
}

impl World {
    /// Executes one call and stores the response until its delivery.
    pub(crate) fn make(&mut self, index: usize) {
        let Pending { id, call, .. } = self.pending[index].clone();
        if let Call::Broadcast(msg) = call {
            return self.send(index, id, msg);
        }
        let away = self.outage && is_cluster(&call);
        let fails = away || self.random.percent(self.faults.failing);
        let done = !fails || (!away && self.random.percent(self.faults.done_and_failed));
        if fails {
            if done {
                self.apply_and_fail(&call);
            }
            let failure = faults::failure(&mut self.random);
            self.pending[index].answer = Some(failed(&call, failure));
            return;
        }
        if let Call::ListWorkloads = call {
            self.pending[index].there = Some(self.cluster_state.there());
        }
        self.pending[index].answer = Some(self.answer(&call));
    }

    /// Executes a call, but reports a failure. Possibly executes only a part of a deploy.
    fn apply_and_fail(&mut self, call: &Call) {
        if let Call::Deploy { deployment, .. } = call
            && self.feature_random.percent(self.features.half)
        {
            let names = self.feature_random.index(deployment.hostnames.len() + 1);
            // A deploy of an older epoch has no effect.
            drop(self.cluster_state.deploy_half(deployment, names));
        } else if is_cluster(call) {
            self.answer(call);
        }
    }

    fn send(&mut self, index: usize, effect: EffectId, msg: Msg) {
        if self.random.percent(self.faults.failing) {
            let failure = faults::failure(&mut self.random);
            self.pending[index].answer = Some(Completion::Tx(Err(failure)));
            return;
        }
        self.pending[index].sent = true;
        let lost = self.random.percent(self.faults.lost_tx);
        self.chain.mempool.push(Tx {
            effect,
            life: self.life,
            msg,
            expires: self.chain.newest().time.plus(TX_LIFE),
            lost,
            is_outcome_sent: false,
        });
        if self.random.percent(self.faults.unknown_tx) {
            self.give_up(self.chain.mempool.len() - 1);
        }
    }

    /// Reports an unknown outcome for a transaction that a block can still include.
    pub(crate) fn give_up(&mut self, tx: usize) {
        let tx = &mut self.chain.mempool[tx];
        if tx.is_outcome_sent {
            return;
        }
        tx.is_outcome_sent = true;
        let (life, effect, expires) = (tx.life, tx.effect, tx.expires);
        self.schedule_outcome(life, effect, TxOutcome::Unknown { expires });
    }

    /// Schedules the outcome for the engine that sent the transaction, if that engine still runs.
    pub(crate) fn schedule_outcome(&mut self, life: u64, effect: EffectId, outcome: TxOutcome) {
        let sender = if life == self.life {
            Some(&mut self.pending)
        } else {
            let other = self.other.as_mut().filter(|o| o.life == life);
            other.map(|o| &mut o.pending)
        };
        let mut calls = sender.into_iter().flatten();
        if let Some(pending) = calls.find(|p| p.id == effect && p.sent) {
            pending.answer = Some(Completion::Tx(Ok(outcome)));
        }
    }

    fn lag(&mut self) -> usize {
        if self.random.percent(self.faults.stale) {
            return self.random.index(8);
        }
        0
    }

    fn answer(&mut self, call: &Call) -> Completion {
        // These responses carry no height, so their age is not visible. The port guarantees current data.
        let fresh = matches!(call, Call::FetchAudit(_) | Call::FetchProvider);
        let lag = if fresh { 0 } else { self.lag() };
        let view = self.chain.view(lag);
        let (random, faults) = (&mut self.random, &self.faults);
        match call {
            Call::FetchOrder(id) if self.chain.unreadable.contains(id) => {
                Completion::Order(Err(Failure::permanent(ErrorKind::Invalid, "cannot read record")))
            }
            Call::FetchOrder(id) => Completion::Order(Ok(view.order(id))),
            Call::CountBids(id) => {
                let counts = view.market.bids_of(id).filter(|b| b.state != BidState::Lost);
                Completion::BidCount(Ok(u32::try_from(counts.count()).unwrap()))
            }
            Call::FetchBalances(denoms) => {
                let balance = |denom| view.market.balance(&PROVIDER, denom);
                Completion::Balances(Ok(denoms.iter().map(|denom| balance(denom)).collect()))
            }
            Call::FetchProvider => Completion::Provider(Ok(view.market.provider(&PROVIDER).cloned())),
            Call::FetchAudit(auditor) => {
                Completion::Audit(Ok(view.market.auditor_attributes(auditor, &PROVIDER)))
            }
            Call::FetchBid(id) => {
                let bid = view.market.bid(id).cloned();
                Completion::Bid(Ok(observed(random, faults, view, bid)))
            }
            Call::FetchLease(id) => {
                let lease = view.market.lease(id);
                Completion::Lease(Ok(observed(random, faults, view, lease)))
            }
            Call::FetchDeployment(id) => Completion::Deployment(Ok(view.market.deployment(id))),
            Call::FetchSnapshot => Completion::Snapshot(Ok(view.snapshot())),
            Call::CalculatePrice(request) => Completion::Price(price(request)),
            Call::Record(deployment) => Completion::Cluster(self.cluster_state.record(deployment)),
            Call::Deploy {
                deployment,
                purge_hostnames,
            } => Completion::Cluster(self.cluster_state.deploy(deployment, purge_hostnames)),
            Call::Teardown(lease) => {
                let patience = random.below(3);
                Completion::Teardown(Ok(self.cluster_state.teardown(lease, patience)))
            }
            Call::ListWorkloads => {
                let full = self.model.short_list || !self.hands.percent(self.faults.short);
                let lacking = self.hands.below(5);
                let left_out = |lease: &LeaseId| !full && lease.deployment().dseq % 5 == lacking;
                let mut workloads = self.cluster_state.list(&left_out);
                if !full {
                    workloads.listing.place = INCOMPLETE.to_owned();
                }
                Completion::Workloads(Ok(workloads))
            }
            Call::Broadcast(_) => unreachable!("transactions are sent separately"),
        }
    }
}

const fn is_cluster(call: &Call) -> bool {
    matches!(
        call,
        Call::Record(_) | Call::Deploy { .. } | Call::Teardown(_) | Call::ListWorkloads
    )
}

fn failed(call: &Call, failure: Failure) -> Completion {
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
        Call::Broadcast(_) => Completion::Tx(Err(failure)),
        Call::Record(_) | Call::Deploy { .. } => Completion::Cluster(Err(failure)),
        Call::Teardown(_) => Completion::Teardown(Err(failure)),
        Call::ListWorkloads => Completion::Workloads(Err(failure)),
    }
}
