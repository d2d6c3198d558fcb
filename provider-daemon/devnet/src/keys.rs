//! Throw-away keys of a development network, in a keyring that the Akash command-line tool `akash` can open.

use akash_provider_chain::keyring::{
    DEFAULT_PATH, Keyring, KeyringBackend, KeyringError, derive_key, generate_mnemonic,
};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::Address;
use std::io;
use std::path::{Path, PathBuf};

/// Names of the accounts of every development network.
pub const NAMES: [&str; 3] = ["provider", "tenant", "auditor"];

/// Reason why the keys cannot be opened or created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The user's cache directory is unknown.
    #[error(
        "XDG_CACHE_HOME and HOME are not set: set one of them, or --keyring-dir if the command has this flag"
    )]
    NoCache,
    /// The folder cannot be created.
    #[error("cannot create {}", .folder.display())]
    Folder {
        /// Path of the folder that cannot be created.
        folder: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The creation of a missing key failed.
    #[error("cannot create the keys of the development network")]
    Make(#[source] KeyringError),
    /// A key is missing or unreadable.
    #[error(
        "cannot read a key in keyring {}, which --keyring-dir selects (`devnet` prints its keyring at the start)",
        .folder.display()
    )]
    Key {
        /// Folder of the keyring.
        folder: PathBuf,
        /// Cause of the failure.
        source: KeyringError,
    },
    /// The keyring cannot be opened.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
}

/// Keyring of a development network, with a key for each of [`NAMES`].
#[derive(Debug)]
pub struct Keys {
    folder: PathBuf,
    keyring: Keyring,
}

impl Keys {
    /// Opens the keyring and creates missing keys. Without `folder`, the keyring is in the user's cache
    /// directory.
    ///
    /// # Errors
    /// The folder cannot be read or written, or the user's cache directory is unknown.
    pub fn open(folder: Option<&Path>) -> Result<Self, KeysError> {
        let folder = folder_or_default(folder)?;
        if let Err(source) = std::fs::create_dir_all(&folder) {
            return Err(KeysError::Folder { folder, source });
        }
        let keys = Self::open_existing(Some(&folder))?;
        keys.create_missing()?;
        Ok(keys)
    }

    /// Opens an existing keyring and creates no keys. Without `folder`, the keyring is in the user's cache
    /// directory.
    ///
    /// # Errors
    /// The folder cannot be read, or the user's cache directory is unknown.
    pub fn open_existing(folder: Option<&Path>) -> Result<Self, KeysError> {
        let folder = folder_or_default(folder)?;
        let keyring = Keyring::open(KeyringBackend::Test, &folder, None)?;
        Ok(Self { folder, keyring })
    }

    fn create_missing(&self) -> Result<(), KeysError> {
        let keyring = &self.keyring;
        for name in NAMES {
            if keyring.show(name).is_ok() {
                continue;
            }
            let key = derive_key(&generate_mnemonic()?, &"".into(), DEFAULT_PATH)?;
            match keyring.add(name, &key) {
                // Another process created the key.
                Ok(_) | Err(KeyringError::Exists { .. }) => {}
                Err(error) => return Err(KeysError::Make(error)),
            }
        }
        Ok(())
    }

    /// Returns the folder of the keyring, which `akash` accepts as `--keyring-dir`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the name and the address of each account.
    ///
    /// # Errors
    /// A key cannot be read.
    pub fn accounts(&self) -> Result<Vec<(String, Address)>, KeysError> {
        let account = |name: &&str| Ok(((*name).to_owned(), self.private_key(name)?.address().clone()));
        NAMES.iter().map(account).collect()
    }

    /// Returns a key by its name or address.
    ///
    /// # Errors
    /// The key is missing or unreadable.
    pub fn private_key(&self, name_or_address: &str) -> Result<PrivateKey, KeysError> {
        let key = self.keyring.private_key(name_or_address);
        key.map_err(|source| KeysError::Key {
            folder: self.folder.clone(),
            source,
        })
    }
}

fn folder_or_default(folder: Option<&Path>) -> Result<PathBuf, KeysError> {
    folder.map_or_else(|| cache("devnet"), |folder| Ok(folder.to_owned()))
}

/// Returns the path of `name` in the user's cache directory, `XDG_CACHE_HOME/akash-provider` or
/// `~/.cache/akash-provider`. Does not create the folder.
///
/// # Errors
/// The cache directory is unknown.
pub fn cache(name: &str) -> Result<PathBuf, KeysError> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    // The XDG specification ignores relative paths, which would depend on the working directory.
    let cache = cache.filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.ok_or(KeysError::NoCache)?;
    Ok(cache.join("akash-provider").join(name))
}
