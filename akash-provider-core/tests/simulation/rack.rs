//! The cluster: what was recorded, what runs, who has which hostname, and how well it does.

use akash_provider_core::cluster::{DeclaredHostname, Deployment, Health, Teardown};
use akash_provider_core::engine::Workloads;
use akash_provider_core::error::{ErrorKind, Failure};
use akash_provider_core::types::LeaseId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One lease's workload.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) deployment: Arc<Deployment>,
    /// Accepted to run, and not only recorded.
    pub(crate) deployed: bool,
    pub(crate) health: Health,
    /// Teardown answers that are still "in progress".
    pub(crate) going: Option<u64>,
}

/// The cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rack {
    pub(crate) runs: BTreeMap<LeaseId, Run>,
    pub(crate) hostnames: BTreeMap<String, LeaseId>,
    /// Sharing keys of leased addresses.
    pub(crate) ips: BTreeMap<LeaseId, BTreeSet<String>>,
}

impl Rack {
    /// An older epoch writes nothing any more.
    pub(crate) fn record(&mut self, deployment: &Arc<Deployment>) -> Result<(), Failure> {
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
            health: Health::Unknown,
            going: None,
        };
        self.runs
            .entry(deployment.lease.clone())
            .and_modify(|r| r.deployment = Arc::clone(deployment))
            .or_insert(run);
        Ok(())
    }

    pub(crate) fn deploy(&mut self, deployment: &Arc<Deployment>, purge: &[String]) -> Result<(), Failure> {
        self.record(deployment)?;
        if let Some(run) = self.runs.get_mut(&deployment.lease) {
            run.deployed = true;
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

    pub(crate) fn list(&self) -> Workloads {
        let runs = self.runs.values();
        let names = self.hostnames.iter();
        let declared = |(hostname, lease): (&String, &LeaseId)| DeclaredHostname {
            hostname: hostname.clone(),
            lease: lease.clone(),
        };
        Workloads {
            deployments: runs.map(|r| Deployment::clone(&r.deployment)).collect(),
            hostnames: names.map(declared).collect(),
        }
    }

    pub(crate) fn health(&self) -> BTreeMap<LeaseId, Health> {
        let deployed = self.runs.iter().filter(|(_, r)| r.deployed);
        deployed.map(|(id, r)| (id.clone(), r.health)).collect()
    }
}
