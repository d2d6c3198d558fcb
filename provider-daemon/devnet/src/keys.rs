//! The throw-away keys of a development network, in a keyring that the network's own tool can open.

use akash_provider_chain::keyring::{
    Backend, DEFAULT_PATH, Keyring, KeyringError, generate_mnemonic, key_of_mnemonic,
};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::Address;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// Names of the accounts that every development network has.
pub const NAMES: [&str; 3] = ["provider", "tenant", "auditor"];

/// A keyring with a key for each name.
#[derive(Debug)]
pub struct Keys {
    folder: PathBuf,
    keyring: Keyring,
}

impl Keys {
    /// Opens the keyring in a folder, by default in the user's cache, and makes the keys that are missing.
    ///
    /// # Errors
    /// The folder cannot be read or written, or nobody says where the user's cache is.
    pub fn open(folder: Option<&Path>) -> anyhow::Result<Self> {
        let folder = place(folder)?;
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let keys = Self::made(Some(&folder))?;
        keys.make()?;
        Ok(keys)
    }

    /// Opens the keyring in a folder, by default in the user's cache, as it is: who acts on a network makes no keys.
    ///
    /// # Errors
    /// The folder cannot be read, or nobody says where the user's cache is.
    pub fn made(folder: Option<&Path>) -> anyhow::Result<Self> {
        let folder = place(folder)?;
        let keyring = Keyring::open(Backend::Test, &folder, None)?;
        Ok(Self { folder, keyring })
    }

    fn make(&self) -> anyhow::Result<()> {
        let keyring = &self.keyring;
        for name in NAMES {
            if keyring.show(name).is_ok() {
                continue;
            }
            let key = key_of_mnemonic(&generate_mnemonic()?, &"".into(), DEFAULT_PATH)?;
            match keyring.add(name, &key) {
                // Somebody else was faster.
                Ok(_) | Err(KeyringError::Exists { .. }) => {}
                Err(error) => return Err(error).context("making the keys of the development network"),
            }
        }
        Ok(())
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The accounts, by name.
    ///
    /// # Errors
    /// A key cannot be read.
    pub fn accounts(&self) -> anyhow::Result<Vec<(String, Address)>> {
        let account = |name: &&str| Ok(((*name).to_owned(), self.private_key(name)?.address().clone()));
        NAMES.iter().map(account).collect()
    }

    /// A key by its name or address.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn private_key(&self, name_or_address: &str) -> anyhow::Result<PrivateKey> {
        let key = self.keyring.private_key(name_or_address);
        key.with_context(|| {
            let folder = self.folder.display();
            format!("a key of {folder}: `devnet` says at its start where its keys are, and --keyring-dir names that folder")
        })
    }
}

fn place(folder: Option<&Path>) -> anyhow::Result<PathBuf> {
    folder.map_or_else(|| cache("devnet"), |folder| Ok(folder.to_owned()))
}

/// A folder of ours in the user's cache.
///
/// # Errors
/// Nobody says where the cache is.
pub(crate) fn cache(name: &str) -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.context(
        "neither XDG_CACHE_HOME nor HOME is set: set one, or give --keyring-dir where there is that flag",
    )?;
    Ok(cache.join("akash-provider").join(name))
}
