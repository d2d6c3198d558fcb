use super::*;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

fn key() -> PrivateKey {
    PrivateKey::from_bytes(&[7; 32]).unwrap()
}

fn why(bytes: &[u8]) -> String {
    match decode(bytes) {
        Ok(stored) => format!("decoded {}", stored.name),
        Err(why) => why,
    }
}

#[test]
fn amino_prefixes_match_the_type_names() {
    let prefix = |name: &str| {
        let hash = Sha256::digest(name.as_bytes());
        let rest: Vec<u8> = hash.iter().copied().skip_while(|b| *b == 0).skip(3).collect();
        rest.into_iter()
            .skip_while(|b| *b == 0)
            .take(4)
            .collect::<Vec<u8>>()
    };
    assert_eq!(prefix("crypto/keys/localInfo"), AMINO_LOCAL);
    assert_eq!(prefix("tendermint/PubKeySecp256k1"), AMINO_PUBLIC[..4]);
    assert_eq!(prefix("tendermint/PrivKeySecp256k1"), AMINO_PRIVATE[..4]);
}

#[test]
fn encoded_record_equals_that_of_the_go_tools() {
    let private = "476b6588a0341cd336005f811383eb9c2a93c4bca787699219c0dc021cc85c0c";
    let key = PrivateKey::from_bytes(&HEXLOWER.decode(private.as_bytes()).unwrap()).unwrap();
    let expected = "0a0870726f766964657212460a1f2f636f736d6f732e63727970746f2e736563703235366b312e5075624b6579\
                    12230a2102350228facf160ba5fbb73d70c99f1225b643c55ca831288af8cf5e84fadfff791a480a460a202f63\
                    6f736d6f732e63727970746f2e736563703235366b312e507269764b657912220a20476b6588a0341cd336005f\
                    811383eb9c2a93c4bca787699219c0dc021cc85c0c";
    assert_eq!(HEXLOWER.encode(&encode("provider", &key)), expected);
    let stored = decode(&encode("provider", &key)).unwrap();
    assert_eq!((stored.name.as_str(), stored.kind), ("provider", KeyKind::Local));
    assert_eq!(stored.private.unwrap().to_bytes(), key.to_bytes());
}

fn amino_bytes(name: &str, public: &[u8], private: &[u8]) -> Vec<u8> {
    let info = AminoLocal {
        name: name.into(),
        public: [&AMINO_PUBLIC[..], public].concat(),
        private: [&AMINO_PRIVATE[..], private].concat(),
        algorithm: "secp256k1".into(),
    };
    let body = [&AMINO_LOCAL[..], &info.encode_to_vec()].concat();
    let mut bytes = Vec::new();
    prost::encode_length_delimiter(body.len(), &mut bytes).unwrap();
    [bytes, body].concat()
}

#[test]
fn reads_the_legacy_amino_format() {
    let bytes = amino_bytes("old", key().public().as_bytes(), &key().to_bytes()[..]);
    let stored = decode(&bytes).unwrap();
    assert_eq!((stored.name.as_str(), stored.kind), ("old", KeyKind::Local));
    assert_eq!(stored.private.unwrap().to_bytes(), key().to_bytes());
    assert!(why(&bytes[..bytes.len() - 1]).contains("wrong length"));
}

#[test]
fn distinguishes_key_types_without_a_private_key() {
    use crate::proto::cosmos::crypto::keyring::v1::record::{Ledger, Multi, Offline};
    let kind = |item: Option<Item>| {
        let public = PubKey {
            key: key().public().as_bytes().to_vec(),
        };
        let record = Record {
            name: "cold".into(),
            pub_key: Some(any(&public)),
            item,
        };
        decode(&record.encode_to_vec()).map(|s| (s.kind, s.private.is_some()))
    };
    let item = Item::Ledger(Ledger::default());
    assert_eq!(kind(Some(item)), Ok((KeyKind::Ledger, false)));
    assert_eq!(kind(Some(Item::Multi(Multi {}))), Ok((KeyKind::Multi, false)));
    assert_eq!(
        kind(Some(Item::Offline(Offline {}))),
        Ok((KeyKind::Offline, false))
    );
    let nothing = Item::Local(Local { priv_key: None });
    assert!(kind(Some(nothing)).unwrap_err().contains("no private key"));
    assert!(kind(None).unwrap_err().contains("no private key"));
}

#[test]
fn refuses_a_public_key_of_another_private_key() {
    let other = PrivateKey::from_bytes(&[8; 32]).unwrap();
    let mixed = amino_bytes("mixed", key().public().as_bytes(), &other.to_bytes()[..]);
    assert!(why(&mixed).contains("does not belong to the private key"));
}

proptest::proptest! {
    #[test]
    fn invalid_bytes_never_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        drop(decode(&bytes));
        let mut amino = vec![u8::try_from(bytes.len() + 4).unwrap_or(1)];
        amino.extend(AMINO_LOCAL);
        amino.extend(&bytes);
        drop(decode(&amino));
    }

    #[test]
    fn modified_record_never_mixes_keys(at in 0_usize..178, flip in 1_u8..) {
        let bytes = encode("provider", &key());
        drop(decode(&bytes[..at.min(bytes.len())]));
        let mut changed = bytes.to_vec();
        let at = at % changed.len();
        changed[at] ^= flip;
        if let Ok(stored) = decode(&changed) && let (Some(private), Some(public)) = (&stored.private, &stored.public) {
            proptest::prop_assert_eq!(private.public(), public);
        }
    }
}
