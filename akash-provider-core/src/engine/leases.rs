//! State of all leases: workloads, deployments, escrow accounts, hostnames and the circuit breaker.

pub(crate) mod breaker;
pub mod deployment;
mod deployments;
pub mod escrow;
mod escrows;
mod hostname_queue;
pub mod hostnames;
mod manifests;
mod names;
mod new_lease;
mod report;
pub mod workload;
mod workloads;

use super::effect::Call;
use super::table::MachineTable;
use super::{DeadlineKey, Engine, keyed, sorted};
use crate::config::Config;
use crate::record::Cover;
use crate::types::{BlockTime, DeploymentId, Height, LeaseId, Mono, Now, OrderId};
use breaker::Breaker;
use deployment::Deployment;
use escrow::Escrow;
use hostname_queue::HostnameQueue;
use hostnames::HostnameLedger;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use workload::Workload;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Leases {
    deployments: MachineTable<Deployment>,
    workloads: MachineTable<Workload>,
    escrows: MachineTable<Escrow>,
    hostnames: HostnameLedger,
    /// Hostnames that a lease needs but another lease of the same tenant holds.
    hostname_queue: HostnameQueue,
    /// New leases. The manifest timeout of each lease starts after the block at this height.
    won: Vec<(LeaseId, Height)>,
    breaker: Breaker,
    /// True while the watch of the cluster is interrupted.
    is_cluster_lost: bool,
}

impl Leases {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            deployments: MachineTable::default(),
            workloads: MachineTable::default(),
            escrows: MachineTable::default(),
            hostnames: HostnameLedger::new(&config.blocked_hostnames)
                .with_automatic(config.static_hosts_domain.as_deref()),
            hostname_queue: HostnameQueue::default(),
            won: Vec::new(),
            is_cluster_lost: false,
            breaker: Breaker::new(config.breaker_tripped, config.breaker_held_owners.clone()),
        }
    }

    /// Returns true if a workload with this lease id exists, even without a lease record.
    pub(super) fn has_workload(&self, id: &LeaseId) -> bool {
        self.workloads.contains(id)
    }

    /// Returns all workloads in unspecified order.
    pub(super) fn workloads(&self) -> impl Iterator<Item = (&LeaseId, &Workload)> {
        self.workloads.iter()
    }

    /// Returns the ids of all workloads, sorted.
    pub(super) fn workload_ids(&self) -> Vec<LeaseId> {
        self.workloads.ids()
    }

    pub(super) fn orders(&self) -> impl Iterator<Item = &OrderId> {
        self.workloads.iter().map(|(lease, _)| &lease.order)
    }

    pub(super) fn deployment(&self, id: &DeploymentId) -> Option<&Deployment> {
        self.deployments.get(id)
    }

    /// Returns the ids of all deployments, sorted.
    pub(super) fn deployment_ids(&self) -> Vec<DeploymentId> {
        self.deployments.ids()
    }

    pub(super) fn escrow_ids(&self) -> Vec<DeploymentId> {
        self.escrows.ids()
    }

    pub(super) fn deploy_newest(&mut self, id: &LeaseId, epoch: u64) -> Option<Call> {
        let newest = |machine: &mut Workload| machine.deploy_newest(epoch);
        self.workloads.update(id, newest)?
    }

    pub(super) fn hide(&mut self, cover: &Cover<'_>) {
        self.deployments
            .each_mut()
            .for_each(|machine| machine.hide(cover));
        self.workloads.each_mut().for_each(|machine| machine.hide(cover));
    }

    pub(super) fn lower_heights(&mut self, to: Height) {
        self.won.iter_mut().for_each(|(_, at)| *at = to.min(*at));
        self.workloads
            .each_mut()
            .for_each(|machine| machine.lower_heights(to));
    }

    pub(super) fn holder(&self, name: &str) -> Option<&LeaseId> {
        self.hostnames.holder(name)
    }

    /// Assigns a free hostname to `lease`. The caller ensures that no other lease holds the hostname.
    pub(super) fn adopt_hostname(&mut self, name: &str, lease: &LeaseId) {
        self.hostnames.adopt(name, lease);
    }

    pub(super) fn hostnames(&self) -> BTreeMap<String, LeaseId> {
        self.hostnames.all()
    }

    /// Removes all hostname claims. The next list of the workloads restores the claims.
    pub(super) fn clear_hostnames(&mut self) {
        self.hostnames.clear();
        self.hostname_queue.clear();
    }

    pub(super) const fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    pub(super) const fn breaker_mut(&mut self) -> &mut Breaker {
        &mut self.breaker
    }

    /// Returns the earliest monotonic deadline of all deployments, workloads and escrow accounts.
    pub(super) fn next_mono(&self) -> Option<Mono> {
        let machines = [
            self.deployments.next_mono(),
            self.workloads.next_mono(),
            self.escrows.next_mono(),
        ];
        machines.into_iter().flatten().min()
    }

    pub(super) fn is_due(&self, now: Now) -> bool {
        self.deployments.is_due(now) || self.workloads.is_due(now) || self.escrows.is_due(now)
    }

    pub(super) fn due_mono(&self, now: Now) -> impl Iterator<Item = (Mono, DeadlineKey)> {
        let due = keyed(self.deployments.due_mono(now), DeadlineKey::Deployment);
        let due = due.chain(keyed(self.workloads.due_mono(now), DeadlineKey::Workload));
        due.chain(keyed(self.escrows.due_mono(now), DeadlineKey::Escrow))
    }

    pub(super) fn due_block(&self, now: Now) -> impl Iterator<Item = (BlockTime, DeadlineKey)> {
        let due = keyed(self.deployments.due_block(now), DeadlineKey::Deployment);
        let due = due.chain(keyed(self.workloads.due_block(now), DeadlineKey::Workload));
        due.chain(keyed(self.escrows.due_block(now), DeadlineKey::Escrow))
    }
}

impl Engine {
    pub(super) fn workload(&self, id: &LeaseId) -> Option<&Workload> {
        self.leases.workloads.get(id)
    }

    /// Returns the active leases, sorted.
    pub(super) fn live_leases(&self) -> Vec<LeaseId> {
        let live = self
            .leases
            .workloads
            .iter()
            .filter(|(_, workload)| workload.is_live());
        sorted(live.map(|(id, _)| id))
    }
}
