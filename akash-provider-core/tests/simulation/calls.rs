//! What becomes of a call: it is done, or not, or nobody knows, and its answer may be old or wrong.

use crate::chain::{TX_LIFE, Tx, View};
use crate::faults::{self, Faults};
use crate::ids::OURS;
use crate::random::Random;
use crate::world::World;
use akash_provider_core::engine::{Call, Completion, EffectId};
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::pricing::PriceRequest;
use akash_provider_core::types::{Agreement, BidState, Dec, DecCoin, LeaseId, Msg, Observed, TxOutcome};
use std::collections::BTreeSet;

/// Where a list comes from that lacks something.
pub(crate) const SHORT: &str = "half a list";

/// A call on its way.
#[derive(Debug, Clone)]
pub(crate) struct Pending {
    pub(crate) id: EffectId,
    pub(crate) call: Call,
    /// Its answer, once it was made.
    pub(crate) answer: Option<Completion>,
    /// What was in the cluster when it was listed: what a look there shows, and what it does not.
    pub(crate) there: Option<(BTreeSet<LeaseId>, BTreeSet<LeaseId>)>,
    /// A transaction on its way; its answer comes when it lands, or is given up.
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
    Observed {
        value: value.filter(|_| found),
        height: view.height,
        agreement: agreement(random, faults),
    }
}

/// Below the maximum, as a rule; some tenants pay too little.
fn price(request: &PriceRequest) -> Result<DecCoin, Failure> {
    let maximum = request.maximum().map_err(|e| Failure {
        kind: ErrorKind::Invalid,
        transient: false,
        message: e.to_string(),
    })?;
    let share = maximum.amount.checked_mul_int(3);
    let share = share.and_then(|s| s.div_floor_int(Dec::from_int(4))).unwrap_or(0);
    Ok(DecCoin::new(
        &maximum.denom,
        Dec::from_int(i64::try_from(share).unwrap().max(5)),
    ))
}

impl World {
    /// Makes one call: what it does is done, and its answer is kept until it is delivered.
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
                self.do_in_vain(&call);
            }
            let failure = faults::failure(&mut self.random);
            self.pending[index].answer = Some(failed(&call, failure));
            return;
        }
        if let Call::ListWorkloads = call {
            self.pending[index].there = Some(self.rack.there());
        }
        self.pending[index].answer = Some(self.answer(&call));
    }

    /// What a call does that fails all the same: all of it or, of a deploy, at times a part.
    fn do_in_vain(&mut self, call: &Call) {
        if let Call::Deploy { deployment, .. } = call
            && self.spice.percent(self.flavour.half)
        {
            let names = self.spice.index(deployment.hostnames.len() + 1);
            // One of an older epoch does nothing.
            drop(self.rack.deploy_half(deployment, names));
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
            told: false,
        });
        if self.random.percent(self.faults.unknown_tx) {
            self.give_up(self.chain.mempool.len() - 1);
        }
    }

    /// The sender stops waiting: the outcome is unknown, and the transaction stays where it is.
    pub(crate) fn give_up(&mut self, tx: usize) {
        let tx = &mut self.chain.mempool[tx];
        if tx.told {
            return;
        }
        tx.told = true;
        let (life, effect, expires) = (tx.life, tx.effect, tx.expires);
        self.told_of_tx(life, effect, TxOutcome::Unknown { expires });
    }

    /// The outcome of a transaction is on its way to the engine that sent it, if that is still there.
    pub(crate) fn told_of_tx(&mut self, life: u64, effect: EffectId, outcome: TxOutcome) {
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
        // These readings carry no height, so their age cannot be seen; the port promises fresh ones.
        let fresh = matches!(call, Call::FetchAudit(_) | Call::FetchProvider);
        let lag = if fresh { 0 } else { self.lag() };
        let view = self.chain.view(lag);
        let (random, faults) = (&mut self.random, &self.faults);
        match call {
            Call::FetchOrder(id) if self.chain.unreadable.contains(id) => Completion::Order(Err(Failure {
                kind: ErrorKind::Invalid,
                transient: false,
                message: "the record cannot be read".to_owned(),
            })),
            Call::FetchOrder(id) => Completion::Order(Ok(view.order(id))),
            Call::CountBids(id) => {
                let counts = view.market.bids_of(id).filter(|b| b.state != BidState::Lost);
                Completion::BidCount(Ok(u32::try_from(counts.count()).unwrap()))
            }
            Call::FetchBalances(denoms) => {
                let balance = |denom| view.market.balance(&OURS, denom);
                Completion::Balances(Ok(denoms.iter().map(|denom| balance(denom)).collect()))
            }
            Call::FetchProvider => Completion::Provider(Ok(view.market.provider(&OURS).cloned())),
            Call::FetchAudit(auditor) => {
                Completion::Audit(Ok(view.market.auditor_attributes(auditor, &OURS)))
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
            Call::Record(deployment) => Completion::Cluster(self.rack.record(deployment)),
            Call::Deploy {
                deployment,
                purge_hostnames,
            } => Completion::Cluster(self.rack.deploy(deployment, purge_hostnames)),
            Call::Teardown(lease) => {
                let patience = random.below(3);
                Completion::Teardown(Ok(self.rack.teardown(lease, patience)))
            }
            Call::ListWorkloads => {
                let full = self.told.short_list || !self.hands.percent(self.faults.short);
                let lacking = self.hands.below(5);
                let left_out = |lease: &LeaseId| !full && lease.deployment().dseq % 5 == lacking;
                let mut workloads = self.rack.list(&left_out);
                if !full {
                    workloads.listing.place = SHORT.to_owned();
                }
                Completion::Workloads(Ok(workloads))
            }
            Call::Broadcast(_) => unreachable!("transactions are sent"),
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
