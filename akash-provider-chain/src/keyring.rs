//! Keyrings as the Go tool writes them, read and written.
//!
//! A keyring is a folder with an encrypted file per key and one per address:
//!
//! ```text
//! HOME/keyring-test/NAME.info        the key; passphrase `test`
//!                   HEX.address      name of the key's file, by the hex of its address
//! HOME/keyring-file/...              the same, under the operator's passphrase
//!                   keyhash          bcrypt of it, so that a wrong one is noticed before it is used
//! ```
//! The backends `os`, `pass` and `kwallet` belong to a desktop; their keys are exported there and imported here.

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
pub use mnemonic::{DEFAULT_PATH, generate_mnemonic, key_of_mnemonic};
pub use record::KeyKind;
use record::Stored;
use secrecy::{ExposeSecret, SecretString};
pub use secret::SecretSource;
use std::path::Path;
use std::str::FromStr;

/// Longest name of a key: with its ending it must be a file name.
const NAME_BYTES_MAX: usize = 128;
/// Shortest new passphrase, as the Go tool asks for.
pub const PASSPHRASE_BYTES_MIN: usize = 8;
/// Longest new passphrase: bcrypt looks at no more.
pub const PASSPHRASE_BYTES_MAX: usize = 71;
/// What the `test` backend uses for a passphrase.
const TEST_PASSPHRASE: &str = "test";

/// Where keys are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Encrypted with the operator's passphrase.
    File,
    /// Encrypted with a passphrase that everybody knows.
    Test,
}

impl FromStr for Backend {
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

/// What may be shown of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its name, which is the name of its file.
    pub name: String,
    /// What it is, and so whether it can sign here.
    pub kind: KeyKind,
    /// Its address; `None` where it is not a secp256k1 key.
    pub address: Option<Address>,
    /// Its compressed public key, likewise.
    pub public_key: Option<Vec<u8>>,
}

/// The keys of a keyring, and the files that could not be read.
#[derive(Debug, Default)]
pub struct Listing {
    /// Keys that could be read, sorted by name.
    pub keys: Vec<KeyInfo>,
    /// One error per unreadable file: one damaged key does not hide the others.
    pub unreadable: Vec<KeyringError>,
}

/// An open keyring: a folder, and the passphrase that its files are encrypted with.
#[derive(Debug)]
pub struct Keyring {
    folder: Folder,
}

impl Keyring {
    /// Opens the keyring of a home folder. `test` takes no passphrase; `file` checks it against the stored hash,
    /// or sets it when the keyring is new.
    ///
    /// # Errors
    /// When the passphrase is missing, wrong, or (for a new keyring) too short or too long.
    pub fn open(
        backend: Backend,
        home: &Path,
        passphrase: Option<&SecretString>,
    ) -> Result<Self, KeyringError> {
        let folder = match backend {
            Backend::Test => Folder::new(home.join("keyring-test"), SecretString::from(TEST_PASSPHRASE)),
            Backend::File => {
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

    /// True when a keyring of this backend takes a passphrase and has none yet: whoever opens it sets it.
    ///
    /// # Errors
    /// When the folder cannot be looked at.
    pub fn is_without_passphrase(backend: Backend, home: &Path) -> Result<bool, KeyringError> {
        match backend {
            Backend::Test => Ok(false),
            Backend::File => Folder::new(home.join("keyring-file"), SecretString::from("")).is_new(),
        }
    }

    /// All keys.
    ///
    /// # Errors
    /// When the folder cannot be listed. An absent folder has no keys.
    pub fn list(&self) -> Result<Listing, KeyringError> {
        let mut listing = Listing::default();
        for name in self.folder.names()? {
            match self.stored(&name) {
                Ok(stored) => listing.keys.push(info(&stored)),
                Err(error) => listing.unreadable.push(error),
            }
        }
        Ok(listing)
    }

    /// What may be shown of a key, by its name or its address. A name goes first, as with the Go tool.
    ///
    /// # Errors
    /// When there is no such key or it cannot be read.
    pub fn show(&self, name_or_address: &str) -> Result<KeyInfo, KeyringError> {
        Ok(info(&self.named(name_or_address)?))
    }

    /// A key to sign with, by its name or its address. An address is never taken for the name of a key with another
    /// address.
    ///
    /// # Errors
    /// When there is no such key, it cannot be read, or it has no private half here.
    pub fn private_key(&self, name_or_address: &str) -> Result<PrivateKey, KeyringError> {
        private_half(self.find(name_or_address)?)
    }

    /// Stores a key. Its name may be its own address, which is how charts name it.
    ///
    /// # Errors
    /// When the name or the address is there already, or the name cannot be one, such as the address of another key.
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
        // An index entry whose key is gone does not count.
        if let Some(other) = self.folder.name_of(key.address())?
            && self.folder.has(&other)?
        {
            return Err(exists(&other));
        }
        self.folder.write(name, key)?;
        self.show(name)
    }

    /// Stores a key from the text that `keys export` wrote.
    ///
    /// # Errors
    /// When the text or its passphrase is wrong, or as [`Keyring::add`].
    pub fn import(
        &self,
        name: &str,
        armor: &str,
        passphrase: &SecretString,
    ) -> Result<KeyInfo, KeyringError> {
        self.add(name, &armor::open(armor, passphrase)?)
    }

    /// A key as text, encrypted with a passphrase.
    ///
    /// # Errors
    /// As [`Keyring::show`], or when it has no private half here, or the passphrase is too short.
    pub fn export(&self, name_or_address: &str, passphrase: &SecretString) -> Result<String, KeyringError> {
        check_new_passphrase(passphrase)?;
        armor::seal(&private_half(self.named(name_or_address)?)?, passphrase)
    }

    /// Removes a key. Without a copy elsewhere it is gone for good.
    ///
    /// # Errors
    /// When there is no such key, or it cannot be read.
    pub fn delete(&self, name_or_address: &str) -> Result<(), KeyringError> {
        // Read first: its own address leads to the index entry, and what the passphrase does not open is not removed.
        let stored = self.named(name_or_address)?;
        self.folder
            .remove(&stored.name, stored.public.as_ref().map(|k| k.address()))
    }

    /// The key of this name, or else of this address.
    fn named(&self, name_or_address: &str) -> Result<Stored, KeyringError> {
        if name_or_address.parse::<Address>().is_ok()
            && let Some(stored) = self.folder.read(name_or_address)?
        {
            return Ok(stored);
        }
        self.find(name_or_address)
    }

    /// The key of this address, whatever its name, or of this name where it is no address.
    fn find(&self, name_or_address: &str) -> Result<Stored, KeyringError> {
        let Ok(address) = name_or_address.parse::<Address>() else {
            return self.stored(checked_name(name_or_address)?);
        };
        // A key may have its address for a name, and then it is found without the index too.
        let indexed = self.folder.name_of(&address)?;
        let name = indexed.as_deref().unwrap_or(name_or_address);
        let stored = self.stored(name)?;
        // The index may be old or changed; the key itself decides.
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

    fn stored(&self, name: &str) -> Result<Stored, KeyringError> {
        self.folder.read(name)?.ok_or_else(|| self.not_found(name))
    }
}

fn private_half(stored: Stored) -> Result<PrivateKey, KeyringError> {
    stored.private.ok_or_else(|| KeyringError::NoPrivateHalf {
        name: stored.name,
        kind: stored.kind.as_str(),
    })
}

fn info(stored: &Stored) -> KeyInfo {
    KeyInfo {
        name: stored.name.clone(),
        kind: stored.kind,
        address: stored.public.as_ref().map(|k| k.address().clone()),
        public_key: stored.public.as_ref().map(|k| k.as_bytes().to_vec()),
    }
}

/// The key of an exported text, without a keyring: for a container whose only key is a secret.
///
/// # Errors
/// When the text or its passphrase is wrong.
pub fn key_of_armor(armor: &str, passphrase: &SecretString) -> Result<PrivateKey, KeyringError> {
    armor::open(armor, passphrase)
}

fn check_new_passphrase(passphrase: &SecretString) -> Result<(), KeyringError> {
    let (min, max) = (PASSPHRASE_BYTES_MIN, PASSPHRASE_BYTES_MAX);
    if (min..=max).contains(&passphrase.expose_secret().len()) {
        return Ok(());
    }
    Err(KeyringError::PassphraseLength { min, max })
}

/// A name becomes a file name: nothing in it may lead out of the folder or be escaped.
fn checked_name(name: &str) -> Result<&str, KeyringError> {
    let bad = |why| KeyringError::BadName {
        name: shortened(name),
        why,
    };
    if name.is_empty() {
        return Err(bad("it is empty"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(bad("it has more than 128 bytes"));
    }
    if name.starts_with('.') {
        return Err(bad("it starts with a dot"));
    }
    if name.trim() != name {
        return Err(bad("it starts or ends with a space"));
    }
    if name
        .chars()
        .any(|c| c.is_control() || matches!(c, '/' | '\\' | '%'))
    {
        return Err(bad("it has a slash, a percent sign or a control character"));
    }
    Ok(name)
}
