//! High availability: one of several instances of a provider leads, the others stand by.
//!
//! ```text
//! election ─► gate opens ─► restore state ─► provider leads in this term ─► gate closes ─► provider stands by
//!                   └──► chain client and cluster write only while the gate is open
//! ```
//! The gate checks the clock at each write and closes without a notification of the provider. An instance
//! that was suspended for longer than its election lease therefore writes nothing when it resumes.

mod role_label;
mod settings;

use crate::args::RunArgs;
use crate::args::ha::HaStore;
use crate::cluster_client::client;
use crate::operators::identity;
use crate::printer::Printer;
use crate::state::State;
use crate::state::terms::Terms;
use crate::supervise::{Part, Supervisor};
use crate::writers::Writers;
use akash_provider_core::election::{Candidate, Election, ElectionConfig, LeadershipGate};
use akash_provider_core::engine::Leadership;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::{Config, Error, RestartState};
use akash_provider_gateway::{Leadership as LeadershipReport, LeadershipSource};
use akash_provider_k8s::election::LeaseElection;
use akash_provider_redis::RedisElection;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use role_label::RoleLabel;
use serde_json::json;
use settings::SharedSettings;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Interval at which the leader stores the state of the circuit breaker in the election record.
const UPDATE_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit to release the election lease. After a failure, standbys wait for one lease duration.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// Namespace that is never deleted, so its UID identifies the cluster.
const NEVER_DELETED: &str = "kube-system";
/// Time limit of the cluster query at the start.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which a standby checks the election term.
const TERM_INTERVAL: Duration = Duration::from_secs(2);

/// Leader election, if enabled. Clones share the election.
#[derive(Debug, Clone)]
pub(super) struct Ha {
    election: Option<Arc<Election>>,
    /// Tasks that pass changed hashes of the settings to the election, and the role to the pod.
    following: Option<Arc<[AbortOnDropHandle<()>]>>,
    address: Option<String>,
    terms: Terms,
    /// Highest election term in the home directory at the start.
    known_term: u64,
    printer: Arc<Printer>,
}

impl Ha {
    /// Starts the election if enabled. `restart_state` is the stored state of the circuit breaker.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid or the state cannot be read. An unavailable election store (cluster or
    /// Redis) is not an error.
    pub(super) async fn start(
        args: &RunArgs,
        config: &Config,
        restart_state: &RestartState,
        state: &State,
        printer: &Arc<Printer>,
    ) -> anyhow::Result<Self> {
        let terms = state.terms(&config.chain_id, config.provider.as_str());
        let known_term = terms.highest()?;
        let mut ha = Self {
            election: None,
            following: None,
            address: args.ha.ha_address.clone(),
            terms,
            known_term,
            printer: Arc::clone(printer),
        };
        if args.ha.ha == HaStore::Off {
            return Ok(ha);
        }
        let mut settings = SharedSettings::new(args, config);
        if let Some(cluster) = cluster(args).await {
            settings.insert(cluster);
        }
        let mut me = Candidate::new(identity(args.ha.ha_identity.as_deref()));
        me.address = args.ha.ha_address.clone().unwrap_or_default();
        me.settings = settings.hashes().clone();
        me.fixed = &settings::FIXED;
        me.brings_settings = args.ha.ha_takeover_settings;
        let name = args.ha.ha_name.clone().unwrap_or_else(|| match args.ha.ha {
            HaStore::Redis => settings::name(config),
            HaStore::Kubernetes | HaStore::Off => settings::LEASE.to_owned(),
        });
        let mut election = ElectionConfig::new(name.clone(), me, args.ha.timing());
        election.state = restart_state.to_json();
        election.known_term = known_term;
        let identity = election.me.identity.clone();
        let election = match args.ha.ha {
            HaStore::Redis => {
                let location = args.ha.redis(&args.bus)?;
                printer.note(&format!(
                    "{identity} takes part in the election `{name}` at {location}"
                ));
                Election::start(RedisElection::new(location, &name), election)
            }
            HaStore::Kubernetes | HaStore::Off => {
                let client = client(args.kubernetes.kubeconfig.as_deref()).await?;
                let namespace = args.ha.ha_namespace.as_deref();
                let namespace = namespace.unwrap_or(&args.kubernetes.k8s_manifest_ns);
                printer.note(&format!(
                    "{identity} takes part in the election by Lease `{name}` in `{namespace}`"
                ));
                let limit = election.call_timeout;
                Election::start(LeaseElection::new(&client, namespace, &name, limit), election)
            }
        };
        let election = Arc::new(election);
        let mut following = vec![tokio::spawn(settings.follow(Arc::clone(&election)))];
        if let Some(pod) = args.ha.ha_pod.clone() {
            let client = client(args.kubernetes.kubeconfig.as_deref()).await?;
            following.push(tokio::spawn(RoleLabel::new(client, pod).follow(election.gate())));
        }
        ha.following = Some(following.into_iter().map(AbortOnDropHandle::new).collect());
        ha.election = Some(election);
        Ok(ha)
    }

    /// Returns the role at the start: standby with an election, otherwise leader in the highest stored term.
    pub(super) const fn role(&self) -> Leadership {
        match self.election {
            Some(_) => Leadership::Standby,
            None => Leadership::Leader {
                epoch: self.known_term,
            },
        }
    }

    /// Returns the gate that is open while this instance leads; `None` without an election.
    pub(super) fn gate(&self) -> Option<LeadershipGate> {
        self.election.as_ref().map(|election| election.gate())
    }

    /// Returns a factory of clients and buses, which write only while this instance leads. `lease` is the
    /// duration of the election lease.
    pub(super) fn writers(&self, lease: Duration) -> Writers {
        Writers::new(self.gate(), lease)
    }

    /// Returns the election status for the gateway; `None` without an election.
    pub(super) fn source(&self) -> Option<LeadershipSource> {
        let ha = self.clone();
        self.election.as_ref()?;
        Some(LeadershipSource::new(move || ha.leadership()))
    }

    fn leadership(&self) -> LeadershipReport {
        let Some(election) = &self.election else {
            return LeadershipReport::default();
        };
        let status = election.status();
        LeadershipReport {
            role: if status.is_leader { "leader" } else { "standby" },
            term: status.term,
            address: match status.is_leader {
                true => self.address.clone(),
                false => status.holder_address,
            },
            holder: status.holder,
            implausible_term: status.implausible_term,
        }
    }

    /// Notifies the provider of role changes until `until` is cancelled.
    pub(super) fn follow(&self, handle: &ProviderHandle, until: &CancellationToken, parts: &mut Supervisor) {
        let Some(election) = self.election.clone() else {
            return;
        };
        let (ha, handle, until) = (self.clone(), handle.clone(), until.clone());
        let following = async move {
            tokio::select! {
                biased;
                () = until.cancelled() => Ok(()),
                stopped = ha.follow_terms(&election, &handle) => match stopped {
                    Err(error) if error.kind() != ErrorKind::Stopped => Err(error.to_string()),
                    // The provider has stopped, so no role is reported.
                    _ => {
                        until.cancelled().await;
                        Ok(())
                    }
                }
            }
        };
        parts.once(Part::Leadership, |_| following.boxed());
    }

    async fn follow_terms(&self, election: &Election, handle: &ProviderHandle) -> Result<(), Error> {
        let gate = election.gate();
        loop {
            tokio::select! {
                biased;
                () = gate.opened() => {}
                () = sleep(TERM_INTERVAL) => {}
            }
            if election.has_failed() {
                let message = "the election has failed: this instance can no longer lead";
                return Err(Error::new(ErrorKind::Internal, "follow the leadership", message));
            }
            let Some(term) = gate.term() else {
                self.store_term(election.status().known_term);
                continue;
            };
            self.store_term(term);
            restore_state(election, handle).await?;
            handle.set_leadership(Leadership::Leader { epoch: term }).await?;
            self.report();
            lead(election, handle, term, &gate).await;
            handle.set_leadership(Leadership::Standby).await?;
            self.report();
        }
    }

    fn store_term(&self, term: u64) {
        if let Err(error) = self.terms.store(term) {
            tracing::warn!(%error, "cannot store the term of the leader election, so a restart cannot recognize forged terms; check the home directory");
        }
    }

    fn report(&self) {
        let leadership = self.leadership();
        if self.printer.is_text() {
            let term = leadership
                .term
                .map(|term| format!(" in term {term}"))
                .unwrap_or_default();
            let holder = leadership.holder.as_deref().filter(|_| leadership.term.is_none());
            let holder = holder
                .map(|holder| format!(", {holder} leads"))
                .unwrap_or_default();
            let line = format!("this instance is the {}{term}{holder}", leadership.role);
            self.printer.note(&akash_provider_cli::plain::line(&line));
        }
        self.printer.object(json!({
            "event": "leadership", "role": leadership.role, "term": leadership.term, "holder": leadership.holder,
        }));
    }

    /// Stores the state of the circuit breaker, and releases the election lease. If `in_order` is false, lets
    /// the lease expire.
    pub(super) async fn end(&self, handle: &ProviderHandle, in_order: bool) {
        let Some(election) = self.election.as_ref().filter(|_| in_order) else {
            return;
        };
        if let Some(status) = handle.try_status().await {
            keep(election, &RestartState::from_status(&status));
        }
        if timeout(RELEASE_TIMEOUT, election.release()).await.is_err() {
            tracing::warn!(
                "this instance stops leading, but cannot release the election lease in time; a standby \
                 takes over when the lease expires"
            );
        }
    }
}

/// Returns the identity of the Kubernetes cluster. Returns `None` without a cluster, or if the request to the
/// API server fails. With `None`, the election does not check that all instances use the same cluster.
async fn cluster(args: &RunArgs) -> Option<(String, String)> {
    if !args.cluster_k8s && args.kubernetes.kubeconfig.is_none() {
        return None;
    }
    let asked = async {
        let namespaces: Api<Namespace> = Api::all(client(args.kubernetes.kubeconfig.as_deref()).await?);
        let namespace = namespaces.get(NEVER_DELETED).await?;
        anyhow::Ok(namespace.metadata.uid)
    };
    match timeout(CLUSTER_TIMEOUT, asked).await {
        Ok(Ok(uid)) => uid.map(|uid| settings::cluster(&uid)),
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot read the identity of the cluster, so the election does not check that all instances use the same cluster; check the API server");
            None
        }
        Err(_) => {
            tracing::warn!(
                "API server did not return the identity of the cluster in time, so the election does not \
                 check that all instances use the same cluster; check the API server"
            );
            None
        }
    }
}

/// Restores the circuit breaker state that the previous leader stored.
async fn restore_state(election: &Election, handle: &ProviderHandle) -> Result<(), Error> {
    let state = RestartState::from_json(&election.state()).unwrap_or_else(|error| {
        tracing::warn!(
            %error,
            "invalid circuit breaker state of the previous leader, so the breaker is tripped for all owners; check the leases and run \
             `provider-daemon breaker release`"
        );
        RestartState::unknown()
    });
    handle.restore_state(&state).await
}

/// Stores each change of the circuit breaker state, until this instance stops leading.
async fn lead(election: &Election, handle: &ProviderHandle, term: u64, gate: &LeadershipGate) {
    let mut last = None;
    while gate.term() == Some(term) {
        let state = handle
            .try_status()
            .await
            .map(|status| RestartState::from_status(&status));
        if let Some(state) = state.filter(|state| last.as_ref() != Some(state)) {
            keep(election, &state);
            last = Some(state);
        }
        tokio::select! {
            biased;
            () = gate.closed() => return,
            () = sleep(UPDATE_INTERVAL) => {}
        }
    }
}

fn keep(election: &Election, state: &RestartState) {
    let state = state.to_json();
    if state == election.state() {
        return;
    }
    if let Err(error) = election.store_state(state) {
        tracing::error!(%error, "cannot store the state of the circuit breaker in the election record, so the next leader starts with an older state");
    }
}
