//! What stands in a recording where a secret was.

use anyhow::Context;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Bytes of the hash that are kept: enough that no two secrets of a provider meet.
const KEPT: usize = 12;

/// The key of one process. It is kept nowhere, so nobody can try out what a secret was.
#[derive(Clone)]
pub(super) struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).context("no randomness for the recording's key")?;
        Ok(Self(key))
    }

    /// The same for the same text. Of its length the next power of two shows.
    pub(super) fn cover(&self, secret: &str) -> String {
        // A key of fixed length before the text; what is kept of the hash is too little to go on from it.
        let digest = Sha256::new().chain_update(self.0).chain_update(secret).finalize();
        let hash = HEXLOWER.encode(digest.get(..KEPT).unwrap_or_default());
        format!("taken-out-{hash}-{}", secret.len().next_power_of_two())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cover_tells_texts_apart_and_nothing_of_them() {
        let (key, other) = (Key::new().unwrap(), Key::new().unwrap());
        let covered = key.cover("hunter2");
        assert_eq!(covered, key.cover("hunter2"));
        assert_ne!(covered, key.cover("hunter3"));
        assert_ne!(
            covered,
            other.cover("hunter2"),
            "each process has a key of its own"
        );
        assert!(
            covered.ends_with("-8") && !covered.contains("hunter2"),
            "{covered}"
        );
    }
}
