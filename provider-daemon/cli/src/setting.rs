//! Facts about a setting that are declared at its flag: `#[arg(add = HaRule::OUTPUT)]`.

use clap::Arg;
use clap::builder::ArgExt;

/// Rule of high availability: whether all instances of a provider need the same value of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HaRule {
    /// The value must be equal: it affects bids, prices, deployments, withdrawals or the end of a lease. Rule of a
    /// setting that declares no other rule.
    Equal,
    /// The content of the file with this path must be equal.
    EqualContent,
    /// The content of the file with this path must be equal. If the file does not exist, the value must be equal.
    EqualContentOrValue,
    /// The value may differ, for this reason.
    PerInstance(&'static str),
}

impl ArgExt for HaRule {}

impl HaRule {
    /// Rule for addresses, paths and certificates of one instance.
    pub const LOCATION: Self = Self::PerInstance("location of the instance");
    /// Rule for account, chain and attributes.
    pub const ACCOUNT: Self =
        Self::PerInstance("`provider`, `chain-id` and `attributes` are compared instead");
    /// Rule for logs, metrics and records.
    pub const OUTPUT: Self = Self::PerInstance("output of the instance");
    /// Rule for limits of calls and load.
    pub const MACHINE: Self = Self::PerInstance("limit of the machine and its network");
    /// Rule for embedded operators.
    pub const OPERATOR: Self = Self::PerInstance("operators have their own election");
    /// Rule for the addresses of event bus and election.
    pub const COORDINATION: Self = Self::PerInstance("location of the bus and of the election");
    /// Rule for settings of single transactions.
    pub const NO_EFFECT: Self = Self::PerInstance("no effect on leases");

    /// Returns the rule of a setting.
    #[must_use]
    pub fn of(arg: &Arg) -> Self {
        match is_action(arg) {
            true => Self::NO_EFFECT,
            false => arg.get().copied().unwrap_or(Self::Equal),
        }
    }

    /// Returns whether values or contents are compared.
    #[must_use]
    pub const fn is_compared(self) -> bool {
        !matches!(self, Self::PerInstance(_))
    }
}

/// Keys of a setting in a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKey {
    /// The name of the flag, and a value of the Go provider's chart.
    Chart(&'static str),
    /// None: a file cannot contain the setting.
    Excluded,
}

impl ArgExt for FileKey {}

/// Marks a setting with a file that the provider reads again when the file changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reloaded;

impl ArgExt for Reloaded {}

/// Marks a flag that no environment variable sets: the command of the Go provider has no such flag, and ignores a
/// variable that is set for other commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoVariable;

impl ArgExt for NoVariable {}

fn is_action(arg: &Arg) -> bool {
    ["help", "version"].contains(&arg.get_id().as_str())
}

/// Returns whether a settings file can contain a flag.
#[must_use]
pub fn is_settable(arg: &Arg) -> bool {
    !is_action(arg) && arg.get::<FileKey>() != Some(&FileKey::Excluded)
}
