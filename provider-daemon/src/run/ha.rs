//! One of several instances of a provider: it leads, or stands by until it does.
//!
//! ```text
//! election ─► gate ─► what was kept ─► provider leads in this term ─► gate shut ─► provider stands by
//!                └──► chain client and cluster: nothing is written while it is shut
//! ```
//! The gate shuts by the clock, and before the provider has heard of it: an instance that was stopped for longer than its
//! term and goes on writes nothing more.

mod settings;

use super::writers::Writers;
use crate::args::RunArgs;
use crate::args::ha::HaStore;
use crate::cluster_client::client;
use crate::dev::Printer;
use crate::operators::identity;
use crate::state::State;
use crate::state::terms::Terms;
use crate::supervise::{Part, Supervisor};
use akash_provider_core::election::{Candidate, Election, ElectionConfig, LeadershipGate};
use akash_provider_core::engine::Leadership;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::{Config, Error, Kept};
use akash_provider_gateway::{Leadership as Shown, LeadershipSource};
use akash_provider_k8s::election::LeaseElection;
use akash_provider_redis::RedisElection;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::json;
use settings::Settings;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How often it is looked at what the next leader must know.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a hand-over may keep the end waiting: without one others wait as long as a lease.
const HAND_OVER: Duration = Duration::from_secs(5);
/// A namespace that lasts as long as its cluster, so that its uid is that of the cluster.
const NEVER_DELETED: &str = "kube-system";
/// How long a cluster that does not answer may keep the start waiting.
const CLUSTER_LIMIT: Duration = Duration::from_secs(5);
/// How often a standby looks which term it is.
const TERM_EVERY: Duration = Duration::from_secs(2);

/// The election, where there is one. A clone is the same one.
#[derive(Debug, Clone)]
pub(super) struct Ha {
    election: Option<Arc<Election>>,
    /// Task that gives the election changed settings.
    following: Option<Arc<AbortOnDropHandle<()>>>,
    address: Option<String>,
    terms: Terms,
    /// The highest term that was known at the start.
    known_term: u64,
    printer: Arc<Printer>,
}

impl Ha {
    /// Begins to contend, where the flags say so; `kept` is what this home knows of the time before.
    ///
    /// # Errors
    /// A setting makes no sense, or the state cannot be read. That the store is away is none.
    pub(super) async fn start(
        args: &RunArgs,
        config: &Config,
        kept: &Kept,
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
        let mut settings = Settings::new(args, config);
        if let Some(cluster) = cluster(args).await {
            settings.insert(cluster);
        }
        let me = Candidate {
            identity: identity(args.ha.ha_identity.as_deref()),
            address: args.ha.ha_address.clone().unwrap_or_default(),
            settings: settings.hashes().clone(),
            fixed: &settings::FIXED,
            brings_settings: args.ha.ha_takeover_settings,
        };
        let name = args.ha.ha_name.clone().unwrap_or_else(|| match args.ha.ha {
            HaStore::Redis => settings::name(config),
            HaStore::Kubernetes | HaStore::Off => settings::LEASE.to_owned(),
        });
        let mut election = ElectionConfig::new(name.clone(), me, args.ha.timing());
        election.kept = kept.to_json();
        election.known_term = known_term;
        let identity = election.me.identity.clone();
        let election = match args.ha.ha {
            HaStore::Redis => {
                let location = args.ha.redis(&args.bus)?;
                printer.note(&format!("{identity} contends for `{name}` at {location}"));
                Election::start(RedisElection::new(location, &name), election)
            }
            HaStore::Kubernetes | HaStore::Off => {
                let client = client(args.kubernetes.kubeconfig.as_deref()).await?;
                let namespace = args.ha.ha_namespace.as_deref();
                let namespace = namespace.unwrap_or(&args.kubernetes.k8s_manifest_ns);
                printer.note(&format!(
                    "{identity} contends for the Lease `{name}` in `{namespace}`"
                ));
                let limit = election.call_timeout;
                Election::start(LeaseElection::new(&client, namespace, &name, limit), election)
            }
        };
        let election = Arc::new(election);
        ha.following = Some(Arc::new(AbortOnDropHandle::new(tokio::spawn(
            settings.follow(Arc::clone(&election)),
        ))));
        ha.election = Some(election);
        Ok(ha)
    }

    /// What the provider begins as. Without an election it leads, and not in an earlier term than one that was.
    pub(super) const fn at_first(&self) -> Leadership {
        match self.election {
            Some(_) => Leadership::Standby,
            None => Leadership::Leader {
                epoch: self.known_term,
            },
        }
    }

    /// Open while this instance leads; `None` without an election.
    pub(super) fn gate(&self) -> Option<LeadershipGate> {
        self.election.as_ref().map(|election| election.gate())
    }

    /// Returns the write access of this instance.
    pub(super) fn writers(&self, lease: Duration) -> Writers {
        Writers::new(self.gate(), lease)
    }

    /// How it stands, for whoever asks the gateway.
    pub(super) fn source(&self) -> Option<LeadershipSource> {
        let ha = self.clone();
        self.election.as_ref()?;
        Some(LeadershipSource::new(move || ha.shown()))
    }

    fn shown(&self) -> Shown {
        let Some(election) = &self.election else {
            return Shown::default();
        };
        let status = election.status();
        Shown {
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

    /// Tells the provider whether it leads, until the end.
    pub(super) fn follow(&self, handle: &ProviderHandle, until: &CancellationToken, parts: &mut Supervisor) {
        let Some(election) = self.election.clone() else {
            return;
        };
        let (ha, handle, until) = (self.clone(), handle.clone(), until.clone());
        let following = async move {
            tokio::select! {
                biased;
                () = until.cancelled() => Ok(()),
                stopped = ha.turns(&election, &handle) => match stopped {
                    Err(error) if error.kind() != ErrorKind::Stopped => Err(error.to_string()),
                    // Nobody is left to be told who leads.
                    _ => {
                        until.cancelled().await;
                        Ok(())
                    }
                }
            }
        };
        parts.once(Part::Leadership, |_| following.boxed());
    }

    async fn turns(&self, election: &Election, handle: &ProviderHandle) -> Result<(), Error> {
        let gate = election.gate();
        loop {
            tokio::select! {
                biased;
                () = gate.begins() => {}
                () = sleep(TERM_EVERY) => {}
            }
            if election.has_failed() {
                let message = "the election has failed, and nobody here would ever lead";
                return Err(Error::new(ErrorKind::Internal, "follow the leadership", message));
            }
            let Some(term) = gate.term() else {
                self.keep_term(election.status().known_term);
                continue;
            };
            self.keep_term(term);
            remind(election, handle).await?;
            handle.set_leadership(Leadership::Leader { epoch: term }).await?;
            self.tell();
            lead(election, handle, term, &gate).await;
            handle.set_leadership(Leadership::Standby).await?;
            self.tell();
        }
    }

    fn keep_term(&self, term: u64) {
        if let Err(error) = self.terms.keep(term) {
            tracing::warn!("the term of the leadership was not kept: {error}");
        }
    }

    fn tell(&self) {
        let shown = self.shown();
        if self.printer.is_text() {
            let term = shown
                .term
                .map(|term| format!(" in term {term}"))
                .unwrap_or_default();
            let holder = shown.holder.as_deref().filter(|_| shown.term.is_none());
            let holder = holder
                .map(|holder| format!(", {holder} leads"))
                .unwrap_or_default();
            let line = format!("this instance is the {}{term}{holder}", shown.role);
            self.printer.note(&crate::plain::line(&line));
        }
        self.printer.object(json!({
            "event": "leadership", "role": shown.role, "term": shown.term, "holder": shown.holder,
        }));
    }

    /// Lets another one lead at once, and tells it what it must know; where the provider did not end in order, others wait
    /// until they see no sign of life.
    pub(super) async fn end(&self, handle: &ProviderHandle, in_order: bool) {
        let Some(election) = self.election.as_ref().filter(|_| in_order) else {
            return;
        };
        if let Some(status) = handle.known_status().await {
            keep(election, &Kept::of(&status));
        }
        if timeout(HAND_OVER, election.hand_over()).await.is_err() {
            tracing::warn!("the leadership is not handed over in time, and ends by itself");
        }
    }
}

/// Which cluster this instance works on; nothing where it has none, or where that does not answer: what is not known keeps
/// nobody from leading.
async fn cluster(args: &RunArgs) -> Option<(String, String)> {
    if !args.cluster_k8s && args.kubernetes.kubeconfig.is_none() {
        return None;
    }
    let asked = async {
        let namespaces: Api<Namespace> = Api::all(client(args.kubernetes.kubeconfig.as_deref()).await?);
        let namespace = namespaces.get(NEVER_DELETED).await?;
        anyhow::Ok(namespace.metadata.uid)
    };
    match timeout(CLUSTER_LIMIT, asked).await {
        Ok(Ok(uid)) => uid.map(|uid| settings::cluster(&uid)),
        Ok(Err(error)) => {
            tracing::warn!("other instances are not told which cluster this one works on: {error}");
            None
        }
        Err(_) => {
            tracing::warn!(
                "other instances are not told which cluster this one works on: it does not answer"
            );
            None
        }
    }
}

/// Tells the provider what the leader before it kept.
async fn remind(election: &Election, handle: &ProviderHandle) -> Result<(), Error> {
    let kept = Kept::from_json(&election.kept()).unwrap_or_else(|error| {
        tracing::warn!("{error}; the circuit breaker counts as tripped for all");
        Kept::doubtful()
    });
    handle.remind(&kept).await
}

/// Until the leadership of this term is over; meanwhile the next leader is told what it must know.
async fn lead(election: &Election, handle: &ProviderHandle, term: u64, gate: &LeadershipGate) {
    let mut told = None;
    while gate.term() == Some(term) {
        let kept = handle.known_status().await.map(|status| Kept::of(&status));
        if let Some(kept) = kept.filter(|kept| told.as_ref() != Some(kept)) {
            keep(election, &kept);
            told = Some(kept);
        }
        tokio::select! {
            biased;
            () = gate.ends() => return,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

fn keep(election: &Election, kept: &Kept) {
    let kept = kept.to_json();
    if kept == election.kept() {
        return;
    }
    if let Err(error) = election.keep(kept) {
        tracing::error!("the next leader will not know how the circuit breaker is: {error}");
    }
}
