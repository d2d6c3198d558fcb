//! What can be wrong with a keyring, and the mend.

use std::path::PathBuf;

/// Error of a keyring. Each says what, where, and what to do; none contains a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// A backend that only the old tool can open.
    #[error(
        "keyring backend `{backend}` is not supported: export each key with \
         `provider-services keys export NAME --keyring-backend {backend}`, then `keys import NAME FILE \
         --keyring-backend file` here"
    )]
    UnsupportedBackend {
        /// Its name: `os`, `pass` or `kwallet`.
        backend: &'static str,
    },
    /// Not the name of a backend.
    #[error("`{0}` is not a keyring backend: use file or test (os, pass and kwallet must be exported first)")]
    UnknownBackend(String),
    /// The `file` backend without a passphrase.
    #[error("keyring {} needs its passphrase", dir.display())]
    PassphraseMissing {
        /// Folder of the keyring that was to be opened.
        dir: PathBuf,
    },
    /// A new passphrase that cannot be used.
    #[error("the passphrase must have {min} to {max} bytes")]
    PassphraseLength {
        /// Fewest bytes it may have.
        min: usize,
        /// Most bytes it may have.
        max: usize,
    },
    /// The passphrase does not open it.
    #[error("wrong passphrase for {what}")]
    WrongPassphrase {
        /// Keyring, or the armored key.
        what: String,
    },
    /// A name that cannot be a file name.
    #[error("`{name}` cannot be the name of a key: {why}")]
    BadName {
        /// The name as given, cut to 80 characters.
        name: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// A name that is the address of another key.
    #[error(
        "the key of {address} cannot be named `{name}`, the address of another key: name it by a word or by its own address"
    )]
    NamedAsAnother {
        /// The name as given, cut to 80 characters.
        name: String,
        /// Address of the key.
        address: String,
    },
    /// No key of that name or address.
    #[error("there is no key `{name}` in {place}; `keys list` shows those there are")]
    NotFound {
        /// Name or address as given, cut to 80 characters.
        name: String,
        /// Folder of the keyring that was searched.
        place: String,
    },
    /// A key of that name or with that address is there.
    #[error("{place} has a key `{name}` already; delete it first, or take another name")]
    Exists {
        /// Name of the key that is there.
        name: String,
        /// Folder of the keyring that has it.
        place: String,
    },
    /// A key without its private half.
    #[error("key `{name}` is a {kind} key: its private half is not in the keyring, so it cannot sign")]
    NoPrivateHalf {
        /// Its name in the keyring.
        name: String,
        /// Its kind, as the Go tool names it.
        kind: &'static str,
    },
    /// A file that is not what it should be.
    #[error("{} is damaged: {why}; restore it from a backup or import the key again", path.display())]
    Damaged {
        /// The file; it is left as it is.
        path: PathBuf,
        /// What is wrong with it; never a secret.
        why: String,
    },
    /// A mnemonic that is none.
    #[error("not a mnemonic: {0}; it has 12, 15, 18, 21 or 24 English words")]
    Mnemonic(String),
    /// A derivation path that is none.
    #[error("`{path}` is not a derivation path such as m/44'/118'/0'/0/0")]
    Path {
        /// The text as given, cut to 80 characters.
        path: String,
    },
    /// An armored key that is none.
    #[error("not an exported key: {0}")]
    Armor(String),
    /// A secret that cannot be had from where it should be.
    #[error("secret from {place}: {why}")]
    Secret {
        /// The variable or file.
        place: String,
        /// What is wrong, without the secret itself.
        why: String,
    },
    /// The machine gives no randomness.
    #[error("no randomness from the system: {0}")]
    Randomness(String),
    /// The file system refuses.
    #[error("{operation} {}", path.display())]
    Io {
        /// What was tried, as a verb phrase that stands before the path.
        operation: &'static str,
        /// File or folder it was tried on.
        path: PathBuf,
        /// The system's own error, with its kind.
        source: std::io::Error,
    },
}

/// At most so much of a foreign text in a message.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}
