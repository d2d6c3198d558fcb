//! One history: a phase with faults, a phase without faults until the state settles, and the shutdown.

use crate::calls::Pending;
use crate::cluster_state::RecordState;
use crate::faults::Faults;
use crate::invariants::SettledCheck;
use crate::oracle::{Checked, Violation, ensure};
use crate::replay::Trace;
use crate::world::World;
use akash_provider_core::cluster::{ClusterChange, Health, Outage};
use akash_provider_core::engine::{Effect, Input, Leadership, Reply, Request, Status};
use akash_provider_core::types::OrderId;
use std::collections::BTreeSet;
use std::time::Duration;

/// Number of steps in the phase with faults.
const STEPS: u64 = 250;
/// Maximum number of rounds until the state settles. Each round adds at least one block.
const ROUNDS: u32 = 160;
/// Number of rounds that are sufficient for a full scan at the longest scan interval.
const ROUNDS_OF_A_SCAN: u32 = 60;

const fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Runs the history of a seed. Returns the trace, and the violated rule, if any.
pub(crate) fn run(seed: u64, trace: Trace) -> (Trace, Checked) {
    let mut world = World::new(seed, trace);
    let result = world.history();
    (world.trace, result)
}

fn declined_for_capacity(status: &Status) -> BTreeSet<OrderId> {
    let declines = status.recent_declines.iter();
    // Undecided orders are evaluated again after a restart.
    let undecided = [
        "insufficient_capacity",
        "leased_ips_exhausted",
        "external_ports_exhausted",
        "unknown",
    ];
    let full = declines.filter(|d| undecided.contains(&d.reason.as_str()));
    full.map(|d| d.order.clone()).collect()
}

impl World {
    fn history(&mut self) -> Checked {
        self.chain.connect(0);
        self.feed(Input::Leadership(Leadership::Leader { epoch: 0 }))?;
        self.inventory()?;
        if self.random.percent(30) {
            self.second_instance()?;
        }
        let steps = self.random.between(STEPS / 2, STEPS * 3 / 2);
        for _ in 0..steps {
            self.anything()?;
        }
        self.end_faults()?;
        for index in 0..self.tenant_deployments.len() {
            let wish = self.tenant_deployments[index].clone();
            // Accepted manifests are usually not submitted again.
            let accepted = self.memory.accepted.get(&wish.id) == Some(&wish.version);
            if !wish.closed && (!accepted || self.random.percent(50)) {
                self.submit_right(&wish)?;
            }
        }
        self.settle()?;
        self.recover_equals_continue()?;
        self.close_everything()?;
        self.idle_after_shutdown()
    }

    fn anything(&mut self) -> Checked {
        let disasters = self.faults.disasters / 4;
        if self.other.is_some() && self.random.percent(10) {
            return self.switch_instance();
        }
        if self.hands.percent(self.faults.hands) {
            self.change_cluster();
        }
        if self.feature_random.percent(self.features.invalid_records) {
            self.add_invalid_record();
        }
        if self.feature_random.below(1_000) < self.features.votes {
            self.parameters_change();
        }
        self.wallet_changes();
        if self.feature_random.below(1_000) < self.features.losses {
            self.lose_part();
        }
        // Damage to the records shows only after a restart.
        if (self.faults.hands > 0 || self.faults.misplaced > 0) && self.hands.percent(1) {
            return self.crash();
        }
        match self.random.below(100 + disasters) {
            0..22 => {
                for _ in 0..self.random.between(1, 4) {
                    let index = self.random.index(self.pending.len());
                    let unmade = |p: &Pending| p.answer.is_none() && !p.sent;
                    if self.pending.get(index).is_some_and(unmade) {
                        self.make(index);
                    }
                }
                Ok(())
            }
            22..42 => {
                for _ in 0..self.random.between(1, 4) {
                    if !self.pending.is_empty() {
                        let index = self.random.index(self.pending.len());
                        self.deliver(index)?;
                    }
                }
                Ok(())
            }
            42..60 => {
                for _ in 0..self.random.between(1, 8) {
                    if !self.deliver_event()? {
                        return self.reconnect();
                    }
                }
                Ok(())
            }
            60..68 => {
                if self.chain.mempool.is_empty() {
                    return Ok(());
                }
                let index = self.random.index(self.chain.mempool.len());
                self.land(index)
            }
            68..78 => self.time_passes(),
            78..94 => self.outside(),
            94..98 => self.health_changes(),
            98..100 => self.capacity_changes(),
            _ => self.disaster(),
        }
    }

    fn reconnect(&mut self) -> Checked {
        if !self.chain.stream.connected {
            let stale = self.random.percent(self.faults.stale);
            let lag = if stale { self.random.index(8) } else { 0 };
            self.chain.connect(lag);
        }
        Ok(())
    }

    fn time_passes(&mut self) -> Checked {
        let elapsed = match self.random.below(10) {
            0..6 => 6,
            6..9 => 30,
            _ => 150,
        };
        if self.random.percent(80) {
            self.block(seconds(elapsed));
        }
        self.mono = self.mono.plus(seconds(elapsed));
        if self.random.percent(15) {
            return Ok(());
        }
        self.wake()
    }

    fn health_changes(&mut self) -> Checked {
        if !self.watched {
            if !self.outage && self.random.percent(50) {
                self.watched = true;
                let health = self.cluster_state.health();
                return self.feed(Input::Cluster(ClusterChange::Snapshot { health }));
            }
            return Ok(());
        }
        let leases: Vec<_> = self.cluster_state.health().into_keys().collect();
        let Some(lease) = self.random.pick(&leases).cloned() else {
            return Ok(());
        };
        let away = Health::Out(Outage::NodeAway);
        let health = [Health::Bad, Health::Good, Health::Unknown, away][self.random.index(4)];
        if let Some(run) = self.cluster_state.runs.get_mut(&lease) {
            run.health = health;
        }
        self.feed(Input::Cluster(ClusterChange::Health { lease, health }))
    }

    fn disaster(&mut self) -> Checked {
        match self.random.below(21) {
            0..4 => self.crash(),
            4..7 => {
                self.chain.disconnect();
                Ok(())
            }
            7..9 => self.chain_halts(),
            9..11 => {
                self.freeze();
                Ok(())
            }
            11..14 => self.leadership_changes(),
            14..16 => {
                self.outage = !self.outage;
                Ok(())
            }
            16..17 if self.watched => {
                self.watched = false;
                self.feed(Input::Cluster(ClusterChange::Lost))
            }
            17..19 => {
                if !self.chain.mempool.is_empty() {
                    let index = self.random.index(self.chain.mempool.len());
                    self.give_up(index);
                }
                Ok(())
            }
            19 => self.clock_jumps(),
            _ => self.restart(),
        }
    }

    /// Stops the chain for six hours. The time of the next block is six hours later.
    fn chain_halts(&mut self) -> Checked {
        self.block(seconds(6));
        self.chain.halt(seconds(6 * 3600));
        for _ in 0..4 {
            self.mono = self.mono.plus(seconds(90 * 60));
            while self.deliver_event()? {}
            self.wake()?;
        }
        Ok(())
    }

    /// Advances the monotonic clock while the chain halts.
    fn clock_jumps(&mut self) -> Checked {
        self.mono = self.mono.plus(seconds(6 * 3600));
        self.wake()
    }

    /// Suspends the process while chain and cluster continue.
    fn freeze(&mut self) {
        for _ in 0..self.random.between(2, 12) {
            self.block(seconds(30));
            self.mono = self.mono.plus(seconds(30));
        }
    }

    /// Shuts the process down, sometimes incompletely, and starts a new process.
    fn restart(&mut self) -> Checked {
        self.feed(Input::Shutdown)?;
        for _ in 0..self.random.below(20) {
            let unmade = self.index_of_unmade();
            if let Some(index) = unmade.filter(|_| self.random.percent(50)) {
                self.make(index);
            } else if let Some(index) = self.index_of_completed() {
                self.deliver(index)?;
            } else if !self.deliver_event()? {
                self.block(seconds(6));
            }
        }
        self.crash()
    }

    /// Changes the cluster as another process would.
    pub(crate) fn change_cluster(&mut self) {
        let leases: Vec<_> = self.cluster_state.runs.keys().cloned().collect();
        let Some(lease) = self.hands.pick(&leases) else {
            return;
        };
        let record = [RecordState::Good, RecordState::Spoiled, RecordState::Lost][self.hands.index(3)];
        if let Some(run) = self.cluster_state.runs.get_mut(lease) {
            run.record = record;
        }
        self.trace.line(|| format!("the record of {lease} is {record:?}"));
    }

    fn end_faults(&mut self) -> Checked {
        self.trace.line(|| "faults end".to_owned());
        self.faults = Faults::default();
        self.outage = false;
        self.cluster_state.restore_records();
        if self.features.losses > 0 {
            // Only a list of the cluster repairs this loss.
            self.lose_part();
        }
        self.parameters_at_the_end();
        self.fill_wallet();
        self.stop_other_instance()?;
        for tx in &mut self.chain.mempool {
            tx.lost = false;
        }
        if self.model.leadership == Leadership::Standby {
            self.epoch += 1;
            self.feed(Input::Leadership(Leadership::Leader { epoch: self.epoch }))?;
        }
        self.no_foreign_usage()?;
        self.reconnect()?;
        self.watched = true;
        for run in self.cluster_state.runs.values_mut() {
            run.health = Health::Good;
        }
        let health = self.cluster_state.health();
        self.feed(Input::Cluster(ClusterChange::Snapshot { health }))
    }

    /// Delivers all pending responses and events. Adds blocks only while a transaction is pending.
    fn drain(&mut self) -> Checked {
        loop {
            while self.deliver_event()? {}
            if let Some(index) = self.index_of_unmade() {
                self.make(index);
            } else if let Some(index) = self.index_of_completed() {
                self.deliver(index)?;
            } else if self.chain.is_settled() {
                break;
            } else {
                while !self.chain.mempool.is_empty() {
                    self.land(0)?;
                }
                self.block(seconds(6));
                self.mono = self.mono.plus(seconds(6));
            }
        }
        ensure("every_call_gets_one_answer", self.is_drained(), || {
            format!("{:?}", self.pending)
        })
    }

    fn rest<T>(&self, look: impl Fn(&SettledCheck<'_>) -> T) -> T {
        let status = self.engine.status(self.now());
        look(&SettledCheck {
            config: &self.config,
            status: &status,
            model: &self.model,
            market: &self.chain.market,
            cluster_state: &self.cluster_state,
            memory: &self.memory,
        })
    }

    /// Advances the time until all pending work is done and all checks pass.
    fn settle(&mut self) -> Checked {
        let mut result = Ok(());
        for round in 0..ROUNDS {
            self.drain()?;
            if self.counted != self.hardware.usage(&self.cluster_state) {
                self.inventory()?;
                self.drain()?;
            }
            result = self.rest(|r| r.check());
            if result.is_ok() {
                return self.check_now();
            }
            let breaker = self.engine.status(self.now()).breaker;
            let is_shut = breaker.tripped || !breaker.held_owners.is_empty();
            if is_shut || breaker.records_missing.is_some() {
                // An ended lease waits for no release: a scan finds it within ten minutes.
                match self.rest(|r| r.nothing_runs_without_a_lease()) {
                    Ok(()) => self.request(Request::ReleaseBreaker)?,
                    leftovers if round >= ROUNDS_OF_A_SCAN => return leftovers,
                    Err(_) => {}
                }
            }
            if round < 40 {
                self.block(seconds(10));
                self.mono = self.mono.plus(seconds(10));
            } else {
                self.block(seconds(120));
                self.mono = self.mono.plus(seconds(120));
                // The next block follows soon, so that it includes the transactions sent now.
                self.block(seconds(6));
            }
            self.wake()?;
        }
        let status = self.engine.status(self.now());
        self.trace.line(|| format!("at the end {status:#?}"));
        result
    }

    fn scan(&mut self) -> Result<Vec<String>, Violation> {
        self.trace.findings.clear();
        self.request(Request::Scan { dry_run: false })?;
        self.drain()?;
        Ok(std::mem::take(&mut self.trace.findings))
    }

    /// Checks that a restarted engine reaches the state of the running engine.
    fn recover_equals_continue(&mut self) -> Checked {
        // Both engines receive the events of the unfinished block.
        self.block(seconds(6));
        self.mono = self.mono.plus(seconds(6));
        self.scan()?;
        self.settle()?;
        let mut findings = self.scan()?;
        // Every scan reports a close that the breaker holds back.
        findings.retain(|finding| !finding.contains("close of the lease is held"));
        ensure("a_scan_at_rest_finds_nothing", findings.is_empty(), || {
            format!("{findings:?}")
        })?;
        self.settle()?;
        for _ in 0..3 {
            // Undecided orders are queried again later.
            if self.rest(|r| r.what_can_be_bid_is_bid()).is_ok() {
                break;
            }
            self.block(seconds(60));
            self.mono = self.mono.plus(seconds(60));
            self.wake()?;
            self.settle()?;
        }
        self.rest(|r| r.what_can_be_bid_is_bid())?;
        let continued = self.engine.status(self.now());
        let mut full = declined_for_capacity(&continued);
        full.extend(self.rest(|r| r.due()));
        let before = self.rest(|r| r.essence(&full));
        let orders = self.rest(|r| r.orders());
        self.trace.line(|| "rebuilt".to_owned());
        self.start()?;
        self.inventory()?;
        self.chain.connect(0);
        self.drain()?;
        full.extend(declined_for_capacity(&self.engine.status(self.now())));
        full.extend(self.rest(|r| r.due()));
        let is_full = |line: &&String| full.iter().any(|o| line.contains(&format!(" {o} ")));
        // A new engine requests releases from the breaker again, so it may end leases that the breaker holds
        // for the other one.
        // Blocks passed meanwhile, so further deadlines may have passed. Other rules check each close when it
        // is sent.
        let rebuilt = self.engine.status(self.now());
        let leases = continued.leases.iter().chain(&rebuilt.leases);
        let ending = leases.filter(|l| l.ending.is_some());
        let mut ending: Vec<String> = ending.map(|l| format!("{}", l.lease.order)).collect();
        // A new engine reads the balances again and ends exhausted leases.
        ending.extend(self.rest(|r| r.over()));
        // Orders that appeared meanwhile are excluded too.
        ending.extend(self.rest(|r| r.orders()).difference(&orders).cloned());
        let is_over = |line: &str| ending.iter().any(|order| line.contains(order.as_str()));
        // A hostname freed by the end of its lease goes to a waiting deployment.
        let names = before.iter().filter(|l| is_over(l));
        let names: Vec<&str> = names.filter_map(|l| hostname_of(l)).collect();
        let ends = |line: &&String| is_over(line) || hostname_of(line).is_some_and(|n| names.contains(&n));
        let before = before.iter().filter(|l| !is_full(l) && !ends(l));
        let before: BTreeSet<_> = before.cloned().collect();
        let mut after = self.rest(|r| r.essence(&full));
        after.retain(|line| !ends(&line));
        ensure("recover_equals_continue", before == after, || {
            let only = |a: &BTreeSet<String>, b| a.difference(b).cloned().collect::<Vec<_>>();
            format!(
                "only in the engine that continued: {:?}, only in the rebuilt engine: {:?}",
                only(&before, &after),
                only(&after, &before)
            )
        })?;
        self.end_faults()?;
        self.settle()
    }

    fn close_everything(&mut self) -> Checked {
        for at in 0..self.tenant_deployments.len() {
            self.close_wish(at);
        }
        self.close_third_party_deployments();
        self.block(seconds(6));
        self.settle()?;
        self.mono = self.mono.plus(seconds(301));
        self.wake()?;
        self.settle()?;
        let status = self.engine.status(self.now());
        let nothing = status.leases.is_empty()
            && status.orders.is_empty()
            && status.deployments.is_empty()
            && status.hostnames.is_empty()
            && self.cluster_state.runs.is_empty();
        ensure("nothing_is_left_over", nothing, || format!("{status:?}"))
    }

    fn idle_after_shutdown(&mut self) -> Checked {
        self.feed(Input::Shutdown)?;
        self.drain()?;
        ensure("idle_after_shutdown", self.engine.is_idle(), || {
            format!("{:?}", self.engine.status(self.now()))
        })
    }

    pub(crate) fn note_findings(&mut self, effect: &Effect) {
        if let Effect::Reply(_, Ok(Reply::Scan(findings))) = effect {
            self.trace.findings.extend(findings.iter().cloned());
        }
    }
}

/// Returns the hostname from a line of `SettledCheck::essence`, if the line describes a hostname.
fn hostname_of(line: &str) -> Option<&str> {
    line.strip_prefix("hostname ")?.split(' ').next()
}
