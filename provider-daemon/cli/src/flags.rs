//! Flags of several commands: output, nodes of the chain, and the signing key.

use crate::setting::HaRule;
use crate::values;
use clap::{ArgAction, Args, Command, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Output format of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Human-readable text.
    Text,
    /// One JSON object per line.
    Json,
}

/// Output format of a command that can also print YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataOutput {
    /// Human-readable text, which is YAML for records
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// Nodes of the chain.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Chain")]
pub struct NodeArgs {
    /// Node URLs, comma-separated for fail-over: http://, https:// or tcp:// (JSON-RPC), grpc:// or grpcs://
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        default_value = "http://localhost:26657",
        global = true
    )]
    #[arg(add = HaRule::LOCATION)]
    pub node: Vec<String>,
    /// Chain ID that the nodes must report
    #[arg(long, value_name = "ID", global = true)]
    #[arg(add = HaRule::ACCOUNT)]
    pub chain_id: Option<String>,
    /// Additional CA certificates (PEM) for node connections
    #[arg(long, value_name = "FILE", global = true)]
    #[arg(add = HaRule::LOCATION)]
    pub node_ca: Option<PathBuf>,
    /// Timeout of one response of a node
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::duration, global = true)]
    #[arg(add = HaRule::MACHINE)]
    pub node_timeout: Duration,
}

/// Keyring.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Keyring")]
pub struct KeyringArgs {
    /// Keyring backend: `file` (with a passphrase) or `test` (without a passphrase)
    #[arg(long, default_value = "file", global = true)]
    #[arg(add = HaRule::ACCOUNT)]
    pub keyring_backend: String,
    /// Directory of the keyring [default: the home directory of --home]
    #[arg(long, value_name = "DIR", global = true)]
    #[arg(add = HaRule::ACCOUNT)]
    pub keyring_dir: Option<PathBuf>,
    /// File with the passphrase of the keyring [default: AP_KEYRING_PASSPHRASE, else a prompt]
    #[arg(long, value_name = "FILE", global = true)]
    #[arg(add = HaRule::ACCOUNT)]
    pub keyring_passphrase_file: Option<PathBuf>,
}

/// Key that signs transactions.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Key")]
pub struct SignerArgs {
    /// Name of the key in the keyring, or its address
    #[arg(long, value_name = "KEY", global = true)]
    #[arg(add = HaRule::ACCOUNT)]
    pub from: Option<String>,
    /// File with an exported key or a mnemonic, instead of a keyring; or set AP_KEY_MNEMONIC to a mnemonic
    #[arg(long, value_name = "FILE", global = true)]
    #[arg(add = HaRule::ACCOUNT)]
    pub key_file: Option<PathBuf>,
    /// File with the passphrase of the exported key
    #[arg(long, value_name = "FILE", global = true, requires = "key_file")]
    #[arg(add = HaRule::ACCOUNT)]
    pub key_passphrase_file: Option<PathBuf>,
    /// Keyring.
    #[command(flatten)]
    pub keyring: KeyringArgs,
}

/// Lets every boolean flag of a command and of its subcommands take a value after `=`, as in Go: `--flag`,
/// `--flag=true` and `--flag=false`. A value after a space stays a positional argument.
#[must_use]
pub fn with_go_booleans(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        if !matches!(arg.get_action(), ArgAction::SetTrue) {
            return arg;
        }
        let is_true = !arg.get_default_values().is_empty();
        let arg = arg.action(ArgAction::Set).value_parser(values::go_bool);
        let arg = arg.value_name("BOOL").num_args(0..=1).require_equals(true);
        let arg = arg.default_missing_value("true").hide_default_value(!is_true);
        if is_true { arg } else { arg.default_value("false") }
    });
    command.mut_subcommands(with_go_booleans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn boolean_flags_take_a_value_after_an_equals_sign_only() {
        let switch = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let below = Command::new("below")
            .arg(switch("off").short('o'))
            .arg(switch("on").default_value("true"))
            .arg(Arg::new("name"));
        let root = with_go_booleans(Command::new("root").subcommand(below));
        let read = |words: &[&str]| {
            let matches = root
                .clone()
                .get_matches_from([&["root", "below"], words].concat());
            let (_, below) = matches.subcommand().unwrap();
            let name = below.get_one::<String>("name").cloned();
            (below.get_flag("off"), below.get_flag("on"), name)
        };
        assert_eq!(read(&[]), (false, true, None));
        assert_eq!(read(&["--off", "--on=false"]), (true, false, None));
        assert_eq!(read(&["-o=true", "--on=F"]), (true, false, None));
        assert_eq!(read(&["--off", "false"]), (true, true, Some("false".to_owned())));
        assert_eq!(
            read(&["--off=0", "false"]),
            (false, true, Some("false".to_owned()))
        );
        let invalid = root.clone().try_get_matches_from(["root", "below", "--off=yes"]);
        assert!(
            invalid
                .unwrap_err()
                .to_string()
                .contains("expected true or false")
        );
    }
}
