//! Certificates in the format of the Akash network: generate, parse, verify, publish, revoke and rotate.
//!
//! A certificate is self-signed (P-256, SHA-256). The subject and the issuer contain the account address and
//! a format version. The serial number is the creation time, in nanoseconds since the Unix epoch.
//!
//! The chain verifies only the address, the signature and the serial number. The chain stores the certificate
//! and the public key as PEM. The key usage is "key encipherment", which standard TLS verifiers refuse. For
//! this reason, the gateway of a provider applies another rule: it accepts a certificate that has the same
//! bytes as on the chain and is not revoked.

mod generate;
mod key_file;
mod read;
mod rotate;
mod rotation;
mod shared;
#[cfg(test)]
mod tests;

pub use key_file::{FileContents, KeyFile, KeyFiles};
pub use read::{CertificateInfo, check_published, read, read_der};
pub use rotate::{Rotation, RotationSettings, StepResult};
pub use rotation::{RENEW_BEFORE, RotationError};
pub(crate) use rotation::{RotationStep, next_step};
pub use shared::{CertificateStore, SharedFiles, StoredFiles};

use akash_provider_core::types::{Address, Msg};
use p256::ecdsa::SigningKey;
use pem::{EncodeConfig, LineEnding, Pem};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Validity period of a new certificate: 365 days, the same as in the Go provider.
pub const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
const PEM_BYTES_MAX: usize = 64 * 1024;
const CERTIFICATE: &str = "CERTIFICATE";
/// PEM tag that the chain requires for a public key in SPKI form.
const PUBLIC_KEY: &str = "EC PUBLIC KEY";

/// Purpose of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertUsage {
    /// Certificate that a tenant presents to the gateway of a provider. The certificate contains no domain
    /// name.
    Client,
    /// Certificate of a provider, valid for server and client authentication.
    Server {
        /// Domain names of the server; at least one.
        domains: Vec<String>,
    },
}

/// Errors of certificates and certificate files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertError {
    /// The domain name is invalid.
    #[error("invalid domain name `{domain}`: use the host of the provider without scheme and port")]
    Domain {
        /// Domain name as given, truncated to 80 characters.
        domain: String,
    },
    /// A server certificate must have a domain name, but none was given.
    #[error("a server certificate needs at least one domain name")]
    NoDomain,
    /// The certificate cannot be parsed. Contains the reason.
    #[error("invalid certificate: {0}")]
    Malformed(String),
    /// The chain would refuse the certificate. Contains the reason.
    #[error("the chain would refuse the certificate: {0}")]
    Refused(String),
    /// The account in the subject of the certificate is not the expected account.
    #[error("the certificate belongs to account {found}, but the key belongs to account {expected}")]
    Owner {
        /// Chain account that should own the certificate.
        expected: Address,
        /// Chain account in the subject of the certificate.
        found: String,
    },
    /// The certificate file does not exist.
    #[error("no certificate at {}: create one with `tx cert generate server`", path.display())]
    Absent {
        /// Path of the expected file.
        path: PathBuf,
    },
    /// The certificate file is invalid.
    #[error("invalid certificate file {}: {why}; generate a new certificate", path.display())]
    Damaged {
        /// Path of the invalid file. The file is not changed.
        path: PathBuf,
        /// Reason why the file is invalid, for an error message.
        why: String,
    },
    /// The private key in the certificate file cannot be decrypted with this chain account's key.
    #[error("cannot decrypt certificate file {} with the key of this account: the file was encrypted with another key", path.display())]
    WrongKey {
        /// Path of the certificate file.
        path: PathBuf,
    },
    /// The system does not provide random bytes. Contains the error text.
    #[error("cannot read random bytes from the system: {0}")]
    Randomness(String),
    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// Failed operation, as a verb phrase for error messages.
        operation: &'static str,
        /// Path of the file. For a failed rename, the source path.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl CertError {
    fn damaged(path: &Path, why: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            why: why.into(),
        }
    }

    fn io(operation: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the error of an operation on a file that must exist.
    fn io_or_absent(operation: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| match source.kind() {
            std::io::ErrorKind::NotFound => Self::Absent {
                path: path.to_owned(),
            },
            _ => Self::io(operation, path)(source),
        }
    }
}

/// A certificate with its private key.
#[derive(Clone)]
pub struct OwnCertificate {
    key: SigningKey,
    der: Vec<u8>,
    info: CertificateInfo,
}

impl OwnCertificate {
    /// Generates a certificate with a new key.
    ///
    /// `now`, the time since the Unix epoch, becomes the serial number. An account cannot use a serial number
    /// twice.
    ///
    /// # Errors
    /// Returns an error if a domain name is invalid, or if the system provides no random bytes.
    pub fn make(owner: &Address, usage: &CertUsage, now: Duration) -> Result<Self, CertError> {
        generate::make(owner, usage, now)
    }

    /// Creates a certificate with its private key. Returns an error if the keys do not match.
    fn new(der: Vec<u8>, key: SigningKey) -> Result<Self, CertError> {
        let info = read::read_der(&der)?;
        if info.public_key != generate::spki(&key)? {
            return Err(CertError::Malformed(
                "public key does not match the private key".to_owned(),
            ));
        }
        Ok(Self { key, der, info })
    }

    /// Returns the contents of the certificate.
    #[must_use]
    pub const fn info(&self) -> &CertificateInfo {
        &self.info
    }

    /// Returns the certificate in DER form, for a TLS server.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns the private key in PKCS#8 form, for a TLS server. The returned buffer is wiped when it is
    /// dropped.
    ///
    /// # Errors
    /// Returns an error if the key cannot be encoded.
    pub fn private_key_der(&self) -> Result<zeroize::Zeroizing<Vec<u8>>, CertError> {
        generate::private_key_der(&self.key)
    }

    /// Returns the certificate as PEM, the form that the chain stores.
    #[must_use]
    pub fn cert_pem(&self) -> String {
        encode_pem(CERTIFICATE, &self.der)
    }

    /// Returns the public key as PEM, the form that the chain stores.
    #[must_use]
    pub fn public_key_pem(&self) -> String {
        encode_pem(PUBLIC_KEY, &self.info.public_key)
    }

    /// Returns the message that publishes this certificate.
    #[must_use]
    pub fn publish(&self) -> Msg {
        Msg::CreateCertificate {
            owner: self.info.owner.clone(),
            cert: self.cert_pem().into_bytes(),
            pubkey: self.public_key_pem().into_bytes(),
        }
    }

    /// Returns the message that revokes this certificate.
    #[must_use]
    pub fn revoke(&self) -> Msg {
        Msg::RevokeCertificate {
            owner: self.info.owner.clone(),
            serial: self.info.serial.clone(),
        }
    }
}

impl fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnCertificate")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}

/// Decodes the PEM text of a certificate and returns the DER bytes.
///
/// # Errors
/// Returns an error unless the text is exactly one PEM block of a certificate.
pub fn decode_pem(cert_pem: &[u8]) -> Result<Vec<u8>, CertError> {
    only_block(cert_pem, CERTIFICATE)
}

fn encode_pem(tag: &str, contents: &[u8]) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new(tag, contents), config)
}

/// Decodes a PEM text that must contain exactly one block, with the tag `tag`.
fn only_block(text: &[u8], tag: &str) -> Result<Vec<u8>, CertError> {
    let malformed = |why: String| CertError::Malformed(why);
    // The input is untrusted, so its size is checked before parsing.
    if text.len() > PEM_BYTES_MAX {
        return Err(malformed(format!("larger than {PEM_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(text).map_err(|_| malformed("not UTF-8".to_owned()))?;
    let text = text.trim();
    let (begin, end) = (format!("-----BEGIN {tag}-----"), format!("-----END {tag}-----"));
    // `pem::parse` skips text around a block and accepts several blocks.
    let once = text.matches("-----BEGIN ").count() == 1;
    if !once || !text.starts_with(&begin) || !text.ends_with(&end) {
        return Err(malformed(format!("expected exactly one PEM block `{tag}`")));
    }
    let block = pem::parse(text).map_err(|e| malformed(e.to_string()))?;
    Ok(block.into_contents())
}
