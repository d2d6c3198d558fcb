//! Flags and variables of the Go provider and its chart: those with the same effect, and those without effect.
//!
//! Flags without effect are accepted as hidden flags of `run`, whatever their value, and logged at the start. Charts
//! and scripts of the Go provider therefore work unchanged.

mod table;
#[cfg(test)]
mod tests;

use akash_provider_cli::environment::variable;
use akash_provider_cli::setting::{FileKey, HaRule};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
pub(crate) use table::TABLE;

/// Flag of the Go provider, or variable of its chart.
#[derive(Debug)]
pub(crate) struct GoFlag {
    name: &'static str,
    kind: FlagType,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "tests compare the documentation with it")
    )]
    default: &'static str,
    effect: Effect,
    chart: Option<&'static str>,
    short: Option<char>,
}

/// Type of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagType {
    /// `true` or `false`; `true` without a value.
    Bool,
    /// Duration in Go syntax, such as `1h30m`.
    Duration,
    /// Whole number.
    Number,
    /// Price with optional decimals.
    Price,
    /// Amount with its denomination, such as `5000000uakt`.
    Coin,
    /// Comma-separated list.
    List,
    /// Text that no output shows.
    Secret,
    /// Text.
    Text,
}

/// Effect of a flag in this provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Same effect as in the Go provider.
    Same,
    /// No effect. Contains the reason, which the provider logs at its start.
    None(&'static str),
}

impl GoFlag {
    const fn supported(name: &'static str, kind: FlagType, default: &'static str) -> Self {
        Self {
            name,
            kind,
            default,
            effect: Effect::Same,
            chart: None,
            short: None,
        }
    }

    const fn ignored(name: &'static str, kind: FlagType, default: &'static str, what: &'static str) -> Self {
        Self {
            name,
            kind,
            default,
            effect: Effect::None(what),
            chart: None,
            short: None,
        }
    }

    /// Declares the short form of an ignored flag.
    const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }

    /// Declares the value of the Go provider's chart that sets an ignored flag.
    const fn chart(mut self, key: &'static str) -> Self {
        self.chart = Some(key);
        self
    }

    /// Name of the flag, without dashes.
    #[must_use]
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Default in the Go provider.
    #[cfg(test)]
    pub(crate) const fn default(&self) -> &'static str {
        self.default
    }

    /// Effect in this provider.
    #[must_use]
    pub(crate) const fn effect(&self) -> Effect {
        self.effect
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.name).long(self.name).hide(true);
        let arg = arg
            .value_name(self.kind.value_name())
            .help("Accepted for compatibility, without effect");
        let arg = arg.short(self.short).add(HaRule::NO_EFFECT);
        let arg = match self.chart {
            Some(key) => arg.add(FileKey::Chart(key)),
            None => arg,
        };
        match self.kind {
            // As in Go: the flag without a value is true, and a value follows `=`.
            FlagType::Bool => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            _ => arg.num_args(1).allow_hyphen_values(true),
        }
    }
}

impl FlagType {
    const fn value_name(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Duration => "DURATION",
            Self::Number => "NUMBER",
            Self::Price => "PRICE",
            Self::Coin => "COIN",
            Self::List => "LIST",
            Self::Secret | Self::Text => "TEXT",
        }
    }
}

/// Flags of the Go provider that have no effect in this program, with their values.
#[derive(Debug, Default)]
pub struct GoFlagArgs {
    set: Vec<SetFlag>,
}

#[derive(Debug)]
struct SetFlag {
    flag: &'static GoFlag,
    value: String,
    is_variable: bool,
}

impl GoFlagArgs {
    /// Returns the flags that the user has set but that have no effect. Flags with the same reason share one
    /// line. `look` returns the value of an environment variable.
    #[must_use]
    pub fn notices(&self, look: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let mut lines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for set in self.set.iter().filter(|set| set.is_enabled()) {
            if let Effect::None(what) = set.flag.effect {
                let named = set.is_variable.then(|| variable(set.flag.name, &look)).flatten();
                let name = named.unwrap_or_else(|| format!("--{}", set.flag.name));
                lines.entry(what).or_default().push(name);
            }
        }
        let line = |(what, names): (&str, Vec<String>)| format!("{}: {what}", names.join(", "));
        lines.into_iter().map(line).collect()
    }
}

impl SetFlag {
    /// Returns false for a boolean flag with the value false. Such a flag needs no notice.
    fn is_enabled(&self) -> bool {
        self.flag.kind != FlagType::Bool || super::values::go_bool(&self.value) != Ok(false)
    }
}

/// Returns whether the value of the flag `name` is a secret. Flags that the Go provider does not have contain names
/// of files with secrets instead.
pub(super) fn is_secret(name: &str) -> bool {
    let mut secrets = TABLE.iter().filter(|flag| flag.kind == FlagType::Secret);
    secrets.any(|flag| flag.name == name)
}

/// Returns the flags without effect.
pub(crate) fn without_effect() -> impl Iterator<Item = &'static GoFlag> {
    TABLE.iter().filter(|flag| flag.effect != Effect::Same)
}

impl Args for GoFlagArgs {
    fn augment_args(command: Command) -> Command {
        // `explain` has its own `--attribute`.
        let is_defined =
            |command: &Command, flag: &GoFlag| command.get_arguments().any(|arg| arg.get_id() == flag.name);
        without_effect().fold(command, |command, flag| match is_defined(&command, flag) {
            true => command,
            false => command.arg(flag.arg()),
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for GoFlagArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut read = Self::default();
        read.update_from_arg_matches(matches)?;
        Ok(read)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for flag in without_effect() {
            let Some(source) = matches.value_source(flag.name) else {
                continue;
            };
            // A flag of the command with the same name can have values of another type.
            let Ok(values) = matches.try_get_many::<String>(flag.name) else {
                continue;
            };
            self.set.push(SetFlag {
                flag,
                value: values.into_iter().flatten().last().cloned().unwrap_or_default(),
                is_variable: source == ValueSource::EnvVariable,
            });
        }
        Ok(())
    }
}
