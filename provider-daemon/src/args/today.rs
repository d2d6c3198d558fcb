//! The flags and variables of today's provider and of its chart, one by one: which have their effect here under the same
//! name, and what takes the place of the others.
//!
//! Those of the second kind are flags of `run` too, hidden ones: whatever they are set to is taken, and a line at the start
//! says what became of it. So a chart or a script of today's starts this program as it stands.

mod table;
#[cfg(test)]
mod tests;

use super::environment::variable;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
pub use table::TABLE;

/// A flag of today's provider, or a variable of its chart.
#[derive(Debug)]
pub struct Today {
    name: &'static str,
    kind: Kind,
    default: &'static str,
    here: Here,
}

/// What a flag is set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`, or nothing for the former.
    Bool,
    /// A duration as Go writes it.
    Duration,
    /// A whole number.
    Number,
    /// A price, which may have decimals.
    Price,
    /// An amount with its token.
    Coin,
    /// Several words with commas between them.
    List,
    /// Any words.
    Text,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Here {
    /// It does what it does there.
    Same,
    /// It does nothing, and this is said.
    Instead(&'static str),
}

impl Today {
    const fn same(name: &'static str, kind: Kind, default: &'static str) -> Self {
        Self {
            name,
            kind,
            default,
            here: Here::Same,
        }
    }

    const fn instead(name: &'static str, kind: Kind, default: &'static str, what: &'static str) -> Self {
        Self {
            name,
            kind,
            default,
            here: Here::Instead(what),
        }
    }

    /// The flag without its dashes; the variable follows from it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// What it is set to.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What it is there where nobody sets it.
    #[must_use]
    pub const fn default(&self) -> &'static str {
        self.default
    }

    /// What becomes of it.
    #[must_use]
    pub const fn here(&self) -> Here {
        self.here
    }

    fn arg(&self) -> Arg {
        let arg = Arg::new(self.name).long(self.name).hide(true);
        let arg = arg.value_name(self.kind.shown()).help("Has no effect here");
        match self.kind {
            // As Go has it: the flag alone is true, and a value is joined to it.
            Kind::Bool => arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            _ => arg.num_args(1).allow_hyphen_values(true),
        }
    }
}

impl Kind {
    const fn shown(self) -> &'static str {
        match self {
            Self::Bool => "BOOL",
            Self::Duration => "DURATION",
            Self::Number => "NUMBER",
            Self::Price => "PRICE",
            Self::Coin => "COIN",
            Self::List => "LIST",
            Self::Text => "TEXT",
        }
    }
}

/// Those without effect that were set.
#[derive(Debug, Default)]
pub struct TodayArgs {
    set: Vec<Set>,
}

#[derive(Debug)]
struct Set {
    today: &'static Today,
    value: String,
    is_variable: bool,
}

impl TodayArgs {
    /// What was set and does nothing here, one line for all that have the same in their place.
    #[must_use]
    pub fn notices(&self, look: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let mut lines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for set in self.set.iter().filter(|set| set.is_wanted()) {
            if let Here::Instead(what) = set.today.here {
                let named = set.is_variable.then(|| variable(set.today.name, &look)).flatten();
                let name = named.unwrap_or_else(|| format!("--{}", set.today.name));
                lines.entry(what).or_default().push(name);
            }
        }
        let line = |(what, names): (&str, Vec<String>)| format!("{}: {what}", names.join(", "));
        lines.into_iter().map(line).collect()
    }
}

impl Set {
    /// Who switches off what is not there misses nothing.
    fn is_wanted(&self) -> bool {
        self.today.kind != Kind::Bool || super::values::go_bool(&self.value) != Ok(false)
    }
}

/// Those that are flags only so that they are taken.
pub fn without_effect() -> impl Iterator<Item = &'static Today> {
    TABLE.iter().filter(|today| today.here != Here::Same)
}

impl Args for TodayArgs {
    fn augment_args(command: Command) -> Command {
        without_effect().fold(command, |command, today| command.arg(today.arg()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TodayArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut read = Self::default();
        read.update_from_arg_matches(matches)?;
        Ok(read)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for today in without_effect() {
            let Some(source) = matches.value_source(today.name) else {
                continue;
            };
            let values = matches.get_many::<String>(today.name).into_iter().flatten();
            self.set.push(Set {
                today,
                value: values.last().cloned().unwrap_or_default(),
                is_variable: source == ValueSource::EnvVariable,
            });
        }
        Ok(())
    }
}
