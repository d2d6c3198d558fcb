//! Flags of `keys`, and where the key that signs is.

use super::values;
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Where keys are kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Keyring")]
pub struct KeyringArgs {
    /// How keys are kept: `file` (with a passphrase) or `test` (without one).
    #[arg(long, default_value = "file", global = true)]
    pub keyring_backend: String,
    /// Folder that holds the keyring; without it the home folder.
    #[arg(long, value_name = "DIR", global = true)]
    pub keyring_dir: Option<PathBuf>,
    /// File with the keyring's passphrase; without it AP_KEYRING_PASSPHRASE is looked at, and then it is asked for.
    #[arg(long, value_name = "FILE", global = true)]
    pub keyring_passphrase_file: Option<PathBuf>,
}

/// The key that signs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Key")]
pub struct SignerArgs {
    /// The key: its name in the keyring, or its address.
    #[arg(long, value_name = "KEY", global = true)]
    pub from: Option<String>,
    /// A file that holds the key instead of a keyring: an exported key, or a mnemonic. A mnemonic may also be in
    /// AP_KEY_MNEMONIC.
    #[arg(long, value_name = "FILE", global = true)]
    pub key_file: Option<PathBuf>,
    /// File with the passphrase of an exported key.
    #[arg(long, value_name = "FILE", global = true, requires = "key_file")]
    pub key_passphrase_file: Option<PathBuf>,
    /// The keyring.
    #[command(flatten)]
    pub keyring: KeyringArgs,
}

/// Settings of `keys`.
#[derive(Debug, Args)]
pub struct KeysArgs {
    /// How to print keys and addresses.
    #[arg(long, short, value_enum, default_value = "text", global = true)]
    pub output: KeysOutput,
    /// The keyring.
    #[command(flatten)]
    pub keyring: KeyringArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: KeysCommand,
}

/// How keys are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeysOutput {
    /// YAML.
    #[value(alias = "yaml")]
    Text,
    /// JSON.
    Json,
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key, or take one back from its mnemonic.
    Add(AddArgs),
    /// List all keys of the keyring.
    List {
        /// Print only the names of the keys.
        #[arg(long, short = 'n')]
        list_names: bool,
    },
    /// Show one key of the keyring.
    Show(ShowArgs),
    /// Take a key from a file that `keys export` wrote.
    Import {
        /// The name it gets.
        name: String,
        /// The file; `-` reads standard input, whose lines after the key are the passphrases.
        file: PathBuf,
    },
    /// Print a key, encrypted with a passphrase that is asked for.
    Export {
        /// Its name or address.
        name: String,
    },
    /// Remove keys from the keyring, for good.
    Delete {
        /// Their names or addresses.
        #[arg(required = true)]
        names: Vec<String>,
        /// Remove them without asking first.
        #[arg(long, short, num_args = 0..=1, require_equals = true, default_missing_value = "true",
              default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
        yes: bool,
    },
}

/// Settings of `keys add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// The name it gets.
    pub name: String,
    /// From a mnemonic that is asked for, instead of a new one.
    #[arg(long)]
    pub recover: bool,
    /// From the mnemonic in this file.
    #[arg(long, value_name = "FILE")]
    pub source: Option<PathBuf>,
    /// Account of the derivation path.
    #[arg(long, default_value_t = 0)]
    pub account: u32,
    /// Address of the derivation path.
    #[arg(long, default_value_t = 0)]
    pub index: u32,
    /// The whole derivation path.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["account", "index"])]
    pub hd_path: Option<String>,
    /// Do not print the mnemonic.
    #[arg(long)]
    pub no_backup: bool,
    /// Print the key and keep nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Settings of `keys show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Its name or address.
    pub name: String,
    /// Print only the address of the key.
    #[arg(long, short, conflicts_with = "pubkey")]
    pub address: bool,
    /// Print only its public key.
    #[arg(long, short)]
    pub pubkey: bool,
}
