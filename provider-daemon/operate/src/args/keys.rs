//! Flags of `keys`, and of the key that signs transactions.

use akash_provider_cli::flags::KeyringArgs;
use akash_provider_service::args::AuditLogArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Arguments of `keys`.
#[derive(Debug, Args)]
pub struct KeysArgs {
    /// Output format of keys and addresses
    #[arg(long, short, value_enum, default_value = "text", global = true)]
    pub output: KeysOutput,
    /// Audit log.
    #[command(flatten)]
    pub audit: AuditLogArgs,
    /// Keyring.
    #[command(flatten)]
    pub keyring: KeyringArgs,
    /// Action on the keyring.
    #[command(subcommand)]
    pub command: KeysCommand,
}

/// Output format of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeysOutput {
    /// YAML.
    #[value(alias = "yaml")]
    Text,
    /// JSON.
    Json,
}

/// Actions of `keys`.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Create a key, or recover one from its mnemonic
    Add(AddArgs),
    /// List all keys of the keyring
    List {
        /// Print only the names of the keys
        #[arg(long, short = 'n')]
        list_names: bool,
    },
    /// Show one key of the keyring
    Show(ShowArgs),
    /// Import a key from a file of `keys export`
    Import {
        /// Name for the imported key
        name: String,
        /// File of the key; `-` reads the key and then the passphrases from standard input
        file: PathBuf,
    },
    /// Print a key, encrypted with a passphrase
    Export {
        /// Name or address of the key
        name: String,
    },
    /// Permanently remove keys from the keyring
    Delete {
        /// Names or addresses of the keys
        #[arg(required = true)]
        names: Vec<String>,
        /// Remove the keys without confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

/// Arguments of `keys add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Name for the new key
    pub name: String,
    /// Recover the key from a mnemonic, which the command prompts for
    #[arg(long)]
    pub recover: bool,
    /// Recover the key from the mnemonic in this file
    #[arg(long, value_name = "FILE")]
    pub source: Option<PathBuf>,
    /// Account number in the derivation path
    #[arg(long, default_value_t = 0)]
    pub account: u32,
    /// Address index in the derivation path
    #[arg(long, default_value_t = 0)]
    pub index: u32,
    /// Complete derivation path of the key
    #[arg(long, value_name = "PATH", conflicts_with_all = ["account", "index"])]
    pub hd_path: Option<String>,
    /// Do not print the mnemonic
    #[arg(long)]
    pub no_backup: bool,
    /// Print the key without storing it
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `keys show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name or address of the key
    pub name: String,
    /// Print only the address of the key
    #[arg(long, short, conflicts_with = "pubkey")]
    pub address: bool,
    /// Print only the public key
    #[arg(long, short)]
    pub pubkey: bool,
}
