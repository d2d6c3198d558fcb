//! Leases: their workloads, deployments and money, the hostnames they claim, and the circuit breaker on their ends.

mod arrivals;
pub(crate) mod breaker;
pub mod deployment;
mod deployments;
pub mod escrow;
mod escrows;
pub mod hostnames;
mod manifests;
mod names;
mod report;
mod waiting;
pub mod workload;
mod workloads;

use super::effect::Call;
use super::table::Table;
use super::{Engine, Key, keyed, sorted};
use crate::config::Config;
use crate::record::Cover;
use crate::types::{BlockTime, DeploymentId, Height, LeaseId, Mono, Now, OrderId};
use breaker::Breaker;
use deployment::Deployment;
use escrow::Escrow;
use hostnames::HostnameLedger;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use waiting::Waiting;
use workload::Workload;

/// Leases and all that hangs on them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Leases {
    deployments: Table<Deployment>,
    workloads: Table<Workload>,
    escrows: Table<Escrow>,
    hostnames: HostnameLedger,
    /// Names that another lease of the same tenant still holds.
    withheld: Waiting,
    /// Leases won whose time for a manifest starts when this block is complete.
    won: Vec<(LeaseId, Height)>,
    breaker: Breaker,
    /// The cluster cannot be watched.
    is_cluster_lost: bool,
}

impl Leases {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            deployments: Table::default(),
            workloads: Table::default(),
            escrows: Table::default(),
            hostnames: HostnameLedger::new(&config.blocked_hostnames)
                .with_automatic(config.static_hosts_domain.as_deref()),
            withheld: Waiting::default(),
            won: Vec::new(),
            is_cluster_lost: false,
            breaker: Breaker::new(config.breaker_tripped, config.breaker_held_owners.clone()),
        }
    }

    /// Something of this lease is in hand, be it a workload of which no lease is known.
    pub(super) fn has_workload(&self, id: &LeaseId) -> bool {
        self.workloads.contains(id)
    }

    /// All workloads in hand, in no particular order.
    pub(super) fn workloads(&self) -> impl Iterator<Item = (&LeaseId, &Workload)> {
        self.workloads.iter()
    }

    /// All workloads in hand, sorted.
    pub(super) fn workload_ids(&self) -> Vec<LeaseId> {
        self.workloads.ids()
    }

    /// Orders of which something is in hand.
    pub(super) fn orders(&self) -> impl Iterator<Item = &OrderId> {
        self.workloads.iter().map(|(lease, _)| &lease.order)
    }

    /// The machine of a deployment.
    pub(super) fn deployment(&self, id: &DeploymentId) -> Option<&Deployment> {
        self.deployments.get(id)
    }

    /// All deployments in hand, sorted.
    pub(super) fn deployment_ids(&self) -> Vec<DeploymentId> {
        self.deployments.ids()
    }

    /// All deployments whose money is watched, sorted.
    pub(super) fn escrow_ids(&self) -> Vec<DeploymentId> {
        self.escrows.ids()
    }

    /// A deploy that was not made yet becomes one of what is wanted now; nothing where that is the same.
    pub(super) fn deploy_newest(&mut self, id: &LeaseId, epoch: u64) -> Option<Call> {
        let newest = |machine: &mut Workload| machine.deploy_newest(epoch);
        self.workloads.adjust(id, newest)?
    }

    /// Covers the secrets of manifests.
    pub(super) fn hide(&mut self, cover: &Cover<'_>) {
        self.deployments
            .each_mut()
            .for_each(|machine| machine.hide(cover));
        self.workloads.each_mut().for_each(|machine| machine.hide(cover));
    }

    /// Lowers the heights that leases wait for.
    pub(super) fn lower_heights(&mut self, to: Height) {
        self.won.iter_mut().for_each(|(_, at)| *at = to.min(*at));
        self.workloads
            .each_mut()
            .for_each(|machine| machine.lower_heights(to));
    }

    /// Who holds a hostname.
    pub(super) fn holder(&self, name: &str) -> Option<&LeaseId> {
        self.hostnames.holder(name)
    }

    /// A hostname that nobody holds is this lease's.
    pub(super) fn adopt_name(&mut self, name: &str, lease: &LeaseId) {
        self.hostnames.adopt(name, lease);
    }

    /// Hostnames and who holds them.
    pub(super) fn hostnames(&self) -> BTreeMap<String, LeaseId> {
        self.hostnames.all()
    }

    /// What is known of hostnames is from before another leader: it is read anew.
    pub(super) fn forget_names(&mut self) {
        self.hostnames.clear();
        self.withheld.clear();
    }

    pub(super) const fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    pub(super) const fn breaker_mut(&mut self) -> &mut Breaker {
        &mut self.breaker
    }

    /// Earliest monotonic deadline of a machine.
    pub(super) fn next_mono(&self) -> Option<Mono> {
        let machines = [
            self.deployments.next_mono(),
            self.workloads.next_mono(),
            self.escrows.next_mono(),
        ];
        machines.into_iter().flatten().min()
    }

    /// Whether a deadline of any machine has come.
    pub(super) fn is_due(&self, now: Now) -> bool {
        self.deployments.is_due(now) || self.workloads.is_due(now) || self.escrows.is_due(now)
    }

    /// Machines whose deadlines have come, in the monotonic clock.
    pub(super) fn due_mono(&self, now: Now) -> impl Iterator<Item = (Mono, Key)> {
        let due = keyed(self.deployments.due_mono(now), Key::Deployment);
        let due = due.chain(keyed(self.workloads.due_mono(now), Key::Workload));
        due.chain(keyed(self.escrows.due_mono(now), Key::Escrow))
    }

    /// The same in block time.
    pub(super) fn due_block(&self, now: Now) -> impl Iterator<Item = (BlockTime, Key)> {
        let due = keyed(self.deployments.due_block(now), Key::Deployment);
        let due = due.chain(keyed(self.workloads.due_block(now), Key::Workload));
        due.chain(keyed(self.escrows.due_block(now), Key::Escrow))
    }
}

impl Engine {
    /// The machine of a lease.
    pub(super) fn workload(&self, id: &LeaseId) -> Option<&Workload> {
        self.leases.workloads.get(id)
    }

    /// Leases that live, sorted.
    pub(super) fn live_leases(&self) -> Vec<LeaseId> {
        let live = self
            .leases
            .workloads
            .iter()
            .filter(|(_, workload)| workload.is_live());
        sorted(live.map(|(id, _)| id))
    }
}
