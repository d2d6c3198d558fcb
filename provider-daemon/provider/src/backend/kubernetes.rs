//! Kubernetes cluster of a provider.

use super::served::OperatorClient;
use crate::args::KubernetesArgs;
use crate::cluster_client::{client, config, source};
use crate::metrics::ClusterValues;
use crate::operators::{EmbeddedOperators, OperatorPlan};
use crate::writers::Writers;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::Error;
use akash_provider_core::types::{Address, LeaseId};
use akash_provider_k8s::adopt::{ForeignObject, foreign_leases};
use akash_provider_k8s::audit::DeletionLog;
use akash_provider_k8s::cluster::{KubeCluster, LeadershipGate};
use akash_provider_k8s::infrastructure::{Infrastructure, InfrastructureWatch};
use akash_provider_k8s::inventory::{CapacityOptions, KubeInventory};
use akash_provider_k8s::settings::KubeSettings;
use akash_provider_k8s::state::{Definitions, EventStore};
use akash_provider_k8s::task;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_kube_model::crd::{Manifest, ProviderHost, ProviderLeasedIP};
use akash_provider_kube_model::settings::LeasedIpCount;
use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio_util::task::AbortOnDropHandle;

/// Maximum number of foreign objects in an error message.
const LISTED_MAX: usize = 5;

/// Connected Kubernetes cluster. Pods continue to run after the value is dropped.
#[derive(Debug)]
pub struct Kubernetes {
    client: OpaqueClient,
    pub(super) cluster: Arc<KubeCluster>,
    pub(super) inventory: Arc<KubeInventory>,
    #[expect(dead_code, reason = "dropping the handle ends the task")]
    operator: Option<AbortOnDropHandle<()>>,
    #[expect(dead_code, reason = "dropping the handle ends the task")]
    closes: AbortOnDropHandle<()>,
    chain_id: String,
    args: KubernetesArgs,
    operators: OnceLock<EmbeddedOperators>,
    events: OnceLock<AbortOnDropHandle<()>>,
    provider: Address,
    definitions: Definitions,
    deletions: DeletionLog,
    addresses: LeasedIpCount,
}

/// Client with an empty debug output.
struct OpaqueClient(Client);

impl Debug for OpaqueClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Kubernetes {
    /// Connects to a cluster for the embedded chain, without changing the cluster.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig is invalid, the cluster does not respond, or the cluster has leases
    /// of another chain.
    pub async fn connect(
        kubeconfig: &Path,
        args: &KubernetesArgs,
        provider: Address,
        chain_id: &str,
        capacity: &CapacityOptions,
    ) -> anyhow::Result<Self> {
        let client = client(Some(kubeconfig)).await?;
        refuse_foreign(&client, chain_id, args).await?;
        // No other process serves the embedded chain.
        Self::start(
            (client.clone(), WriteClient::without_election(client)),
            args,
            provider,
            chain_id,
            capacity,
            LeadershipGate::new(true),
            DeletionLog::default(),
        )
        .await
    }

    /// Connects to a cluster for a real chain. The cluster can contain leases. Without a kubeconfig, uses the
    /// cluster of `KUBECONFIG`, `~/.kube/config` or this pod. The backend writes only while the provider
    /// leads.
    ///
    /// # Errors
    /// Returns an error if the kubeconfig is invalid, or if the cluster does not respond.
    pub async fn adopt(
        kubeconfig: Option<&Path>,
        args: &KubernetesArgs,
        provider: Address,
        chain_id: &str,
        capacity: &CapacityOptions,
        leading: LeadershipGate,
        writers: &Writers,
    ) -> anyhow::Result<Self> {
        let config = config(kubeconfig).await?;
        let invalid = || source(kubeconfig);
        let guarded = writers.kubernetes(config.clone()).with_context(invalid)?;
        // A single instance always writes, so both share their connections.
        let client = match writers.has_election() {
            true => writers.unguarded(config).with_context(invalid)?,
            false => guarded.client().clone(),
        };
        let (clients, deletions) = ((client, guarded), writers.deletions());
        Self::start(clients, args, provider, chain_id, capacity, leading, deletions).await
    }

    /// Starts the Kubernetes backend. `writer` writes only while the provider leads. The embedded operators
    /// use `client`, because operators have their own leader elections.
    pub(crate) async fn start(
        (client, writer): (Client, WriteClient),
        args: &KubernetesArgs,
        provider: Address,
        chain_id: &str,
        capacity: &CapacityOptions,
        leading: LeadershipGate,
        deletions: DeletionLog,
    ) -> anyhow::Result<Self> {
        let mut settings = args.settings(provider, chain_id);
        settings.deletions = deletions.clone();
        // All parts of the process share one watch of the definitions.
        settings.definitions = capacity.definitions.clone();
        // Read before the first deployment: the network policies of all pods need the addresses of nodes and API
        // servers.
        let found = Infrastructure::read(writer.client(), settings.call_timeout).await;
        let found = found.context("cannot read the addresses of nodes and API servers")?;
        found.close(&mut settings.egress);
        let cluster = KubeCluster::connect(writer.clone(), settings.clone())?;
        let (inventory, operator) = start_inventory(writer.client(), args, &settings, capacity)?;
        let watch = InfrastructureWatch::start(writer.client(), found);
        let closing = Arc::clone(&cluster);
        let closes = task::spawn(
            "closing of addresses, leftovers, rollouts and drift",
            async move {
                tokio::join!(
                    closing.follow_infrastructure(watch, &leading),
                    closing.follow_leftovers(&leading),
                    closing.follow_rollouts(&leading),
                    closing.follow_drift(&leading)
                );
            },
        );
        Ok(Self {
            client: OpaqueClient(client),
            cluster,
            closes,
            inventory: Arc::new(inventory),
            operator,
            chain_id: chain_id.to_owned(),
            args: args.clone(),
            operators: OnceLock::new(),
            events: OnceLock::new(),
            provider: settings.provider.clone(),
            definitions: settings.definitions.clone(),
            deletions,
            addresses: settings.leased_ip_count.clone(),
        })
    }

    /// Starts the embedded operators, at the first call only.
    pub fn run_operators(&self, prepared: OperatorPlan) {
        self.operators.get_or_init(|| {
            let (client, args, deletions) = (&self.client.0, &self.args, &self.deletions);
            EmbeddedOperators::start(
                client,
                args,
                &self.provider,
                &self.definitions,
                deletions,
                &self.addresses,
                prepared,
            )
        });
    }

    /// Loads the lease events in `store`, and stores new events there. Only the first call has an effect.
    pub(crate) fn persist_events(&self, store: Arc<dyn EventStore>) {
        let history = Arc::clone(self.cluster.state().history());
        self.events
            .get_or_init(|| task::spawn("storage of lease events", history.persist(store)));
    }

    /// Returns the status of each embedded operator, by name.
    #[must_use]
    pub fn operators(&self) -> BTreeMap<&'static str, Value> {
        self.operators
            .get()
            .map(EmbeddedOperators::status)
            .unwrap_or_default()
    }

    pub(crate) fn values(&self) -> ClusterValues {
        let state = self.cluster.state();
        ClusterValues {
            statistics: self.cluster.statistics(),
            watches: state.watches(),
            ignored: self.inventory.ignored_resources(),
            orphans: state.orphans().len(),
            inventory: self.inventory.watches(),
            operators: self
                .operators
                .get()
                .map(EmbeddedOperators::values)
                .unwrap_or_default(),
        }
    }

    /// Confirms the deletions that embedded operators withhold. Returns one line for each operator.
    #[must_use]
    pub fn confirm_deletions(&self) -> Vec<String> {
        self.operators
            .get()
            .map(EmbeddedOperators::confirm)
            .unwrap_or_default()
    }

    /// Stops the embedded operators and releases their election leases.
    pub async fn stop_operators(&self) {
        if let Some(operators) = self.operators.get() {
            operators.stop().await;
        }
    }

    /// Applies the current isolation settings to the running pods of a lease.
    ///
    /// # Errors
    /// Returns an error if the lease is unknown, or if the API server rejects the change.
    pub async fn harden(&self, lease: &LeaseId) -> Result<(), Error> {
        self.cluster.harden(lease).await
    }

    /// Returns the objects in the cluster that belong to this chain, one line each.
    pub(super) async fn leftovers(&self) -> anyhow::Result<Vec<String>> {
        let client = &self.client.0;
        let mut left = Vec::new();
        let namespaces: Vec<Namespace> = made_by(&Api::all(client.clone()), &self.chain_id).await?;
        left.extend(namespaces.iter().map(|n| format!("namespace {}", n.name_any())));
        let ns = &self.args.k8s_manifest_ns;
        let records: Vec<Manifest> = made_by(&Api::namespaced(client.clone(), ns), &self.chain_id).await?;
        left.extend(records.iter().map(|m| format!("Manifest {}", m.name_any())));
        let hosts: Vec<ProviderHost> = made_by(&Api::namespaced(client.clone(), ns), &self.chain_id).await?;
        left.extend(hosts.iter().map(|h| format!("ProviderHost {}", h.name_any())));
        let ips: Vec<ProviderLeasedIP> =
            made_by(&Api::namespaced(client.clone(), ns), &self.chain_id).await?;
        left.extend(ips.iter().map(|ip| format!("ProviderLeasedIP {}", ip.name_any())));
        let secrets: Vec<Secret> = made_by(&Api::namespaced(client.clone(), ns), &self.chain_id).await?;
        left.extend(
            secrets
                .iter()
                .map(|secret| format!("Secret {}", secret.name_any())),
        );
        Ok(left)
    }
}

/// Starts the count of the capacity: from watches, or from the inventory operator of `--inventory-operator`.
fn start_inventory(
    client: &Client,
    args: &KubernetesArgs,
    settings: &KubeSettings,
    capacity: &CapacityOptions,
) -> anyhow::Result<(KubeInventory, Option<AbortOnDropHandle<()>>)> {
    let Some(operator) = OperatorClient::new(&args.inventory)? else {
        return Ok((KubeInventory::start(client, settings, capacity), None));
    };
    let age = args.inventory.inventory_operator_age;
    let (inventory, feed) = KubeInventory::start_served(client, settings, capacity, age);
    let following = task::spawn("capacity from the inventory operator", operator.run(feed));
    Ok((inventory, Some(following)))
}

/// Rejects a cluster with leases of another chain.
async fn refuse_foreign(client: &Client, chain_id: &str, args: &KubernetesArgs) -> anyhow::Result<()> {
    let found = foreign_leases(client, chain_id, &args.k8s_manifest_ns, args.kube_call_timeout);
    let found = found
        .await
        .context("the query for leases of other chains in the cluster failed")?;
    if let Some(refusal) = refusal(&found) {
        bail!(refusal);
    }
    Ok(())
}

fn refusal(found: &[ForeignObject]) -> Option<WithHelp> {
    if found.is_empty() {
        return None;
    }
    let named: Vec<_> = found.iter().take(LISTED_MAX).map(|f| format!("  {f}")).collect();
    let rest = found.len().saturating_sub(LISTED_MAX);
    let more = if rest > 0 {
        format!("\n  and {rest} more")
    } else {
        String::new()
    };
    let mut chains: Vec<_> = found.iter().filter_map(|f| f.chain_id.as_deref()).collect();
    chains.retain(|chain| is_embedded(chain));
    chains.dedup();
    let remedy = match chains.first() {
        Some(chain) => format!(
            "for leases of an earlier `dev`, use the same --state file, or delete the leases with --remove-leftovers-of {chain}"
        ),
        None => "use a cluster without leases".to_owned(),
    };
    let named = named.join("\n");
    let message = format!("the cluster has leases of other chains; nothing was changed:\n{named}{more}");
    Some(WithHelp::new(message, remedy))
}

fn is_embedded(chain: &str) -> bool {
    chain.starts_with("dev-")
}

/// Deletes the objects of an embedded chain from a cluster. Returns one line for each deleted object.
///
/// # Errors
/// Returns an error if the chain ID is not of an embedded chain, or if the cluster does not respond.
pub async fn remove_leftovers(
    kubeconfig: &Path,
    args: &KubernetesArgs,
    chain_id: &str,
) -> anyhow::Result<Vec<String>> {
    // With the ID of a real chain this would delete all leases.
    if !is_embedded(chain_id) {
        bail!(WithHelp::new(
            format!("`{chain_id}` is not the ID of an embedded chain"),
            "use an ID that starts with `dev-`"
        ));
    }
    let client = client(Some(kubeconfig)).await?;
    let ns = &args.k8s_manifest_ns;
    let mut removed = remove::<Namespace>(Api::all(client.clone()), chain_id).await?;
    removed.extend(remove::<ProviderHost>(Api::namespaced(client.clone(), ns), chain_id).await?);
    removed.extend(remove::<ProviderLeasedIP>(Api::namespaced(client.clone(), ns), chain_id).await?);
    removed.extend(remove::<Manifest>(Api::namespaced(client.clone(), ns), chain_id).await?);
    // Registry passwords are stored beside their records.
    removed.extend(remove::<Secret>(Api::namespaced(client, ns), chain_id).await?);
    Ok(removed)
}

async fn remove<K>(api: Api<K>, chain_id: &str) -> anyhow::Result<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + serde::de::DeserializeOwned,
{
    let mut removed = Vec::new();
    for object in made_by(&api, chain_id).await? {
        let name = object.name_any();
        match api.delete(&name, &DeleteParams::default()).await {
            Ok(_) => removed.push(format!("{} {name}", K::kind(&()))),
            // Deleted since it was listed.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot delete {} {name}", K::kind(&())));
            }
        }
    }
    Ok(removed)
}

/// Returns the objects with the labels of a provider of this chain.
async fn made_by<K>(api: &Api<K>, chain_id: &str) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + serde::de::DeserializeOwned,
{
    let params = ListParams::default().labels(akash_provider_k8s::labels::SELECTOR);
    let listed = api
        .list(&params)
        .await
        .with_context(|| format!("cannot list {}", K::plural(&())))?;
    let ours = |object: &K| {
        let chain = object.annotations().get(akash_provider_k8s::labels::CHAIN_ID);
        chain.is_some_and(|chain| chain == chain_id)
    };
    Ok(listed.items.into_iter().filter(ours).collect())
}
