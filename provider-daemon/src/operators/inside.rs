//! Operators in the process of a provider, for a cluster that needs no pods of their own.

use super::hostname::Inquiry;
use super::inventory::{self, Desk};
use super::pod;
use super::process::{Operator, Process, elected};
use crate::args::KubernetesArgs;
use crate::args::operators::InsideArg;
use akash_provider_core::types::Address;
use akash_provider_k8s::election::{Election, Timing};
use akash_provider_k8s::operators::hostname::{HostnameOperator, Options};
use akash_provider_k8s::operators::inventory::Options as InventoryOptions;
use akash_provider_k8s::operators::ip::balancer::Mode;
use akash_provider_k8s::operators::ip::{self, IpOperator};
use akash_provider_k8s::state::Definitions;
use akash_provider_k8s::task;
use anyhow::bail;
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
    fn confirm(&self) -> Option<String>;
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
        let beside = task::kept(O::NAME, beside);
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

    fn confirm(&self) -> Option<String> {
        self.process.status().get("hold")?;
        let confirmed = self
            .process
            .confirm()
            .map(|count| format!("{count} deletions confirmed"));
        Some(format!(
            "{} operator: {}",
            O::NAME,
            confirmed.unwrap_or_else(|why| why)
        ))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        self.process.stop().boxed()
    }
}

/// What operators are started with that can make no sense: read before a cluster is asked for anything.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    wanted: Vec<InsideArg>,
    inquiry: Inquiry,
    inventory: Option<inventory::Plan>,
}

impl Prepared {
    /// Of the flags: those of --with-operators, or the usual ones where it is not said. Hostnames under `own_domain` need
    /// no proof. `home` keeps the list of GPUs over restarts.
    ///
    /// # Errors
    /// The rules of the inventory operator make no sense, or cannot be read; or something is to be found out about
    /// hostnames, and the operator that does so is not wanted, or it is not said which names are the provider's own.
    pub(crate) fn read(
        args: &KubernetesArgs,
        usual: &[InsideArg],
        own_domain: &str,
        home: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let wanted = args.with_operators.as_deref().unwrap_or(usual).to_vec();
        if args.names.is_asked() && !wanted.contains(&InsideArg::Hostname) {
            bail!(
                "--probe and --hostname-proof are for the hostname operator in this process: add --with-operators hostname, \
                 or give them to the one that runs by itself"
            );
        }
        if args.discovery.discovery_image.is_some() && !wanted.contains(&InsideArg::Inventory) {
            bail!(
                "--discovery-image is for the inventory operator in this process: add --with-operators inventory, or give \
                 it to the one that runs by itself"
            );
        }
        let inquiry = Inquiry::new(&args.names, args.names.rule(Some(own_domain))?)?;
        let rules = args.inventory_config.as_deref();
        let inventory = wanted
            .contains(&InsideArg::Inventory)
            .then(|| inventory::Plan::read("--inventory-config", rules, &args.gpus, home))
            .transpose()?;
        Ok(Self {
            wanted,
            inquiry,
            inventory,
        })
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
        definitions: &Definitions,
        prepared: Prepared,
    ) -> Self {
        let Prepared {
            wanted,
            inquiry,
            mut inventory,
        } = prepared;
        let mut inquiry = Some(inquiry);
        let parts = wanted.into_iter().filter_map(|one| match one {
            InsideArg::None => None,
            // Once, however often it is named.
            InsideArg::Hostname => inquiry
                .take()
                .map(|inquiry| hostname(client, args, definitions, inquiry)),
            InsideArg::Ip => Some(ip(client, args, definitions, provider)),
            InsideArg::Inventory => inventory
                .take()
                .map(|plan| labels(client, args, definitions, plan)),
        });
        Self(parts.collect())
    }

    /// How each of them is, by its name.
    pub(crate) fn status(&self) -> BTreeMap<&'static str, Value> {
        self.0.iter().map(|part| (part.name(), part.status())).collect()
    }

    /// Confirms the deletions that they hold; a line for each that holds some.
    pub(crate) fn confirm(&self) -> Vec<String> {
        self.0.iter().filter_map(|part| part.confirm()).collect()
    }

    /// Begins nothing more, finishes what was begun, and hands over.
    pub(crate) async fn stop(&self) {
        join_all(self.0.iter().map(|part| part.stop())).await;
    }
}

fn hostname(
    client: &Client,
    args: &KubernetesArgs,
    definitions: &Definitions,
    inquiry: Inquiry,
) -> Box<dyn Part> {
    let election = contend(client, args, HostnameOperator::NAME);
    let mut options = Options {
        manifest_namespace: args.k8s_manifest_ns.clone(),
        plan: args.routes.mode().into(),
        gate: election.gate(),
        definitions: definitions.clone(),
        ..Options::default()
    };
    inquiry.give(&mut options);
    Running::boxed(HostnameOperator::start(client, options), election)
}

fn ip(
    client: &Client,
    args: &KubernetesArgs,
    definitions: &Definitions,
    provider: &Address,
) -> Box<dyn Part> {
    let election = contend(client, args, IpOperator::NAME);
    let options = ip::Options {
        manifest_namespace: args.k8s_manifest_ns.clone(),
        gate: election.gate(),
        mode: Mode {
            pool: args.pool.metal_lb_pool.clone(),
            ..Mode::default()
        },
        metallb_namespace: args.pool.metal_lb_namespace.clone(),
        definitions: definitions.clone(),
        ..ip::Options::new(provider.clone())
    };
    Running::boxed(IpOperator::start(client, options), election)
}

fn labels(
    client: &Client,
    args: &KubernetesArgs,
    definitions: &Definitions,
    plan: inventory::Plan,
) -> Box<dyn Part> {
    let election = contend(client, args, Desk::NAME);
    let mut options = InventoryOptions {
        gate: election.gate(),
        discovery: args.discovery.options(None),
        ..InventoryOptions::default()
    };
    options.count.definitions = definitions.clone();
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        kubernetes: KubernetesArgs,
    }

    fn prepared(words: &[&str], usual: &[InsideArg], own_domain: &str) -> Result<Prepared, String> {
        let flags = Flags::try_parse_from([&["test"], words].concat());
        let flags = flags.map_err(|error| error.to_string())?;
        Prepared::read(&flags.kubernetes, usual, own_domain, None).map_err(|error| error.to_string())
    }

    #[test]
    fn machines_are_looked_at_by_the_operator_of_this_process_alone() {
        let looks = ["--discovery-image=registry.example.com/provider:1"];
        let refused = prepared(&looks, &[InsideArg::Hostname], "").unwrap_err();
        assert!(refused.contains("--with-operators inventory"), "{refused}");
        let words = [
            looks[0],
            "--with-operators=inventory",
            "--discovery-program=provider-daemon",
            "--discovery-namespace=look",
            "--provider-configs-url=",
        ];
        assert!(prepared(&words, &[], "").is_ok());
        let flags = Flags::try_parse_from([&["test"], &words[..]].concat()).unwrap();
        let options = flags.kubernetes.discovery.options(None).unwrap();
        let said = (
            options.image.as_str(),
            options.program.as_str(),
            options.namespace.as_str(),
        );
        assert_eq!(
            said,
            ("registry.example.com/provider:1", "provider-daemon", "look")
        );
    }

    #[tokio::test]
    async fn hostnames_are_asked_about_and_proved_as_by_an_operator_of_its_own() {
        let words = [
            "--with-operators=hostname",
            "--probe",
            "--probe-budget=5",
            "--probe-interval=3m",
            "--hostname-proof=dns-txt",
            "--proof-interval=2h",
            "--dns-server=127.0.0.1:5353",
        ];
        let mut options = Options::default();
        let read = prepared(&words, &[], "ingress.example.com").unwrap();
        read.inquiry.give(&mut options);
        let probe = options.probe.unwrap().budget;
        assert_eq!((probe.per_minute, probe.every), (5, Duration::from_secs(180)));
        assert_eq!(options.plan.proof.unwrap().own_domain, "ingress.example.com");
        assert_eq!(options.proving.unwrap().budget.every, Duration::from_secs(7_200));
        let mut options = Options::default();
        prepared(&[], &[InsideArg::Hostname], "")
            .unwrap()
            .inquiry
            .give(&mut options);
        assert!(options.probe.is_none() && options.plan.proof.is_none() && options.proving.is_none());
        assert!(
            prepared(&["--probe"], &[InsideArg::Hostname], "").is_ok(),
            "it runs by itself"
        );
    }

    #[tokio::test]
    async fn what_nobody_would_do_is_refused() {
        for (words, own_domain, mend) in [
            (&["--probe"][..], "example.com", "--with-operators hostname"),
            (
                &["--with-operators=ip,inventory", "--hostname-proof=dns-txt"],
                "example.com",
                "--with-operators hostname",
            ),
            (
                &["--with-operators=hostname", "--hostname-proof=dns-txt"],
                "",
                "--deployment-ingress-domain",
            ),
        ] {
            let refused = prepared(words, &[], own_domain).unwrap_err();
            assert!(refused.contains(mend), "{words:?}: {refused}");
        }
    }
}
