//! When a certificate is replaced, step by step; after a crash between any two steps the next one is found again.
//! [`Rotation`](super::Rotation) carries the steps out.
//!
//! ```text
//! Make ─▶ next file ─▶ Publish ─▶ on the chain ─▶ Promote (next becomes current) ─▶ Revoke the old one ─▶ Keep
//! ```

use super::Facts;
use akash_provider_core::chain::Certificate;
use std::time::Duration;

/// A certificate is replaced so long before it ends.
pub const RENEW_BEFORE: Duration = Duration::from_secs(7 * 24 * 3600);

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until so long from now.
    Keep {
        /// When to ask again.
        recheck_in: Duration,
    },
    /// Make a certificate and write it to the next file.
    Make,
    /// Publish the one in the next file.
    PublishNext,
    /// Publish the one in the current file.
    PublishCurrent,
    /// The next file becomes the current one; then, after a grace, revoke the old one, if it is still valid on the
    /// chain.
    Promote {
        /// Serial of the old one; `None` when the chain shows none that is valid, or it is the same certificate.
        revoke: Option<String>,
    },
    /// The next file is of no use.
    DiscardNext,
}

/// Decides. `published` are all certificates of the account on the chain, read after any transaction about them
/// has ended; `now` is since the Unix epoch.
#[must_use]
pub fn next_step(
    current: Option<(&Facts, &[u8])>,
    next: Option<(&Facts, &[u8])>,
    published: &[Certificate],
    now: Duration,
) -> Step {
    let fresh = |facts: &Facts| facts.is_valid_at(now) && facts.not_after.saturating_sub(now) > RENEW_BEFORE;
    if let Some((facts, pem)) = next {
        return match on_chain(facts, pem, published) {
            // Before the chain's view: one that is valid there but about to end would have to be replaced at once.
            _ if !fresh(facts) => Step::DiscardNext,
            OnChain::Valid => {
                let old = current.filter(|(c, pem)| on_chain(c, pem, published) == OnChain::Valid);
                let old = old.filter(|(c, _)| c.serial != facts.serial);
                Step::Promote {
                    revoke: old.map(|(c, _)| c.serial.clone()),
                }
            }
            OnChain::Absent => Step::PublishNext,
            OnChain::Useless => Step::DiscardNext,
        };
    }
    match current {
        Some((facts, pem)) if fresh(facts) => match on_chain(facts, pem, published) {
            OnChain::Valid => {
                let left = facts.not_after.saturating_sub(now).saturating_sub(RENEW_BEFORE);
                Step::Keep { recheck_in: left }
            }
            OnChain::Absent => Step::PublishCurrent,
            OnChain::Useless => Step::Make,
        },
        _ => Step::Make,
    }
}

/// How a certificate stands on the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnChain {
    /// Published and not revoked.
    Valid,
    /// The answer has no certificate of this serial.
    Absent,
    /// Revoked, or its serial belongs to another certificate.
    Useless,
}

/// How a certificate stands in an answer of the chain.
pub(super) fn on_chain(facts: &Facts, pem: &[u8], published: &[Certificate]) -> OnChain {
    match published.iter().find(|c| c.serial == facts.serial) {
        None => OnChain::Absent,
        // White space at the ends is no difference: tools do not agree on the last newline.
        Some(found) if found.valid && found.cert.trim_ascii() == pem.trim_ascii() => OnChain::Valid,
        Some(_) => OnChain::Useless,
    }
}
