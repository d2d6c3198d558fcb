//! Redaction of secrets in a recording.

use anyhow::Context;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Length of a stored hash, in bytes.
const KEPT: usize = 12;

/// Random key for the hashes that replace secrets. The key is not stored, so a reader of the recording cannot
/// verify a guessed secret.
#[derive(Clone)]
pub(super) struct RedactionKey([u8; 32]);

impl std::fmt::Debug for RedactionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RedactionKey")
    }
}

impl RedactionKey {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)
            .context("cannot read random bytes for the key that redacts the recording")?;
        Ok(Self(key))
    }

    /// Returns the replacement of a secret, equal for equal secrets. Reveals the length, rounded up to a
    /// power of two.
    pub(super) fn redact(&self, secret: &str) -> String {
        // The key has a fixed length, and the truncated hash does not allow a length extension.
        let digest = Sha256::new().chain_update(self.0).chain_update(secret).finalize();
        let hash = HEXLOWER.encode(digest.get(..KEPT).unwrap_or_default());
        format!("taken-out-{hash}-{}", secret.len().next_power_of_two())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacement_distinguishes_secrets_without_revealing_them() {
        let (key, other) = (RedactionKey::new().unwrap(), RedactionKey::new().unwrap());
        let covered = key.redact("hunter2");
        assert_eq!(covered, key.redact("hunter2"));
        assert_ne!(covered, key.redact("hunter3"));
        assert_ne!(
            covered,
            other.redact("hunter2"),
            "each process has a key of its own"
        );
        assert!(
            covered.ends_with("-8") && !covered.contains("hunter2"),
            "{covered}"
        );
    }
}
