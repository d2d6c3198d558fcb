//! Settings of `run` with their values and sources, for `config show`.

use super::go_flags::{Effect, TABLE, is_secret};
use akash_provider_chain::redact_address;
use akash_provider_cli::environment::variable;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use serde::Serialize;
use std::path::Path;

const HIDDEN: &str = "(hidden)";

/// Setting of `run` with its value and source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Name of the flag, without dashes.
    pub name: String,
    /// Values; more than one only for a repeatable flag.
    pub value: Vec<String>,
    /// Source of the value: flag, variable, file or default.
    pub source: &'static str,
    /// Environment variable or path of the file that sets the value.
    pub from: Option<String>,
    /// Reason why a flag of the Go provider has no effect, otherwise `None`.
    pub instead: Option<&'static str>,
}

/// Returns all settings of a command that are set or have a default. `file_of` returns the file that sets a flag.
pub(super) fn all<'a>(
    command: &Command,
    matches: &ArgMatches,
    file_of: impl Fn(&str) -> Option<&'a Path>,
    look: impl Fn(&str) -> Option<String>,
) -> Vec<Setting> {
    let args = command.get_arguments();
    let mut all: Vec<Setting> = args
        .filter_map(|arg| one(arg, matches, &file_of, &look))
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn one<'a>(
    arg: &Arg,
    matches: &ArgMatches,
    file_of: impl Fn(&str) -> Option<&'a Path>,
    look: impl Fn(&str) -> Option<String>,
) -> Option<Setting> {
    let name = arg.get_long()?;
    let id = arg.get_id().as_str();
    let raw = matches.try_get_raw(id).ok()??;
    let value = raw
        .map(|value| redacted(name, &value.to_string_lossy()))
        .collect();
    let (source, from) = match (file_of(name), matches.value_source(id)?) {
        (Some(file), _) => ("file", Some(file.display().to_string())),
        (None, ValueSource::EnvVariable) => ("env", variable(name, look)),
        (None, ValueSource::DefaultValue) => ("default", None),
        (None, _) => ("flag", None),
    };
    let flag = TABLE.iter().find(|flag| flag.name() == name);
    let instead = flag.and_then(|flag| match flag.effect() {
        Effect::Same => None,
        Effect::None(what) => Some(what),
    });
    Some(Setting {
        name: name.to_owned(),
        value,
        source,
        from,
        instead,
    })
}

/// Returns the value of the flag `name` for output, without secrets and credentials.
fn redacted(name: &str, value: &str) -> String {
    if is_secret(name) && !value.is_empty() {
        return HIDDEN.to_owned();
    }
    let parts = value.split(',');
    let parts = parts.map(|part| {
        if part.contains("://") {
            redact_address(part)
        } else {
            part.to_owned()
        }
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_secrets_in_values() {
        assert_eq!(redacted("cert-issuer-hmac", "abc"), HIDDEN);
        let nodes = redacted("node", "https://user:pass@a:1,tcp://b:2?token=pass");
        assert!(nodes.contains("a:1") && nodes.contains("b:2"), "{nodes}");
        assert!(!nodes.contains("pass"), "{nodes}");
        assert_eq!(redacted("bid-price-storage-scale", "1,beta2=2"), "1,beta2=2");
    }
}
