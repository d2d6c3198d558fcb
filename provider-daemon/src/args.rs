//! Command line: the commands, their help, and the variables of their flags.

pub mod environment;
pub mod help;
pub mod operators;

use crate::version::VersionArgs;
use akash_provider_cli::error::{is_json, json_text};
use akash_provider_cli::flags::with_go_booleans;
use akash_provider_dev::args::{DevArgs, DevnetArgs};
use akash_provider_operate::args::{
    BusCommand, ConfigCommand, DoctorArgs, EventsArgs, ExplainArgs, KeysArgs, MigrateCommand,
    OperatorCommand, PriceCommand, QueryArgs, SdlArgs, StateAction, ToolsCommand, TxArgs, explain,
};
use akash_provider_service::args::settings::{self, RunSettings};
use akash_provider_service::args::{GlobalArgs, OperatorsCommand, RunArgs, run};
use akash_provider_service::flight::{BundleArgs, ReplayArgs};
use akash_provider_tenant::args::TenantCommand;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// An Akash compute provider.
#[derive(Debug, Parser)]
#[command(name = "provider-daemon", version, about, max_term_width = help::WIDTH_MAX, args_override_self = true)]
pub struct Cli {
    /// Flags of all commands.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a provider with an embedded market, simulated tenants and an in-memory cluster
    Dev(Box<DevArgs>),
    /// Serve an embedded market over the protocols of a node, or act as a tenant on such a network
    Devnet(Box<DevnetArgs>),
    /// Validate an SDL file, or print its manifest, groups or hash
    Sdl(SdlArgs),
    /// Explain whether an SDL or an order gets a bid: the price, or the reasons for the refusal, per node
    Explain(Box<ExplainArgs>),
    /// Create, show, import and export signing keys
    Keys(Box<KeysArgs>),
    /// Query the chain: providers, orders, leases, balances and more
    #[command(visible_alias = "q")]
    Query(Box<QueryArgs>),
    /// Print the events of the chain's Akash modules, block by block, as JSON lines
    Events(EventsArgs),
    /// Sign and send transactions.
    Tx(Box<TxArgs>),
    /// Run the provider: follow the chain, bid on orders, run leases on a cluster
    Run(Box<RunArgs>),
    /// Print or check the settings of `run`
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check key, chain, account, certificate, DNS, cluster and machine of a provider, with a remedy per problem
    Doctor(Box<DoctorArgs>),
    /// Commands that control a running provider.
    #[command(flatten)]
    Operator(OperatorCommand),
    /// Run an operator that creates cluster objects from the provider's records
    #[command(subcommand, name = "operator")]
    Operators(OperatorsCommand),
    /// List or run the migrations of a new provider version
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Replay a recording and compare the decisions; --order and --lease print all decisions on one order or
    /// lease
    Replay(ReplayArgs),
    /// Show or reset the chain state of a stopped provider
    #[command(subcommand)]
    State(StateAction),
    /// Pack a recording, or a part of it, into an archive for a bug report
    Bundle(BundleArgs),
    /// Read the events that a provider publishes
    #[command(subcommand)]
    Bus(BusCommand),
    /// Check a price policy before it is used
    #[command(subcommand)]
    Price(PriceCommand),
    /// Report the hardware of this machine
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Commands of tenants.
    #[command(flatten)]
    Tenant(TenantCommand),
    /// Print the version and the commit of the build
    Version(VersionArgs),
    /// Print a completion script for a shell
    #[command(alias = "completion")]
    Completions {
        /// Shell to generate the script for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands
    ManPages {
        /// Folder for the pages; created if missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

impl Cli {
    /// Parses the command line of this process; unset flags use the environment and files. Exits the process
    /// if the command line is invalid, or after printing help.
    #[must_use]
    pub fn from_process() -> Self {
        let look = |name: &str| std::env::var(name).ok();
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let words: Vec<OsString> = std::env::args_os().collect();
        let has = |word: &str| words.iter().any(|typed| typed == word);
        let mut command = Self::for_a_real_chain();
        if words.len() < 2 || ["help", "--help", "-h"].into_iter().any(has) {
            command = help::with_examples(command);
        }
        // The variables of thousands of flags are looked up only for commands that the line can mean.
        let is_typed =
            |command: &clap::Command| has(command.get_name()) || command.get_all_aliases().any(has);
        let command = environment::read_in(command, is_of_a_real_provider(), is_typed, look);
        Self::parse_settings(command, words, names, look).unwrap_or_else(|error| refuse(&error))
    }

    /// Returns the command line without the trial defaults of commands for a real provider.
    #[must_use]
    pub fn for_a_real_chain() -> clap::Command {
        let root = with_go_booleans(Self::command()).mut_subcommand("run", run::for_a_real_chain);
        let root = root.mut_subcommand("doctor", run::with_a_result);
        let root = root.mut_subcommand("config", |config| config.mut_subcommands(run::with_a_result));
        root.mut_subcommand("explain", explain::for_a_real_chain)
    }

    /// Returns the command line for help and manual pages: with examples and the names of environment variables.
    pub(crate) fn documented() -> clap::Command {
        environment::read_in(
            help::with_examples(Self::for_a_real_chain()),
            true,
            |_| true,
            |_| None,
        )
    }

    /// Returns the command `run` with all its flags.
    pub(crate) fn flags_of_run() -> clap::Command {
        let mut root = Self::for_a_real_chain();
        root.build();
        let run = root.find_subcommand("run").cloned();
        run.unwrap_or_default()
    }

    /// Parses a command line, and the settings files that are named in flags or environment variables.
    fn parse_settings(
        command: clap::Command,
        words: Vec<OsString>,
        variables: impl Iterator<Item = String>,
        look: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, clap::Error> {
        let (matches, found) = settings::parse(command, words, variables, look)?;
        let mut cli = Self::from_arg_matches(&matches)?;
        if let Some(found) = found {
            cli.command.set(found);
        }
        Ok(cli)
    }
}

impl Command {
    /// Sets the settings of `run` that result from files, and the remarks about them.
    fn set(&mut self, found: RunSettings) {
        if let Self::Config(ConfigCommand::Show(args)) = self {
            args.settings = found.settings;
        }
        if let Some(run) = self.run_args() {
            run.compared = found.compared;
            run.remarks = found.remarks;
        }
    }

    /// Returns the flags of `run`, or `None` for a command without these flags.
    fn run_args(&mut self) -> Option<&mut RunArgs> {
        match self {
            Self::Run(args) => Some(args),
            Self::Explain(args) => Some(&mut args.run),
            Self::Doctor(args) => Some(&mut args.run),
            Self::Config(ConfigCommand::Show(args)) => Some(&mut args.run),
            Self::Config(ConfigCommand::Check(args)) => Some(&mut args.run),
            _ => None,
        }
    }
}

/// Prints an invalid command line, or the requested help, and exits the process.
fn refuse(error: &clap::Error) -> ! {
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if !is_help && is_json(std::env::args_os()) {
        let text = error.render().to_string();
        let (message, help) = text.split_once("\n\n").unwrap_or((&text, ""));
        let message = message.strip_prefix("error: ").unwrap_or(message).trim();
        let help = Some(help.trim()).filter(|help| !help.is_empty());
        eprintln!("{}", json_text(message, help, std::iter::empty()));
    } else {
        // The failure cannot be reported anywhere.
        drop(error.print());
    }
    // For an I/O error, the command line is valid, but a file that it names is not.
    let is_io = error.kind() == ErrorKind::Io;
    std::process::exit(if is_io { 1 } else { error.exit_code() })
}

/// Returns true if the command line contains `--from` or `--provider`. Ignores environment variables, which
/// users set for other commands.
fn is_of_a_real_provider() -> bool {
    let mut words = std::env::args_os();
    words.any(|word| {
        let flag = word
            .to_str()
            .map(|w| w.split_once('=').map_or(w, |(flag, _)| flag));
        matches!(flag, Some("--from" | "--provider"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_the_troubleshooting_page_exist_with_their_flags() {
        let page = include_str!("../../docs/troubleshooting.md");
        let root = Cli::for_a_real_chain();
        let mut checked = 0;
        for row in page.lines().filter(|line| line.matches(" | ").count() == 2) {
            let cell = row.split(" | ").nth(1).unwrap_or_default();
            let quoted = cell.split('`').skip(1).step_by(2);
            for words in quoted.filter(|words| !words.starts_with('/')) {
                let mut command = &root;
                for (position, word) in words.split(' ').enumerate() {
                    let is_flag =
                        |flag: &str| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
                    match (word.strip_prefix("--"), command.find_subcommand(word)) {
                        (Some(flag), _) => assert!(is_flag(flag), "`{words}`: no flag --{flag}"),
                        (None, Some(found)) => command = found,
                        (None, None) => assert_ne!(position, 0, "`{words}`: no such command"),
                    }
                }
                checked += 1;
            }
        }
        assert!(checked > 20, "{checked}");
    }

    #[test]
    fn every_command_with_the_flags_of_run_gets_the_remarks_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("settings.yaml");
        std::fs::write(&file, "zzz: 1\nbid-timeout: 7m\n").unwrap();
        let config = format!("--config={}", file.display());
        let parsed = |words: &[&str]| {
            let words = ["provider-daemon"].iter().chain(words);
            let words = words.map(OsString::from).collect();
            let command = Cli::for_a_real_chain();
            Cli::parse_settings(command, words, std::iter::empty(), |_| None).unwrap()
        };
        for words in [
            &["run"][..],
            &["doctor"],
            &["explain", "web.yaml"],
            &["config", "show"],
            &["config", "check"],
        ] {
            let mut cli = parsed(&[words, &[&config]].concat());
            let run = cli.command.run_args().unwrap();
            assert_eq!(run.remarks.unknown.len(), 1, "{words:?}");
            assert_eq!(run.bids.bid_timeout.as_secs(), 420, "{words:?}");
            let compared = format!("{:?}", run.compared);
            assert!(
                compared.contains("\"bid-timeout\": \"420s\""),
                "{words:?}: {compared}"
            );
        }
        assert!(parsed(&["version"]).command.run_args().is_none());
        let Command::Config(ConfigCommand::Show(args)) = parsed(&["config", "show", &config]).command else {
            panic!("expected `config show`");
        };
        let shown = args.settings.iter().find(|setting| setting.name == "bid-timeout");
        assert_eq!(shown.unwrap().source, "file");
    }
}
