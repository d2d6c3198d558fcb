//! Settings from files: the provider.yaml of `--provider-config`, and the file of `--config`.
//!
//! A key is the name of a flag, with dashes, underscores, points and case as its author likes: `bid-price-cpu-scale`,
//! `bidpricecpuscale`, `BID_PRICE_CPU_SCALE`; or that of a value of today's chart. Flags and variables go before a file, and
//! a file before the defaults. A file is read as if its lines stood on the command line, so that values are checked the
//! same way.

mod keys;
mod node;
#[cfg(test)]
mod tests;

use super::environment::unread;
use super::{Cli, Command as Chosen, ConfigCommand, RunArgs, show};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches};
use keys::Keys;
pub(super) use keys::nearest;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What files say.
#[derive(Debug, Default)]
pub struct Found {
    entries: Vec<Entry>,
    /// What is to be said of them.
    notes: Vec<String>,
    /// Lines that are nobody's.
    unknown: Vec<String>,
}

/// A setting of a file.
#[derive(Debug)]
struct Entry {
    flag: String,
    words: Vec<String>,
    key: String,
    file: PathBuf,
}

/// What is to be said of files and variables.
#[derive(Debug, Default)]
pub struct Remarks {
    /// What became of lines that are no settings.
    pub notes: Vec<String>,
    /// What nothing reads, with the nearest name.
    pub unknown: Vec<String>,
}

impl Found {
    /// The file that a flag is from.
    #[must_use]
    pub fn file_of(&self, flag: &str) -> Option<&Path> {
        let entry = self.entries.iter().find(|entry| entry.flag == flag)?;
        Some(&entry.file)
    }

    fn read(files: &[PathBuf], command: &Command, matches: &ArgMatches) -> Result<Self, String> {
        let keys = Keys::of(command);
        let mut found = Self::default();
        for file in files {
            let lines = node::read(file)?;
            keys.sort(lines, file, &mut found)?;
        }
        // Whoever says more than a file goes before it.
        let is_open = |entry: &Entry| {
            let id = keys.id(&entry.flag).unwrap_or_default();
            matches!(matches.value_source(id), None | Some(ValueSource::DefaultValue))
        };
        found.entries.retain(is_open);
        Ok(found)
    }

    /// Of a setting that several have said, what the first said.
    fn push(&mut self, entry: Entry) -> Result<(), String> {
        match self.entries.iter().find(|known| known.flag == entry.flag) {
            Some(known) if known.file == entry.file => Err(format!(
                "{}: `{}` and `{}` are the same setting; leave one of them",
                entry.file.display(),
                known.key,
                entry.key
            )),
            Some(_) => Ok(()),
            None => {
                self.entries.push(entry);
                Ok(())
            }
        }
    }

    /// An error of the command line in the words of a file, where one of its lines is the cause.
    fn placed(&self, error: &clap::Error) -> Option<String> {
        let text = error.to_string();
        let told = text.strip_prefix("error: ").unwrap_or(&text);
        let told = told.split("\n\nFor more").next().unwrap_or(told).trim();
        let names = |entry: &&Entry| {
            let flag = format!("--{}", entry.flag);
            let mut after = told.match_indices(&flag).map(|(at, _)| &told[at + flag.len()..]);
            after.any(|rest| !rest.starts_with(|c: char| c == '-' || c.is_ascii_alphanumeric()))
        };
        let entry = self.entries.iter().find(names)?;
        Some(format!("{}: `{}`: {told}", entry.file.display(), entry.key))
    }
}

/// Reads a command line, and the files that it or the environment names.
///
/// # Errors
/// What is wrong with either, or a help that was asked for.
pub fn parse(
    mut command: Command,
    mut words: Vec<OsString>,
    variables: impl Iterator<Item = String>,
    look: impl Fn(&str) -> Option<String>,
) -> Result<Cli, clap::Error> {
    command.build();
    let first = command.clone().try_get_matches_from(&words)?;
    let Some((below, matches)) = of_run(&command, &first) else {
        return Cli::from_arg_matches(&first);
    };
    let refused = |text: String| command.clone().error(ErrorKind::InvalidValue, text);
    let named = match below.get_name() {
        "check" => &["file", "config", "provider_config"][..],
        _ => &["config", "provider_config"],
    };
    let unreadable = |text: String| command.clone().error(ErrorKind::Io, text);
    let found = Found::read(&files(named, matches), below, matches).map_err(unreadable)?;
    let lines = found.entries.iter().flat_map(|entry| &entry.words);
    words.extend(lines.map(OsString::from));
    let second = command.clone().try_get_matches_from(&words);
    let second = second.map_err(|error| found.placed(&error).map_or(error, refused))?;
    let mut cli = Cli::from_arg_matches(&second)?;
    let shown = of_run(&command, &second).map(|(below, matches)| show::all(below, matches, &found, &look));
    if let Chosen::Config(ConfigCommand::Show(args)) = &mut cli.command {
        args.shown = shown.unwrap_or_default();
    }
    if let Some(run) = run_args(&mut cli.command) {
        let mut unknown = found.unknown;
        unknown.extend(unread(&command, variables));
        run.remarks = Remarks {
            notes: found.notes,
            unknown,
        };
    }
    Ok(cli)
}

fn run_args(command: &mut Chosen) -> Option<&mut RunArgs> {
    match command {
        Chosen::Run(args) => Some(args),
        Chosen::Explain(args) => Some(&mut args.run),
        Chosen::Config(ConfigCommand::Show(args)) => Some(&mut args.run),
        Chosen::Config(ConfigCommand::Check(args)) => Some(&mut args.run),
        _ => None,
    }
}

/// Of the commands that have the settings of `run` the one that was chosen.
fn of_run<'a>(root: &'a Command, matches: &'a ArgMatches) -> Option<(&'a Command, &'a ArgMatches)> {
    let (name, matches) = matches.subcommand()?;
    let command = root.find_subcommand(name)?;
    match name {
        "run" | "explain" => Some((command, matches)),
        "config" => {
            let (name, matches) = matches.subcommand()?;
            Some((command.find_subcommand(name)?, matches))
        }
        _ => None,
    }
}

/// The files that are named, the first of which goes before the others.
fn files(names: &[&str], matches: &ArgMatches) -> Vec<PathBuf> {
    let file = |id: &&str| matches.try_get_one::<PathBuf>(id).ok().flatten();
    let files = names.iter().filter_map(file);
    let mut named: Vec<PathBuf> = Vec::new();
    for file in files.filter(|file| !file.as_os_str().is_empty()) {
        if !named.contains(file) {
            named.push(file.clone());
        }
    }
    named
}
