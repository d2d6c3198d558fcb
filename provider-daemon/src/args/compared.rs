//! Settings of `run` that all instances of a provider must share. A test requires every flag to be in one of the lists.

use akash_provider_core::types::Address;
use bigdecimal::BigDecimal;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Part of a flag's value that must be equal on all instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ComparedPart {
    Value,
    /// Content of the file with the path in the flag.
    Content,
    /// Content of the file with the path in the flag. If the file does not exist, the value of the flag.
    ContentOrValue,
}

/// Flags that affect bids, prices, deployments, withdrawals or the end of a lease.
const COMPARED: [(&str, ComparedPart); 74] = [
    ("bid-deposit", ComparedPart::Value),
    ("bid-price-cpu-scale", ComparedPart::Value),
    ("bid-price-endpoint-scale", ComparedPart::Value),
    ("bid-price-gpu-scale", ComparedPart::Value),
    ("bid-price-ip-scale", ComparedPart::Value),
    ("bid-price-memory-scale", ComparedPart::Value),
    ("bid-price-policy", ComparedPart::Content),
    ("bid-price-script-path", ComparedPart::Content),
    ("bid-price-script-process-limit", ComparedPart::Value),
    ("bid-price-script-process-timeout", ComparedPart::Value),
    ("bid-price-storage-scale", ComparedPart::Value),
    ("bid-price-strategy", ComparedPart::Value),
    ("bid-timeout", ComparedPart::Value),
    ("breaker-ceiling", ComparedPart::Value),
    ("breaker-floor", ComparedPart::Value),
    ("breaker-percent", ComparedPart::Value),
    ("breaker-warmup", ComparedPart::Value),
    ("breaker-window", ComparedPart::Value),
    ("closed-networks", ComparedPart::Value),
    ("cluster-domain", ComparedPart::Value),
    ("cluster-k8s", ComparedPart::Value),
    ("cluster-node-port-quantity", ComparedPart::Value),
    ("cluster-public-hostname", ComparedPart::Value),
    ("deployment-blocked-hostnames", ComparedPart::Value),
    ("deployment-ingress-domain", ComparedPart::Value),
    ("deployment-ingress-static-hosts", ComparedPart::Value),
    ("deployment-network-policies-enabled", ComparedPart::Value),
    ("deployment-runtime-class", ComparedPart::Value),
    ("docker-image-pull-secrets-name", ComparedPart::Value),
    ("drift", ComparedPart::Value),
    ("fee-ceiling", ComparedPart::Value),
    ("fee-granter", ComparedPart::Value),
    ("gas-adjustment", ComparedPart::Value),
    ("gas-ceiling", ComparedPart::Value),
    ("gas-prices", ComparedPart::Value),
    ("gateway-implementation", ComparedPart::Value),
    ("gateway-name", ComparedPart::Value),
    ("gateway-namespace", ComparedPart::Value),
    ("gateway-provider", ComparedPart::Value),
    ("gateway-token-lifetime-max", ComparedPart::Value),
    ("ingress-class", ComparedPart::Value),
    ("ingress-controller", ComparedPart::Value),
    ("ingress-mode", ComparedPart::Value),
    ("ingress-proxy-labels", ComparedPart::Value),
    ("ingress-proxy-namespace", ComparedPart::Value),
    ("inventory-config", ComparedPart::ContentOrValue),
    ("ip-operator", ComparedPart::Value),
    ("ip-pool-size", ComparedPart::Value),
    ("isolation", ComparedPart::Value),
    ("k8s-manifest-ns", ComparedPart::Value),
    ("lease-funds-monitor-interval", ComparedPart::Value),
    ("lease-quota", ComparedPart::Value),
    ("leased-ips", ComparedPart::Value),
    ("manifest-timeout", ComparedPart::Value),
    ("metal-lb-namespace", ComparedPart::Value),
    ("metal-lb-pool", ComparedPart::Value),
    ("node-cpu", ComparedPart::Value),
    ("node-gpus", ComparedPart::Value),
    ("node-memory", ComparedPart::Value),
    ("node-storage", ComparedPart::Value),
    ("nodes", ComparedPart::Value),
    ("overcommit-pct-cpu", ComparedPart::Value),
    ("overcommit-pct-mem", ComparedPart::Value),
    ("overcommit-pct-storage", ComparedPart::Value),
    ("plain-registry-passwords", ComparedPart::Value),
    ("proxy-buffer-size", ComparedPart::Value),
    ("reclamation-window", ComparedPart::Value),
    ("resolver-networks", ComparedPart::Value),
    ("resolver-pods", ComparedPart::Value),
    ("storage-class", ComparedPart::Value),
    ("unhealthy-limit", ComparedPart::Value),
    ("withdrawal-period", ComparedPart::Value),
    ("hostname-proof", ComparedPart::Value),
    ("gpu-list", ComparedPart::Content),
];

/// Flags that may differ between instances, grouped by the reason for the difference.
#[cfg(test)]
const OWN: [(&str, &[&str]); 8] = [
    (
        "location and addresses of the instance",
        &[
            "certificate-domain",
            "gateway-grpc-listen-address",
            "gateway-health-listen-address",
            "gateway-listen-address",
            "gateway-tls-cert",
            "gateway-tls-key",
            "home",
            "kubeconfig",
            "node",
            "node-ca",
        ],
    ),
    (
        "compared as account, chain and attributes: `provider`, `chain-id`, `attributes`",
        &[
            "chain-id",
            "from",
            "key-file",
            "key-passphrase-file",
            "keyring-backend",
            "keyring-dir",
            "keyring-passphrase-file",
            "provider-config",
        ],
    ),
    ("its settings are compared individually", &["config"]),
    (
        "output and recording",
        &[
            "audit-log",
            "audit-log-bytes",
            "audit-log-files",
            "event-history",
            "log-color",
            "log-format",
            "log-level",
            "metrics-listener",
            "metrics-per-lease",
            "order-history",
            "order-history-bytes",
            #[cfg(feature = "otlp")]
            "otlp-endpoint",
            "output",
            "record",
            "record-bytes",
        ],
    ),
    (
        "limits of calls and load, which depend on the machine and its network",
        &[
            "cluster-timeout",
            "full-scan-interval",
            "gateway-anonymous-requests",
            "gateway-connections",
            "gateway-screenings",
            "gateway-screenings-at-once",
            "gateway-status-streams",
            "gateway-strangers",
            "gateway-unknown-accounts",
            "kube-call-timeout",
            "manifest-request-timeout",
            "node-timeout",
            "pricing-timeout",
            "rpc-query-timeout",
            "shutdown-grace",
            "tx-timeout",
        ],
    ),
    (
        "embedded operators have separate elections",
        &[
            "discovery-image",
            "discovery-namespace",
            "discovery-program",
            "dns-server",
            "probe",
            "probe-budget",
            "probe-interval",
            "proof-budget",
            "proof-interval",
            "provider-configs-url",
            "registry-query-period",
            "with-operators",
        ],
    ),
    (
        "location of events and of the election",
        &[
            "bus",
            "bus-ca",
            "bus-cert",
            "bus-key",
            "bus-password-file",
            "bus-prefix",
            "bus-sentinel-password-file",
            "ha",
            "ha-address",
            "ha-ca",
            "ha-cert",
            "ha-identity",
            "ha-key",
            "ha-lease",
            "ha-name",
            "ha-namespace",
            "ha-password-file",
            "ha-prefix",
            "ha-sentinel-password-file",
            "ha-takeover-settings",
            "ha-url",
        ],
    ),
    ("no effect on leases", &["fees", "gas"]),
];

/// Settings of this instance that must be equal on all instances.
#[derive(Debug, Clone, Default)]
pub struct ComparedArgs {
    /// Values as text by flag name; empty for a flag without a value.
    pub(crate) values: BTreeMap<&'static str, String>,
    /// Paths by flag name.
    pub(crate) files: BTreeMap<&'static str, PathBuf>,
}

/// Returns whether high availability compares a flag.
#[cfg(test)]
pub(super) fn is_compared(flag: &str) -> bool {
    COMPARED.iter().any(|(name, _)| *name == flag)
}

impl ComparedArgs {
    fn read(matches: &ArgMatches) -> Self {
        let mut read = Self::default();
        for (flag, by) in COMPARED {
            let text = text(matches, flag);
            let is_file = match by {
                ComparedPart::Value => false,
                ComparedPart::Content => !text.is_empty(),
                ComparedPart::ContentOrValue => Path::new(&text).is_file(),
            };
            if is_file {
                read.files.insert(flag, PathBuf::from(text));
            } else {
                read.values.insert(flag, text);
            }
        }
        read
    }
}

impl Args for ComparedArgs {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for ComparedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::read(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::read(matches);
        Ok(())
    }
}

/// Returns the values of a flag as normalized text, equal for `5m` and `300s`.
fn text(matches: &ArgMatches, flag: &str) -> String {
    let id = flag.replace('-', "_");
    let parsed = typed(matches, &id, |value: &Duration| format!("{value:?}"))
        .or_else(|| typed(matches, &id, bool::to_string))
        .or_else(|| typed(matches, &id, |value: &BigDecimal| value.normalized().to_string()))
        .or_else(|| typed(matches, &id, f64::to_string))
        .or_else(|| typed(matches, &id, i64::to_string))
        .or_else(|| typed(matches, &id, u32::to_string))
        .or_else(|| typed(matches, &id, u64::to_string))
        .or_else(|| typed(matches, &id, usize::to_string))
        .or_else(|| typed(matches, &id, Address::to_string))
        .or_else(|| typed(matches, &id, |value: &String| value.trim().to_owned()));
    let raw = || {
        let raw = matches.try_get_raw(&id).ok().flatten();
        let texts = raw
            .into_iter()
            .flatten()
            .map(|value| value.to_string_lossy().into_owned());
        texts.collect()
    };
    parsed.unwrap_or_else(raw).join(",")
}

/// Returns the values of a flag as text, or `None` if the values are not of type `T`.
fn typed<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    id: &str,
    text: impl Fn(&T) -> String,
) -> Option<Vec<String>> {
    let values = matches.try_get_many::<T>(id).ok()?;
    Some(values.into_iter().flatten().map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::go_flags::without_effect;
    use crate::args::{Cli, run};
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    fn command() -> Command {
        let mut command = run::for_a_real_chain(Cli::command());
        command.build();
        command.find_subcommand("run").unwrap().clone()
    }

    #[test]
    fn declares_every_flag_of_run_as_compared_or_exempt() {
        let exempt = OWN.iter().flat_map(|(_, flags)| flags.iter().copied());
        let declared: Vec<&str> = COMPARED.iter().map(|(flag, _)| *flag).chain(exempt).collect();
        let unique: BTreeSet<&str> = declared.iter().copied().collect();
        assert_eq!(unique.len(), declared.len(), "a flag is declared twice");
        let command = command();
        let without_effect: BTreeSet<&str> = without_effect().map(|today| today.name()).collect();
        let flags = command.get_arguments().filter_map(|arg| arg.get_long());
        let flags: BTreeSet<&str> = flags
            .filter(|flag| !["help", "version"].contains(flag) && !without_effect.contains(flag))
            .collect();
        let undeclared: Vec<_> = flags.difference(&unique).collect();
        assert!(
            undeclared.is_empty(),
            "neither compared nor exempt: {undeclared:?}"
        );
        let unknown: Vec<_> = unique.difference(&flags).collect();
        assert!(unknown.is_empty(), "not a flag of run: {unknown:?}");
    }

    fn read(words: &[&str]) -> ComparedArgs {
        let words = [&["run"][..], words].concat();
        let matches = command().try_get_matches_from(words).unwrap();
        ComparedArgs::read(&matches)
    }

    #[test]
    fn finds_compared_flags_by_name() {
        let command = command();
        for (flag, _) in COMPARED {
            let arg = command
                .get_arguments()
                .find(|arg| arg.get_long() == Some(flag))
                .unwrap();
            assert_eq!(arg.get_id().as_str(), flag.replace('-', "_"));
        }
    }

    #[test]
    fn compares_values_independent_of_their_spelling() {
        for (one, other) in [
            ("--bid-timeout=5m", "--bid-timeout=300s"),
            ("--drift=heal", "--drift=heal"),
            ("--lease-quota", "--lease-quota=T"),
            ("--bid-price-cpu-scale=1.50", "--bid-price-cpu-scale=1.5"),
            ("--overcommit-pct-cpu=05", "--overcommit-pct-cpu=5"),
            ("--node-memory=1Gi", "--node-memory=1024Mi"),
        ] {
            assert_eq!(read(&[one]).values, read(&[other]).values, "{one} {other}");
        }
        let unset = read(&[]);
        assert_eq!(unset.values["ingress-proxy-namespace"], "");
        assert!(unset.files.is_empty());
        assert_eq!(
            unset.values.len(),
            COMPARED.len(),
            "a flag without a value must be compared"
        );
    }
}
