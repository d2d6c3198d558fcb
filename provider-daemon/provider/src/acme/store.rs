//! Files of the ACME client. All files are private to their owner and replaced atomically.

use super::AcmeSettings;
use super::error::AcmeError;
use super::schedule::Retry;
use akash_provider_chain::regular_file;
use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Maximum size of a file, in bytes.
const FILE_MAX: u64 = 1024 * 1024;

/// Account at the server, with the settings of its registration.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredAccount {
    pub(super) email: String,
    /// Key ID of the external account, or empty.
    pub(super) kid: String,
    pub(super) credentials: AccountCredentials,
}

/// Files of one ACME server and hostname.
#[derive(Debug)]
pub(super) struct Store {
    account: PathBuf,
    certificate: PathBuf,
    retry: PathBuf,
}

impl Store {
    pub(super) fn new(settings: &AcmeSettings) -> Self {
        let folder = settings.folder();
        Self {
            account: folder.join("account.json"),
            certificate: settings.certificate_file(),
            retry: folder.join("retry.json"),
        }
    }

    /// Returns the account, or `None` if the file is missing or damaged. The caller then registers an account.
    pub(super) fn account(&self) -> Option<StoredAccount> {
        parse(&self.account)
    }

    pub(super) fn write_account(&self, account: &StoredAccount) -> Result<(), AcmeError> {
        write_json(&self.account, account)
    }

    /// Deletes the account, so that the next order registers a new account.
    pub(super) fn remove_account(&self) -> Result<(), AcmeError> {
        remove(&self.account)
    }

    /// Returns the private key and the certificate chain as PEM.
    pub(super) fn certificate(&self) -> Option<Vec<u8>> {
        read(&self.certificate)
    }

    pub(super) fn write_certificate(&self, pem: &[u8]) -> Result<(), AcmeError> {
        write(&self.certificate, pem)?;
        remove(&self.retry)
    }

    pub(super) fn retry(&self) -> Option<Retry> {
        parse(&self.retry)
    }

    pub(super) fn set_retry(&self, retry: Retry) -> Result<(), AcmeError> {
        write_json(&self.retry, &retry)
    }
}

/// Returns the content, or `None` if the file is missing or unreadable.
fn read(path: &Path) -> Option<Vec<u8>> {
    match regular_file::read(path, FILE_MAX) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                let path = path.display();
                tracing::warn!(%path, %error, "cannot read file of the ACME client, creating it again");
            }
            None
        }
    }
}

fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&read(path)?).ok()
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), AcmeError> {
    let bytes = serde_json::to_vec(value).map_err(|error| failed(path, error.into()))?;
    write(path, &bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), AcmeError> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    replace(folder, path, bytes).map_err(|why| failed(path, why))
}

fn replace(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // The temporary file has the mode 0600.
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    // The sync of the folder persists the rename.
    File::open(folder)?.sync_all()
}

fn remove(path: &Path) -> Result<(), AcmeError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(path, error)),
        _ => Ok(()),
    }
}

fn failed(path: &Path, why: io::Error) -> AcmeError {
    AcmeError::Storage {
        path: path.to_owned(),
        why,
    }
}
