//! Result of `config check`.

use akash_provider_service::args::RunArgs;
use akash_provider_service::run::faults::faults;
use serde::Serialize;
use std::collections::HashSet;
use std::path::PathBuf;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ConfigCommand;
    use akash_provider_cli::error::error_text;
    use akash_provider_cli::flags::with_go_booleans;
    use akash_provider_service::args::GlobalArgs;
    use akash_provider_service::args::run::{for_a_real_chain, with_a_result};
    use akash_provider_service::error::REMEDIES;
    use akash_provider_service::run::faults::refuse;
    use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand};

    #[derive(Debug, Parser)]
    #[command(name = "provider-daemon")]
    struct SettingsLine {
        #[command(flatten)]
        global: GlobalArgs,
        #[command(subcommand)]
        command: SettingsCommand,
    }

    #[derive(Debug, Subcommand)]
    enum SettingsCommand {
        Run(Box<RunArgs>),
        #[command(subcommand)]
        Config(ConfigCommand),
    }

    fn root() -> clap::Command {
        let root = with_go_booleans(SettingsLine::command()).mut_subcommand("run", for_a_real_chain);
        root.mut_subcommand("config", |config| config.mut_subcommands(with_a_result))
    }

    const BASE: [&str; 3] = ["--bid-price-cpu-scale=1", "--chain-id=c", "--from=key"];
    const WRONG: &str = "%%wrong%%";
    /// Flags that `run` does not check at its start: names of objects, the log level, and files. `run` reads
    /// these files later, or only if another flag is set.
    const FREE: [&str; 28] = [
        "audit-log",
        "bid-price-policy",
        "bid-price-script-path",
        "cert-issuer-email",
        "cert-issuer-hmac",
        "cert-issuer-kid",
        "cert-issuer-storage-dir",
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
        "inventory-operator-ca",
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
            .and_then(|matches| SettingsLine::from_arg_matches(&matches));
        let cli = match cli {
            Ok(cli) => cli,
            Err(error) => {
                let text = error.to_string();
                // The usage contains the name of the command.
                return text.split("\n\nUsage:").next().unwrap().to_owned();
            }
        };
        let home = Ok(cli.global.home().unwrap());
        match cli.command {
            SettingsCommand::Run(args) => {
                refuse(&args, home).map_or_else(|error| error_text(&error, &REMEDIES), |()| String::new())
            }
            SettingsCommand::Config(ConfigCommand::Check(args)) => {
                CheckedSettings::new(&args.run, home).errors().join("\n")
            }
            other => panic!("{other:?}"),
        }
    }

    /// Returns arguments that set a flag to each of its known values, and to values that most flags reject.
    fn arguments(arg: &Arg) -> Option<Vec<String>> {
        let flag = format!("--{}", arg.get_long()?);
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
        let mut root = root();
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
        let mut root = root();
        root.build();
        let run = root.find_subcommand("run").unwrap();
        // Hidden flags are flags of the Go provider without effect.
        let is_setting = |arg: &&Arg| arg.get_action().takes_values() && !arg.is_hide_set();
        let flags = run.get_arguments().filter(is_setting).filter_map(Arg::get_long);
        let flags: Vec<String> = flags.map(str::to_owned).collect();
        let is_free = |flag: &String| errors(&mut root, &[&format!("--{flag}={WRONG}")], false).is_empty();
        let mut accepted: Vec<String> = flags.into_iter().filter(is_free).collect();
        accepted.sort_unstable();
        accepted.dedup();
        assert_eq!(accepted, FREE);
    }

    #[test]
    fn check_also_reports_a_price_script_that_cannot_run() {
        let mut root = root();
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
        std::fs::write(&file, "").unwrap();
        let mut root = root();
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
