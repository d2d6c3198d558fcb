//! Compares keys, addresses and signed bytes with `cosmrs`, which uses other implementations of the curve, the key
//! derivation and protobuf. A common error of both is unlikely.
//!
//! `cosmrs` does not support `unordered` and `timeout_timestamp` in the body of a transaction, so this test encodes
//! these two fields. See docs/adr/0006-cosmrs-as-oracle.md.

#![expect(clippy::unwrap_used, reason = "a failure fails the test")]

use akash_provider_chain::keyring::{DEFAULT_PATH, derive_key};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::signer::{Ordering, SigningAccount, TxFee, TxHash, sign_with_note};
use akash_provider_core::types::{Address, Coin};
use bip0039::{English, Mnemonic};
use cosmrs::crypto::secp256k1::SigningKey;
use cosmrs::proto::cosmos::tx::v1beta1::{SignDoc as WireSignDoc, TxRaw as WireRaw};
use cosmrs::proto::traits::Message as _;
use cosmrs::tx::{Body, Fee, SignDoc, SignerInfo};
use cosmrs::{AccountId, Any};
use proptest::prelude::*;
use prost_types::Any as OurAny;

fn their_coin(coin: &Coin) -> cosmrs::Coin {
    cosmrs::Coin::new(coin.amount, &coin.denom).unwrap()
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap());
}

/// Encodes the fields 4 (`unordered`) and 5 (`timeout_timestamp`) of a transaction body.
fn unordered_fields(timeout_nanos: u64) -> Vec<u8> {
    let mut timestamp = Vec::new();
    for (tag, value) in [
        (0x08, timeout_nanos / 1_000_000_000),
        (0x10, timeout_nanos % 1_000_000_000),
    ] {
        if value != 0 {
            timestamp.push(tag);
            varint(value, &mut timestamp);
        }
    }
    let mut fields = vec![0x20, 1, 0x2a, u8::try_from(timestamp.len()).unwrap()];
    fields.extend(timestamp);
    fields
}

/// Input for a transaction that this crate and `cosmrs` both build.
#[derive(Debug, Clone)]
struct TxRequest {
    key: [u8; 32],
    number: u64,
    chain_id: String,
    messages: Vec<(String, Vec<u8>)>,
    ordering: Ordering,
    fee: Coin,
    gas_limit: u64,
    granter: Option<[u8; 20]>,
    note: String,
}

fn private_key() -> impl Strategy<Value = [u8; 32]> {
    any::<[u8; 32]>().prop_filter("not a key of the curve", |bytes| {
        PrivateKey::from_bytes(bytes).is_ok()
    })
}

fn ordering() -> impl Strategy<Value = Ordering> {
    // Heights and times are signed integers on the chain.
    let limit = i64::MAX.unsigned_abs();
    prop_oneof![
        (any::<u64>(), prop_oneof![Just(0), 0..=limit]).prop_map(|(sequence, timeout_height)| {
            Ordering::Ordered {
                sequence,
                timeout_height,
            }
        }),
        prop_oneof![
            0..i64::MAX,
            (0..i64::MAX / 1_000_000_000).prop_map(|s| s * 1_000_000_000)
        ]
        .prop_map(|timeout_nanos| Ordering::Unordered { timeout_nanos }),
    ]
}

fn tx_requests() -> impl Strategy<Value = TxRequest> {
    let message = (
        "/[a-z]{1,12}\\.v1\\.Msg[A-Za-z]{1,12}",
        prop::collection::vec(any::<u8>(), 0..80),
    );
    let fee = ("[a-z][a-z0-9/]{2,40}", any::<u128>());
    (
        (private_key(), any::<u64>(), "[a-z0-9-]{0,20}"),
        prop::collection::vec(message, 0..5),
        ordering(),
        (fee, any::<u64>(), any::<Option<[u8; 20]>>()),
        "\\PC{0,60}",
    )
        .prop_map(
            |((key, number, chain_id), messages, ordering, (fee, gas_limit, granter), note)| TxRequest {
                key,
                number,
                chain_id,
                messages,
                ordering,
                fee: Coin::new(fee.0.as_str(), fee.1),
                gas_limit,
                granter,
                note,
            },
        )
}

impl TxRequest {
    fn ours(&self) -> Vec<u8> {
        let key = PrivateKey::from_bytes(&self.key).unwrap();
        let account = SigningAccount {
            key: &key,
            number: self.number,
            chain_id: &self.chain_id,
        };
        let messages = self.messages.iter().map(|(type_url, value)| OurAny {
            type_url: type_url.clone(),
            value: value.clone(),
        });
        let price = TxFee {
            fee: self.fee.clone(),
            gas_limit: self.gas_limit,
            granter: self.granter.map(|bytes| Address::from_bytes(&bytes).unwrap()),
        };
        let signed = sign_with_note(&account, messages.collect(), self.ordering, &price, &self.note);
        assert_eq!(signed.hash, TxHash::new(&signed.bytes));
        signed.bytes
    }

    fn theirs(&self) -> Vec<u8> {
        let key = SigningKey::from_slice(&self.key).unwrap();
        let messages = self.messages.iter().map(|(type_url, value)| Any {
            type_url: type_url.clone(),
            value: value.clone(),
        });
        let (sequence, height, more) = match self.ordering {
            Ordering::Ordered {
                sequence,
                timeout_height,
            } => (sequence, timeout_height, Vec::new()),
            Ordering::Unordered { timeout_nanos } => (0, 0, unordered_fields(timeout_nanos.unsigned_abs())),
        };
        let height = cosmrs::tendermint::block::Height::try_from(height).unwrap();
        let mut body = Body::new(messages, self.note.as_str(), height)
            .into_bytes()
            .unwrap();
        body.extend(more);
        let fee = Fee {
            amount: Some(&self.fee)
                .filter(|fee| fee.amount != 0)
                .map(their_coin)
                .into_iter()
                .collect(),
            gas_limit: self.gas_limit,
            payer: None,
            granter: self.granter.map(|bytes| AccountId::new("akash", &bytes).unwrap()),
        };
        let auth_info = SignerInfo::single_direct(Some(key.public_key()), sequence).auth_info(fee);
        let document = SignDoc::from(WireSignDoc {
            body_bytes: body,
            auth_info_bytes: auth_info.into_bytes().unwrap(),
            chain_id: self.chain_id.clone(),
            account_number: self.number,
        });
        document.sign(&key).unwrap().to_bytes().unwrap()
    }
}

proptest! {
    #[test]
    fn signed_transactions_have_the_same_bytes(request in tx_requests()) {
        let (ours, theirs) = (request.ours(), request.theirs());
        // Compared by part first, which locates a difference.
        let (our_parts, their_parts) = (
            WireRaw::decode(ours.as_slice()).unwrap(),
            WireRaw::decode(theirs.as_slice()).unwrap(),
        );
        prop_assert_eq!(our_parts.body_bytes, their_parts.body_bytes);
        prop_assert_eq!(our_parts.auth_info_bytes, their_parts.auth_info_bytes);
        prop_assert_eq!(our_parts.signatures, their_parts.signatures);
        prop_assert_eq!(ours, theirs);
    }

    #[test]
    fn keys_and_signatures_are_equal(bytes in private_key(), message in prop::collection::vec(any::<u8>(), 0..200)) {
        let (ours, theirs) = (PrivateKey::from_bytes(&bytes).unwrap(), SigningKey::from_slice(&bytes).unwrap());
        let public = theirs.public_key();
        prop_assert_eq!(&ours.public().as_bytes()[..], public.to_bytes());
        prop_assert_eq!(ours.address().to_string(), public.account_id("akash").unwrap().to_string());
        let signature = theirs.sign(&message).unwrap();
        prop_assert_eq!(&ours.sign(&message)[..], &signature.to_bytes()[..]);
        prop_assert!(ours.public().verify(&message, &signature.to_bytes()));
    }

    #[test]
    fn addresses_parse_and_format_equally(bytes in prop::collection::vec(any::<u8>(), 1..=64)) {
        let (ours, theirs) = (Address::from_bytes(&bytes).unwrap(), AccountId::new("akash", &bytes).unwrap());
        prop_assert_eq!(ours.to_string(), theirs.to_string());
        prop_assert_eq!(theirs.to_string().parse::<Address>().unwrap().to_bytes(), bytes);
    }

    #[test]
    fn decodes_a_coin_of_cosmrs(denom in "[a-z][a-z0-9/]{2,40}", amount in any::<u128>()) {
        let ours = Coin::new(denom.as_str(), amount);
        let wire = cosmrs::proto::cosmos::base::v1beta1::Coin::from(their_coin(&ours));
        prop_assert_eq!(wire.amount.parse::<u128>().unwrap(), ours.amount);
        prop_assert_eq!(wire.denom, ours.denom.to_string());
    }
}

proptest! {
    // Key derivation from a mnemonic is slow (2048 rounds), so there are few cases.
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn mnemonic_results_in_the_same_key(
        entropy in prop::collection::vec(any::<u8>(), 32..=32),
        passphrase in "[ -~]{0,12}",
        account in 0..0x8000_0000_u32,
        index in 0..0x8000_0000_u32,
    ) {
        let words = Mnemonic::<English>::from_entropy(entropy).unwrap();
        let seed = seed_of(words.phrase(), &passphrase);
        for path in [DEFAULT_PATH.to_owned(), format!("m/44'/118'/{account}'/0/{index}")] {
            let ours = derive_key(&words.phrase().into(), &passphrase.as_str().into(), &path).unwrap();
            let theirs = SigningKey::derive_from_path(seed, &path.parse().unwrap()).unwrap();
            prop_assert_eq!(ours.address().to_string(), theirs.public_key().account_id("akash").unwrap().to_string());
        }
    }
}

/// Derives the seed of a mnemonic as defined by BIP-39.
fn seed_of(words: &str, passphrase: &str) -> [u8; 64] {
    let salt = format!("mnemonic{passphrase}");
    pbkdf2::pbkdf2_hmac_array::<sha2::Sha512, 64>(words.as_bytes(), salt.as_bytes(), 2048)
}
