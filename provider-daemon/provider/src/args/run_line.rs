//! Command line with the command `run` alone, for tests.

use super::compared::ComparedArgs;
use super::{GlobalArgs, RunArgs, run};
use akash_provider_cli::flags::with_go_booleans;
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};

/// Command line `provider-daemon run …`.
#[derive(Debug, Parser)]
#[command(name = "provider-daemon", args_override_self = true)]
pub(crate) struct RunLine {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    command: OneCommand,
}

#[derive(Debug, Subcommand)]
enum OneCommand {
    Run(Box<RunArgs>),
}

impl RunLine {
    /// Returns the command line with the defaults for a real chain.
    pub(crate) fn root() -> Command {
        with_go_booleans(Self::command()).mut_subcommand("run", run::for_a_real_chain)
    }

    /// Returns the command `run` with all its flags.
    pub(crate) fn run_command() -> Command {
        let mut root = Self::root();
        root.build();
        root.find_subcommand("run").unwrap().clone()
    }

    /// Parses the flags of `run`, with the defaults for a trial.
    pub(crate) fn trial(words: &[&str]) -> Result<Box<RunArgs>, clap::Error> {
        Self::read(with_go_booleans(Self::command()), words)
    }

    /// Parses the flags of `run`, with the defaults for a real chain.
    pub(crate) fn real(words: &[&str]) -> Result<Box<RunArgs>, clap::Error> {
        Self::read(Self::root(), words)
    }

    fn read(mut root: Command, words: &[&str]) -> Result<Box<RunArgs>, clap::Error> {
        root.build();
        let words = [&["provider-daemon", "run"][..], words].concat();
        let matches = root.try_get_matches_from_mut(words)?;
        let mut args = Self::from_arg_matches(&matches)?.into_run();
        let (name, below) = matches.subcommand().unwrap();
        args.compared = ComparedArgs::read(root.find_subcommand(name).unwrap(), below);
        Ok(args)
    }

    /// Returns the flags of `run`.
    pub(crate) fn into_run(self) -> Box<RunArgs> {
        let OneCommand::Run(args) = self.command;
        args
    }
}
