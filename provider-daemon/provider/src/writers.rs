//! Write access of one instance. This module creates the interfaces through which `run` changes anything
//! outside of its home directory. These interfaces reject writes while another instance leads.
//!
//! There are two exceptions. The client of the provider's election is created in another module, because the
//! election decides which instance leads. The client of the embedded operators (`Writers::unguarded`)
//! rejects no writes, because these operators have their own elections.

use crate::audit::Audit;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::tx::TxSigner;
use akash_provider_core::bus::{Bus, LeaderBus};
use akash_provider_core::election::LeadershipGate;
use akash_provider_k8s::audit::DeletionLog;
use akash_provider_k8s::statistics::ApiCalls;
use akash_provider_k8s::write_client::{TermExecutor, WriteClient};
use akash_provider_redis::{Location, RedisBus};
use kube::client::ClientBuilder;
use kube::{Client, Config};
use std::sync::Arc;
use std::time::Duration;

/// Factory of clients and buses that write only while this instance leads.
#[derive(Debug, Clone)]
pub struct Writers {
    gate: Option<LeadershipGate>,
    lease: Duration,
    calls: ApiCalls,
    deletions: DeletionLog,
}

impl Writers {
    /// Creates the factory. With `gate` as `None`, writes are always permitted.
    pub(crate) fn new(gate: Option<LeadershipGate>, lease: Duration) -> Self {
        Self {
            gate,
            lease,
            calls: ApiCalls::default(),
            deletions: DeletionLog::default(),
        }
    }

    /// Sets the audit log for deletions in the cluster.
    pub(crate) fn audited(mut self, audit: Option<&Audit>) -> Self {
        self.deletions = audit.cloned().map(DeletionLog::new).unwrap_or_default();
        self
    }

    /// Returns the audit log of the deletions in the cluster.
    pub(crate) fn deletions(&self) -> DeletionLog {
        self.deletions.clone()
    }

    /// Returns the counter of cluster requests, which all clients from this factory share.
    pub(crate) const fn calls(&self) -> &ApiCalls {
        &self.calls
    }

    /// Returns a factory of clients that reject every write.
    pub fn read_only() -> Self {
        Self::new(Some(LeadershipGate::new(false)), Duration::ZERO)
    }

    /// Returns false for a single instance, which always writes.
    pub(crate) const fn has_election(&self) -> bool {
        self.gate.is_some()
    }

    /// Returns true while this instance may write.
    pub(crate) fn leads(&self) -> bool {
        self.permits().term().is_some()
    }

    /// Returns a signer of transactions that signs only while this instance leads.
    pub(crate) fn signer(&self, key: PrivateKey) -> TxSigner {
        TxSigner::new(key, self.permits())
    }

    /// Returns the gate of the election, or a gate that is always open.
    fn permits(&self) -> LeadershipGate {
        self.gate.clone().unwrap_or_else(|| LeadershipGate::new(true))
    }

    /// Returns a remote bus that publishes events only while this instance leads. A standby buffers each
    /// event for twice the election lease duration.
    pub(crate) fn bus(&self, location: Location) -> Arc<dyn Bus> {
        let bus = RedisBus::new(location, self.permits());
        match self.gate.clone() {
            Some(gate) => Arc::new(LeaderBus::new(bus, gate, self.lease * 2)),
            None => Arc::new(bus),
        }
    }

    /// Returns a cluster client that writes only while this instance leads.
    ///
    /// # Errors
    /// Returns an error if the certificates or credentials of `config` are invalid.
    pub(crate) fn kubernetes(&self, config: Config) -> Result<WriteClient, kube::Error> {
        let Some(gate) = self.gate.clone() else {
            return Ok(WriteClient::without_election(self.unguarded(config)?));
        };
        let builder = ClientBuilder::try_from((config, TermExecutor::new(gate.clone())))?;
        // This layer is below the check of the gate, so it counts only requests that are sent.
        Ok(WriteClient::build(builder.with_layer(&self.calls), gate))
    }

    /// Returns a cluster client that writes even while another instance leads, for parts with their own
    /// elections.
    ///
    /// # Errors
    /// As [`Writers::kubernetes`].
    pub(crate) fn unguarded(&self, config: Config) -> Result<Client, kube::Error> {
        Ok(ClientBuilder::try_from(config)?.with_layer(&self.calls).build())
    }

    /// Runs `work` while this instance leads. Starts `work` again in each election term.
    pub(crate) async fn while_leading<F: Future<Output = ()>>(&self, work: impl Fn() -> F) {
        let Some(gate) = &self.gate else {
            return work().await;
        };
        loop {
            gate.opened().await;
            if gate.during(work()).await.is_some() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
