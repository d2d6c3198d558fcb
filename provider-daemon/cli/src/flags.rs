//! Flags of several commands: output, nodes of the chain, and the signing key.

use crate::setting::HaRule;
use crate::values;
use clap::{Args, ValueEnum};
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

/// Data format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML.
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
