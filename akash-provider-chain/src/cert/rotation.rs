//! Decision about the next step of a certificate rotation. A restart after a crash continues with the same step.
//! [`Rotation`](super::Rotation) performs the steps.
//!
//! ```text
//! Make ─▶ next file ─▶ Publish ─▶ on the chain ─▶ Promote (next becomes current) ─▶ Revoke the old one ─▶ Keep
//! ```

use super::{CertError, CertificateInfo};
use akash_provider_core::chain::Certificate;
use akash_provider_core::error::Error;
use std::time::Duration;

/// Remaining validity at which a certificate is replaced: 7 days.
pub const RENEW_BEFORE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Reason why a rotation step failed. The caller can retry the step after every error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RotationError {
    /// A certificate or its file is invalid.
    #[error(transparent)]
    Certificate(#[from] CertError),
    /// A query or a transaction failed.
    #[error(transparent)]
    Chain(#[from] Error),
    /// The chain rejected the transaction.
    #[error("cannot {what}: rejected by the chain ({code}): {log}")]
    Refused {
        /// Purpose of the transaction, as a verb phrase for error messages.
        what: &'static str,
        /// Error code of the chain, with its codespace.
        code: String,
        /// Log text of the chain, for an error message. The text is untrusted.
        log: String,
    },
    /// The client could not determine whether a block contains the transaction.
    #[error("the outcome of the transaction to {what} is unknown")]
    Unknown {
        /// Purpose of the transaction, as a verb phrase for error messages.
        what: &'static str,
    },
    /// A task of the rotation was aborted, or the certificate file does not exist. The field is the error
    /// text.
    #[error("certificate rotation interrupted: {0}")]
    Interrupted(String),
}

/// Next step of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RotationStep {
    /// Do nothing now. Check the certificates again later.
    Keep {
        /// Time until the certificates are checked again.
        recheck_in: Duration,
    },
    /// Generate a certificate and write it to the file `Next`.
    Make,
    /// Publish the certificate in the file `Next`.
    PublishNext,
    /// Publish the certificate in the file `Current`.
    PublishCurrent,
    /// Replace the file `Current` with the file `Next`. After the grace period, revoke the replaced certificate if it
    /// is still valid on the chain.
    Promote,
    /// Delete the file `Next`, because the file is unusable.
    DiscardNext,
}

/// Returns the next step of the rotation. `published` contains all certificates that the chain stores for the
/// account, without pending changes. `now` is the time since the Unix epoch.
pub(crate) fn next_step(
    current: Option<(&CertificateInfo, &[u8])>,
    next: Option<(&CertificateInfo, &[u8])>,
    published: &[Certificate],
    now: Duration,
) -> RotationStep {
    let fresh =
        |info: &CertificateInfo| info.is_valid_at(now) && info.not_after.saturating_sub(now) > RENEW_BEFORE;
    if let Some((info, pem)) = next {
        return match chain_status(info, pem, published) {
            // Checked first: a valid certificate that expires soon would have to be replaced at once.
            _ if !fresh(info) => RotationStep::DiscardNext,
            ChainStatus::Valid => RotationStep::Promote,
            ChainStatus::Absent => RotationStep::PublishNext,
            ChainStatus::Invalid => RotationStep::DiscardNext,
        };
    }
    match current {
        Some((info, pem)) if fresh(info) => match chain_status(info, pem, published) {
            ChainStatus::Valid => {
                let left = info.not_after.saturating_sub(now).saturating_sub(RENEW_BEFORE);
                RotationStep::Keep { recheck_in: left }
            }
            ChainStatus::Absent => RotationStep::PublishCurrent,
            ChainStatus::Invalid => RotationStep::Make,
        },
        _ => RotationStep::Make,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainStatus {
    /// Published on the chain and not revoked.
    Valid,
    /// No certificate on the chain has this serial.
    Absent,
    /// The certificate is revoked, or the chain stores another certificate with the same serial number.
    Invalid,
}

/// Returns the status of a certificate. `published` contains the account's certificates on the chain.
pub(super) fn chain_status(info: &CertificateInfo, pem: &[u8], published: &[Certificate]) -> ChainStatus {
    match published.iter().find(|c| c.serial == info.serial) {
        None => ChainStatus::Absent,
        // White space at the ends is ignored: tools differ in the last newline.
        Some(found) if found.valid && found.cert.trim_ascii() == pem.trim_ascii() => ChainStatus::Valid,
        Some(_) => ChainStatus::Invalid,
    }
}
