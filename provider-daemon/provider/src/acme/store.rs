//! Files of the ACME client. All files are private to their owner and replaced atomically.

use super::AcmeSettings;
use super::error::AcmeError;
use super::schedule::Retry;
use akash_provider_chain::{private_file, regular_file};
use instant_acme::AccountCredentials;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

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
    // Two processes must not write to the same temporary file.
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let folder = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let written = folder.and_then(|()| private_file::replace(path, &temporary, bytes));
    written.map_err(|why| failed(path, why))
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
