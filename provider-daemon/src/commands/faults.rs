//! Faults in the settings of `run`. `config check` reports all of them, and `run` refuses to start with any.

use super::run_config::{self, invalid_prices};
use crate::args::RunArgs;
use crate::args::ha::HaStore;
use crate::error::message_text;
use crate::operators::OperatorPlan;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{Roots, regular_file};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::node::{addresses, block_on, given_chain_id, limits, required_chain_id, roots};
use akash_provider_cli::secrets;
use akash_provider_core::types::Address;
use anyhow::{Context, bail, ensure};
use kube::config::Kubeconfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Serialize;
use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Maximum size of a PEM file, in bytes.
const PEM_BYTES: u64 = 1024 * 1024;

/// Result of `config check`.
#[derive(Debug, Serialize)]
pub(super) struct CheckedSettings {
    pub(super) is_fine: bool,
    /// Settings without effect.
    pub(super) notices: Vec<String>,
    /// Faults that prevent a start, unknown names, and a problem of the price script.
    troubles: Vec<String>,
}

impl CheckedSettings {
    pub(super) fn new(args: &RunArgs, home: anyhow::Result<PathBuf>) -> Self {
        let unknown = &args.remarks.unknown;
        let mut troubles = unknown.clone();
        troubles.extend(faults(args, home));
        troubles.extend(args.pricing.script_trouble());
        // A set keeps the time linear in the number of unknown keys.
        let unknown: HashSet<&String> = unknown.iter().collect();
        let mut notices = args.notices(|name| std::env::var(name).ok());
        notices.retain(|notice| !unknown.contains(notice));
        Self {
            is_fine: troubles.is_empty(),
            troubles,
            notices,
        }
    }

    /// Returns one line per problem: `error: …`.
    pub(super) fn errors(&self) -> Vec<String> {
        let lines = self.troubles.iter();
        lines.map(|fault| format!("error: {fault}")).collect()
    }
}

/// Returns an error with all faults, each as a separate `error:` for the reader.
pub(super) fn refuse(args: &RunArgs, home: anyhow::Result<PathBuf>) -> anyhow::Result<()> {
    let faults = faults(args, home);
    ensure!(faults.is_empty(), "{}", faults.join("\nerror: "));
    Ok(())
}

/// Returns the reasons why the provider cannot start with these flags and files. A remedy is a separate line
/// `help: …`.
pub(super) fn faults(args: &RunArgs, home: anyhow::Result<PathBuf>) -> Vec<String> {
    let chain_id = given_chain_id(&args.node);
    let named = required_chain_id(&args.node);
    // The account is unknown without its key, but no check depends on the account.
    let config = Address::from_bytes(&[1; 20]).context("invalid built-in account of the checks");
    let config = config.and_then(|nobody| run_config::config(args, nobody, chain_id.unwrap_or("chain")));
    let domain = &args.leases.deployment_ingress_domain;
    let checks = [
        named.map(drop),
        nodes(args),
        args.pricing.strategy(1).map(drop).map_err(invalid_prices),
        secrets::check(&args.signer),
        config.map(drop),
        args.bus.location().map(drop),
        election(args),
        OperatorPlan::read(&args.kubernetes, &[], domain, None).map(drop),
        kubeconfig(args),
        certificates(args),
        home.and_then(|home| folder("--home", &home)),
        args.record
            .record
            .as_deref()
            .map_or(Ok(()), |dir| folder("--record", dir)),
        args.audit
            .chosen_directory()
            .map_or(Ok(()), |dir| folder("--audit-log", &dir)),
    ];
    let mut faults = Vec::new();
    for error in checks.into_iter().filter_map(Result::err) {
        let fault = message_text(&error);
        // Two checks may fail for the same reason.
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }
    faults
}

fn nodes(args: &RunArgs) -> anyhow::Result<()> {
    let nodes = addresses(&args.node)?;
    // The gRPC client requires a runtime.
    block_on(async {
        Endpoints::with_roots(&nodes, "", limits(&args.node), &roots(&args.node))?;
        Ok(())
    })
    .context("--node")?;
    let is_grpc = |node: &String| {
        ["grpc://", "grpcs://"]
            .iter()
            .any(|scheme| node.starts_with(scheme))
    };
    if nodes.iter().all(is_grpc) {
        bail!(WithHelp::new(
            "--node has gRPC addresses only, which report no blocks",
            "add a JSON-RPC address, such as http://HOST:26657"
        ));
    }
    Ok(())
}

fn election(args: &RunArgs) -> anyhow::Result<()> {
    if args.ha.ha == HaStore::Redis {
        args.ha.redis(&args.bus)?;
    }
    Ok(())
}

fn kubeconfig(args: &RunArgs) -> anyhow::Result<()> {
    let Some(path) = &args.kubernetes.kubeconfig else {
        return Ok(());
    };
    Kubeconfig::read_from(path).with_context(|| format!("cannot use --kubeconfig {}", path.display()))?;
    Ok(())
}

fn certificates(args: &RunArgs) -> anyhow::Result<()> {
    if let Roots::File(path) = roots(&args.node) {
        check_certificates("--node-ca", &path)?;
    }
    if let Some(path) = &args.gateway.gateway_tls_cert {
        check_certificates("--gateway-tls-cert", path)?;
    }
    if let Some(path) = &args.gateway.gateway_tls_key {
        let text = read("--gateway-tls-key", path)?;
        let key = PrivateKeyDer::from_pem_slice(&text);
        key.map_err(|error| {
            anyhow::anyhow!(WithHelp::new(
                format!("--gateway-tls-key {}: {error}", path.display()),
                "set --gateway-tls-key to a PEM file with a private key"
            ))
        })?;
    }
    Ok(())
}

/// Checks that `path` is a directory or can be created. Creates nothing.
fn folder(flag: &str, path: &Path) -> anyhow::Result<()> {
    for ancestor in path.ancestors() {
        match fs::metadata(ancestor) {
            Ok(found) => {
                let is_folder = found.is_dir();
                if is_folder {
                    return Ok(());
                }
                bail!(WithHelp::new(
                    format!(
                        "{flag} {}: {} is not a directory",
                        path.display(),
                        ancestor.display()
                    ),
                    format!("set {flag} to a directory")
                ));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("{flag} {}", path.display())),
        }
    }
    Ok(())
}

fn check_certificates(flag: &str, path: &Path) -> anyhow::Result<()> {
    let text = read(flag, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if all.is_empty() => bail!(WithHelp::new(
            format!("{flag} {}: no PEM certificate found", path.display()),
            format!("set {flag} to a PEM file with at least one certificate")
        )),
        Ok(_) => Ok(()),
        Err(error) => bail!(WithHelp::new(
            format!("{flag} {}: {error}", path.display()),
            format!("set {flag} to a PEM file with at least one certificate")
        )),
    }
}

fn read(flag: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    regular_file::read(path, PEM_BYTES).with_context(|| format!("{flag} {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::run::for_a_real_chain;
    use crate::args::{Cli, Command as Chosen, ConfigCommand};
    use crate::error::error_text;
    use clap::{Arg, CommandFactory, FromArgMatches};

    const BASE: [&str; 3] = ["--bid-price-cpu-scale=1", "--chain-id=c", "--from=key"];
    const WRONG: &str = "%%wrong%%";
    /// Flags that `run` does not check at its start: names of objects, the log level, and files. `run` reads
    /// these files later, or only if another flag is set.
    const FREE: [&str; 23] = [
        "audit-log",
        "bid-price-policy",
        "bid-price-script-path",
        "certificate-domain",
        "chain-id",
        "cluster-domain",
        "cluster-public-hostname",
        "config",
        "deployment-blocked-hostnames",
        "deployment-runtime-class",
        "discovery-program",
        "docker-image-pull-secrets-name",
        "fees",
        "from",
        "gateway-provider",
        "gpu-list",
        "home",
        "inventory-config",
        "k8s-manifest-ns",
        "keyring-dir",
        "keyring-passphrase-file",
        "log-level",
        "record",
    ];

    /// Returns the errors that `run` prints before it opens anything, or those that `config check` prints.
    fn errors(root: &mut clap::Command, arguments: &[&str], is_checked: bool) -> String {
        let command = if is_checked {
            &["config", "check"][..]
        } else {
            &["run"]
        };
        let flag = |argument: &str| argument.split('=').next().unwrap().to_owned();
        let mut base = BASE.to_vec();
        base.retain(|set| arguments.iter().all(|argument| flag(argument) != flag(set)));
        let all = [&["provider-daemon"], command, &base[..], arguments].concat();
        let cli = root
            .try_get_matches_from_mut(all)
            .and_then(|matches| Cli::from_arg_matches(&matches));
        let cli = match cli {
            Ok(cli) => cli,
            Err(error) => {
                let text = error.to_string();
                // The usage contains the name of the command.
                return text.split("\n\nUsage:").next().unwrap().to_owned();
            }
        };
        let home = Ok(cli.home().unwrap());
        match cli.command {
            Chosen::Run(args) => {
                refuse(&args, home).map_or_else(|error| error_text(&error), |()| String::new())
            }
            Chosen::Config(ConfigCommand::Check(args)) => {
                CheckedSettings::new(&args.run, home).errors().join("\n")
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns arguments that set a flag to each of its known values, and to values that most flags reject.
    fn arguments(arg: &Arg) -> Option<Vec<String>> {
        let flag = format!("--{}", arg.get_long()?);
        if !arg.get_action().takes_values() {
            return Some(vec![flag]);
        }
        let possible = arg.get_possible_values();
        let known = possible.iter().map(|value| value.get_name().to_owned());
        let defaults = arg.get_default_values().iter();
        let defaults = defaults.map(|value| value.to_string_lossy().into_owned());
        let others = [WRONG, "", "-1", "0", "/"].map(str::to_owned);
        let values = others.into_iter().chain(known).chain(defaults);
        Some(values.map(|value| format!("{flag}={value}")).collect())
    }

    #[test]
    fn run_and_check_refuse_the_same_values_with_the_same_text() {
        let mut root = for_a_real_chain(Cli::command());
        root.build();
        let run = root.find_subcommand("run").unwrap();
        let is_setting = |arg: &&Arg| !["help", "version"].contains(&arg.get_id().as_str());
        let settings: Vec<Vec<String>> = run
            .get_arguments()
            .filter(is_setting)
            .filter_map(arguments)
            .collect();
        let (mut accepting, mut refusing) = (0, 0);
        for arguments in &settings {
            let mut results = Vec::new();
            for argument in arguments {
                let [by_run, by_check] = [false, true].map(|is| errors(&mut root, &[argument], is));
                assert_eq!(by_run, by_check, "{argument}");
                results.push(by_run.is_empty());
            }
            accepting += usize::from(results.contains(&true));
            refusing += usize::from(results.contains(&false));
        }
        let counts = (settings.len(), accepting, refusing);
        assert!(accepting > 150 && refusing > 100, "{counts:?}");
    }

    #[test]
    fn rejects_an_invalid_value_of_every_checked_flag() {
        let mut root = for_a_real_chain(Cli::command());
        root.build();
        let run = root.find_subcommand("run").unwrap();
        // Hidden flags are flags of the Go provider without effect.
        let takes_value = |arg: &&Arg| arg.get_action().takes_values() && !arg.is_hide_set();
        let flags = run.get_arguments().filter(takes_value).filter_map(Arg::get_long);
        let flags: Vec<String> = flags.map(str::to_owned).collect();
        let is_free = |flag: &String| errors(&mut root, &[&format!("--{flag}={WRONG}")], false).is_empty();
        let mut accepted: Vec<String> = flags.into_iter().filter(is_free).collect();
        accepted.sort_unstable();
        accepted.dedup();
        assert_eq!(accepted, FREE);
    }

    #[test]
    fn check_also_reports_a_price_script_that_cannot_run() {
        let mut root = for_a_real_chain(Cli::command());
        let script = [
            "--bid-price-strategy=shellScript",
            "--bid-price-script-path=/no/such",
        ];
        assert_eq!(errors(&mut root, &script, false), "");
        let reported = errors(&mut root, &script, true);
        assert!(
            reported.starts_with("error: cannot use --bid-price-script-path /no/such: "),
            "{reported}"
        );
    }

    #[test]
    fn rejects_a_directory_that_cannot_be_created() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let mut root = for_a_real_chain(Cli::command());
        for (path, is_fine) in [
            (place.path().join("deep/er"), true),
            (place.path().to_owned(), true),
            (file.clone(), false),
            (file.join("below"), false),
            (place.path().join("x".repeat(300)), false),
        ] {
            for flag in ["home", "record", "audit-log"] {
                let argument = format!("--{flag}={}", path.display());
                let errors = errors(&mut root, &[&argument], true);
                assert_eq!(errors.is_empty(), is_fine, "{argument}: {errors}");
                assert!(
                    is_fine || errors.starts_with(&format!("error: --{flag} ")),
                    "{errors}"
                );
            }
        }
        assert!(
            !place.path().join("deep").exists(),
            "a check must not create anything"
        );
    }
}
