//! Decoding of recorded blocks and of malformed input.

mod follow;
mod lies;
mod same_state;

use super::block::Block;
use super::decode::{BlockEvents, decode_events};
use super::websocket::frame;
use crate::fault::Fault;
use crate::rpc;
use crate::rpc::types::{AbciEvent, BlockResults, TxResult};
use akash_provider_core::types::{ChainEvent, CloseReason};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use testbed::recordings::{self, files, json};

const OWNER: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

fn of_results(path: &Path) -> (u64, BlockEvents) {
    let results: BlockResults = rpc::result(&fs::read(path).unwrap()).unwrap();
    let block = results.finalize_block_events.unwrap_or_default();
    let txs = results.txs_results.unwrap_or_default();
    (results.height.0, decode_events(results.height.0, &txs, &block))
}

/// Returns the name that the chain uses for an event.
fn name(event: &ChainEvent) -> String {
    let variant = format!("{event:?}");
    let end = variant.find(|letter: char| !letter.is_alphanumeric());
    variant[..end.unwrap_or(variant.len())].to_owned()
}

#[test]
fn decodes_every_recorded_block() {
    let mut blocks = 0;
    let results = files(&recordings::folder("chain/rpc"), ".json");
    for path in results
        .iter()
        .filter(|p| p.to_string_lossy().contains("/block_results-"))
    {
        let (height, read) = of_results(path);
        assert!(height > 0, "{}", path.display());
        assert_eq!(read.malformed, [], "{}", path.display());
        // Each event of the network in a successful transaction must be decoded.
        let recorded = json(path);
        let txs = recorded["result"]["txs_results"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let good = txs.iter().filter(|tx| tx["code"] == 0);
        let events = good.flat_map(|tx| tx["events"].as_array().unwrap().clone());
        let akash: Vec<String> = events
            .map(|e| e["type"].as_str().unwrap().to_owned())
            .filter(|kind| kind.starts_with("akash."))
            .collect();
        assert_eq!(read.events.len(), akash.len(), "{}", path.display());
        for (fact, kind) in read.events.iter().zip(&akash) {
            let short = kind.rsplit("Event").next().unwrap();
            let short = match short {
                "ProviderCreated" => "ProviderUpdated",
                "TrustedAuditorCreated" => "AuditChanged",
                other => other,
            };
            assert_eq!(name(fact), short, "{}", path.display());
        }
        blocks += 1;
    }
    assert!(blocks > 60, "{blocks} blocks");
    println!("decoded {blocks} blocks");
}

#[test]
fn pushed_blocks_equal_fetched_blocks() {
    let chain = recordings::folder("chain");
    let (mut frames, mut hashed) = (0, 0);
    let search = json(&chain.join("rpc/tx_search-EventLeaseCreated.json"));
    let indexed = search["result"]["txs"].as_array().unwrap();
    for path in files(&chain.join("ws"), ".json") {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = fs::read(&path).unwrap();
        let block = frame(&bytes, "local").unwrap();
        let Some(case) = file.strip_prefix("NewBlock-") else {
            assert_eq!(block, None, "{file}: not a NewBlock event");
            continue;
        };
        let Block {
            height,
            time,
            events,
            txs,
            ..
        } = block.unwrap();
        let txs = txs.unwrap();
        for tx in indexed
            .iter()
            .filter(|tx| tx["height"].as_str() == Some(&*height.to_string()))
        {
            let gas: u64 = tx["tx_result"]["gas_used"].as_str().unwrap().parse().unwrap();
            let seen = txs
                .iter()
                .find(|seen| tx["hash"].as_str() == Some(&*seen.hash.to_string()));
            assert_eq!(
                seen.map(|seen| (seen.code, seen.gas_used)),
                Some((0, gas)),
                "{file}"
            );
            hashed += 1;
        }
        frames += 1;
        assert!(time.0 > 1_700_000_000_000, "{file}");
        let fetched = chain.join("rpc").join(format!("block_results-{case}"));
        if !fetched.exists() {
            assert!(file.contains("empty-block"), "{file}");
            assert_eq!(events, BlockEvents::default(), "{file}");
            continue;
        }
        assert_eq!((height, events), of_results(&fetched), "{file}");
    }
    assert!(frames >= 20 && hashed >= 1, "{frames} frames, {hashed} hashes");
    let session = fs::read_to_string(chain.join("ws/subscribe-session.jsonl")).unwrap();
    let received = session.lines().filter_map(|line| line.strip_prefix("< "));
    let read: Vec<_> = received.map(|line| frame(line.as_bytes(), "local")).collect();
    let refused = |r: &&Result<Option<Block>, Fault>| matches!(r, Err(Fault::Refused { code: -32603, .. }));
    assert_eq!(
        read.iter().filter(refused).count(),
        2,
        "a duplicate subscription and an invalid query"
    );
    assert!(read.iter().all(|r| !matches!(r, Err(Fault::Malformed(_)))));
}

fn event(kind: &str, attributes: &[(&str, Value)]) -> Value {
    let attributes = attributes
        .iter()
        .map(|(key, value)| json!({"key": key, "value": value, "index": true}));
    json!({"type": kind, "attributes": attributes.collect::<Vec<_>>()})
}

fn bid_id() -> String {
    format!(r#"{{"owner":"{OWNER}","dseq":"1001","gseq":1,"oseq":2,"provider":"{PROVIDER}","bseq":0}}"#)
}

fn read(events: &[Value]) -> BlockEvents {
    let tx: TxResult = serde_json::from_value(json!({"code": 0, "events": events})).unwrap();
    decode_events(7, &[tx], &[])
}

const LEASE_CLOSED: &str = "akash.market.v1.EventLeaseClosed";

#[test]
fn decodes_base64_attributes() {
    let b64 = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
    let reason = r#""lease_closed_reason_unstable""#;
    let plain = event(
        LEASE_CLOSED,
        &[
            ("id", bid_id().into()),
            ("reason", reason.into()),
            ("msg_index", "0".into()),
        ],
    );
    let coded = event(
        LEASE_CLOSED,
        &[
            (&b64("id"), b64(&bid_id()).into()),
            (&b64("reason"), b64(reason).into()),
            (&b64("msg_index"), b64("0").into()),
        ],
    );
    let (plain, coded) = (read(&[plain]), read(&[coded]));
    assert_eq!(plain, coded);
    assert!(matches!(
        &plain.events[..],
        [ChainEvent::LeaseClosed { id, reason: CloseReason::Unstable }] if id.to_string().ends_with(PROVIDER)
    ));
}

#[test]
fn ignores_unknown_events_and_keys() {
    let id = bid_id().replace("\"bseq\":0", "\"bseq\":0,\"new\":{\"a\":[1]}");
    let events = [
        event("akash.market.v9.EventLeaseClosed", &[("id", "nonsense".into())]),
        event("akash.market.v1.EventNew", &[]),
        event("transfer", &[("id", "1".into())]),
        event(
            "akash.market.v1.EventBidClosed",
            &[("extra", "{".into()), ("id", id.into()), ("mode", Value::Null)],
        ),
    ];
    let read = read(&events);
    assert_eq!((read.events.len(), read.malformed.len()), (1, 0), "{read:?}");
}

#[test]
fn reports_malformed_events_with_their_position() {
    let malformed_events: Vec<(Value, &str)> = vec![
        (json!([]), "id: is missing"),
        (json!([("id", "{")]), "id: EOF"),
        (json!([("id", "[]")]), "id: invalid length"),
        (json!([("id", bid_id()), ("id", bid_id())]), "id: is duplicated"),
        (
            json!([("id", bid_id().replace("\"1001\"", "\"-1\""))]),
            "id: invalid value",
        ),
        (
            json!([("id", bid_id().replace("\"gseq\":1", "\"gseq\":-1"))]),
            "id: invalid value",
        ),
        (
            json!([("id", bid_id().replace("\"gseq\":1,", "\"gseq\":1,\"gseq\":2,"))]),
            "id: duplicate field",
        ),
        (
            json!([("id", bid_id().replace("\"gseq\":1,", ""))]),
            "id.gseq: is missing",
        ),
        (
            json!([("id", bid_id().replace(PROVIDER, "cosmos1x"))]),
            "id.provider",
        ),
        (
            json!([("id", bid_id().replace(OWNER, &"a".repeat(20_000)))]),
            "id: is larger than",
        ),
        (
            json!([("id", bid_id()), ("reason", "\"lease_closed_unknown\"")]),
            "reason: `lease_closed_unknown`",
        ),
        (json!([("id", bid_id())]), "reason: is missing"),
        (json!([("aWQ=", "%%%")]), "id: is not base64"),
        (json!([("aWQ=", "/////w==")]), "id: is not UTF-8"),
        (json!([("id", "[".repeat(10_000))]), "id: "),
    ];
    for (attributes, why) in malformed_events {
        let pairs: Vec<(String, Value)> = serde_json::from_value(attributes).unwrap();
        let pairs: Vec<(&str, Value)> = pairs.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
        let good = event("akash.market.v1.EventBidClosed", &[("id", bid_id().into())]);
        let read = read(&[event(LEASE_CLOSED, &pairs), good]);
        assert_eq!(read.events.len(), 1, "{why}: the other event is decoded");
        let [malformed] = &read.malformed[..] else {
            panic!("{why}: {read:?}")
        };
        assert_eq!((malformed.height, malformed.tx, malformed.index), (7, Some(0), 0));
        assert!(malformed.why.starts_with(why), "{why}: {malformed}");
        assert!(malformed.why.len() < 2000, "{why}: too long for a log");
    }
}

#[test]
fn malformed_bids_of_other_providers_are_ignored() {
    let numbered = bid_id().replace("\"bseq\":0", "\"bseq\":3");
    let price = r#"{"denom":"uact","amount":"1.5"}"#;
    let market = |name: &str, pairs: &[(&str, Value)]| event(&format!("akash.market.v1.Event{name}"), pairs);
    let reason = ("reason", Value::from("\"lease_closed_reason_owner\""));
    let events = [
        market(
            "BidCreated",
            &[("id", numbered.clone().into()), ("price", price.into())],
        ),
        market("BidClosed", &[("id", numbered.clone().into())]),
        market("LeaseClosed", &[("id", numbered.clone().into()), reason]),
    ];
    assert_eq!(read(&events), BlockEvents::default(), "ignored");
    let won = market(
        "LeaseCreated",
        &[("id", numbered.into()), ("price", price.into())],
    );
    let won = read(&[won]);
    assert!(
        matches!(&won.events[..], [ChainEvent::LeaseCreated { .. }]),
        "the order is no longer open: {won:?}"
    );
    // A malformed bid concerns its provider only. An event that may concern any provider has no provider.
    let invalid_price = r#"{"denom":"uact","amount":"-"}"#;
    let bad = |name: &str| {
        let read = read(&[market(
            name,
            &[("id", bid_id().into()), ("price", invalid_price.into())],
        )]);
        read.malformed.first().map(|event| event.provider.clone())
    };
    assert_eq!(bad("BidCreated"), Some(Some(PROVIDER.parse().unwrap())));
    assert_eq!(bad("LeaseCreated"), Some(None));
}

#[test]
fn failed_transactions_have_no_events() {
    let closed = event("akash.market.v1.EventBidClosed", &[("id", bid_id().into())]);
    let failed: TxResult = serde_json::from_value(json!({"code": 5, "events": [closed.clone()]})).unwrap();
    assert_eq!(decode_events(7, &[failed], &[]), BlockEvents::default());
    let of_block: AbciEvent = serde_json::from_value(closed).unwrap();
    assert_eq!(
        decode_events(7, &[], &[of_block]).events.len(),
        1,
        "events of the block itself are decoded"
    );
}

#[test]
fn refuses_messages_of_other_chains_and_invalid_heights() {
    let push = |header: Value| {
        let value = json!({"block": {"header": header}, "result_finalize_block": {"tx_results": null}});
        let data = json!({"type": "tendermint/event/NewBlock", "value": value});
        json!({"jsonrpc": "2.0", "id": 1, "result": {"data": data}}).to_string()
    };
    let time = "2026-11-21T09:41:10.766717291Z";
    let good = frame(
        push(json!({"chain_id": "local", "height": "5", "time": time})).as_bytes(),
        "local",
    );
    assert_eq!(good.unwrap().unwrap().height, 5);
    let other = frame(
        push(json!({"chain_id": "x", "height": "5", "time": time})).as_bytes(),
        "local",
    );
    assert!(matches!(other, Err(Fault::OtherChain { .. })));
    let double = push(json!({"chain_id": "local", "height": "5", "time": time}))
        .replace("\"height\":\"5\"", "\"height\":\"5\",\"height\":\"6\"");
    for bad in [
        push(json!({"chain_id": "local", "height": "-5", "time": time})),
        push(json!({"chain_id": "local", "height": "0", "time": time})),
        push(json!({"chain_id": "local", "height": "99999999999999999999", "time": time})),
        push(json!({"chain_id": "local", "height": "5", "time": "yesterday"})),
        push(json!({"chain_id": "local", "height": "5", "time": "1950-01-01T00:00:00Z"})),
        double,
        "<html><body>502 Bad Gateway</body></html>".to_owned(),
        String::new(),
    ] {
        assert!(
            matches!(frame(bad.as_bytes(), "local"), Err(Fault::Malformed(_))),
            "{bad}"
        );
    }
    assert!(matches!(frame(b"\xff\xfe{}", "local"), Err(Fault::Malformed(_))));
}

proptest! {
    #[test]
    fn decoding_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        drop(frame(&bytes, "local"));
        drop(rpc::result::<BlockResults>(&bytes));
    }

    #[test]
    fn decoding_events_never_panics(
        kind in "(akash\\.(market\\.v1|deployment\\.v1|audit\\.v1|provider\\.v1beta4)\\.Event)?[A-Za-z]{0,20}",
        attributes in proptest::collection::vec(("(id|price|reason|hash|deadline|owner|[a-zA-Z=]{0,6})", ".{0,80}"), 0..6),
    ) {
        let pairs: Vec<(&str, Value)> = attributes.iter().map(|(k, v)| (k.as_str(), v.clone().into())).collect();
        let read = read(&[event(&kind, &pairs)]);
        prop_assert!(read.events.len() + read.malformed.len() <= 1);
    }

    #[test]
    fn modified_recording_is_an_error_or_a_block(at in 0_usize..4000, byte in any::<u8>(), cut in any::<bool>()) {
        let value = json!({"height": "5", "txs_results": [{"code": 0, "events": [
            event(LEASE_CLOSED, &[("id", bid_id().into()), ("reason", "\"lease_closed_owner\"".into())])
        ]}]});
        let mut bytes = json!({"jsonrpc": "2.0", "id": 1, "result": value}).to_string().into_bytes();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(results) = rpc::result::<BlockResults>(&bytes) {
            let txs = results.txs_results.unwrap_or_default();
            let read = decode_events(results.height.0, &txs, &[]);
            prop_assert!(read.events.len() + read.malformed.len() <= 1);
        }
    }
}
