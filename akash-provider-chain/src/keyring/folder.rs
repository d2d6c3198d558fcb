//! Files of a keyring.

use super::error::KeyringError;
use super::jwe::{self, OpenError};
use super::record::{self, StoredKey};
use super::{PASSPHRASE_BYTES_MAX, check_new_passphrase};
use crate::private_file;
use crate::private_key::PrivateKey;
use crate::regular_file;
use akash_provider_core::types::Address;
use data_encoding::{BASE64, HEXLOWER};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Maximum size of a file in bytes. A file with a key has about 1 KiB.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Cost of the stored bcrypt hash, the default of the Go library.
const HASH_COST: u32 = 10;
const INFO: &str = ".info";
const HASH_FILE: &str = "keyhash";

#[derive(Debug)]
pub(super) struct Folder {
    dir: PathBuf,
    passphrase: SecretString,
}

/// Content of a file before encryption. The fields have the same names as in the Go library.
#[derive(Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
struct KeyringItem {
    #[serde(rename = "Key")]
    key: String,
    #[serde(rename = "Data")]
    data: String,
    #[serde(rename = "Label", default)]
    label: String,
    #[serde(rename = "Description", default)]
    description: String,
    #[serde(rename = "KeychainNotTrustApplication", default)]
    not_trusted: bool,
    #[serde(rename = "KeychainNotSynchronizable", default)]
    not_synchronized: bool,
}

impl Folder {
    pub(super) fn new(dir: PathBuf, passphrase: SecretString) -> Self {
        Self { dir, passphrase }
    }

    pub(super) fn place(&self) -> String {
        self.dir.display().to_string()
    }

    /// Returns true if the folder contains no keys and no passphrase hash.
    pub(super) fn is_new(&self) -> Result<bool, KeyringError> {
        Ok(read(&self.dir.join(HASH_FILE))?.is_none() && self.names()?.is_empty())
    }

    /// Compares the passphrase with the stored hash, or stores the hash of a new passphrase.
    pub(super) fn check_passphrase(&self) -> Result<(), KeyringError> {
        let path = self.dir.join(HASH_FILE);
        let Some(hash) = read(&path)? else {
            return self.store_hash(&path);
        };
        let damaged = |why: String| KeyringError::damaged(&path, why);
        let hash = std::str::from_utf8(&hash).map_err(|_| damaged("not UTF-8".to_owned()))?;
        let passphrase = self.passphrase.expose_secret().as_bytes();
        // bcrypt ignores further bytes, so only the start of a longer passphrase would be compared.
        let matches = passphrase.len() <= PASSPHRASE_BYTES_MAX + 1
            && bcrypt::verify(passphrase, hash.trim_end())
                .map_err(|e| damaged(format!("not a bcrypt hash ({e})")))?;
        if matches {
            Ok(())
        } else {
            Err(KeyringError::WrongPassphrase { what: self.what() })
        }
    }

    fn store_hash(&self, path: &Path) -> Result<(), KeyringError> {
        // A keyring without a hash is not new if it contains keys. Reading a key then checks the passphrase.
        if let Some(name) = self.names()?.first() {
            self.read(name)?;
        } else {
            check_new_passphrase(&self.passphrase)?;
        }
        let hash = bcrypt::hash_with_result(self.passphrase.expose_secret().as_bytes(), HASH_COST)
            .map_err(|e| KeyringError::Randomness(e.to_string()))?;
        // Version prefix of the Go library.
        self.write_file(path, hash.format_for_version(bcrypt::Version::TwoA).as_bytes())
    }

    fn what(&self) -> String {
        format!("keyring {}", self.dir.display())
    }

    /// Returns the names of all keys, sorted. Without a folder, the list is empty.
    pub(super) fn names(&self) -> Result<Vec<String>, KeyringError> {
        let io = KeyringError::io("list", &self.dir);
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(io(e)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let file = entry.map_err(&io)?.file_name();
            let name = file.to_str().and_then(|f| f.strip_suffix(INFO));
            // Not a valid key name; see `checked_name`.
            names.extend(
                name.filter(|n| !n.is_empty() && !n.starts_with('.'))
                    .map(str::to_owned),
            );
        }
        names.sort();
        Ok(names)
    }

    pub(super) fn has(&self, name: &str) -> Result<bool, KeyringError> {
        let path = self.info_path(name);
        path.try_exists().map_err(KeyringError::io("look for", &path))
    }

    pub(super) fn read(&self, name: &str) -> Result<Option<StoredKey>, KeyringError> {
        let path = self.info_path(name);
        let Some(data) = self.open_item(&path)? else {
            return Ok(None);
        };
        let damaged = |why| KeyringError::damaged(&path, why);
        let stored = record::decode(&data).map_err(damaged)?;
        // The file was renamed, or replaced by the file of another key.
        if stored.name != name {
            let why = format!(
                "contains a key with another name, `{}`",
                super::shortened(&stored.name)
            );
            return Err(damaged(why));
        }
        Ok(Some(stored))
    }

    /// Reads the name of the key from the index file of this address.
    pub(super) fn name_of(&self, address: &Address) -> Result<Option<String>, KeyringError> {
        let path = self.address_path(address)?;
        let Some(data) = self.open_item(&path)? else {
            return Ok(None);
        };
        let name = std::str::from_utf8(&data).ok().and_then(|t| t.strip_suffix(INFO));
        let name = name.and_then(|n| super::checked_name(n).ok());
        let why = || "the index entry is not a key name".to_owned();
        name.map(|n| Some(n.to_owned()))
            .ok_or_else(|| KeyringError::Damaged { path, why: why() })
    }

    /// Writes a key file and its index file. After a crash between the two writes, the key is found only by
    /// its name.
    pub(super) fn write(&self, name: &str, key: &PrivateKey) -> Result<(), KeyringError> {
        self.write_item(&self.info_path(name), &record::encode(name, key))?;
        self.write_item(
            &self.address_path(key.address())?,
            format!("{name}{INFO}").as_bytes(),
        )
    }

    pub(super) fn remove(&self, name: &str, address: Option<&Address>) -> Result<(), KeyringError> {
        if let Some(address) = address {
            remove(&self.address_path(address)?)?;
        }
        remove(&self.info_path(name))
    }

    fn info_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{INFO}"))
    }

    fn address_path(&self, address: &Address) -> Result<PathBuf, KeyringError> {
        let bytes = address.to_bytes();
        Ok(self.dir.join(format!("{}.address", HEXLOWER.encode(&bytes))))
    }

    fn open_item(&self, path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, KeyringError> {
        let Some(bytes) = read(path)? else {
            return Ok(None);
        };
        let damaged = |why: String| KeyringError::damaged(path, why);
        let token = std::str::from_utf8(&bytes).map_err(|_| damaged("not UTF-8".to_owned()))?;
        let opened = jwe::open(token, self.passphrase.expose_secret().as_bytes());
        let plain = opened.map_err(|e| match e {
            OpenError::Damaged(why) => damaged(why),
            OpenError::WrongPassphrase => KeyringError::WrongPassphrase {
                what: path.display().to_string(),
            },
        })?;
        let item: KeyringItem =
            serde_json::from_slice(&plain).map_err(|e| damaged(format!("invalid content ({e})")))?;
        // The encrypted content includes the file name, so files cannot be exchanged without the passphrase.
        if Some(item.key.as_str()) != path.file_name().and_then(|f| f.to_str()) {
            return Err(damaged(
                "the content belongs to a file with another name".to_owned(),
            ));
        }
        let data = BASE64
            .decode(item.data.as_bytes())
            .map_err(|_| damaged("data is not base64".to_owned()))?;
        Ok(Some(Zeroizing::new(data)))
    }

    fn write_item(&self, path: &Path, data: &[u8]) -> Result<(), KeyringError> {
        let key = path
            .file_name()
            .and_then(|f| f.to_str())
            .unwrap_or_default()
            .to_owned();
        let item = KeyringItem {
            key,
            data: BASE64.encode(data),
            label: String::new(),
            description: String::new(),
            not_trusted: false,
            not_synchronized: false,
        };
        let plain = Zeroizing::new(serde_json::to_vec(&item).unwrap_or_default());
        let seconds = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs());
        let token = jwe::seal(
            &plain,
            self.passphrase.expose_secret().as_bytes(),
            &seconds.to_string(),
        )
        .map_err(|e| KeyringError::Randomness(e.to_string()))?;
        self.write_file(path, token.as_bytes())
    }

    /// Replaces a file atomically.
    fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<(), KeyringError> {
        let mut folder = DirBuilder::new();
        folder
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(KeyringError::io("create the folder of", path))?;
        let name = path.file_name().and_then(|f| f.to_str()).unwrap_or_default();
        let temporary = self.dir.join(format!(".{name}.{}", std::process::id()));
        private_file::replace(path, &temporary, bytes).map_err(KeyringError::io("write", path))
    }
}

/// Reads a file. Returns `None` if the file does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, KeyringError> {
    let io = KeyringError::io("read", path);
    let file = match regular_file::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io(e)),
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(&io)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(KeyringError::damaged(
            path,
            format!("larger than {FILE_BYTES_MAX} bytes"),
        ));
    }
    Ok(Some(bytes))
}

fn remove(path: &Path) -> Result<(), KeyringError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(KeyringError::io("remove", path)(e)),
        _ => Ok(()),
    }
}
