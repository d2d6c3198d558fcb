//! Deploys that leave a part behind, and parts that go by themselves: names and services.

use crate::invariants::{Moment, Rest};
use crate::oracle::{Broken, Checked, Told, ensure};
use crate::rack::Rack;
use crate::world::World;
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::engine::LeasePhase;
use akash_provider_core::error::Failure;
use akash_provider_core::types::{Event, LeaseId};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Rack {
    /// A deploy that breaks off: everything is recorded, and some services and names are there.
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
    /// A name, or a service of a lease, is gone behind the provider's back.
    pub(crate) fn part_goes(&mut self) {
        if self.spice.percent(60) {
            let names: Vec<String> = self.rack.hostnames.keys().cloned().collect();
            if let Some(name) = self.spice.pick(&names) {
                self.rack.hostnames.remove(name);
                self.trace.line(|| format!("name {name} is gone"));
            }
            return;
        }
        let deployed = self.rack.runs.iter_mut().filter(|(_, r)| r.deployed);
        let mut deployed: Vec<_> = deployed.collect();
        if deployed.is_empty() {
            return;
        }
        let at = self.spice.index(deployed.len());
        if let Some((lease, run)) = deployed.get_mut(at) {
            run.whole = false;
            self.trace.line(|| format!("a service of {lease} is gone"));
        }
    }
}

impl Told {
    /// Nothing is told to be deployed of which the last deploy failed.
    pub(crate) fn deployed_is_whole(&self, event: &Event) -> Result<(), Broken> {
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

impl Moment<'_> {
    pub(crate) fn running_is_whole(&self) -> Checked {
        let mut running = self
            .status
            .leases
            .iter()
            .filter(|l| l.phase == LeasePhase::Running);
        running.try_for_each(|l| self.told.ready_only_when_whole(&l.lease))
    }
}

impl Rest<'_> {
    /// Every name that a lease was deployed with leads to it, also those that follow from the lease.
    pub(crate) fn names_lead_to_their_lease(&self, live: &BTreeSet<LeaseId>) -> Checked {
        let deployed = self.rack.runs.iter().filter(|(_, run)| run.deployed);
        for (lease, run) in deployed.filter(|(lease, _)| live.contains(lease)) {
            let leads = |name: &String| self.rack.hostnames.get(name) == Some(lease);
            let mut names = run.deployment.hostnames.iter().map(|h| &h.hostname);
            let astray = names.find(|name| !leads(name));
            ensure("names_lead_to_their_lease", astray.is_none(), || {
                format!("{lease}: {astray:?} does not lead to it")
            })?;
        }
        Ok(())
    }
}
