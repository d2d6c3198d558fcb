//! Settings that have no effect with the other settings of the same start.

use akash_provider_cli::values::go_bool;
use clap::builder::ArgExt;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use std::collections::BTreeMap;

/// Value of another setting without which a setting has no effect. Declared at the flag with
/// `#[arg(add = Needs::HA)]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Needs {
    /// Name of the other flag, without dashes.
    flag: &'static str,
    /// Other setting, as the notice names it.
    text: &'static str,
    is_met: fn(&str) -> bool,
}

impl ArgExt for Needs {}

impl Needs {
    pub(super) const HA: Self = Self {
        flag: "ha",
        text: "without --ha kubernetes or --ha redis",
        is_met: |store| store != "off",
    };
    pub(super) const INVENTORY_OPERATOR: Self = Self {
        flag: "inventory-operator",
        text: "without --inventory-operator",
        is_met: |url| !url.is_empty(),
    };
    pub(super) const POLICY: Self = Self {
        flag: "bid-price-strategy",
        text: "without --bid-price-strategy policy",
        is_met: |strategy| strategy == "policy",
    };
    pub(super) const SCRIPT: Self = Self {
        flag: "bid-price-strategy",
        text: "without --bid-price-strategy shellScript",
        is_met: |strategy| strategy == "shellScript",
    };
    pub(super) const ACME: Self = Self {
        flag: "cert-issuer-enabled",
        text: "without --cert-issuer-enabled",
        is_met: |is_enabled| go_bool(is_enabled) == Ok(true),
    };
    pub(super) const IN_MEMORY: Self = Self {
        flag: "cluster-k8s",
        text: "with --cluster-k8s, which reads the nodes of the cluster",
        is_met: |is_kubernetes| go_bool(is_kubernetes) != Ok(true),
    };
}

/// Returns one note for each unmet need of a setting that the user has set. Settings with the same need share a
/// note.
pub(super) fn notes(command: &Command, matches: &ArgMatches) -> Vec<String> {
    let value = |flag: &str| {
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag))?;
        let mut values = matches.try_get_raw(arg.get_id().as_str()).ok()??;
        Some(values.next_back()?.to_string_lossy().into_owned())
    };
    let mut idle: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for arg in command.get_arguments() {
        let (Some(needs), Some(name)) = (arg.get::<Needs>(), arg.get_long()) else {
            continue;
        };
        let source = matches.value_source(arg.get_id().as_str());
        let is_set = source.is_some_and(|source| source != ValueSource::DefaultValue);
        if is_set && !value(needs.flag).is_some_and(|value| (needs.is_met)(&value)) {
            idle.entry(needs.text).or_default().push(format!("--{name}"));
        }
    }
    let note = |(text, names): (&str, Vec<String>)| format!("{}: no effect {text}", names.join(", "));
    idle.into_iter().map(note).collect()
}
