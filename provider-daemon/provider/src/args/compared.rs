//! Settings of `run` that all instances of a provider must share, see [`HaRule`].

use akash_provider_cli::setting::HaRule;
use akash_provider_core::types::Address;
use bigdecimal::BigDecimal;
use clap::{ArgMatches, Command};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Settings of this instance that must be equal on all instances.
#[derive(Debug, Clone, Default)]
pub struct ComparedArgs {
    /// Values as text by flag name; empty for a flag without a value.
    pub(crate) values: BTreeMap<String, String>,
    /// Paths by flag name.
    pub(crate) files: BTreeMap<String, PathBuf>,
}

impl ComparedArgs {
    /// Reads the flags of a command that high availability compares.
    pub(super) fn read(command: &Command, matches: &ArgMatches) -> Self {
        let mut read = Self::default();
        for arg in command.get_arguments() {
            let Some(flag) = arg.get_long() else { continue };
            let text = text(matches, arg.get_id().as_str());
            let is_file = match HaRule::of(arg) {
                HaRule::PerInstance(_) => continue,
                HaRule::Equal => false,
                HaRule::EqualContent => !text.is_empty(),
                HaRule::EqualContentOrValue => Path::new(&text).is_file(),
            };
            if is_file {
                read.files.insert(flag.to_owned(), PathBuf::from(text));
            } else {
                read.values.insert(flag.to_owned(), text);
            }
        }
        read
    }
}

/// Returns the values of a flag as normalized text, equal for `5m` and `300s`.
fn text(matches: &ArgMatches, id: &str) -> String {
    let parsed = typed(matches, id, |value: &Duration| format!("{value:?}"))
        .or_else(|| typed(matches, id, bool::to_string))
        .or_else(|| typed(matches, id, |value: &BigDecimal| value.normalized().to_string()))
        .or_else(|| typed(matches, id, f64::to_string))
        .or_else(|| typed(matches, id, i64::to_string))
        .or_else(|| typed(matches, id, u32::to_string))
        .or_else(|| typed(matches, id, u64::to_string))
        .or_else(|| typed(matches, id, usize::to_string))
        .or_else(|| typed(matches, id, Address::to_string))
        .or_else(|| typed(matches, id, |value: &String| value.trim().to_owned()));
    let raw = || {
        let raw = matches.try_get_raw(id).ok().flatten();
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
    use crate::args::go_flags::{GoFlag, without_effect};
    use crate::args::run_line::RunLine;

    fn command() -> Command {
        RunLine::run_command()
    }

    #[test]
    fn settings_are_compared_unless_they_declare_another_rule() {
        let compared = read(&[]).values;
        assert!(compared.contains_key("unhealthy-limit"));
        for other in without_effect()
            .map(GoFlag::name)
            .chain(["help", "log-level", "ha-name"])
        {
            assert!(!compared.contains_key(other), "{other}");
        }
    }

    fn read(words: &[&str]) -> ComparedArgs {
        let words = [&["run"][..], words].concat();
        let mut command = command();
        let matches = command.try_get_matches_from_mut(words).unwrap();
        ComparedArgs::read(&command, &matches)
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
        let command = command();
        let flags = command
            .get_arguments()
            .filter(|arg| HaRule::of(arg).is_compared())
            .count();
        assert_eq!(
            unset.values.len(),
            flags,
            "a flag without a value must be compared"
        );
    }
}
