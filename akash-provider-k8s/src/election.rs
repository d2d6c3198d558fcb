//! Leader election with a Lease object (`coordination.k8s.io`) as the record, for [`Election`].

mod record;

pub use akash_provider_core::election::{Election, ElectionStatus, Timing};

use crate::error::within;
use akash_provider_core::election::{Claim, ElectionStore, Stored};
use akash_provider_core::error::{Error, ErrorKind};
use async_trait::async_trait;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use std::time::Duration;

/// Election record that is stored in one Lease object.
#[derive(Debug, Clone)]
pub struct LeaseElection {
    api: Api<DynamicObject>,
    namespace: String,
    name: String,
    call_timeout: Duration,
}

impl LeaseElection {
    /// Creates a store for the record in the Lease object `name`. Makes no call to the API server.
    #[must_use]
    pub fn new(client: &Client, namespace: &str, name: &str, call_timeout: Duration) -> Self {
        Self {
            api: Api::namespaced_with(client.clone(), namespace, &record::resource()),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            call_timeout,
        }
    }
}

#[async_trait]
impl ElectionStore for LeaseElection {
    fn place(&self) -> String {
        format!("the Lease `{}` in namespace `{}`", self.name, self.namespace)
    }

    async fn read(&self) -> Result<Option<Stored>, Error> {
        let reading = self.api.get_opt(&self.name);
        let read = within(self.call_timeout, "read the leader's Lease", reading).await?;
        Ok(read.as_ref().map(record::read))
    }

    async fn create(&self, claim: &Claim) -> Result<Stored, Error> {
        let lease = record::new(&self.namespace, &self.name, claim);
        let params = PostParams::default();
        let making = self.api.create(&params, &lease);
        let made = within(self.call_timeout, "create the leader's Lease", making).await?;
        Ok(record::read(&made))
    }

    async fn replace(&self, claim: &Claim, version: &str) -> Result<Stored, Error> {
        let patch = record::patch(claim, version);
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let writing = self.api.patch(&self.name, &params, &patch);
        match within(self.call_timeout, "update the leader's Lease", writing).await {
            Ok(written) => Ok(record::read(&written)),
            // A deleted Lease is a concurrent change like any other.
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Error::new(
                ErrorKind::Conflict,
                error.operation(),
                error.message(),
            )),
            Err(error) => Err(error),
        }
    }
}
