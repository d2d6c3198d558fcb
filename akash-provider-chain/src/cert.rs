//! Certificates in the network's format: made, read, checked by the chain's rules, published, revoked.
//!
//! A certificate is self-signed (P-256, SHA-256). Its subject and issuer are the account's address and a version;
//! its serial is the time it was made, in nanoseconds. The chain looks at the address, the signature and the
//! serial alone, and keeps certificate and public key as PEM. Both uses say "key encipherment", which ordinary
//! verifiers do not like; so verifying is the gateway's own business (same bytes as on the chain, not revoked).

mod key_file;
mod made;
mod read;
mod rotate;
mod rotation;
#[cfg(test)]
mod tests;

pub use key_file::{KeyFile, KeyFiles};
pub use read::{Facts, check_published, read, read_der};
pub use rotate::{Done, Rotation, RotationError, RotationSettings};
pub use rotation::{RENEW_BEFORE, Step, next_step};

use akash_provider_core::types::{Address, Msg};
use p256::ecdsa::SigningKey;
use pem::{EncodeConfig, LineEnding, Pem};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// How long a certificate is valid, as with today's tool.
pub const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// Largest PEM that is looked at.
const PEM_BYTES_MAX: usize = 64 * 1024;
const CERTIFICATE: &str = "CERTIFICATE";
/// The chain's name for a public key in SPKI form.
const PUBLIC_KEY: &str = "EC PUBLIC KEY";

/// What a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Usage {
    /// A tenant's, to show to a provider's gateway. It names no domain.
    Client,
    /// A provider's, which is a client too.
    Server {
        /// Names it is for; at least one.
        domains: Vec<String>,
    },
}

/// What is wrong with a certificate or its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertError {
    /// A name that cannot be in a certificate.
    #[error("`{domain}` is not a domain name: give the provider's host without scheme and port")]
    Domain {
        /// The name as given, cut to 80 characters.
        domain: String,
    },
    /// A server certificate for nothing.
    #[error("a server certificate needs at least one domain name")]
    NoDomain,
    /// The text is not what it should be.
    #[error("not a certificate: {0}")]
    Malformed(String),
    /// The chain would refuse it.
    #[error("the chain would refuse the certificate: {0}")]
    Refused(String),
    /// Its account is another one.
    #[error("the certificate is of {found}, not of {expected}")]
    Owner {
        /// Whose it should be.
        expected: Address,
        /// Whose it is, as its subject says.
        found: String,
    },
    /// There is no such file.
    #[error("there is no certificate at {}: make one with `tx cert generate server`", path.display())]
    Absent {
        /// Where it should be.
        path: PathBuf,
    },
    /// The file is not what it should be.
    #[error("{} is damaged: {why}; make a new certificate", path.display())]
    Damaged {
        /// The file; it is left as it is.
        path: PathBuf,
        /// What is wrong, as text for the operator.
        why: String,
    },
    /// The key in the file belongs to an account whose key is not the one given.
    #[error("{} cannot be opened with this account's key: it was made by another key", path.display())]
    WrongKey {
        /// The file. The password that was tried is a signature of the key given.
        path: PathBuf,
    },
    /// The machine gives no randomness.
    #[error("no randomness from the system: {0}")]
    Randomness(String),
    /// The file system refuses.
    #[error("{operation} {}", path.display())]
    Io {
        /// What was tried, as a verb phrase that stands before the path.
        operation: &'static str,
        /// The file it was tried on; for a rename, the one to be moved.
        path: PathBuf,
        /// The system's own error, with its kind.
        source: std::io::Error,
    },
}

/// A certificate with its private key.
#[derive(Clone)]
pub struct OwnCertificate {
    key: SigningKey,
    der: Vec<u8>,
    facts: Facts,
}

impl OwnCertificate {
    /// Makes one. `now` is since the Unix epoch; it becomes the serial, so no two may have the same.
    ///
    /// # Errors
    /// When a domain is none, or the system gives no randomness.
    pub fn make(owner: &Address, usage: &Usage, now: Duration) -> Result<Self, CertError> {
        made::make(owner, usage, now)
    }

    /// A certificate and the key that signed it.
    fn new(der: Vec<u8>, key: SigningKey) -> Result<Self, CertError> {
        let facts = read::read_der(&der)?;
        if facts.public_key != made::spki(&key)? {
            return Err(CertError::Malformed(
                "its key is not the private key beside it".to_owned(),
            ));
        }
        Ok(Self { key, der, facts })
    }

    /// What it says, read from its own bytes when it was made or opened.
    #[must_use]
    pub const fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Its bytes, as a TLS server shows them.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Its private key, as a TLS server needs it: PKCS#8, wiped when dropped.
    ///
    /// # Errors
    /// Never, for a key that was made or read here.
    pub fn private_key_der(&self) -> Result<zeroize::Zeroizing<Vec<u8>>, CertError> {
        made::private_key_der(&self.key)
    }

    /// The certificate as the chain keeps it.
    #[must_use]
    pub fn cert_pem(&self) -> String {
        encode_pem(CERTIFICATE, &self.der)
    }

    /// The public key as the chain keeps it.
    #[must_use]
    pub fn public_key_pem(&self) -> String {
        encode_pem(PUBLIC_KEY, &self.facts.public_key)
    }

    /// The message that publishes it.
    #[must_use]
    pub fn publish(&self) -> Msg {
        Msg::CreateCertificate {
            owner: self.facts.owner.clone(),
            cert: self.cert_pem().into_bytes(),
            pubkey: self.public_key_pem().into_bytes(),
        }
    }

    /// The message that revokes it.
    #[must_use]
    pub fn revoke(&self) -> Msg {
        Msg::RevokeCertificate {
            owner: self.facts.owner.clone(),
            serial: self.facts.serial.clone(),
        }
    }
}

impl fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnCertificate")
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

/// The bytes of a certificate as the chain keeps it.
///
/// # Errors
/// When the text is not one PEM block of a certificate and nothing else.
pub fn der_of(cert_pem: &[u8]) -> Result<Vec<u8>, CertError> {
    only_block(cert_pem, CERTIFICATE)
}

fn encode_pem(tag: &str, contents: &[u8]) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(tag, contents), config)
}

/// The one block of a PEM text that may hold nothing else.
fn only_block(text: &[u8], tag: &str) -> Result<Vec<u8>, CertError> {
    let malformed = |why: String| CertError::Malformed(why);
    // The text is foreign: its size is checked before anything is parsed.
    if text.len() > PEM_BYTES_MAX {
        return Err(malformed(format!("it is larger than {PEM_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(text).map_err(|_| malformed("it is not UTF-8".to_owned()))?;
    let text = text.trim();
    let (begin, end) = (format!("-----BEGIN {tag}-----"), format!("-----END {tag}-----"));
    // The parser below skips text around a block and takes the first of several.
    let once = text.matches("-----BEGIN ").count() == 1;
    if !once || !text.starts_with(&begin) || !text.ends_with(&end) {
        return Err(malformed(format!(
            "it must be one PEM block `{tag}` and nothing else"
        )));
    }
    let block = pem::parse(text).map_err(|e| malformed(e.to_string()))?;
    Ok(block.into_contents())
}
