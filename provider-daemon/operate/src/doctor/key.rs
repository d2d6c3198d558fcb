//! Signing key and its passphrase.

use super::check::Check;
use akash_provider_chain::keyring::{Keyring, KeyringBackend};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_cli::flags::SignerArgs;
use akash_provider_cli::secrets;
use akash_provider_core::types::Address;
use akash_provider_service::error;
use anyhow::Context;
use std::path::Path;

const SUBJECT: &str = "key";

#[derive(Debug)]
pub(super) struct KeyFacts {
    /// Key; `None` if it cannot be read.
    pub(super) key: Option<PrivateKey>,
    /// Account of the key. If the key cannot be read, the account is the address in `--from`.
    pub(super) account: Option<Address>,
    /// Result of the check.
    pub(super) check: Check,
}

/// Reads the key, with a prompt for an unset passphrase. Creates no files.
pub(super) fn read(args: &SignerArgs, home: Option<&Path>) -> KeyFacts {
    let named = args.from.as_deref().and_then(|from| from.parse::<Address>().ok());
    match read_key(args, home) {
        Ok(key) => {
            let account = key.address().clone();
            KeyFacts {
                check: Check::ok(SUBJECT, format!("account {account}")),
                account: Some(account),
                key: Some(key),
            }
        }
        Err(failure) => {
            let remedy = error::help(&failure)
                .unwrap_or(
                    "check --from, --keyring-backend, --keyring-dir and AP_KEYRING_PASSPHRASE; `keys list` lists the keys",
                )
                .to_owned();
            KeyFacts {
                key: None,
                account: named,
                check: Check::failure(SUBJECT, format!("{failure:#}"), remedy),
            }
        }
    }
}

fn read_key(args: &SignerArgs, home: Option<&Path>) -> anyhow::Result<PrivateKey> {
    let home = home.context("the user has no home directory, and --home is not set")?;
    if secrets::uses_keyring(args)? {
        let backend: KeyringBackend = args.keyring.keyring_backend.parse()?;
        let folder = args.keyring.keyring_dir.as_deref().unwrap_or(home);
        // Opening a new keyring would store a passphrase.
        if Keyring::is_without_passphrase(backend, folder)? {
            let text = format!("no keyring in {}", folder.display());
            let help =
                "create a key with `keys add NAME`, or set --home or --keyring-dir to the existing keyring";
            return Err(akash_provider_cli::error::WithHelp::new(text, help).into());
        }
    }
    secrets::signer(args, home)
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        signer: SignerArgs,
    }

    #[test]
    fn missing_keyring_is_a_failure_and_is_not_created() {
        let home = tempfile::tempdir().unwrap();
        let address = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
        for backend in ["file", "test"] {
            let flags = Flags::parse_from(["x", "--from", address, "--keyring-backend", backend]);
            let facts = read(&flags.signer, Some(home.path()));
            assert_eq!(facts.check.severity(), Severity::Failure, "{backend}");
            assert!(facts.check.help().is_some_and(|help| help.contains("keys ")));
            assert_eq!(facts.account.map(|a| a.to_string()).as_deref(), Some(address));
            assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "{backend}");
        }
    }
}
