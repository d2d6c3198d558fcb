//! Operators in the process of a provider, for clusters without operator pods.

use super::hostname::HostnameChecks;
use super::inventory;
use super::pod;
use super::process::{Operator, Process, elected};
use crate::args::KubernetesArgs;
use crate::args::kubernetes::blocked_with_names_below;
use crate::args::operators::EmbeddedOperatorArg;
use crate::metrics::OperatorValues;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::engine::hostnames::HostnameLedger;
use akash_provider_core::types::Address;
use akash_provider_k8s::audit::DeletionLog;
use akash_provider_k8s::election::{Election, Timing};
use akash_provider_k8s::inventory::CapacityOptions;
use akash_provider_k8s::state::Definitions;
use akash_provider_k8s::task;
use akash_provider_k8s::write_client::WriteClient;
use akash_provider_kube_model::settings::LeasedIpCount;
use akash_provider_operators::hostname::{HostnameOperator, HostnameOperatorOptions};
use akash_provider_operators::inventory::InventoryOperatorOptions;
use akash_provider_operators::ip::{self, IpOperator};
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

/// Embedded operator of any kind.
trait EmbeddedOperator: Send + Sync {
    fn name(&self) -> &'static str;
    fn status(&self) -> Value;
    fn values(&self) -> OperatorValues;
    fn confirm(&self) -> Option<String>;
    fn stop(&self) -> BoxFuture<'_, ()>;
}

struct RunningOperator<O> {
    process: Process<O>,
    #[expect(dead_code, reason = "dropping it ends the task")]
    beside: AbortOnDropHandle<()>,
}

impl<O: Operator> RunningOperator<O> {
    fn boxed(operator: O, election: Election) -> Box<dyn EmbeddedOperator> {
        let process = Process::new(operator, Some(election));
        let beside = Arc::clone(&process.operator).beside(CancellationToken::new());
        let beside = task::spawn(O::NAME, beside);
        Box::new(Self { process, beside })
    }
}

impl<O: Operator> EmbeddedOperator for RunningOperator<O> {
    fn name(&self) -> &'static str {
        O::NAME
    }

    fn status(&self) -> Value {
        self.process.status()
    }

    fn values(&self) -> OperatorValues {
        self.process.values()
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

/// Validated settings of the embedded operators.
#[derive(Debug, Default)]
pub struct OperatorPlan {
    wanted: Vec<EmbeddedOperatorArg>,
    checks: HostnameChecks,
    inventory: Option<inventory::InventorySetup>,
}

impl OperatorPlan {
    /// Reads the flags of the embedded operators. `usual` lists the operators to embed if `--with-operators`
    /// is not set. Hostnames under `own_domain` need no ownership proof. The directory `home` stores the GPU
    /// list.
    ///
    /// # Errors
    /// Returns an error for invalid or unreadable inventory rules, for `--hostname-proof` with an empty
    /// `own_domain`, and for `--probe`, `--hostname-proof` or `--discovery-image` without the operator that
    /// uses the flag.
    pub fn read(
        args: &KubernetesArgs,
        usual: &[EmbeddedOperatorArg],
        own_domain: &str,
        home: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let wanted = args.with_operators.as_deref().unwrap_or(usual).to_vec();
        if args.names.is_asked() && !wanted.contains(&EmbeddedOperatorArg::Hostname) {
            bail!(WithHelp::new(
                "--probe and --hostname-proof require the hostname operator in this process",
                "add --with-operators hostname, or pass the flags to the stand-alone operator"
            ));
        }
        if args.discovery.discovery_image.is_some() && !wanted.contains(&EmbeddedOperatorArg::Inventory) {
            bail!(WithHelp::new(
                "--discovery-image requires the inventory operator in this process",
                "add --with-operators inventory, or pass the flag to the stand-alone operator"
            ));
        }
        let checks = HostnameChecks::new(&args.names, args.names.rule(Some(own_domain))?)?;
        let rules = args.inventory_config.as_deref();
        let inventory = wanted
            .contains(&EmbeddedOperatorArg::Inventory)
            .then(|| inventory::InventorySetup::read("--inventory-config", rules, &args.gpus, home))
            .transpose()?;
        Ok(Self {
            wanted,
            checks,
            inventory,
        })
    }

    /// Returns the settings of a capacity count in the process of these operators.
    #[must_use]
    pub fn share(&self, mut capacity: CapacityOptions) -> CapacityOptions {
        // The IP operator watches pools and load balancers too.
        capacity.counts_addresses = !self.wanted.contains(&EmbeddedOperatorArg::Ip);
        capacity
    }
}

/// Operators in this process, each with its own leader election. Dropping the value stops the operators at
/// once.
#[derive(Default)]
pub(crate) struct EmbeddedOperators(Vec<Box<dyn EmbeddedOperator>>);

impl Debug for EmbeddedOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|part| part.name()))
            .finish()
    }
}

impl EmbeddedOperators {
    /// Starts the selected operators. Requires a tokio runtime.
    pub(crate) fn start(
        client: &Client,
        args: &KubernetesArgs,
        provider: &Address,
        definitions: &Definitions,
        deletions: &DeletionLog,
        addresses: &LeasedIpCount,
        prepared: OperatorPlan,
    ) -> Self {
        let OperatorPlan {
            wanted,
            checks,
            mut inventory,
        } = prepared;
        let mut checks = Some(checks);
        let starter = EmbeddedStart {
            client,
            args,
            definitions,
            deletions,
        };
        let parts = wanted.into_iter().filter_map(|one| match one {
            EmbeddedOperatorArg::None => None,
            // A repeated name starts one operator.
            EmbeddedOperatorArg::Hostname => checks.take().map(|checks| starter.hostname(checks)),
            EmbeddedOperatorArg::Ip => Some(starter.ip(provider, addresses)),
            EmbeddedOperatorArg::Inventory => inventory.take().map(|plan| starter.inventory(plan)),
        });
        Self(parts.collect())
    }

    pub(crate) fn status(&self) -> BTreeMap<&'static str, Value> {
        self.0.iter().map(|part| (part.name(), part.status())).collect()
    }

    pub(crate) fn values(&self) -> Vec<OperatorValues> {
        self.0.iter().map(|part| part.values()).collect()
    }

    /// Confirms the withheld deletions. Returns one line for each affected operator.
    pub(crate) fn confirm(&self) -> Vec<String> {
        self.0.iter().filter_map(|part| part.confirm()).collect()
    }

    /// Stops all operators, waits for their work, and then releases their election leases.
    pub(crate) async fn stop(&self) {
        join_all(self.0.iter().map(|part| part.stop())).await;
    }
}

/// Cluster and settings that all embedded operators share.
struct EmbeddedStart<'a> {
    client: &'a Client,
    args: &'a KubernetesArgs,
    definitions: &'a Definitions,
    deletions: &'a DeletionLog,
}

impl EmbeddedStart<'_> {
    fn hostname(&self, checks: HostnameChecks) -> Box<dyn EmbeddedOperator> {
        let args = self.args;
        let mut options = HostnameOperatorOptions::default();
        options.manifest_namespace = args.k8s_manifest_ns.clone();
        options.plan.mode = args.routes.mode();
        // The engine refuses the other names of the block list, and lets holders keep them.
        options.plan.blocked = HostnameLedger::new(&blocked_with_names_below(args.domain.get().as_deref()));
        options.definitions = self.definitions.clone();
        options.deletions = self.deletions.clone();
        checks.give(&mut options);
        self.start(|client| HostnameOperator::start(client, options))
    }

    fn ip(&self, provider: &Address, addresses: &LeasedIpCount) -> Box<dyn EmbeddedOperator> {
        let mut options = ip::IpOperatorOptions::new(provider.clone());
        options.manifest_namespace = self.args.k8s_manifest_ns.clone();
        options.mode.pool = self.args.pool.metal_lb_pool.clone();
        options.metallb_namespace = self.args.pool.metal_lb_namespace.clone();
        options.definitions = self.definitions.clone();
        options.deletions = self.deletions.clone();
        options.address_count = self.args.ip_operator.then(|| addresses.clone());
        self.start(|client| IpOperator::start(client, options))
    }

    fn inventory(&self, plan: inventory::InventorySetup) -> Box<dyn EmbeddedOperator> {
        let mut options = InventoryOperatorOptions::default();
        options.discovery = self.args.discovery.options(None);
        options.deletions = self.deletions.clone();
        options.count.definitions = self.definitions.clone();
        // No client requests the cluster here, so there is no wait.
        self.start(|client| plan.start(client, options, Duration::ZERO))
    }

    /// Starts an operator that writes only while its election leads.
    fn start<O: Operator>(&self, start: impl FnOnce(&WriteClient) -> O) -> Box<dyn EmbeddedOperator> {
        let (namespace, identity) = (&self.args.k8s_manifest_ns, pod::identity(None));
        let election = elected(self.client, O::NAME, namespace, identity, Timing::default());
        let client = WriteClient::sharing(self.client.clone(), election.gate());
        RunningOperator::boxed(start(&client), election)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::message_text;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        kubernetes: KubernetesArgs,
    }

    fn prepared(
        words: &[&str],
        usual: &[EmbeddedOperatorArg],
        own_domain: &str,
    ) -> Result<OperatorPlan, String> {
        let flags = Flags::try_parse_from([&["test"], words].concat());
        let flags = flags.map_err(|error| error.to_string())?;
        OperatorPlan::read(&flags.kubernetes, usual, own_domain, None).map_err(|error| message_text(&error))
    }

    #[test]
    fn discovery_requires_the_inventory_operator_in_this_process() {
        let looks = ["--discovery-image=registry.example.com/provider:1"];
        let refused = prepared(&looks, &[EmbeddedOperatorArg::Hostname], "").unwrap_err();
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
        let settings = (
            options.image.as_str(),
            options.program.as_str(),
            options.namespace.as_str(),
        );
        assert_eq!(
            settings,
            ("registry.example.com/provider:1", "provider-daemon", "look")
        );
    }

    #[test]
    fn pools_and_load_balancers_are_watched_once_per_process() {
        let counts = |words: &[&str]| {
            let plan = prepared(words, &[EmbeddedOperatorArg::Hostname], "").unwrap();
            plan.share(CapacityOptions::default()).counts_addresses
        };
        assert!(
            !counts(&["--with-operators=ip"]),
            "the IP operator counts the addresses"
        );
        assert!(counts(&["--with-operators=none"]) && counts(&[]));
    }

    #[tokio::test]
    async fn probe_and_proof_settings_match_the_stand_alone_operator() {
        let words = [
            "--with-operators=hostname",
            "--probe",
            "--probe-budget=5",
            "--probe-interval=3m",
            "--hostname-proof=dns-txt",
            "--proof-interval=2h",
            "--dns-server=127.0.0.1:5353",
        ];
        let mut options = HostnameOperatorOptions::default();
        let read = prepared(&words, &[], "ingress.example.com").unwrap();
        read.checks.give(&mut options);
        let probe = options.probe.unwrap().budget;
        assert_eq!((probe.per_minute, probe.every), (5, Duration::from_secs(180)));
        assert_eq!(options.plan.proof.unwrap().own_domain, "ingress.example.com");
        assert_eq!(options.proving.unwrap().budget.every, Duration::from_secs(7_200));
        let mut options = HostnameOperatorOptions::default();
        prepared(&[], &[EmbeddedOperatorArg::Hostname], "")
            .unwrap()
            .checks
            .give(&mut options);
        assert!(options.probe.is_none() && options.plan.proof.is_none() && options.proving.is_none());
        assert!(
            prepared(&["--probe"], &[EmbeddedOperatorArg::Hostname], "").is_ok(),
            "the operator may be stand-alone"
        );
    }

    #[tokio::test]
    async fn settings_without_their_operator_are_rejected() {
        for (flags, own_domain, remedy) in [
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
            let refused = prepared(flags, &[], own_domain).unwrap_err();
            assert!(refused.contains(remedy), "{flags:?}: {refused}");
        }
    }
}
