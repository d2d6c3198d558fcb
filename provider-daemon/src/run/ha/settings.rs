//! The settings that all instances of a provider must have alike, each as a short hash: a record that everybody may read
//! says which of them differ, and not what they are.

use crate::args::RunArgs;
use akash_provider_core::Config;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Those that say whose leadership it is.
pub(super) const FIXED: [&str; 3] = ["provider", "chain-id", CLUSTER];
/// Which cluster it is, where that is known: with that of another one the leases would be there twice, or nowhere.
pub(super) const CLUSTER: &str = "cluster";
/// Digits of a hash.
const DIGITS: usize = 16;
/// A price script that is longer is known by its first bytes.
const SCRIPT_MAX: u64 = 4 << 20;

/// The Lease where nobody gives it another name: a namespace of records has one provider, and the role in `deploy/rbac`
/// names this Lease.
pub(super) const LEASE: &str = "akash-provider";

/// Name of the leadership on a Redis, which providers may share, where nobody gives it another.
pub(super) fn name(config: &Config) -> String {
    let mut chain = hash(config.chain_id.as_bytes());
    chain.truncate(8);
    format!("akash-provider-{}-{chain}", config.provider)
}

/// The cluster of this instance, by what only it has.
pub(super) fn cluster(uid: &str) -> (String, String) {
    (CLUSTER.to_owned(), hash(uid.as_bytes()))
}

/// By the names of their flags, as far as there is one.
pub(super) fn of(args: &RunArgs, config: &Config) -> BTreeMap<String, String> {
    let (kubernetes, leases) = (&args.kubernetes, &args.leases);
    // A path is where each instance has it, and what lies there is what counts.
    let mut prices = args.pricing.clone();
    let script = prices.bid_price_script_path.take();
    let policy = prices.bid_price_policy.take();
    let routes = &kubernetes.routes;
    let isolation = (
        kubernetes.deployment_network_policies_enabled,
        &kubernetes.deployment_runtime_class,
        &kubernetes.isolation,
        (kubernetes.lease_quota, kubernetes.drift),
        (
            &kubernetes.closed_networks,
            &kubernetes.resolver_networks,
            &kubernetes.resolver_pods,
        ),
        (
            &kubernetes.ingress_proxy_namespace,
            &kubernetes.ingress_proxy_labels,
            &routes.ingress_controller,
        ),
    );
    let overcommit = (
        kubernetes.overcommit_pct_cpu,
        kubernetes.overcommit_pct_mem,
        kubernetes.overcommit_pct_storage,
    );
    let texts = [
        ("provider", config.provider.to_string()),
        ("chain-id", config.chain_id.clone()),
        (
            "bid-deposit",
            text(&(&config.bid_deposit, &config.other_bid_deposits)),
        ),
        ("bid-price", text(&prices)),
        ("bid-timeout", text(&config.bid_timeout)),
        ("reclamation-window", text(&config.reclamation_window)),
        ("attributes", text(&config.required_attributes)),
        ("manifest-timeout", text(&config.manifest_timeout)),
        ("withdrawal-period", text(&config.withdrawal_period)),
        ("deployment-ingress-domain", text(&config.static_hosts_domain)),
        ("deployment-blocked-hostnames", text(&config.blocked_hostnames)),
        (
            "lease-funds-monitor-interval",
            text(&leases.lease_funds_monitor_interval),
        ),
        (
            "cluster-k8s",
            text(&(args.cluster_k8s || kubernetes.kubeconfig.is_some())),
        ),
        ("k8s-manifest-ns", kubernetes.k8s_manifest_ns.clone()),
        ("ingress-mode", text(&routes.ingress_mode)),
        (
            "cluster-public-hostname",
            kubernetes.cluster_public_hostname.clone(),
        ),
        ("overcommit-pct", text(&overcommit)),
        ("isolation", text(&isolation)),
        (
            "ip-operator",
            text(&(kubernetes.ip_operator, kubernetes.ip_pool_size)),
        ),
    ];
    let texts = texts
        .into_iter()
        .map(|(name, text)| (name.to_owned(), hash(text.as_bytes())));
    let script = script.map(|path| ("bid-price-script-path".to_owned(), hash(&script_bytes(&path))));
    let policy = policy.map(|path| ("bid-price-policy".to_owned(), hash(&script_bytes(&path))));
    texts.chain(script).chain(policy).collect()
}

fn text(value: &impl Debug) -> String {
    format!("{value:?}")
}

/// What cannot be read is as an empty one; it is told elsewhere.
fn script_bytes(path: &std::path::Path) -> Vec<u8> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let read = akash_provider_chain::regular_file::open(path)
        .and_then(|file| file.take(SCRIPT_MAX).read_to_end(&mut bytes));
    if read.is_err() {
        bytes.clear();
    }
    bytes
}

fn hash(bytes: &[u8]) -> String {
    let mut digits = data_encoding::HEXLOWER.encode(&Sha256::digest(bytes));
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn settings(words: &[&str]) -> BTreeMap<String, String> {
        let all = [&["provider-daemon", "run"][..], words].concat();
        let Command::Run(args) = Cli::try_parse_from(all).unwrap().command else {
            panic!("it is run")
        };
        let provider = akash_provider_core::types::Address::from_bytes(&[7; 20]).unwrap();
        let config = crate::commands::run::config(&args, provider, "test").unwrap();
        of(&args, &config)
    }

    fn differs(words: &[&str]) -> Vec<String> {
        let (plain, other) = (settings(&[]), settings(words));
        let differs = |(name, hash): &(&String, &String)| plain.get(*name) != Some(*hash);
        other
            .iter()
            .filter(differs)
            .map(|(name, _)| name.clone())
            .collect()
    }

    #[test]
    fn the_role_of_the_provider_has_rights_to_the_lease_that_is_contended_for_by_default() {
        let role = include_str!("../../../../deploy/rbac/provider.yaml");
        assert!(role.contains(&format!("resourceNames: [\"{LEASE}\"]")));
        let parsed = crate::args::values::dns_name(LEASE);
        assert!(parsed.is_ok());
    }

    #[test]
    fn a_setting_that_differs_is_named_and_one_that_may_differ_is_not() {
        assert_eq!(differs(&["--bid-price-cpu-scale=7"]), ["bid-price"]);
        assert_eq!(
            differs(&["--bid-timeout=1m", "--k8s-manifest-ns=other"]),
            ["bid-timeout", "k8s-manifest-ns"]
        );
        assert_eq!(differs(&["--cluster-k8s"]), ["cluster-k8s"]);
        let own = [
            "--gateway-listen-address=none",
            "--node=http://b:1",
            "--ha-lease=20s",
            "--log-level=debug",
        ];
        assert_eq!(differs(&own), [""; 0]);
        let one = settings(&[]);
        let (cluster, hash) = cluster("3f9f");
        assert_eq!((cluster.as_str(), hash.len()), (CLUSTER, DIGITS));
        assert!(
            FIXED
                .iter()
                .all(|name| *name == CLUSTER || one.contains_key(*name))
        );
        assert!(one.values().all(|hash| hash.len() == DIGITS));
    }

    #[test]
    fn a_price_script_is_known_by_what_it_says_and_not_by_where_it_lies() {
        let folder = std::env::temp_dir().join(format!("ha-settings-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            let path = format!("--bid-price-script-path={}", path.display());
            settings(&["--bid-price-strategy=shellScript", &path])
        };
        assert_eq!(script("a", "echo 1"), script("b", "echo 1"));
        assert_ne!(script("a", "echo 1"), script("b", "echo 2"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
