//! The throw-away keys of a development network, in a keyring that the network's own tool can open.

use akash_provider_chain::keyring::{
    Backend, DEFAULT_PATH, Keyring, KeyringError, generate_mnemonic, key_of_mnemonic,
};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::Address;
use std::io;
use std::path::{Path, PathBuf};

/// Names of the accounts that every development network has.
pub const NAMES: [&str; 3] = ["provider", "tenant", "auditor"];

/// Why the keys cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// Nobody says where the user's cache is.
    #[error(
        "neither XDG_CACHE_HOME nor HOME is set: set one, or give --keyring-dir where there is that flag"
    )]
    NoCache,
    /// The folder cannot be made.
    #[error("making {}", .folder.display())]
    Folder {
        /// The folder that was to be made, with all that is above it.
        folder: PathBuf,
        /// Why the system did not make it.
        source: io::Error,
    },
    /// A key that is missing cannot be made.
    #[error("making the keys of the development network")]
    Make(#[source] KeyringError),
    /// A key is not there, or cannot be read.
    #[error(
        "a key of {}: `devnet` says at its start where its keys are, and --keyring-dir names that folder",
        .folder.display()
    )]
    Key {
        /// The folder of the keyring that was looked into.
        folder: PathBuf,
        /// Whether the key is absent or cannot be read.
        source: KeyringError,
    },
    /// The keyring cannot be opened.
    #[error(transparent)]
    Keyring(#[from] KeyringError),
}

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
    pub fn open(folder: Option<&Path>) -> Result<Self, KeysError> {
        let folder = place(folder)?;
        if let Err(source) = std::fs::create_dir_all(&folder) {
            return Err(KeysError::Folder { folder, source });
        }
        let keys = Self::made(Some(&folder))?;
        keys.make()?;
        Ok(keys)
    }

    /// Opens the keyring in a folder, by default in the user's cache, as it is: who acts on a network makes no keys.
    ///
    /// # Errors
    /// The folder cannot be read, or nobody says where the user's cache is.
    pub fn made(folder: Option<&Path>) -> Result<Self, KeysError> {
        let folder = place(folder)?;
        let keyring = Keyring::open(Backend::Test, &folder, None)?;
        Ok(Self { folder, keyring })
    }

    fn make(&self) -> Result<(), KeysError> {
        let keyring = &self.keyring;
        for name in NAMES {
            if keyring.show(name).is_ok() {
                continue;
            }
            let key = key_of_mnemonic(&generate_mnemonic()?, &"".into(), DEFAULT_PATH)?;
            match keyring.add(name, &key) {
                // Somebody else was faster.
                Ok(_) | Err(KeyringError::Exists { .. }) => {}
                Err(error) => return Err(KeysError::Make(error)),
            }
        }
        Ok(())
    }

    /// The folder of the keyring, for `--keyring-dir` of the network's own tool too.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The accounts, by name.
    ///
    /// # Errors
    /// A key cannot be read.
    pub fn accounts(&self) -> Result<Vec<(String, Address)>, KeysError> {
        let account = |name: &&str| Ok(((*name).to_owned(), self.private_key(name)?.address().clone()));
        NAMES.iter().map(account).collect()
    }

    /// A key by its name or address.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn private_key(&self, name_or_address: &str) -> Result<PrivateKey, KeysError> {
        let key = self.keyring.private_key(name_or_address);
        key.map_err(|source| KeysError::Key {
            folder: self.folder.clone(),
            source,
        })
    }
}

fn place(folder: Option<&Path>) -> Result<PathBuf, KeysError> {
    folder.map_or_else(|| cache("devnet"), |folder| Ok(folder.to_owned()))
}

/// A folder of ours in the user's cache, `akash-provider/NAME` below `XDG_CACHE_HOME` or `~/.cache`; it is not made.
///
/// # Errors
/// Nobody says where the cache is.
pub fn cache(name: &str) -> Result<PathBuf, KeysError> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    // The XDG specification has relative paths ignored: they would depend on where the program was started.
    let cache = cache.filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.ok_or(KeysError::NoCache)?;
    Ok(cache.join("akash-provider").join(name))
}
