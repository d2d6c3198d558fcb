//! Encoding of a stored key: `cosmos.crypto.keyring.v1.Record`, or the legacy amino format.

use crate::private_key::{PrivateKey, PublicKey};
use crate::proto::cosmos::crypto::keyring::v1::Record;
use crate::proto::cosmos::crypto::keyring::v1::record::{Item, Local};
use crate::proto::cosmos::crypto::secp256k1::{PrivKey, PubKey};
use prost::{Message, Name};
use prost_types::Any;
use zeroize::{Zeroize, Zeroizing};

/// Amino prefix of a stored key. Amino derives these bytes from the SHA-256 of `crypto/keys/localInfo`.
const AMINO_LOCAL: [u8; 4] = [0x0d, 0xad, 0x15, 0x3d];
/// Amino prefix of a public key (`tendermint/PubKeySecp256k1`). The last byte is the length of the key.
const AMINO_PUBLIC: [u8; 5] = [0xeb, 0x5a, 0xe9, 0x87, 33];
/// Amino prefix of a private key (`tendermint/PrivKeySecp256k1`), in keyring records and in exported keys.
/// The last byte is the length of the key.
pub(super) const AMINO_PRIVATE: [u8; 5] = [0xe1, 0xb0, 0xf7, 0x9b, 32];

#[derive(Clone, PartialEq, Message)]
struct AminoLocal {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "2")]
    public: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    private: Vec<u8>,
    #[prost(string, tag = "4")]
    algorithm: String,
}

/// Type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum KeyKind {
    /// The keyring contains the private key.
    Local,
    /// A hardware wallet contains the private key.
    Ledger,
    /// Multisig key without a private key.
    Multi,
    /// Public key only.
    Offline,
}

impl KeyKind {
    /// Returns the name of the type, as in the Go tools.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ledger => "ledger",
            Self::Multi => "multi",
            Self::Offline => "offline",
        }
    }
}

/// Key in a keyring. The private key can be missing.
pub(super) struct StoredKey {
    pub(super) name: String,
    pub(super) kind: KeyKind,
    /// Public key. `None` if the key is not a secp256k1 key.
    pub(super) public: Option<PublicKey>,
    pub(super) private: Option<PrivateKey>,
}

/// Decodes a stored key in amino or protobuf format. Errors contain no secret.
pub(super) fn decode(bytes: &[u8]) -> Result<StoredKey, String> {
    amino(bytes).unwrap_or_else(|| proto(bytes))
}

pub(super) fn encode(name: &str, key: &PrivateKey) -> Zeroizing<Vec<u8>> {
    let public = PubKey {
        key: key.public().as_bytes().to_vec(),
    };
    let mut private = PrivKey {
        key: key.to_bytes().to_vec(),
    };
    let local = Local {
        priv_key: Some(any(&private)),
    };
    // The bytes are copied into the message, which is wiped below.
    private.key.zeroize();
    let mut record = Record {
        name: name.to_owned(),
        pub_key: Some(any(&public)),
        item: Some(Item::Local(local)),
    };
    let bytes = Zeroizing::new(record.encode_to_vec());
    wipe(&mut record);
    bytes
}

fn any<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}

fn wipe(record: &mut Record) {
    if let Some(Item::Local(Local { priv_key: Some(key) })) = &mut record.item {
        key.value.zeroize();
    }
}

fn proto(bytes: &[u8]) -> Result<StoredKey, String> {
    let mut record = Record::decode(bytes).map_err(|e| format!("not a key record ({e})"))?;
    let stored = from_record(&record);
    wipe(&mut record);
    stored
}

fn from_record(record: &Record) -> Result<StoredKey, String> {
    let name = record.name.clone();
    if name.is_empty() {
        return Err("no name".to_owned());
    }
    let public = match &record.pub_key {
        Some(any) if any.type_url == PubKey::type_url() => Some(public_key(any)?),
        Some(_) => None,
        None => return Err("no public key".to_owned()),
    };
    let (kind, private) = match &record.item {
        Some(Item::Local(Local { priv_key: Some(any) })) => (KeyKind::Local, Some(private_key(any)?)),
        Some(Item::Ledger(_)) => (KeyKind::Ledger, None),
        Some(Item::Multi(_)) => (KeyKind::Multi, None),
        Some(Item::Offline(_)) => (KeyKind::Offline, None),
        Some(Item::Local(Local { priv_key: None })) | None => {
            return Err("no private key, and not a ledger, multi or offline key".to_owned());
        }
    };
    check_pair(StoredKey {
        name,
        kind,
        public,
        private,
    })
}

/// Checks that the public key belongs to the private key.
fn check_pair(stored: StoredKey) -> Result<StoredKey, String> {
    match (&stored.public, &stored.private) {
        (public, Some(private)) if public.as_ref() != Some(private.public()) => {
            Err("the public key does not belong to the private key".to_owned())
        }
        _ => Ok(stored),
    }
}

fn public_key(any: &Any) -> Result<PublicKey, String> {
    let message = PubKey::decode(&any.value[..]).map_err(|e| format!("invalid public key ({e})"))?;
    PublicKey::from_bytes(&message.key).map_err(|e| e.to_string())
}

fn private_key(any: &Any) -> Result<PrivateKey, String> {
    if any.type_url != PrivKey::type_url() {
        let found = super::error::shortened(&any.type_url);
        return Err(format!("key type {found} is not secp256k1"));
    }
    let mut message = PrivKey::decode(&any.value[..]).map_err(|e| format!("invalid private key ({e})"))?;
    let key = PrivateKey::from_bytes(&message.key).map_err(|e| e.to_string());
    message.key.zeroize();
    key
}

/// Decodes a stored key in amino format. Returns `None` if the bytes have another format.
fn amino(bytes: &[u8]) -> Option<Result<StoredKey, String>> {
    let mut rest = bytes;
    let length = prost::decode_length_delimiter(&mut rest).ok()?;
    let body = rest.strip_prefix(&AMINO_LOCAL)?;
    if rest.len() != length {
        return Some(Err("wrong length of the amino format".to_owned()));
    }
    Some(amino_local(body))
}

fn amino_local(body: &[u8]) -> Result<StoredKey, String> {
    let mut info = AminoLocal::decode(body).map_err(|e| format!("invalid amino format ({e})"))?;
    // The result is returned later, after the bytes are wiped.
    let private = amino_private(&info.private);
    info.private.zeroize();
    let public = info
        .public
        .strip_prefix(&AMINO_PUBLIC)
        .ok_or_else(|| "the public key is not a secp256k1 key".to_owned())?;
    check_pair(StoredKey {
        name: info.name,
        kind: KeyKind::Local,
        public: Some(PublicKey::from_bytes(public).map_err(|e| e.to_string())?),
        private: Some(private?),
    })
}

pub(super) fn amino_private(bytes: &[u8]) -> Result<PrivateKey, String> {
    let key = bytes
        .strip_prefix(&AMINO_PRIVATE)
        .ok_or_else(|| "the private key is not a secp256k1 key".to_owned())?;
    PrivateKey::from_bytes(key).map_err(|e| e.to_string())
}

#[cfg(test)]
#[path = "record/tests.rs"]
mod tests;
