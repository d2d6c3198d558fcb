//! Settings from files: the provider.yaml of `--provider-config`, and the file of `--config`.
//!
//! A key is the name of a flag or of a value of the Go provider's chart. Case, dashes, underscores and dots do not
//! matter: `bid-price-cpu-scale`, `bidpricecpuscale` and `BID_PRICE_CPU_SCALE` are equal. Flags and variables take
//! precedence over files, and files over defaults. The lines of a file are parsed as flags, so that the same checks
//! apply to their values.

mod keys;
mod node;
mod schema;
#[cfg(test)]
mod tests;
mod unread;

use super::compared::ComparedArgs;
use super::needs;
use super::pricing::SCRIPT_VARIABLE;
use super::show::{self, Setting};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use keys::SettableFlags;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use unread::unread;

pub use schema::schema;

/// Settings from all settings files, and notes about invalid lines.
#[derive(Debug, Default)]
pub(crate) struct FileSettings {
    entries: Vec<SettingEntry>,
    /// Notes about lines that are not settings, for the log.
    notes: Vec<String>,
    /// Notes about lines with an unknown key, with suggestions.
    unknown: Vec<String>,
}

/// Setting that a file contains.
#[derive(Debug)]
struct SettingEntry {
    flag: String,
    words: Vec<String>,
    key: String,
    file: PathBuf,
}

impl SettingEntry {
    /// Returns the variable of the price script that the entry sets, or `None` for other settings.
    fn script_variable(&self) -> Option<&str> {
        let word = self.words.first().filter(|_| self.flag == SCRIPT_VARIABLE)?;
        word.split('=').nth(1)
    }
}

/// Notes for the log about settings files and environment variables.
#[derive(Debug, Default)]
pub struct Remarks {
    /// Notes about lines that are not settings.
    pub notes: Vec<String>,
    /// Unknown keys and variables, with suggestions.
    pub unknown: Vec<String>,
}

/// Settings of `run` that result from a command line, the environment and the files.
#[derive(Debug, Default)]
pub struct RunSettings {
    /// All settings with their sources.
    pub settings: Vec<Setting>,
    /// Settings that all instances must share.
    pub compared: ComparedArgs,
    /// Notes for the log.
    pub remarks: Remarks,
}

impl FileSettings {
    /// Returns the file that sets a flag.
    #[must_use]
    pub(crate) fn file_of(&self, flag: &str) -> Option<&Path> {
        let entry = self.entries.iter().find(|entry| entry.flag == flag)?;
        Some(&entry.file)
    }

    fn read(
        files: &[PathBuf],
        command: &Command,
        matches: &ArgMatches,
        look: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let keys = SettableFlags::from_command(command);
        let mut found = Self::default();
        for file in files {
            let lines = node::read(file)?;
            keys.sort(lines, file, &mut found)?;
        }
        // Flags and variables take precedence over files.
        let is_open = |entry: &SettingEntry| {
            let id = keys.id(&entry.flag).unwrap_or_default();
            match (matches.value_source(id), entry.script_variable()) {
                (None | Some(ValueSource::DefaultValue), None) => true,
                (Some(ValueSource::EnvVariable), _) | (_, None) => false,
                (_, Some(variable)) => {
                    let mut set = matches.get_many::<(String, String)>(id).into_iter().flatten();
                    !set.any(|(name, _)| name == variable)
                        && look(variable).is_none_or(|value| value.is_empty())
                }
            }
        };
        found.entries.retain(is_open);
        Ok(found)
    }

    /// Adds a setting, unless an earlier file sets the flag. Fails if the same file sets the flag to two values.
    fn push(&mut self, entry: SettingEntry) -> Result<(), String> {
        let is_same = |earlier: &&SettingEntry| {
            earlier.flag == entry.flag && earlier.script_variable() == entry.script_variable()
        };
        match self.entries.iter().find(is_same) {
            // The chart has two names for some settings.
            Some(earlier) if earlier.file == entry.file && earlier.words != entry.words => Err(format!(
                "{}: `{}` and `{}` are the same setting; remove one of them",
                entry.file.display(),
                earlier.key,
                entry.key
            )),
            Some(_) => Ok(()),
            None => {
                self.entries.push(entry);
                Ok(())
            }
        }
    }

    /// Returns the error message with a prefix: the file and the key that caused the error. Returns `None` if
    /// no file caused the error.
    fn placed(&self, error: &clap::Error) -> Option<String> {
        let text = error.to_string();
        let message = text.strip_prefix("error: ").unwrap_or(&text);
        let message = message.split("\n\nFor more").next().unwrap_or(message).trim();
        let names = |entry: &&SettingEntry| {
            let flag = format!("--{}", entry.flag);
            let mut after = message
                .match_indices(&flag)
                .map(|(at, _)| &message[at + flag.len()..]);
            after.any(|rest| !rest.starts_with(|c: char| c == '-' || c.is_ascii_alphanumeric()))
        };
        let entry = self.entries.iter().find(names)?;
        Some(format!("{}: `{}`: {message}", entry.file.display(), entry.key))
    }
}

/// Parses a command line, and the settings files that are named in flags or environment variables. Returns `None`
/// for the settings if the command does not have the flags of `run`.
///
/// # Errors
/// Returns the mistake in the command line or in a settings file, or the requested help.
pub fn parse(
    mut command: Command,
    mut words: Vec<OsString>,
    variables: impl Iterator<Item = String>,
    look: impl Fn(&str) -> Option<String>,
) -> Result<(ArgMatches, Option<RunSettings>), clap::Error> {
    // The command is not cloned: a clone of all flags has 3 MiB, which the allocator would keep.
    let first = command.try_get_matches_from_mut(&words)?;
    let Some((below, matches)) = run_command(&command, &first) else {
        return Ok((first, None));
    };
    let named = match below.get_name() {
        "check" => &["file", "config", "provider_config"][..],
        _ => &["config", "provider_config"],
    };
    let unreadable = |text: String| command.clone().error(ErrorKind::Io, text);
    let found = FileSettings::read(&files(named, matches), below, matches, &look).map_err(unreadable)?;
    let lines = found.entries.iter().flat_map(|entry| &entry.words);
    words.extend(lines.map(OsString::from));
    let second = command.try_get_matches_from_mut(&words);
    let refused = |text: String| command.clone().error(ErrorKind::InvalidValue, text);
    let second = second.map_err(|error| found.placed(&error).map_or(error, refused))?;
    let Some((below, matches)) = run_command(&command, &second) else {
        return Ok((second, None));
    };
    let settings = show::all(below, matches, |flag| found.file_of(flag), &look);
    let compared = ComparedArgs::read(below, matches);
    let mut remarks = Remarks {
        notes: found.notes,
        unknown: found.unknown,
    };
    remarks.notes.extend(needs::notes(below, matches));
    remarks.unknown.extend(unread(&command, variables));
    let settings = RunSettings {
        settings,
        compared,
        remarks,
    };
    Ok((second, Some(settings)))
}

/// Returns the subcommand of the command line; `None` if the subcommand does not have the settings of `run`.
fn run_command<'a>(root: &'a Command, matches: &'a ArgMatches) -> Option<(&'a Command, &'a ArgMatches)> {
    let (name, matches) = matches.subcommand()?;
    let command = root.find_subcommand(name)?;
    match name {
        "run" | "explain" | "doctor" => Some((command, matches)),
        "config" => {
            let (name, matches) = matches.subcommand()?;
            Some((command.find_subcommand(name)?, matches))
        }
        _ => None,
    }
}

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
