//! Environment variables with a prefix of this program that set no flag.

use crate::args::nearest::nearest;
use akash_provider_cli::environment::{PREFIXES, names};
use clap::{Arg, Command};
use std::collections::BTreeSet;

/// Environment variables of this program and of the chart's scripts, without prefix. These variables set no
/// flag.
const OTHERS: [&str; 6] = [
    "KEY_MNEMONIC",
    "KEYRING_PASSPHRASE",
    "BUILD_COMMIT",
    "BOOT_KEYS",
    "DEBUG",
    "VERSION",
];

/// Returns one line for each environment variable with a known prefix and an unknown name. The line suggests
/// the most similar known name.
pub(super) fn unread(root: &Command, variables: impl Iterator<Item = String>) -> Vec<String> {
    fn longs(command: &Command, into: &mut BTreeSet<String>) {
        let args = command.get_arguments().filter_map(Arg::get_long);
        into.extend(args.map(|long| names(long)[0].split_off(PREFIXES[0].len())));
        command.get_subcommands().for_each(|below| longs(below, into));
    }
    let mut known_names = BTreeSet::new();
    longs(root, &mut known_names);
    let mut unread: Vec<String> = variables
        .filter_map(|variable| {
            let (prefix, name) = PREFIXES
                .iter()
                .find_map(|prefix| Some((prefix, variable.strip_prefix(prefix)?)))?;
            if known_names.contains(name) || OTHERS.contains(&name) || is_of_a_service(name) {
                return None;
            }
            let near = nearest(name, known_names.iter().map(String::as_str));
            let near = near
                .map(|near| format!("; did you mean {prefix}{near}?"))
                .unwrap_or_default();
            Some(format!("unknown variable {variable}, ignored{near}"))
        })
        .collect();
    unread.sort();
    unread
}

/// Returns true for a variable that Kubernetes sets for each Service in the namespace.
fn is_of_a_service(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.contains("_TCP")
        || name.contains("_UDP")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::run_line::RunLine;

    #[test]
    fn reports_unknown_variables_with_a_suggestion() {
        let set = [
            "AP_NODE",
            "AKASH_BOOT_KEYS",
            "AKASH_PROVIDER_SERVICE_HOST",
            "AKASH_PROVIDER_PORT_8443_TCP_ADDR",
            "PATH",
            "AKASH_BID_PRICE_CPU_SCAL",
            "AP_ZZZ",
        ];
        let notices = unread(&RunLine::root(), set.into_iter().map(str::to_owned));
        assert_eq!(
            notices,
            [
                "unknown variable AKASH_BID_PRICE_CPU_SCAL, ignored; did you mean AKASH_BID_PRICE_CPU_SCALE?",
                "unknown variable AP_ZZZ, ignored",
            ]
        );
    }
}
