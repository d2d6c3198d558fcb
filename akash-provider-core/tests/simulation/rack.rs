//! The cluster: what was recorded, what runs, who has which hostname, and how well it does.

use crate::ids::{RIVAL, STRANGER};
use akash_provider_core::cluster::{
    DeclaredHostname, Health, Listing, Remains, Teardown, Unusable, WorkloadSpec,
};
use akash_provider_core::engine::Workloads;
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::types::{DeploymentId, GroupId, LeaseId, OrderId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What became of a record behind the provider's back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    Good,
    Spoiled,
    Lost,
}

/// Where the provider looks for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Place {
    #[default]
    Right,
    /// Another namespace: what runs is seen, and no record of it.
    WrongNamespace,
    /// Another cluster: nothing of what was before is seen.
    WrongCluster,
}

/// One lease's workload.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) deployment: Arc<WorkloadSpec>,
    /// Accepted to run, and not only recorded.
    pub(crate) deployed: bool,
    /// Nothing that a deploy makes is missing.
    pub(crate) whole: bool,
    pub(crate) health: Health,
    /// Teardown answers that are still "in progress".
    pub(crate) going: Option<u64>,
    pub(crate) record: Record,
    /// It is from before the provider looked in a wrong place.
    pub(crate) elsewhere: bool,
}

/// The cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rack {
    pub(crate) runs: BTreeMap<LeaseId, Run>,
    pub(crate) hostnames: BTreeMap<String, LeaseId>,
    /// Sharing keys of leased addresses.
    pub(crate) ips: BTreeMap<LeaseId, BTreeSet<String>>,
    place: Place,
    /// There are things of others in it, of which some cannot be read.
    foreign: bool,
}

impl Rack {
    pub(crate) fn new(foreign: bool) -> Self {
        Self {
            foreign,
            ..Self::default()
        }
    }

    /// An older epoch writes nothing any more.
    pub(crate) fn record(&mut self, deployment: &Arc<WorkloadSpec>) -> Result<(), Failure> {
        let there = self.runs.get(&deployment.lease);
        if there.is_some_and(|r| r.deployment.epoch > deployment.epoch) {
            return Err(Failure {
                kind: ErrorKind::Conflict,
                transient: false,
                message: "a later epoch has written".to_owned(),
            });
        }
        let run = Run {
            deployment: Arc::clone(deployment),
            deployed: false,
            whole: false,
            health: Health::Unknown,
            going: None,
            record: Record::Good,
            elsewhere: false,
        };
        let there = self.runs.entry(deployment.lease.clone()).or_insert(run);
        there.deployment = Arc::clone(deployment);
        there.record = Record::Good;
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

    /// Tears down; a workload that runs takes `patience` more questions.
    pub(crate) fn teardown(&mut self, lease: &LeaseId, patience: u64) -> Teardown {
        self.hostnames.retain(|_, holder| holder != lease);
        self.ips.remove(lease);
        let hidden = self.place == Place::WrongCluster;
        if self.runs.get(lease).is_some_and(|r| hidden && r.elsewhere) {
            return Teardown::Done;
        }
        if let Some(run) = self.runs.get_mut(lease) {
            let left = run.going.get_or_insert(patience);
            if *left > 0 {
                *left -= 1;
                return Teardown::InProgress;
            }
        }
        self.runs.remove(lease);
        Teardown::Done
    }

    /// Things in the cluster that are nobody's business here.
    fn foreign_things(&self, listing: &mut Listing) -> DeclaredHostname {
        let order = OrderId {
            group: GroupId {
                deployment: DeploymentId {
                    owner: STRANGER.clone(),
                    dseq: 0,
                },
                gseq: 0,
            },
            oseq: u32::MAX,
        };
        let lease = LeaseId {
            order,
            provider: RIVAL.clone(),
        };
        if let Some(run) = self.runs.values().next() {
            let mut theirs = WorkloadSpec::clone(&run.deployment);
            theirs.lease = lease.clone();
            listing.deployments.push(theirs);
        }
        for (whose, name) in [
            (Some(lease.clone()), lease.namespace()),
            (None, "\u{0}/..".repeat(99)),
        ] {
            listing.unusable.push(Unusable {
                lease: whose,
                name,
                remains: Remains::Unreadable,
                problem: "it cannot be read".to_owned(),
            });
        }
        listing.incomplete.push(lease.clone());
        DeclaredHostname {
            hostname: "\u{0}".to_owned(),
            lease,
        }
    }

    /// What the provider sees; `left_out` says of each lease whether the list lacks it.
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
            let away = run.elsewhere && self.place != Place::Right;
            let remains = match run.record {
                _ if away && self.place == Place::WrongCluster => continue,
                Record::Good | Record::Spoiled if away => Remains::Unrecorded,
                Record::Spoiled => Remains::Unreadable,
                Record::Lost => Remains::Unrecorded,
                Record::Good => {
                    if !run.deployed || !run.whole {
                        listing.incomplete.push(lease.clone());
                    }
                    listing.deployments.push(WorkloadSpec::clone(&run.deployment));
                    continue;
                }
            };
            // A record alone leaves nothing behind.
            if remains == Remains::Unreadable || run.deployed {
                listing.unusable.push(Unusable {
                    // Whose it is cannot always be read.
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

    /// Leases with anything in the cluster, and those of them that a look in a wrong place does not show.
    pub(crate) fn there(&self) -> (BTreeSet<LeaseId>, BTreeSet<LeaseId>) {
        let away = |r: &Run| r.elsewhere && self.place != Place::Right;
        let hidden = self.runs.iter().filter(|(_, r)| away(r));
        let shown = self.runs.iter().filter(|(_, r)| !away(r));
        // Of a lost record without a workload nothing is left.
        let shown = shown.filter(|(_, r)| r.deployed || r.record != Record::Lost);
        (
            shown.map(|(id, _)| id.clone()).collect(),
            hidden.map(|(id, _)| id.clone()).collect(),
        )
    }

    /// The provider looks elsewhere from its next start on.
    pub(crate) fn look_in(&mut self, place: Place) {
        self.place = place;
        for run in self.runs.values_mut() {
            run.elsewhere = place != Place::Right;
        }
    }

    pub(crate) fn looks_in_the_right_place(&self) -> bool {
        self.place == Place::Right
    }

    /// Somebody puts right what became of the records.
    pub(crate) fn mend(&mut self) {
        self.look_in(Place::Right);
        for run in self.runs.values_mut() {
            run.record = Record::Good;
        }
    }

    pub(crate) fn health(&self) -> BTreeMap<LeaseId, Health> {
        let hidden = |r: &Run| r.elsewhere && self.place == Place::WrongCluster;
        let deployed = self.runs.iter().filter(|(_, r)| r.deployed && !hidden(r));
        deployed.map(|(id, r)| (id.clone(), r.health)).collect()
    }
}
