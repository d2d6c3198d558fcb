//! Secp256k1 keys of accounts: addresses and signatures.
//!
//! Signatures are deterministic (RFC 6979) and have a low `s`: 64 bytes `r || s` over the SHA-256 of the message.

use akash_provider_core::types::Address;
use k256::ecdsa::signature::{Signer as _, Verifier as _};
use k256::ecdsa::{Signature, SigningKey, VerifyingKey};
use ripemd::Ripemd160;
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Length of a private key in bytes.
pub const PRIVATE_KEY_BYTES: usize = 32;
/// Length of a compressed public key in bytes.
pub const PUBLIC_KEY_BYTES: usize = 33;
/// Length of a signature in bytes.
pub const SIGNATURE_BYTES: usize = 64;

/// Error for bytes that are not a valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The private key is invalid: wrong length, zero, or not below the order of the curve.
    #[error("invalid secp256k1 private key: expected 32 bytes, above zero and below the order of the curve")]
    Private,
    /// The public key is not a point of the curve in compressed form.
    #[error("invalid secp256k1 public key: expected 33 bytes, a compressed point of the curve")]
    Public,
}

/// Private key. Clones share the bytes. The bytes are wiped when the last clone is dropped. `Debug` prints
/// only the address.
#[derive(Clone)]
pub struct PrivateKey {
    key: Arc<SigningKey>,
    public: PublicKey,
}

/// Compressed public key, with the address of its account.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    bytes: [u8; PUBLIC_KEY_BYTES],
    key: VerifyingKey,
    address: Address,
}

impl PrivateKey {
    /// Creates a key from its 32 bytes.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a key of the curve.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadKey> {
        if bytes.len() != PRIVATE_KEY_BYTES {
            return Err(BadKey::Private);
        }
        let key = SigningKey::from_slice(bytes).map_err(|_| BadKey::Private)?;
        let public = PublicKey::new(*key.verifying_key())?;
        let key = Arc::new(key);
        Ok(Self { key, public })
    }

    /// Returns the 32 bytes of the key. The returned buffer is wiped when it is dropped.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<[u8; PRIVATE_KEY_BYTES]> {
        Zeroizing::new(self.key.to_bytes().into())
    }

    /// Returns the public key.
    #[must_use]
    pub const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Returns the account address of this key.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.public.address
    }

    /// Signs the SHA-256 of a message. Signatures are deterministic.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let signature: Signature = self.key.sign(message);
        // The chain refuses a high `s`.
        signature.normalize_s().to_bytes().into()
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.public.address)
    }
}

impl PublicKey {
    fn new(key: VerifyingKey) -> Result<Self, BadKey> {
        let bytes: [u8; PUBLIC_KEY_BYTES] = key
            .to_sec1_point(true)
            .as_bytes()
            .try_into()
            .map_err(|_| BadKey::Public)?;
        let account = Ripemd160::digest(Sha256::digest(bytes));
        let address = Address::from_bytes(&account).map_err(|_| BadKey::Public)?;
        Ok(Self { bytes, key, address })
    }

    /// Creates a key from its 33 bytes.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a compressed point of the curve.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadKey> {
        if bytes.len() != PUBLIC_KEY_BYTES {
            return Err(BadKey::Public);
        }
        Self::new(VerifyingKey::from_sec1_bytes(bytes).map_err(|_| BadKey::Public)?)
    }

    /// Returns the 33 bytes of the compressed key.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        &self.bytes
    }

    /// Returns the account address of this key.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Returns true if `signature` is a valid signature of this key for `message`. A high `s` is refused, as on the
    /// chain.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let Ok(signature) = Signature::from_slice(signature) else {
            return false;
        };
        signature.normalize_s() == signature && self.key.verify(message, &signature).is_ok()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::{BASE64, HEXLOWER};

    const PRIVATE: &str = "476b6588a0341cd336005f811383eb9c2a93c4bca787699219c0dc021cc85c0c";

    #[test]
    fn derives_the_address_of_a_key() {
        let key = PrivateKey::from_bytes(&HEXLOWER.decode(PRIVATE.as_bytes()).unwrap()).unwrap();
        assert_eq!(
            key.address().as_str(),
            "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
        );
        let public = BASE64.encode(key.public().as_bytes());
        assert_eq!(public, "AjUCKPrPFgul+7c9cMmfEiW2Q8VcqDEoivjPXoT63/95");
        assert_eq!(
            PublicKey::from_bytes(key.public().as_bytes()).unwrap(),
            *key.public()
        );
        assert_eq!(HEXLOWER.encode(&*key.to_bytes()), PRIVATE);
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let key = PrivateKey::from_bytes(&HEXLOWER.decode(PRIVATE.as_bytes()).unwrap()).unwrap();
        let output = format!("{key:?} {key:#?} {:?}", key.public());
        assert!(
            !output.contains("476b") && output.contains("akash1y37"),
            "{output}"
        );
    }

    #[test]
    fn clones_share_the_key_which_is_wiped_on_drop() {
        fn is_wiped<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let key = PrivateKey::from_bytes(&[7; 32]).unwrap();
        is_wiped(&*key.key);
        let clones = [key.clone(), key.clone()];
        assert!(clones.iter().all(|clone| Arc::ptr_eq(&clone.key, &key.key)));
        assert_eq!(Arc::strong_count(&key.key), 3);
        drop(clones);
        assert_eq!(Arc::strong_count(&key.key), 1);
    }

    #[test]
    fn signatures_are_deterministic_and_refused_with_a_high_s() {
        let key = PrivateKey::from_bytes(&[7; 32]).unwrap();
        let signature = key.sign(b"message");
        assert_eq!(signature, key.sign(b"message"));
        assert!(key.public().verify(b"message", &signature));
        assert!(!key.public().verify(b"other", &signature));
        assert!(!key.public().verify(b"message", &signature[1..]));
        let low = Signature::from_slice(&signature).unwrap();
        let (r, s) = low.split_scalars();
        let high = Signature::from_scalars(r, -s).unwrap();
        assert!(!key.public().verify(b"message", &high.to_bytes()));
    }

    #[test]
    fn refuses_invalid_keys() {
        for bytes in [&[0_u8; 32][..], &[0xff; 32], &[1; 31], &[1; 33], &[]] {
            assert_eq!(PrivateKey::from_bytes(bytes).unwrap_err(), BadKey::Private);
        }
        for bytes in [&[0_u8; 33][..], &[0xff; 33], &[2; 32], &[4; 65], &[]] {
            assert_eq!(PublicKey::from_bytes(bytes).unwrap_err(), BadKey::Public);
        }
    }
}
