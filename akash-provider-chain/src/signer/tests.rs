//! Signed transactions compared with recorded ones.

use super::*;
use data_encoding::{BASE64, HEXLOWER};
use serde::Deserialize;
use std::fs;
use testbed::recordings;

#[derive(Deserialize)]
struct Vector {
    name: String,
    private_key_hex: String,
    address: String,
    chain_id: String,
    account_number: u64,
    sequence: u64,
    body_bytes_b64: String,
    auth_info_bytes_b64: String,
    sign_doc_sha256_hex: String,
    signature_b64: String,
    tx_raw_b64: String,
    txhash: String,
}

fn decoded(text: &str) -> Vec<u8> {
    BASE64.decode(text.trim().as_bytes()).unwrap()
}

fn key(hex: &str) -> PrivateKey {
    PrivateKey::from_bytes(&HEXLOWER.decode(hex.as_bytes()).unwrap()).unwrap()
}

/// Extracts the input of `sign` from a transaction. Returns `None` for other types of transactions.
fn parts(raw: &TxRaw) -> Option<(Vec<Any>, Ordering, TxFee)> {
    let body = TxBody::decode(&raw.body_bytes[..]).unwrap();
    let auth = AuthInfo::decode(&raw.auth_info_bytes[..]).unwrap();
    let fee = auth.fee?;
    let [signer] = &auth.signer_infos[..] else {
        return None;
    };
    let ordering = match body.timeout_timestamp {
        Some(at) if body.unordered && signer.sequence == 0 => Ordering::Unordered {
            timeout_nanos: at.seconds * NANOS_PER_SECOND + i64::from(at.nanos),
        },
        None if !body.unordered => Ordering::Ordered {
            sequence: signer.sequence,
            timeout_height: body.timeout_height,
        },
        _ => return None,
    };
    let fee_coin = match &fee.amount[..] {
        [] => Coin::new("uakt", 0),
        [coin] => Coin::new(coin.denom.as_str(), coin.amount.parse().unwrap()),
        _ => return None,
    };
    let price = TxFee {
        fee: fee_coin,
        gas_limit: fee.gas_limit,
        granter: None,
    };
    Some((body.messages, ordering, price))
}

#[test]
fn signs_the_golden_vectors_byte_for_byte() {
    let folder = recordings::folder("chain/tx");
    let text = fs::read_to_string(folder.join("golden-signing-vectors.json")).unwrap();
    let vectors: Vec<Vector> = serde_json::from_str(&text).unwrap();
    assert_eq!(vectors.len(), 3);
    for vector in vectors {
        let raw = TxRaw::decode(&decoded(&vector.tx_raw_b64)[..]).unwrap();
        assert_eq!(raw.body_bytes, decoded(&vector.body_bytes_b64));
        assert_eq!(raw.auth_info_bytes, decoded(&vector.auth_info_bytes_b64));
        let (messages, ordering, price) = parts(&raw).unwrap();
        assert_eq!(
            ordering,
            Ordering::Ordered {
                sequence: vector.sequence,
                timeout_height: 0
            }
        );
        let key = key(&vector.private_key_hex);
        assert_eq!(key.address().as_str(), vector.address);
        let account = SigningAccount {
            key: &key,
            number: vector.account_number,
            chain_id: &vector.chain_id,
        };
        let signed = sign(&account, messages, ordering, &price);
        assert_eq!(BASE64.encode(&signed.bytes), vector.tx_raw_b64, "{}", vector.name);
        assert_eq!(signed.hash.to_string(), vector.txhash);
        let again = TxRaw::decode(&signed.bytes[..]).unwrap();
        assert_eq!(BASE64.encode(&again.signatures[0]), vector.signature_b64);
        let document = SignDoc {
            body_bytes: again.body_bytes,
            auth_info_bytes: again.auth_info_bytes,
            chain_id: vector.chain_id.clone(),
            account_number: vector.account_number,
        };
        let digest = Sha256::digest(document.encode_to_vec());
        assert_eq!(HEXLOWER.encode(&digest), vector.sign_doc_sha256_hex);
    }
}

/// A recorded signature can differ from the new signature. In this case, the recorded signature must be
/// valid.
#[test]
fn signs_recorded_transactions_of_the_provider() {
    let folder = recordings::folder("chain/tx");
    let key = key("476b6588a0341cd336005f811383eb9c2a93c4bca787699219c0dc021cc85c0c");
    let account = SigningAccount {
        key: &key,
        number: 2,
        chain_id: "local",
    };
    let (mut identical, mut verified, mut unordered) = (0, 0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.ends_with(".tx.b64") || name.starts_with("err-garbage") {
            continue;
        }
        let bytes = decoded(&fs::read_to_string(&path).unwrap());
        let raw = TxRaw::decode(&bytes[..]).unwrap();
        let auth = AuthInfo::decode(&raw.auth_info_bytes[..]).unwrap();
        if auth.signer_infos[0].public_key.as_ref() != Some(&public_key_any(key.public())) {
            continue;
        }
        let Some((messages, ordering, price)) = parts(&raw) else {
            assert!(name.starts_with("err-unordered-with-sequence"), "{name}");
            continue;
        };
        let signed = sign(&account, messages, ordering, &price);
        let encoded = TxRaw::decode(&signed.bytes[..]).unwrap();
        assert_eq!(encoded.body_bytes, raw.body_bytes, "{name}");
        assert_eq!(encoded.auth_info_bytes, raw.auth_info_bytes, "{name}");
        unordered += u32::from(matches!(ordering, Ordering::Unordered { .. }));
        if signed.bytes == bytes {
            identical += 1;
            continue;
        }
        let document = SignDoc {
            body_bytes: raw.body_bytes,
            auth_info_bytes: raw.auth_info_bytes,
            chain_id: "local".into(),
            account_number: 2,
        };
        let valid = key.public().verify(&document.encode_to_vec(), &raw.signatures[0]);
        // Two recordings have a signature for another chain id and another account number.
        let wrong = name.starts_with("err-chain-id") || name.starts_with("err-account-number");
        assert_eq!(valid, !wrong, "{name}");
        verified += u32::from(valid);
    }
    println!("{identical} identical, {verified} verified, {unordered} of them unordered");
    assert!(identical >= 4 && verified > 40 && unordered >= 3);
}

#[test]
fn encodes_a_granter_and_a_zero_fee() {
    let key = PrivateKey::from_bytes(&[7; 32]).unwrap();
    let granter = PrivateKey::from_bytes(&[8; 32]).unwrap().address().clone();
    let account = SigningAccount {
        key: &key,
        number: 1,
        chain_id: "local",
    };
    let fee = Coin::new("uakt", 0);
    let price = TxFee {
        fee,
        gas_limit: 5,
        granter: Some(granter.clone()),
    };
    let signed = sign(
        &account,
        vec![],
        Ordering::Unordered { timeout_nanos: -1 },
        &price,
    );
    let raw = TxRaw::decode(&signed.bytes[..]).unwrap();
    let fee = AuthInfo::decode(&raw.auth_info_bytes[..]).unwrap().fee.unwrap();
    assert!(fee.amount.is_empty());
    assert_eq!(fee.granter, granter.as_str());
    let at = TxBody::decode(&raw.body_bytes[..])
        .unwrap()
        .timeout_timestamp
        .unwrap();
    assert_eq!((at.seconds, at.nanos), (-1, 999_999_999));
}
