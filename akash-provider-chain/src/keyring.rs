//! Keyrings in the format of the Go tools.
//!
//! A keyring is a folder with one encrypted file per key and one index file per address:
//!
//! ```text
//! HOME/keyring-test/NAME.info        the key; passphrase `test`
//!                   HEX.address      index file: name of the key file, by the hexadecimal address
//! HOME/keyring-file/...              the same files, encrypted with the passphrase of the operator
//!                   keyhash          bcrypt hash of the passphrase, to detect a wrong passphrase early
//! ```
//! The backends `os`, `pass` and `kwallet` need a desktop and are not supported. Export keys from such a
//! keyring with the Go tools, and import them into a keyring of this crate.

mod armor;
mod error;
mod folder;
mod jwe;
mod mnemonic;
mod record;
mod secret;
#[cfg(test)]
mod tests;

use crate::private_key::PrivateKey;
use akash_provider_core::types::Address;
pub use error::KeyringError;
use error::shortened;
use folder::Folder;
pub use mnemonic::{DEFAULT_PATH, derive_key, generate_mnemonic};
pub use record::KeyKind;
use record::StoredKey;
use secrecy::{ExposeSecret, SecretString};
pub use secret::SecretSource;
use std::path::Path;
use std::str::FromStr;

/// Maximum length of a key name in bytes. A key name plus a suffix must be a valid file name.
const NAME_BYTES_MAX: usize = 128;
/// Minimum length of a new passphrase in bytes, the same as in the Go tools.
pub const PASSPHRASE_BYTES_MIN: usize = 8;
/// Maximum length of a new passphrase in bytes. bcrypt ignores further bytes.
pub const PASSPHRASE_BYTES_MAX: usize = 71;
/// Passphrase of the `test` backend.
const TEST_PASSPHRASE: &str = "test";

/// Storage backend of a keyring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyringBackend {
    /// Files are encrypted with a passphrase that the user chooses.
    File,
    /// Files are encrypted with the well-known passphrase `test`.
    Test,
}

impl FromStr for KeyringBackend {
    type Err = KeyringError;

    fn from_str(text: &str) -> Result<Self, KeyringError> {
        match text {
            "file" => Ok(Self::File),
            "test" => Ok(Self::Test),
            "os" => Err(KeyringError::UnsupportedBackend { backend: "os" }),
            "pass" => Err(KeyringError::UnsupportedBackend { backend: "pass" }),
            "kwallet" => Err(KeyringError::UnsupportedBackend { backend: "kwallet" }),
            other => Err(KeyringError::UnknownBackend(shortened(other))),
        }
    }
}

/// Public information about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// Name of the key, which is also the name of its file.
    pub name: String,
    /// Type of the key. Only local keys can sign.
    pub kind: KeyKind,
    /// Address of the chain account. `None` if the key is not a secp256k1 key.
    pub address: Option<Address>,
    /// Compressed public key. `None` if the key is not a secp256k1 key.
    pub public_key: Option<Vec<u8>>,
}

/// Readable keys of a keyring, and the errors of unreadable files.
#[derive(Debug, Default)]
pub struct KeyListing {
    /// Readable keys, sorted by name.
    pub keys: Vec<KeyInfo>,
    /// One error for each unreadable file.
    pub unreadable: Vec<KeyringError>,
}

/// Open keyring: a folder, and the passphrase of its files.
#[derive(Debug)]
pub struct Keyring {
    folder: Folder,
}

impl Keyring {
    /// Opens a keyring in a home folder.
    ///
    /// The `test` backend needs no passphrase. For a new keyring, the `file` backend stores a hash of the
    /// passphrase.
    ///
    /// # Errors
    /// Returns an error if the passphrase is missing or wrong, or if a new passphrase is too short or too long.
    pub fn open(
        backend: KeyringBackend,
        home: &Path,
        passphrase: Option<&SecretString>,
    ) -> Result<Self, KeyringError> {
        let folder = match backend {
            KeyringBackend::Test => {
                Folder::new(home.join("keyring-test"), SecretString::from(TEST_PASSPHRASE))
            }
            KeyringBackend::File => {
                let dir = home.join("keyring-file");
                let Some(passphrase) = passphrase else {
                    return Err(KeyringError::PassphraseMissing { dir });
                };
                let folder = Folder::new(dir, passphrase.clone());
                folder.check_passphrase()?;
                folder
            }
        };
        Ok(Self { folder })
    }

    /// Returns true if the keyring has no passphrase yet. The next [`Keyring::open`] then sets the
    /// passphrase. Always returns false for the backend `test`.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn is_without_passphrase(backend: KeyringBackend, home: &Path) -> Result<bool, KeyringError> {
        match backend {
            KeyringBackend::Test => Ok(false),
            KeyringBackend::File => Folder::new(home.join("keyring-file"), SecretString::from("")).is_new(),
        }
    }

    /// Lists all keys. If the folder does not exist, the list is empty.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn list(&self) -> Result<KeyListing, KeyringError> {
        let mut listing = KeyListing::default();
        for name in self.folder.names()? {
            match self.stored(&name) {
                Ok(stored) => listing.keys.push(info(&stored)),
                Err(error) => listing.unreadable.push(error),
            }
        }
        Ok(listing)
    }

    /// Returns a key by name or address. The name takes precedence over the address, as in the Go tools.
    ///
    /// # Errors
    /// Returns an error if the key does not exist or cannot be read.
    pub fn show(&self, name_or_address: &str) -> Result<KeyInfo, KeyringError> {
        Ok(info(&self.named(name_or_address)?))
    }

    /// Returns a private key by name or address, for signing.
    ///
    /// If `name_or_address` is an address, only the addresses of keys are compared, not the names.
    ///
    /// # Errors
    /// Returns an error if the key does not exist, cannot be read, or has no private key in the keyring.
    pub fn private_key(&self, name_or_address: &str) -> Result<PrivateKey, KeyringError> {
        private_half(self.find(name_or_address)?)
    }

    /// Stores a key. If the name has the form of an address, it must be the address of this key.
    ///
    /// # Errors
    /// Returns an error if the name is invalid, or if the keyring already contains the name or the address.
    pub fn add(&self, name: &str, key: &PrivateKey) -> Result<KeyInfo, KeyringError> {
        let name = checked_name(name)?;
        if name.parse::<Address>().is_ok_and(|named| named != *key.address()) {
            return Err(KeyringError::NamedAsAnother {
                name: shortened(name),
                address: key.address().to_string(),
            });
        }
        let exists = |name: &str| KeyringError::Exists {
            name: name.to_owned(),
            place: self.folder.place(),
        };
        if self.folder.has(name)? {
            return Err(exists(name));
        }
        // An index entry without a key file is ignored.
        if let Some(other) = self.folder.name_of(key.address())?
            && self.folder.has(&other)?
        {
            return Err(exists(&other));
        }
        self.folder.write(name, key)?;
        self.show(name)
    }

    /// Stores a key from text that `keys export` printed.
    ///
    /// # Errors
    /// Returns the errors of [`Keyring::add`], and an error if the text is invalid or the passphrase is
    /// wrong.
    pub fn import(
        &self,
        name: &str,
        armor: &str,
        passphrase: &SecretString,
    ) -> Result<KeyInfo, KeyringError> {
        self.add(name, &armor::open(armor, passphrase)?)
    }

    /// Returns a key as text, encrypted with `passphrase`.
    ///
    /// # Errors
    /// Returns the errors of [`Keyring::show`], and an error if the keyring does not contain the private key,
    /// or if the passphrase is too short.
    pub fn export(&self, name_or_address: &str, passphrase: &SecretString) -> Result<String, KeyringError> {
        check_new_passphrase(passphrase)?;
        armor::seal(&private_half(self.named(name_or_address)?)?, passphrase)
    }

    /// Deletes a key permanently.
    ///
    /// # Errors
    /// Returns an error if the key does not exist or cannot be read.
    pub fn delete(&self, name_or_address: &str) -> Result<(), KeyringError> {
        // The key is read first: its address selects the index file, and a file that cannot be decrypted is not
        // deleted.
        let stored = self.named(name_or_address)?;
        self.folder
            .remove(&stored.name, stored.public.as_ref().map(|k| k.address()))
    }

    /// Returns the key with this name, or else the key with this address.
    fn named(&self, name_or_address: &str) -> Result<StoredKey, KeyringError> {
        if name_or_address.parse::<Address>().is_ok()
            && let Some(stored) = self.folder.read(name_or_address)?
        {
            return Ok(stored);
        }
        self.find(name_or_address)
    }

    /// Returns the key with this address. If the argument is not an address, returns the key with this name.
    fn find(&self, name_or_address: &str) -> Result<StoredKey, KeyringError> {
        let Ok(address) = name_or_address.parse::<Address>() else {
            return self.stored(checked_name(name_or_address)?);
        };
        // A key with its address as its name is found without the index.
        let indexed = self.folder.name_of(&address)?;
        let name = indexed.as_deref().unwrap_or(name_or_address);
        let stored = self.stored(name)?;
        // The index may be outdated or manipulated, so the address of the key is compared.
        if stored.public.as_ref().map(|k| k.address()) != Some(&address) {
            return Err(self.not_found(name_or_address));
        }
        Ok(stored)
    }

    fn not_found(&self, name_or_address: &str) -> KeyringError {
        KeyringError::NotFound {
            name: shortened(name_or_address),
            place: self.folder.place(),
        }
    }

    fn stored(&self, name: &str) -> Result<StoredKey, KeyringError> {
        self.folder.read(name)?.ok_or_else(|| self.not_found(name))
    }
}

fn private_half(stored: StoredKey) -> Result<PrivateKey, KeyringError> {
    stored.private.ok_or_else(|| KeyringError::NoPrivateHalf {
        name: stored.name,
        kind: stored.kind.as_str(),
    })
}

fn info(stored: &StoredKey) -> KeyInfo {
    KeyInfo {
        name: stored.name.clone(),
        kind: stored.kind,
        address: stored.public.as_ref().map(|k| k.address().clone()),
        public_key: stored.public.as_ref().map(|k| k.as_bytes().to_vec()),
    }
}

/// Decrypts a key from text that `keys export` printed.
///
/// # Errors
/// Returns an error if the text is invalid or the passphrase is wrong.
pub fn decrypt_armor(armor: &str, passphrase: &SecretString) -> Result<PrivateKey, KeyringError> {
    armor::open(armor, passphrase)
}

fn check_new_passphrase(passphrase: &SecretString) -> Result<(), KeyringError> {
    let (min, max) = (PASSPHRASE_BYTES_MIN, PASSPHRASE_BYTES_MAX);
    if (min..=max).contains(&passphrase.expose_secret().len()) {
        return Ok(());
    }
    Err(KeyringError::PassphraseLength { min, max })
}

/// Returns `name` if it is a valid key name.
fn checked_name(name: &str) -> Result<&str, KeyringError> {
    let bad = |why| KeyringError::BadName {
        name: shortened(name),
        why,
    };
    if name.is_empty() {
        return Err(bad("the name is empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(bad("the name is longer than 128 bytes"));
    }
    if name.starts_with('.') {
        return Err(bad("the name starts with a dot"));
    }
    if name.trim() != name {
        return Err(bad("the name starts or ends with a space"));
    }
    if name
        .chars()
        .any(|c| c.is_control() || matches!(c, '/' | '\\' | '%'))
    {
        return Err(bad(
            "the name contains a slash, a percent sign or a control character",
        ));
    }
    Ok(name)
}
