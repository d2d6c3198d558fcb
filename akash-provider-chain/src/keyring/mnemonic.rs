//! Keys from a mnemonic (BIP-39, BIP-32).

use super::error::{KeyringError, shortened};
use crate::private_key::PrivateKey;
use bip32::{DerivationPath, XPrv};
use bip0039::{English, Mnemonic};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

/// Default derivation path of keys on the Akash network.
pub const DEFAULT_PATH: &str = "m/44'/118'/0'/0/0";

/// Maximum length of a mnemonic in bytes. 24 words have at most 215 bytes.
const MNEMONIC_BYTES_MAX: usize = 1024;
const ENTROPY_BYTES: usize = 32;

/// Generates a mnemonic of 24 words.
///
/// # Errors
/// Returns an error if the system provides no random bytes.
pub fn generate_mnemonic() -> Result<SecretString, KeyringError> {
    let mut entropy = Zeroizing::new([0; ENTROPY_BYTES]);
    getrandom::fill(entropy.as_mut_slice()).map_err(|e| KeyringError::Randomness(e.to_string()))?;
    let mnemonic = Mnemonic::<English>::from_entropy(entropy.to_vec())
        .map_err(|e| KeyringError::Mnemonic(e.to_string()))?;
    Ok(SecretString::from(mnemonic.phrase()))
}

/// Derives the key at a derivation path from a mnemonic.
///
/// # Errors
/// Returns an error if the mnemonic or the path is invalid.
pub fn derive_key(
    mnemonic: &SecretString,
    bip39_passphrase: &SecretString,
    path: &str,
) -> Result<PrivateKey, KeyringError> {
    let words = mnemonic.expose_secret();
    if words.len() > MNEMONIC_BYTES_MAX {
        return Err(KeyringError::Mnemonic("too long".to_owned()));
    }
    // Users type mnemonics in capitals, on several lines.
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = Zeroizing::new(words.join(" ").to_lowercase());
    // The error of the library contains the unknown word, which may be a misspelled part of the secret.
    let mnemonic = Mnemonic::<English>::from_phrase(words.as_str())
        .map_err(|_| KeyringError::Mnemonic("unknown word or wrong checksum".to_owned()))?;
    let path: DerivationPath = path.parse().map_err(|_| KeyringError::Path {
        path: shortened(path),
    })?;
    let seed = Zeroizing::new(mnemonic.to_seed(bip39_passphrase.expose_secret()));
    let derived = XPrv::derive_from_path(seed.as_slice(), &path)
        .map_err(|e| KeyringError::Mnemonic(format!("cannot derive a key ({e})")))?;
    let bytes = Zeroizing::new(derived.to_bytes());
    PrivateKey::from_bytes(bytes.as_slice()).map_err(|e| KeyringError::Mnemonic(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(mnemonic: &str, path: &str) -> Result<PrivateKey, KeyringError> {
        derive_key(&mnemonic.into(), &"".into(), path)
    }

    const ABANDON: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon \
                           abandon about";

    #[test]
    fn derives_the_known_address_of_a_mnemonic() {
        let expected = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
        assert_eq!(key(ABANDON, DEFAULT_PATH).unwrap().address().as_str(), expected);
        let untidy = format!("  {}\n", ABANDON.to_uppercase().replace(' ', "\n "));
        assert_eq!(key(&untidy, DEFAULT_PATH).unwrap().address().as_str(), expected);
        let other = key(ABANDON, "m/44'/118'/0'/0/1").unwrap();
        assert_ne!(other.address().as_str(), expected);
        let salted = derive_key(&ABANDON.into(), &"more".into(), DEFAULT_PATH).unwrap();
        assert_ne!(salted.address().as_str(), expected);
    }

    #[test]
    fn new_mnemonics_have_24_words_and_differ() {
        let (one, two) = (generate_mnemonic().unwrap(), generate_mnemonic().unwrap());
        assert_eq!(one.expose_secret().split(' ').count(), 24);
        assert_ne!(one.expose_secret(), two.expose_secret());
        derive_key(&one, &"".into(), DEFAULT_PATH).unwrap();
    }

    #[test]
    fn error_does_not_repeat_an_invalid_mnemonic() {
        let long = "abandon ".repeat(2000);
        for wrong in [
            "",
            "abandon",
            "secretword ".repeat(12).as_str(),
            long.as_str(),
            &ABANDON[8..],
        ] {
            let error = key(wrong, DEFAULT_PATH).unwrap_err();
            assert!(matches!(error, KeyringError::Mnemonic(_)), "{error}");
            assert!(!error.to_string().contains("secretword"), "{error}");
        }
        for path in ["", "m", "44'/118'", "m/x", "m/4294967296"] {
            let refused = key(ABANDON, path);
            assert!(
                matches!(refused, Err(KeyringError::Path { .. })) || path == "m",
                "{path}"
            );
        }
    }
}
