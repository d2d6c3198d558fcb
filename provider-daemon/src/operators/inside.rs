//! Operators in the process of a provider, for a cluster that needs no pods of their own.

use super::inventory::{self, Desk};
use super::pod;
use super::process::{Operator, Process, elected};
use crate::args::KubernetesArgs;
use crate::args::operators::InsideArg;
use akash_provider_core::types::Address;
use akash_provider_k8s::election::{Election, Timing};
use akash_provider_k8s::operators::hostname::{HostnameOperator, Options};
use akash_provider_k8s::operators::inventory::Options as InventoryOptions;
use akash_provider_k8s::operators::ip::{self, IpOperator};
use futures::future::{BoxFuture, FutureExt, join_all};
use kube::Client;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// One of them, whichever it is.
trait Part: Send + Sync {
    fn name(&self) -> &'static str;
    fn status(&self) -> Value;
    fn stop(&self) -> BoxFuture<'_, ()>;
}

/// An operator, and what works beside it.
struct Running<O> {
    process: Process<O>,
    #[expect(dead_code, reason = "dropping it ends the task")]
    beside: AbortOnDropHandle<()>,
}

impl<O: Operator> Running<O> {
    fn boxed(operator: O, election: Election) -> Box<dyn Part> {
        let process = Process::new(operator, Some(election));
        let beside = Arc::clone(&process.operator).beside(CancellationToken::new());
        let beside = AbortOnDropHandle::new(tokio::spawn(beside));
        Box::new(Self { process, beside })
    }
}

impl<O: Operator> Part for Running<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn status(&self) -> Value {
        self.process.status()
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        self.process.stop().boxed()
    }
}

/// What operators are started with that can make no sense: read before a cluster is asked for anything.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    wanted: Vec<InsideArg>,
    inventory: Option<inventory::Plan>,
}

impl Prepared {
    /// Of the flags: those of --with-operators, or the usual ones where it is not said. `home` keeps the list of GPUs
    /// over restarts.
    ///
    /// # Errors
    /// The rules of the inventory operator make no sense, or cannot be read.
    pub(crate) fn read(
        args: &KubernetesArgs,
        usual: &[InsideArg],
        home: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let wanted = args.with_operators.as_deref().unwrap_or(usual).to_vec();
        let rules = args.inventory_config.as_deref();
        let inventory = wanted
            .contains(&InsideArg::Inventory)
            .then(|| inventory::Plan::read("--inventory-config", rules, &args.gpus, home))
            .transpose()?;
        Ok(Self { wanted, inventory })
    }
}

/// Those that run in this process. Each contends with others of its kind, in pods or in other providers. Dropping them
/// ends them at once.
#[derive(Default)]
pub(crate) struct Inside(Vec<Box<dyn Part>>);

impl Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|part| part.name()))
            .finish()
    }
}

impl Inside {
    /// Starts those that are wanted. It needs the runtime of tokio.
    pub(crate) fn start(
        client: &Client,
        args: &KubernetesArgs,
        provider: &Address,
        prepared: Prepared,
    ) -> Self {
        let Prepared {
            wanted,
            mut inventory,
        } = prepared;
        let parts = wanted.into_iter().filter_map(|one| match one {
            InsideArg::None => None,
            InsideArg::Hostname => Some(hostname(client, args)),
            InsideArg::Ip => Some(ip(client, args, provider)),
            // Once, however often it is named.
            InsideArg::Inventory => inventory.take().map(|plan| labels(client, args, plan)),
        });
        Self(parts.collect())
    }

    /// How each of them is, by its name.
    pub(crate) fn status(&self) -> BTreeMap<&'static str, Value> {
        self.0.iter().map(|part| (part.name(), part.status())).collect()
    }

    /// Begins nothing more, finishes what was begun, and hands over.
    pub(crate) async fn stop(&self) {
        join_all(self.0.iter().map(|part| part.stop())).await;
    }
}

fn hostname(client: &Client, args: &KubernetesArgs) -> Box<dyn Part> {
    let election = contend(client, args, HostnameOperator::NAME);
    let options = Options {
        manifest_namespace: args.k8s_manifest_ns.clone(),
        plan: args.routes.mode(|name| std::env::var(name).ok()).into(),
        gate: election.gate(),
        ..Options::default()
    };
    Running::boxed(HostnameOperator::start(client, options), election)
}

fn ip(client: &Client, args: &KubernetesArgs, provider: &Address) -> Box<dyn Part> {
    let election = contend(client, args, IpOperator::NAME);
    let options = ip::Options {
        manifest_namespace: args.k8s_manifest_ns.clone(),
        gate: election.gate(),
        ..ip::Options::new(provider.clone())
    };
    Running::boxed(IpOperator::start(client, options), election)
}

fn labels(client: &Client, args: &KubernetesArgs, plan: inventory::Plan) -> Box<dyn Part> {
    let election = contend(client, args, Desk::NAME);
    let options = InventoryOptions {
        gate: election.gate(),
        ..InventoryOptions::default()
    };
    // Nobody asks it for the cluster here, so that nobody waits for that.
    Running::boxed(plan.start(client, options, Duration::ZERO), election)
}

fn contend(client: &Client, args: &KubernetesArgs, name: &str) -> Election {
    elected(
        client,
        name,
        &args.k8s_manifest_ns,
        pod::identity(None),
        Timing::default(),
    )
}
