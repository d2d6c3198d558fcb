//! Settings of `run` that all instances of a provider must share, in one declaration. A test fails for a flag that is
//! not in one of the lists.

use akash_provider_core::types::Address;
use bigdecimal::BigDecimal;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is compared of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Value,
    /// The content of the file at the path. Instances may have different paths.
    Content,
    /// The content of the file, or the value where it is not the path of a file.
    ContentOrValue,
}

/// Flags that change a decision: whether and at what price to bid, how a lease is deployed, served and paid out, and when
/// it ends.
const COMPARED: [(&str, By); 74] = [
    ("bid-deposit", By::Value),
    ("bid-price-cpu-scale", By::Value),
    ("bid-price-endpoint-scale", By::Value),
    ("bid-price-gpu-scale", By::Value),
    ("bid-price-ip-scale", By::Value),
    ("bid-price-memory-scale", By::Value),
    ("bid-price-policy", By::Content),
    ("bid-price-script-path", By::Content),
    ("bid-price-script-process-limit", By::Value),
    ("bid-price-script-process-timeout", By::Value),
    ("bid-price-storage-scale", By::Value),
    ("bid-price-strategy", By::Value),
    ("bid-timeout", By::Value),
    ("breaker-ceiling", By::Value),
    ("breaker-floor", By::Value),
    ("breaker-percent", By::Value),
    ("breaker-warmup", By::Value),
    ("breaker-window", By::Value),
    ("closed-networks", By::Value),
    ("cluster-domain", By::Value),
    ("cluster-k8s", By::Value),
    ("cluster-node-port-quantity", By::Value),
    ("cluster-public-hostname", By::Value),
    ("deployment-blocked-hostnames", By::Value),
    ("deployment-ingress-domain", By::Value),
    ("deployment-ingress-static-hosts", By::Value),
    ("deployment-network-policies-enabled", By::Value),
    ("deployment-runtime-class", By::Value),
    ("docker-image-pull-secrets-name", By::Value),
    ("drift", By::Value),
    ("fee-ceiling", By::Value),
    ("fee-granter", By::Value),
    ("gas-adjustment", By::Value),
    ("gas-ceiling", By::Value),
    ("gas-prices", By::Value),
    ("gateway-implementation", By::Value),
    ("gateway-name", By::Value),
    ("gateway-namespace", By::Value),
    ("gateway-provider", By::Value),
    ("gateway-token-lifetime-max", By::Value),
    ("ingress-class", By::Value),
    ("ingress-controller", By::Value),
    ("ingress-mode", By::Value),
    ("ingress-proxy-labels", By::Value),
    ("ingress-proxy-namespace", By::Value),
    ("inventory-config", By::ContentOrValue),
    ("ip-operator", By::Value),
    ("ip-pool-size", By::Value),
    ("isolation", By::Value),
    ("k8s-manifest-ns", By::Value),
    ("lease-funds-monitor-interval", By::Value),
    ("lease-quota", By::Value),
    ("leased-ips", By::Value),
    ("manifest-timeout", By::Value),
    ("metal-lb-namespace", By::Value),
    ("metal-lb-pool", By::Value),
    ("node-cpu", By::Value),
    ("node-gpus", By::Value),
    ("node-memory", By::Value),
    ("node-storage", By::Value),
    ("nodes", By::Value),
    ("overcommit-pct-cpu", By::Value),
    ("overcommit-pct-mem", By::Value),
    ("overcommit-pct-storage", By::Value),
    ("plain-registry-passwords", By::Value),
    ("proxy-buffer-size", By::Value),
    ("reclamation-window", By::Value),
    ("resolver-networks", By::Value),
    ("resolver-pods", By::Value),
    ("storage-class", By::Value),
    ("unhealthy-limit", By::Value),
    ("withdrawal-period", By::Value),
    ("hostname-proof", By::Value),
    ("gpu-list", By::Content),
];

/// Flags that each instance may have in its own way, by the reason.
#[cfg(test)]
const OWN: [(&str, &[&str]); 8] = [
    (
        "where the instance is, and how it is reached",
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
    ("the settings in it are compared one by one", &["config"]),
    (
        "what is printed and recorded",
        &[
            "event-history",
            "log-color",
            "log-format",
            "log-level",
            "output",
            "record",
            "record-bytes",
        ],
    ),
    (
        "limits of calls and of load, which follow from the machine and its network",
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
        "operators in the process have elections of their own",
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
        "where events and the election are",
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
    ("without an effect on the leases", &["fees", "gas"]),
];

/// The compared settings of a command line, its files and its environment.
#[derive(Debug, Clone, Default)]
pub struct ComparedArgs {
    /// Texts by the names of the flags; empty for a flag without a value.
    pub(crate) values: BTreeMap<&'static str, String>,
    /// Files by the names of their flags.
    pub(crate) files: BTreeMap<&'static str, PathBuf>,
}

impl ComparedArgs {
    fn read(matches: &ArgMatches) -> Self {
        let mut read = Self::default();
        for (flag, by) in COMPARED {
            let text = text(matches, flag);
            let is_file = match by {
                By::Value => false,
                By::Content => !text.is_empty(),
                By::ContentOrValue => Path::new(&text).is_file(),
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

/// Returns the values of a flag in a form that does not depend on their spelling: `5m` and `300s` are equal.
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

/// Returns the texts of a flag's values if they have this type.
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
    use crate::args::today::without_effect;
    use crate::args::{Cli, run};
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    fn command() -> Command {
        let mut command = run::for_a_real_chain(Cli::command());
        command.build();
        command.find_subcommand("run").unwrap().clone()
    }

    #[test]
    fn every_flag_of_run_is_compared_or_exempt_by_a_reason() {
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
    fn a_compared_flag_is_found_by_its_name_in_the_parsed_command_line() {
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
    fn another_spelling_of_a_value_is_no_other_value() {
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
            "a flag without a value is compared too"
        );
    }
}
