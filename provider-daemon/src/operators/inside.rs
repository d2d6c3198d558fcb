//! Operators in the process of a provider, for a cluster that needs no pods of their own.

use super::pod;
use super::process::{Operator, Process, elected};
use crate::args::KubernetesArgs;
use crate::args::operators::InsideArg;
use akash_provider_core::types::Address;
use akash_provider_k8s::election::{Election, Timing};
use akash_provider_k8s::operators::hostname::{HostnameOperator, Options};
use akash_provider_k8s::operators::ip::{self, IpOperator};
use futures::future::{BoxFuture, FutureExt, join_all};
use kube::Client;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};

/// One of them, whichever it is.
trait Part: Send + Sync {
    fn name(&self) -> &'static str;
    fn status(&self) -> Value;
    fn stop(&self) -> BoxFuture<'_, ()>;
}

impl<O: Operator> Part for Process<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn status(&self) -> Value {
        Self::status(self)
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Self::stop(self).boxed()
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
        wanted: &[InsideArg],
    ) -> Self {
        let parts = wanted.iter().filter_map(|one| match one {
            InsideArg::None => None,
            InsideArg::Hostname => Some(hostname(client, args)),
            InsideArg::Ip => Some(ip(client, args, provider)),
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
    let operator = HostnameOperator::start(client, options);
    Box::new(Process::new(operator, Some(election)))
}

fn ip(client: &Client, args: &KubernetesArgs, provider: &Address) -> Box<dyn Part> {
    let election = contend(client, args, IpOperator::NAME);
    let options = ip::Options {
        manifest_namespace: args.k8s_manifest_ns.clone(),
        gate: election.gate(),
        ..ip::Options::new(provider.clone())
    };
    let operator = IpOperator::start(client, options);
    Box::new(Process::new(operator, Some(election)))
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
