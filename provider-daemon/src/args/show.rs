//! What each setting is, and who said so.

use super::environment::variable;
use super::settings::Found;
use super::today::{Here, TABLE};
use akash_provider_chain::redact_address;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use serde::Serialize;

/// Of these nobody is shown the value.
const SECRET: [&str; 2] = ["cert-issuer-hmac", "cert-issuer-kid"];
const HIDDEN: &str = "(hidden)";

/// A setting of `run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The flag without its dashes.
    pub name: String,
    /// What it is; several where it may be given several times.
    pub value: Vec<String>,
    /// Who said so.
    pub source: &'static str,
    /// The variable or the file.
    pub from: Option<String>,
    /// What takes its place, where it has no effect here.
    pub instead: Option<&'static str>,
}

/// All settings of a command that are set or have a default, by their names.
pub(super) fn all(
    command: &Command,
    matches: &ArgMatches,
    found: &Found,
    look: impl Fn(&str) -> Option<String>,
) -> Vec<Shown> {
    let args = command.get_arguments();
    let mut all: Vec<Shown> = args.filter_map(|arg| one(arg, matches, found, &look)).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn one(
    arg: &Arg,
    matches: &ArgMatches,
    found: &Found,
    look: impl Fn(&str) -> Option<String>,
) -> Option<Shown> {
    let name = arg.get_long()?;
    let id = arg.get_id().as_str();
    let raw = matches.try_get_raw(id).ok()??;
    let value = raw.map(|value| shown(name, &value.to_string_lossy())).collect();
    let (source, from) = match (found.file_of(name), matches.value_source(id)?) {
        (Some(file), _) => ("file", Some(file.display().to_string())),
        (None, ValueSource::EnvVariable) => ("env", variable(name, look)),
        (None, ValueSource::DefaultValue) => ("default", None),
        (None, _) => ("flag", None),
    };
    let today = TABLE.iter().find(|today| today.name() == name);
    let instead = today.and_then(|today| match today.here() {
        Here::Same => None,
        Here::Instead(what) => Some(what),
    });
    Some(Shown {
        name: name.to_owned(),
        value,
        source,
        from,
        instead,
    })
}

/// A value without what is secret in it.
fn shown(name: &str, value: &str) -> String {
    if SECRET.contains(&name) && !value.is_empty() {
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
    fn what_is_secret_in_a_value_is_not_shown() {
        assert_eq!(shown("cert-issuer-hmac", "abc"), HIDDEN);
        let nodes = shown("node", "https://user:word@a:1,tcp://b:2?token=word");
        assert!(nodes.contains("a:1") && nodes.contains("b:2"), "{nodes}");
        assert!(!nodes.contains("word"), "{nodes}");
        assert_eq!(shown("bid-price-storage-scale", "1,beta2=2"), "1,beta2=2");
    }
}
