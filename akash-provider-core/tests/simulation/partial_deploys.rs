//! Incomplete deploys, and hostnames and services that disappear without a command.

use crate::cluster_state::ClusterState;
use crate::invariants::{SettledCheck, StateCheck};
use crate::oracle::{Checked, EngineModel, Violation, ensure};
use crate::world::World;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::engine::LeasePhase;
use akash_provider_core::error::Failure;
use akash_provider_core::types::{Event, LeaseId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl ClusterState {
    /// Applies a deploy in part: the Manifest record, and some of the services and hostnames.
    pub(crate) fn deploy_half(
        &mut self,
        deployment: &Arc<WorkloadSpec>,
        names: usize,
    ) -> Result<(), Failure> {
        self.record(deployment)?;
        if let Some(run) = self.runs.get_mut(&deployment.lease) {
            (run.deployed, run.whole) = (true, false);
        }
        for name in deployment.hostnames.iter().take(names) {
            self.hostnames
                .insert(name.hostname.clone(), deployment.lease.clone());
        }
        Ok(())
    }
}

impl World {
    /// Deletes a hostname or a service of a lease without the provider's knowledge.
    pub(crate) fn lose_part(&mut self) {
        if self.feature_random.percent(60) {
            let names: Vec<String> = self.cluster_state.hostnames.keys().cloned().collect();
            if let Some(name) = self.feature_random.pick(&names) {
                self.cluster_state.hostnames.remove(name);
                self.trace.line(|| format!("name {name} was deleted"));
            }
            return;
        }
        let deployed = self.cluster_state.runs.iter_mut().filter(|(_, r)| r.deployed);
        let mut deployed: Vec<_> = deployed.collect();
        if deployed.is_empty() {
            return;
        }
        let at = self.feature_random.index(deployed.len());
        if let Some((lease, run)) = deployed.get_mut(at) {
            run.whole = false;
            self.trace.line(|| format!("a service of {lease} was deleted"));
        }
    }
}

impl EngineModel {
    /// Checks that no lease is reported as deployed if its last deploy failed.
    pub(crate) fn deployed_is_whole(&self, event: &Event) -> Result<(), Violation> {
        let Event::Deployed { lease, .. } = event else {
            return Ok(());
        };
        self.ready_only_when_whole(lease)
    }

    fn ready_only_when_whole(&self, lease: &LeaseId) -> Checked {
        ensure("ready_only_when_whole", self.whole.contains(lease), || {
            format!("{lease}: its last deploy has not succeeded")
        })
    }
}

impl StateCheck<'_> {
    pub(crate) fn running_is_whole(&self) -> Checked {
        let mut running = self
            .status
            .leases
            .iter()
            .filter(|l| l.phase == LeasePhase::Running);
        running.try_for_each(|l| self.model.ready_only_when_whole(&l.lease))
    }
}

impl SettledCheck<'_> {
    /// Checks that all hostnames of a deployed lease route to this lease.
    pub(crate) fn names_lead_to_their_lease(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let deployed = self.cluster_state.runs.iter().filter(|(_, run)| run.deployed);
        for (lease, run) in deployed.filter(|(lease, _)| live.contains(lease)) {
            let leads = |name: &String| self.cluster_state.hostnames.get(name) == Some(lease);
            let mut names = run.deployment.hostnames.iter().map(|h| &h.hostname);
            let astray = names.find(|name| !leads(name));
            ensure("names_lead_to_their_lease", astray.is_none(), || {
                format!("{lease}: {astray:?} routes to another lease")
            })?;
        }
        Ok(())
    }
}
