//! Errors of keyrings.

use std::path::{Path, PathBuf};

/// Error of a keyring. The message contains no secrets; [`KeyringError::help`] returns the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The user selected a backend that only the Go tools support.
    #[error(
        "keyring backend `{backend}` is not supported: export each key with \
         `provider-services keys export NAME --keyring-backend {backend}`, then `keys import NAME FILE \
         --keyring-backend file` here"
    )]
    UnsupportedBackend {
        /// Name of the backend: `os`, `pass` or `kwallet`.
        backend: &'static str,
    },
    /// The user selected an unknown backend. Contains its name as given.
    #[error("unknown keyring backend `{0}`")]
    UnknownBackend(String),
    /// The passphrase of the `file` backend is missing.
    #[error("keyring {} requires a passphrase", dir.display())]
    PassphraseMissing {
        /// Folder of the keyring.
        dir: PathBuf,
    },
    /// The new passphrase is too short or too long.
    #[error("passphrase must have {min} to {max} bytes")]
    PassphraseLength {
        /// Minimum length of a passphrase, in bytes.
        min: usize,
        /// Maximum length of a passphrase, in bytes.
        max: usize,
    },
    /// The passphrase is wrong.
    #[error("wrong passphrase for {what}")]
    WrongPassphrase {
        /// Keyring, file or exported key that cannot be decrypted.
        what: String,
    },
    /// The name of the key is invalid.
    #[error("invalid key name `{name}`: {why}")]
    BadName {
        /// Name as given, truncated to 80 characters.
        name: String,
        /// Rule that the name violates.
        why: &'static str,
    },
    /// The name is the address of another key in the keyring.
    #[error(
        "invalid key name `{name}`: the name is the address of another key; the new key has the address {address}"
    )]
    NamedAsAnother {
        /// Name as given, truncated to 80 characters.
        name: String,
        /// Address of the new key.
        address: String,
    },
    /// No key has this name or address.
    #[error("no key `{name}` in {place}")]
    NotFound {
        /// Name or address as given, truncated to 80 characters.
        name: String,
        /// Path of the keyring folder.
        place: String,
    },
    /// A key with this name or address already exists.
    #[error("key `{name}` already exists in {place}")]
    Exists {
        /// Name of the existing key.
        name: String,
        /// Path of the keyring folder.
        place: String,
    },
    /// The keyring does not contain the private key.
    #[error("key `{name}` cannot sign: a {kind} key has no private key in the keyring")]
    NoPrivateHalf {
        /// Name of the key.
        name: String,
        /// Type of the key, as the Go tools name it.
        kind: &'static str,
    },
    /// A file of the keyring is invalid.
    #[error("invalid keyring file {}: {why}", path.display())]
    Damaged {
        /// Path of the invalid file. The file is not changed.
        path: PathBuf,
        /// Reason why the file is invalid. Contains no secrets.
        why: String,
    },
    /// The mnemonic is invalid. Contains the reason.
    #[error("invalid mnemonic: {0}")]
    Mnemonic(String),
    /// The derivation path is invalid.
    #[error("invalid derivation path `{path}`")]
    Path {
        /// Derivation path as given, truncated to 80 characters.
        path: String,
    },
    /// The text is not a valid exported key. Contains the reason.
    #[error("invalid exported key: {0}")]
    Armor(String),
    /// The secret cannot be read.
    #[error("cannot read secret from {place}: {why}")]
    Secret {
        /// Name of the environment variable, or path of the file.
        place: String,
        /// Reason why the secret cannot be read. The reason does not contain the secret.
        why: String,
    },
    /// The system does not provide random bytes. Contains the error text.
    #[error("cannot read random bytes from the system: {0}")]
    Randomness(String),
    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// Failed operation, as a verb phrase for error messages.
        operation: &'static str,
        /// File or folder on which the operation failed.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl KeyringError {
    pub(super) fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            why: why.into(),
        }
    }

    pub(super) fn io(operation: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the remedy. Returns `None` for an error without a remedy, or with the remedy in its text.
    #[must_use]
    pub const fn help(&self) -> Option<&'static str> {
        Some(match self {
            Self::UnknownBackend(_) => "use file or test; export keys of os, pass and kwallet first",
            Self::PassphraseMissing { .. } => "run the command in a terminal, or set the passphrase file",
            Self::PassphraseLength { .. } => "choose another passphrase",
            Self::WrongPassphrase { .. } => "run the command again with the right passphrase",
            Self::BadName { .. } => "choose another name",
            Self::NamedAsAnother { .. } => "choose another name, or the address of this key",
            Self::NotFound { .. } => "run `keys list` to list the keys",
            Self::Exists { .. } => "delete the key first, or use another name",
            Self::NoPrivateHalf { .. } => "import the key with its mnemonic, or select another key",
            Self::Damaged { .. } => "restore the file from a backup, or import the key again",
            Self::Mnemonic(_) => "expected 12, 15, 18, 21 or 24 entries of the English list",
            Self::Path { .. } => "expected a path such as m/44'/118'/0'/0/0",
            Self::Armor(_) => "expected the output of `keys export`",
            Self::Secret { .. } => "check the variable or the path, and the permissions of the file",
            Self::UnsupportedBackend { .. } | Self::Randomness(_) | Self::Io { .. } => return None,
        })
    }
}

pub(super) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
