//! The simulated cluster: records, workloads, hostnames and health.

use crate::ids::{COMPETITOR, THIRD_PARTY};
use akash_provider_core::cluster::{
    DeclaredHostname, Health, Listing, RecordDefect, Teardown, UnusableRecord, WorkloadSpec,
};
use akash_provider_core::engine::Workloads;
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::types::{DeploymentId, LeaseId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// State of a Manifest record after other processes changed the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordState {
    Good,
    Spoiled,
    Lost,
}

/// Place in which the provider looks for the objects of its leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReadLocation {
    #[default]
    Right,
    /// The provider reads the wrong namespace. It finds the workloads, but not the Manifest records.
    WrongNamespace,
    /// Wrong cluster. The objects that the provider created in the right cluster are missing.
    WrongCluster,
}

#[derive(Debug, Clone)]
pub(crate) struct Workload {
    pub(crate) deployment: Arc<WorkloadSpec>,
    /// Whether the workload was deployed, not only recorded.
    pub(crate) deployed: bool,
    /// Whether all objects of the deploy exist.
    pub(crate) whole: bool,
    pub(crate) health: Health,
    /// Remaining number of teardown calls that return "in progress".
    pub(crate) going: Option<u64>,
    pub(crate) record: RecordState,
    /// True if the provider switched to a wrong namespace or cluster after the deploy of the workload.
    pub(crate) elsewhere: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ClusterState {
    pub(crate) runs: BTreeMap<LeaseId, Workload>,
    pub(crate) hostnames: BTreeMap<String, LeaseId>,
    /// Keys of the leased IP addresses of each lease. Leases of one tenant with the same key share an
    /// address.
    pub(crate) ips: BTreeMap<LeaseId, BTreeSet<String>>,
    place: ReadLocation,
    /// Whether the cluster also contains objects of other owners.
    foreign: bool,
}

impl ClusterState {
    pub(crate) fn new(foreign: bool) -> Self {
        Self {
            foreign,
            ..Self::default()
        }
    }

    /// Stores a Manifest record. Fails if the stored record has a later epoch.
    pub(crate) fn record(&mut self, deployment: &Arc<WorkloadSpec>) -> Result<(), Failure> {
        let there = self.runs.get(&deployment.lease);
        if there.is_some_and(|r| r.deployment.epoch > deployment.epoch) {
            return Err(Failure::permanent(ErrorKind::Conflict, "a later epoch exists"));
        }
        let run = Workload {
            deployment: Arc::clone(deployment),
            deployed: false,
            whole: false,
            health: Health::Unknown,
            going: None,
            record: RecordState::Good,
            elsewhere: false,
        };
        let there = self.runs.entry(deployment.lease.clone()).or_insert(run);
        there.deployment = Arc::clone(deployment);
        there.record = RecordState::Good;
        there.elsewhere = false;
        Ok(())
    }

    pub(crate) fn deploy(&mut self, deployment: &Arc<WorkloadSpec>, purge: &[String]) -> Result<(), Failure> {
        self.record(deployment)?;
        if let Some(run) = self.runs.get_mut(&deployment.lease) {
            (run.deployed, run.whole) = (true, true);
            run.going = None;
        }
        for name in &deployment.hostnames {
            self.hostnames
                .insert(name.hostname.clone(), deployment.lease.clone());
        }
        for name in purge {
            if self.hostnames.get(name) == Some(&deployment.lease) {
                self.hostnames.remove(name);
            }
        }
        let keys = deployment.ips.iter().map(|ip| ip.sharing_key.clone());
        self.ips.insert(deployment.lease.clone(), keys.collect());
        Ok(())
    }

    /// Deletes the workload of a lease. The first `remaining_calls` calls return `InProgress`.
    pub(crate) fn teardown(&mut self, lease: &LeaseId, remaining_calls: u64) -> Teardown {
        self.hostnames.retain(|_, holder| holder != lease);
        self.ips.remove(lease);
        let hidden = self.place == ReadLocation::WrongCluster;
        if self.runs.get(lease).is_some_and(|r| hidden && r.elsewhere) {
            return Teardown::Done;
        }
        if let Some(run) = self.runs.get_mut(lease) {
            let left = run.going.get_or_insert(remaining_calls);
            if *left > 0 {
                *left -= 1;
                return Teardown::InProgress;
            }
        }
        self.runs.remove(lease);
        Teardown::Done
    }

    /// Adds objects of other owners to a list. Returns a hostname of another provider.
    fn foreign_things(&self, listing: &mut Listing) -> DeclaredHostname {
        let lease = DeploymentId::new(THIRD_PARTY.clone(), 0)
            .group(0)
            .order(u32::MAX)
            .bid(COMPETITOR.clone());
        if let Some(run) = self.runs.values().next() {
            let mut theirs = WorkloadSpec::clone(&run.deployment);
            theirs.lease = lease.clone();
            listing.deployments.push(theirs);
        }
        for (whose, name) in [
            (Some(lease.clone()), lease.namespace()),
            (None, "\u{0}/..".repeat(99)),
        ] {
            listing.unusable.push(UnusableRecord {
                lease: whose,
                name,
                remains: RecordDefect::Unreadable,
                problem: "unreadable".to_owned(),
            });
        }
        listing.incomplete.push(lease.clone());
        DeclaredHostname {
            hostname: "\u{0}".to_owned(),
            lease,
        }
    }

    /// Lists the objects that the provider sees. Omits a lease if `left_out` returns true.
    pub(crate) fn list(&self, left_out: &dyn Fn(&LeaseId) -> bool) -> Workloads {
        let names = self.hostnames.iter();
        let declared = |(hostname, lease): (&String, &LeaseId)| DeclaredHostname {
            hostname: hostname.clone(),
            lease: lease.clone(),
        };
        let mut listing = Listing {
            place: format!("{:?}", self.place),
            ..Listing::default()
        };
        for (lease, run) in self.runs.iter().filter(|(lease, _)| !left_out(lease)) {
            let away = run.elsewhere && self.place != ReadLocation::Right;
            let remains = match run.record {
                _ if away && self.place == ReadLocation::WrongCluster => continue,
                RecordState::Good | RecordState::Spoiled if away => RecordDefect::Unrecorded,
                RecordState::Spoiled => RecordDefect::Unreadable,
                RecordState::Lost => RecordDefect::Unrecorded,
                RecordState::Good => {
                    if !run.deployed || !run.whole {
                        listing.incomplete.push(lease.clone());
                    }
                    listing.deployments.push(WorkloadSpec::clone(&run.deployment));
                    continue;
                }
            };
            // A record without a workload leaves no other object.
            if remains == RecordDefect::Unreadable || run.deployed {
                listing.unusable.push(UnusableRecord {
                    // The owner is not always readable.
                    lease: (lease.deployment().dseq % 2 == 0).then(|| lease.clone()),
                    name: lease.namespace(),
                    remains,
                    problem: format!("{remains:?}"),
                });
            }
        }
        let mut hostnames: Vec<_> = names.map(declared).collect();
        if self.foreign {
            hostnames.push(self.foreign_things(&mut listing));
        }
        Workloads {
            listing,
            hostnames: Some(hostnames),
            ips: None,
        }
    }

    /// Returns two sets of leases. The provider sees the objects of the first set, but not the objects of the
    /// second set.
    pub(crate) fn there(&self) -> (BTreeSet<LeaseId>, BTreeSet<LeaseId>) {
        let away = |r: &Workload| r.elsewhere && self.place != ReadLocation::Right;
        let hidden = self.runs.iter().filter(|(_, r)| away(r));
        let visible = self.runs.iter().filter(|(_, r)| !away(r));
        // A lost record without a workload leaves nothing.
        let visible = visible.filter(|(_, r)| r.deployed || r.record != RecordState::Lost);
        (
            visible.map(|(id, _)| id.clone()).collect(),
            hidden.map(|(id, _)| id.clone()).collect(),
        )
    }

    /// Selects the namespace and cluster that the provider reads.
    pub(crate) fn look_in(&mut self, place: ReadLocation) {
        self.place = place;
        for run in self.runs.values_mut() {
            run.elsewhere = place != ReadLocation::Right;
        }
    }

    pub(crate) fn looks_in_the_right_place(&self) -> bool {
        self.place == ReadLocation::Right
    }

    pub(crate) fn restore_records(&mut self) {
        self.look_in(ReadLocation::Right);
        for run in self.runs.values_mut() {
            run.record = RecordState::Good;
        }
    }

    pub(crate) fn health(&self) -> BTreeMap<LeaseId, Health> {
        let hidden = |r: &Workload| r.elsewhere && self.place == ReadLocation::WrongCluster;
        let deployed = self.runs.iter().filter(|(_, r)| r.deployed && !hidden(r));
        deployed.map(|(id, r)| (id.clone(), r.health)).collect()
    }
}
