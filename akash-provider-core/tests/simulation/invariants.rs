//! The rules, each under its name.

use crate::capacity::Amounts;
use crate::chain::Chain;
use crate::ids::{NAMES, OURS};
use crate::oracle::{Checked, Memory, Told, ensure};
use crate::rack::Rack;
use akash_provider_core::Config;
use akash_provider_core::engine::status::ReservationStatus;
use akash_provider_core::engine::{Call, Leadership, LeasePhase, OrderPhase, Status};
use akash_provider_core::inventory::LeasedIpUsage;
use akash_provider_core::market::Market;
use akash_provider_core::types::{
    Bid, BidId, BidState, CloseReason, Height, LeaseId, LeaseState, Msg, OrderId, OrderState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What an engine is judged by when it makes a call.
pub(crate) struct Deed<'a> {
    pub(crate) config: &'a Config,
    pub(crate) told: &'a Told,
    /// The chain as it is, the block under construction included.
    pub(crate) market: &'a Market,
    pub(crate) call: &'a Call,
}

impl Deed<'_> {
    pub(crate) fn check(&self) -> Checked {
        self.no_write_as_standby()?;
        self.nothing_new_after_shutdown()?;
        self.one_cluster_call_per_lease()?;
        self.writes_carry_the_epoch()?;
        match self.call {
            Call::Teardown(lease) => self.teardown_only_with_evidence(lease),
            Call::Broadcast(Msg::CreateBid { .. }) => {
                self.nonsense_is_not_bid_for()?;
                self.bids_are_in_the_money_of_the_order()?;
                self.a_refused_deposit_waits_for_money()?;
                self.bids_in_flight_are_payable()?;
                self.never_two_bids_for_one_order()
            }
            Call::Broadcast(Msg::CloseBid { id, reason }) => {
                self.lost_bid_is_not_closed(id)?;
                self.halted_chain_expires_nothing(id, *reason)?;
                self.no_lease_that_is_there_is_ended_for_its_manifest(id, *reason)?;
                self.no_close_because_a_query_failed(id, *reason)
            }
            Call::Broadcast(Msg::StartReclaim { id, reason }) => {
                self.halted_chain_expires_nothing(id, *reason)?;
                self.no_lease_that_is_there_is_ended_for_its_manifest(id, *reason)?;
                self.no_close_because_a_query_failed(id, *reason)
            }
            _ => Ok(()),
        }
    }

    fn writes_carry_the_epoch(&self) -> Checked {
        let (Call::Record(deployment) | Call::Deploy { deployment, .. }) = self.call else {
            return Ok(());
        };
        let epoch = deployment.epoch;
        let ours = self.told.leadership == Leadership::Leader { epoch };
        ensure("writes_carry_the_epoch", ours, || {
            format!(
                "{}: epoch {epoch} as {:?}",
                deployment.lease, self.told.leadership
            )
        })
    }

    fn no_write_as_standby(&self) -> Checked {
        let may = self.told.leadership != Leadership::Standby || !self.call.is_write();
        ensure("no_write_as_standby", may, || format!("{:?}", self.call))
    }

    /// What is in flight is finished: a manifest that is being recorded, group by group.
    fn nothing_new_after_shutdown(&self) -> Checked {
        let new = self.call.is_write() && !matches!(self.call, Call::Record(_));
        ensure("nothing_new_after_shutdown", !(self.told.stopping && new), || {
            format!("{:?}", self.call)
        })
    }

    fn one_cluster_call_per_lease(&self) -> Checked {
        let Some(lease) = lease_of(self.call) else {
            return Ok(());
        };
        let other = self.told.calls.values().find(|c| lease_of(c) == Some(lease));
        ensure("one_cluster_call_per_lease", other.is_none(), || {
            format!("{:?} during {other:?}", self.call)
        })
    }

    /// A lease that is over never lives again, so the present is all that counts.
    fn teardown_only_with_evidence(&self, lease: &LeaseId) -> Checked {
        let record = self.market.lease(lease);
        let over = record.as_ref().is_some_and(|r| !r.lease.state.is_live());
        ensure("teardown_only_with_evidence", over, || {
            format!("{lease}: {:?}", record.map(|r| r.lease.state))
        })
    }

    fn never_two_bids_for_one_order(&self) -> Checked {
        let Call::Broadcast(Msg::CreateBid { id, .. }) = self.call else {
            return Ok(());
        };
        let same = |c: &Call| matches!(c, Call::Broadcast(Msg::CreateBid { id: other, .. }) if other == id);
        let flying = self.told.calls.values().any(same);
        let known = self.told.bids.contains(&id.order);
        ensure("never_two_bids_for_one_order", !flying && !known, || {
            format!("{id}: in flight {flying}, known {known}")
        })
    }

    fn lost_bid_is_not_closed(&self, id: &LeaseId) -> Checked {
        let lost = self.told.lost.contains(id);
        ensure("lost_bid_is_not_closed", !lost, || id.to_string())
    }

    /// Chain deadlines count from the block a thing is in, in the time of blocks the engine has seen.
    fn halted_chain_expires_nothing(&self, id: &LeaseId, reason: CloseReason) -> Checked {
        let open = self.market.order(&id.order).map(|o| o.state) == Some(OrderState::Open);
        let bid = self.market.bid(id).filter(|b| open && b.state == BidState::Open);
        let lease = self.market.lease(id).filter(|r| r.lease.state.is_live());
        // A tenant may have taken a bid that is being taken back for its age.
        let unheard = lease.is_some() && !self.told.leases.contains(id);
        let taken = self.market.bid(id).filter(|_| unheard);
        let aged = reason == CloseReason::Unspecified;
        let (created, limit) = match (bid.or(taken), lease) {
            (Some(bid), _) if aged => (bid.created_at, self.config.bid_timeout),
            (_, Some(record)) if reason == CloseReason::ManifestTimeout => {
                (record.lease.created_at, self.config.manifest_timeout)
            }
            _ => return Ok(()),
        };
        // A block under construction has no time yet, so nothing in it can be late.
        let due = self
            .market
            .block_time(created)
            .zip(limit)
            .map(|(at, limit)| at.plus(limit));
        let passed = due.is_some_and(|due| due <= self.told.block_time);
        ensure("halted_chain_expires_nothing", passed, || {
            format!(
                "{id}: {reason:?}, due {due:?}, the engine's chain is at {:?}",
                self.told.block_time
            )
        })
    }

    fn is_reclaiming(&self, id: &LeaseId) -> bool {
        let record = self.market.lease(id);
        record.is_some_and(|r| r.lease.state == LeaseState::Reclaiming)
    }

    /// A record that is lost, cannot be read or is looked for in a wrong place, or a list that lacks it, is no
    /// missing manifest.
    fn no_lease_that_is_there_is_ended_for_its_manifest(&self, id: &LeaseId, reason: CloseReason) -> Checked {
        let live = self.market.lease(id).is_some_and(|r| r.lease.state.is_live());
        // What was announced on the chain is carried out, for the reason that is recorded there; the announcement was
        // held against this rule.
        let exempt = self.told.ended.contains(id) || self.is_reclaiming(id);
        if !live || reason != CloseReason::ManifestTimeout || exempt {
            return Ok(());
        }
        let hidden = self.told.hidden.contains(id) && !self.told.released;
        let is_there = self.told.there.contains(id) || hidden;
        ensure(
            "no_lease_that_is_there_is_ended_for_its_manifest",
            !is_there,
            || format!("{id}: hidden {hidden}"),
        )
    }

    fn no_close_because_a_query_failed(&self, id: &LeaseId, reason: CloseReason) -> Checked {
        if self.market.lease(id).is_none_or(|r| !r.lease.state.is_live()) {
            return Ok(());
        }
        let justified = self.told.ended.contains(id)
            || self.is_reclaiming(id)
            || match reason {
                CloseReason::ManifestTimeout => !self.told.recorded.contains(id),
                CloseReason::Unstable => {
                    let unwell = self.told.unwell.get(id).map(|u| u.time(self.told.mono));
                    let limit = self.config.unhealthy_limit;
                    unwell.zip(limit).is_some_and(|(unwell, limit)| unwell >= limit)
                }
                // Of a bid: see halted_chain_expires_nothing. Of a lease: none.
                _ => !self.told.leases.contains(id),
            };
        ensure("no_close_because_a_query_failed", justified, || {
            let unwell = self.told.unwell.get(id).map(|u| u.time(self.told.mono));
            format!(
                "{id}: {reason:?}, known unhealthy for {unwell:?} of {:?}",
                self.config.unhealthy_limit
            )
        })
    }
}

/// The lease a cluster call is for.
fn lease_of(call: &Call) -> Option<&LeaseId> {
    match call {
        Call::Record(deployment) | Call::Deploy { deployment, .. } => Some(&deployment.lease),
        Call::Teardown(lease) => Some(lease),
        _ => None,
    }
}

/// Leases of ours that live.
pub(crate) fn live(market: &Market) -> Vec<LeaseId> {
    let ours = market.leases().map(|r| r.lease);
    ours.filter(|l| l.id.provider == *OURS && l.state.is_live())
        .map(|l| l.id)
        .collect()
}

/// An engine seen from outside at any moment.
pub(crate) struct Moment<'a> {
    pub(crate) status: &'a Status,
    pub(crate) told: &'a Told,
    pub(crate) chain: &'a Chain,
    /// Addresses of the last inventory update.
    pub(crate) counted: &'a LeasedIpUsage,
    pub(crate) life: u64,
    /// A count of the reservations from scratch agrees with the ledger.
    pub(crate) sound: bool,
}

pub(crate) fn reservations(status: &Status) -> impl Iterator<Item = &ReservationStatus> {
    status.inventory.active.iter().chain(&status.inventory.pending)
}

/// What our bid has promised.
fn promised(market: &Market, order: &OrderId) -> Option<Amounts> {
    let id = BidId {
        order: order.clone(),
        provider: OURS.clone(),
    };
    let bid = market.bid(&id)?;
    Some(Amounts::of(&bid.resources_offer))
}

impl Moment<'_> {
    pub(crate) fn check(&self) -> Checked {
        self.capacity_never_negative()?;
        self.no_reservation_without_owner()?;
        self.leases_counted_once()?;
        self.running_is_whole()?;
        self.no_promised_address_is_free()?;
        self.unknown_tx_is_resolved()?;
        self.height_never_goes_back()?;
        self.no_input_is_unexpected()
    }

    fn capacity_never_negative(&self) -> Checked {
        ensure("capacity_never_negative", self.sound, || {
            "a count from scratch disagrees with the ledger".to_owned()
        })
    }

    fn no_reservation_without_owner(&self) -> Checked {
        let holding = [
            OrderPhase::Pricing,
            OrderPhase::Ready,
            OrderPhase::Unfunded,
            OrderPhase::Bidding,
            OrderPhase::Unsure,
            OrderPhase::Checking,
            OrderPhase::Open,
            OrderPhase::Closing,
        ];
        let orders = self.status.orders.iter();
        let holders = orders.filter(|o| holding.contains(&o.phase)).map(|o| &o.order);
        let leased = self.status.leases.iter().map(|l| &l.lease.order);
        let owners: BTreeSet<&OrderId> = holders.chain(leased).collect();
        let ownerless = reservations(self.status).find(|r| !owners.contains(&r.order));
        ensure("no_reservation_without_owner", ownerless.is_none(), || {
            format!("{ownerless:?}")
        })
    }

    /// A lease holds what its bid promised, or nothing while that is being found out.
    fn leases_counted_once(&self) -> Checked {
        let mut seen = BTreeSet::new();
        for reservation in reservations(self.status) {
            let once = seen.insert(&reservation.order);
            let promised = promised(&self.chain.market, &reservation.order);
            // A bid from before a crash, when more or less was committed for the same, may have landed unheard.
            let offer = self.told.offers.get(&reservation.order);
            let heard = offer.map(|offer| Amounts::of(offer));
            let held = Some(Amounts::held(reservation));
            let right = heard.is_none() || heard == held || promised == held || reservation.cpu == 0;
            ensure("leases_counted_once", once && right, || {
                format!("{reservation:?} was promised as {promised:?}")
            })?;
        }
        Ok(())
    }

    /// While a bid of this engine may land, what it promises stays reserved.
    fn unknown_tx_is_resolved(&self) -> Checked {
        let mine = self.chain.mempool.iter().filter(|t| t.life == self.life);
        for tx in mine.filter(|t| t.expires >= self.chain.next_time()) {
            let Msg::CreateBid { id, .. } = &tx.msg else {
                continue;
            };
            let market = &self.chain.market;
            let open = market.order(&id.order).map(|o| o.state) == Some(OrderState::Open);
            let may_land = open && market.bid(id).is_none();
            let held = reservations(self.status).any(|r| r.order == id.order);
            ensure("unknown_tx_is_resolved", held || !may_land, || {
                format!("{id} may land and nothing is reserved for it")
            })?;
        }
        Ok(())
    }

    fn height_never_goes_back(&self) -> Checked {
        let same = self.status.height == self.told.height;
        ensure("height_never_goes_back", same, || {
            format!("{} instead of {}", self.status.height, self.told.height)
        })
    }

    fn no_input_is_unexpected(&self) -> Checked {
        let unexpected = self.status.unexpected_inputs;
        ensure("no_input_is_unexpected", unexpected == self.told.repeated, || {
            format!("{unexpected}, of which {} came twice", self.told.repeated)
        })
    }
}

/// Everything once nothing more happens by itself.
pub(crate) struct Rest<'a> {
    pub(crate) config: &'a Config,
    pub(crate) status: &'a Status,
    pub(crate) told: &'a Told,
    pub(crate) market: &'a Market,
    pub(crate) rack: &'a Rack,
    pub(crate) memory: &'a Memory,
}

/// How late something may be at rest.
const SLACK: Duration = Duration::from_secs(180);

impl Rest<'_> {
    pub(crate) fn check(&self) -> Checked {
        let live: BTreeSet<LeaseId> = live(self.market).into_iter().collect();
        self.nothing_is_under_way()?;
        self.every_request_gets_one_reply()?;
        self.no_open_bid_without_machine()?;
        self.bids_end_in_time()?;
        self.every_lease_is_known(&live)?;
        self.reserved_is_bids_and_leases(&live)?;
        self.workload_only_under_active_lease(&live)?;
        self.teardown_follows_close(&live)?;
        self.manifests_run(&live)?;
        self.names_lead_to_their_lease(&live)?;
        self.accepted_manifests_are_kept(&live)?;
        self.addresses_follow_leases(&live)?;
        self.addresses_and_ports_are_counted_once(&live)?;
        self.leases_without_manifest_end(&live)?;
        self.leases_without_money_end(&live)?;
        self.hostname_has_one_owner(&live)
    }

    fn nothing_is_under_way(&self) -> Checked {
        let order = self.status.orders.iter().find(|o| o.phase != OrderPhase::Open);
        let calls = self.status.calls_in_flight;
        ensure("unknown_tx_is_resolved", order.is_none() && calls == 0, || {
            format!("{order:?}, {calls} calls in flight")
        })
    }

    fn every_request_gets_one_reply(&self) -> Checked {
        let waiting = &self.told.requests;
        ensure("every_request_gets_one_reply", waiting.is_empty(), || {
            format!("{waiting:?} wait")
        })
    }

    fn open_bids(&self) -> impl Iterator<Item = &Bid> {
        let ours = self.market.bids().filter(|b| b.id.provider == *OURS);
        ours.filter(|b| b.state == BidState::Open)
    }

    fn no_open_bid_without_machine(&self) -> Checked {
        let chain: BTreeSet<&OrderId> = self.open_bids().map(|b| &b.id.order).collect();
        let engine: BTreeSet<&OrderId> = self.status.orders.iter().map(|o| &o.order).collect();
        ensure("no_open_bid_without_machine", chain == engine, || {
            format!("on the chain {chain:?}, in hand {engine:?}")
        })
    }

    fn late(&self, created: Height, limit: Option<Duration>) -> bool {
        let at = self.market.block_time(created);
        let due = at.zip(limit).map(|(at, limit)| at.plus(limit).plus(SLACK));
        due.is_some_and(|due| due < self.told.block_time)
    }

    fn bids_end_in_time(&self) -> Checked {
        let late = self
            .open_bids()
            .find(|b| self.late(b.created_at, self.config.bid_timeout));
        ensure("bids_end_in_time", late.is_none(), || format!("{late:?}"))
    }

    fn every_lease_is_known(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let known: BTreeSet<LeaseId> = self.status.leases.iter().map(|l| l.lease.clone()).collect();
        ensure("every_lease_is_known", known == *live, || {
            format!("on the chain {live:?}, in hand {known:?}")
        })
    }

    fn reserved_is_bids_and_leases(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let owed = self
            .open_bids()
            .map(|b| &b.id.order)
            .chain(live.iter().map(|l| &l.order));
        let owed: BTreeMap<&OrderId, Amounts> = owed
            .map(|o| (o, promised(self.market, o).unwrap_or_default()))
            .collect();
        let held: BTreeMap<&OrderId, Amounts> = reservations(self.status)
            .map(|r| (&r.order, Amounts::held(r)))
            .collect();
        ensure("leases_counted_once", owed == held, || {
            format!("owed {owed:?}, held {held:?}")
        })
    }

    /// The same at a moment when closes of our own may still wait.
    pub(crate) fn nothing_runs_without_a_lease(&self) -> Checked {
        let live: BTreeSet<LeaseId> = live(self.market).into_iter().collect();
        self.workload_only_under_active_lease(&live)
    }

    fn workload_only_under_active_lease(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let extra = self.rack.runs.keys().find(|l| !live.contains(l));
        ensure("workload_only_under_active_lease", extra.is_none(), || {
            format!("{extra:?}")
        })
    }

    fn teardown_follows_close(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let extra = self.rack.hostnames.iter().find(|(_, l)| !live.contains(l));
        let claimed = self.status.hostnames.iter().find(|(_, l)| !live.contains(l));
        ensure(
            "teardown_follows_close",
            extra.is_none() && claimed.is_none(),
            || format!("declared {extra:?}, claimed {claimed:?}"),
        )
    }

    fn manifests_run(&self, live: &BTreeSet<LeaseId>) -> Checked {
        for lease in live {
            let Some(run) = self.rack.runs.get(lease) else {
                continue;
            };
            let info = self.status.leases.iter().find(|l| l.lease == *lease);
            let phase = info.map(|i| i.phase);
            let ends = info.is_some_and(|i| i.ending.is_some());
            let runs = run.deployed
                && run.whole
                && run.going.is_none()
                && (phase == Some(LeasePhase::Running) || ends);
            ensure("manifests_run", runs, || format!("{lease}: {info:?}"))?;
        }
        Ok(())
    }

    fn leases_without_manifest_end(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let waits = |l: &&LeaseId| !self.rack.runs.contains_key(*l);
        for lease in live.iter().filter(waits) {
            let info = self.status.leases.iter().find(|l| l.lease == *lease);
            // Reclamation takes its time, and it is announced.
            let ends = info.is_some_and(|i| i.waiting_for.is_some());
            let created = self.market.lease(lease).map_or(0, |r| r.lease.created_at);
            // Of one that was found, the time runs from the first look at the cluster.
            let deployments = self.status.deployments.iter();
            let mut deadlines = deployments.filter(|d| d.deployment == *lease.deployment());
            let deadline = deadlines.find_map(|d| d.manifest_deadline);
            let runs = deadline.is_some_and(|at| at.plus(SLACK) > self.told.block_time);
            let late = !runs && self.late(created, self.config.manifest_timeout);
            ensure("leases_without_manifest_end", !late || ends, || {
                format!("{lease}: {info:?}")
            })?;
        }
        Ok(())
    }

    fn hostname_has_one_owner(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let names = |name: &&String| NAMES.contains(&&***name);
        let declared: BTreeMap<&String, &LeaseId> =
            self.rack.hostnames.iter().filter(|(n, _)| names(n)).collect();
        let claimed: BTreeMap<&String, &LeaseId> =
            self.status.hostnames.iter().filter(|(n, _)| names(n)).collect();
        ensure("hostname_has_one_owner", declared == claimed, || {
            format!("declared {declared:?}, claimed {claimed:?}, live {live:?}")
        })
    }
}

impl Rest<'_> {
    /// All orders in the blocks that were told.
    pub(crate) fn orders(&self) -> BTreeSet<String> {
        let told = self.market.orders().filter(|o| o.created_at <= self.told.height);
        told.map(|o| o.id.to_string()).collect()
    }

    /// Orders of leases that are over.
    pub(crate) fn over(&self) -> Vec<String> {
        let over = self.market.leases().filter(|r| !r.lease.state.is_live());
        let leased = over.map(|r| r.lease.id.order.to_string());
        // What a deployment's money does not pay for ends in all its groups, open bids included.
        let ours = self.market.bids().filter(|b| b.id.provider == *OURS);
        let closed = ours.filter(|b| {
            let record = self.market.deployment(b.id.deployment());
            record.is_none_or(|record| !record.deployment.active)
        });
        leased.chain(closed.map(|b| b.id.order.to_string())).collect()
    }

    /// Orders with bids of ours whose time is up, or nearly: their clock may have started some blocks after
    /// their block, behind a transaction of unknown outcome.
    pub(crate) fn due(&self) -> BTreeSet<OrderId> {
        let limit = self.config.bid_timeout;
        let soon = self.told.block_time.plus(Duration::from_secs(120));
        let is_due = |b: &&Bid| {
            let at = self.market.block_time(b.created_at).zip(limit);
            at.is_some_and(|(at, limit)| at.plus(limit) <= soon)
        };
        let ours = self.market.bids().filter(|b| b.id.provider == *OURS);
        ours.filter(is_due).map(|b| b.id.order.clone()).collect()
    }

    /// What two engines that know the same world must agree on, one line each. A bid whose time is up may be
    /// seen a block earlier by one than by the other; what finds room (`full`: what does not) depends on the
    /// order in which the others were placed.
    pub(crate) fn essence(&self, full: &BTreeSet<OrderId>) -> BTreeSet<String> {
        let due = self.due();
        let left_out: BTreeSet<&OrderId> = due.iter().chain(full).collect();
        let status = self.status;
        let orders = status.orders.iter().filter(|o| !left_out.contains(&o.order));
        let reserved = reservations(status).filter(|r| !left_out.contains(&r.order));
        let orders = orders.map(|o| format!("order {} {}", o.order, o.phase));
        // Known gap: an end that waits for its reclamation window is not remembered over a restart.
        let leases = status.leases.iter().filter(|l| l.ending.is_none());
        let leases = leases.map(|l| format!("lease {} {}", l.lease, l.phase));
        let reserved = reserved.map(|r| format!("reserved {} {}", r.order, r.cpu));
        let names = status.hostnames.iter().map(|(n, l)| format!("hostname {n} {l}"));
        orders.chain(leases).chain(reserved).chain(names).collect()
    }
}
