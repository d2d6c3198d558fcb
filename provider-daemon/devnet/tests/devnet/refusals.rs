//! Refusals, with the codes and texts of the recordings.

use super::calls::{broadcast, call, get, request};
use super::driver::{self, CHAIN_ID, create, devnet, key, uact};
use akash_provider_chain::convert::{tenant_to_any, to_any};
use akash_provider_chain::proto::cosmos::tx::v1beta1::TxRaw;
use akash_provider_chain::signer::{Ordering, SignedTx, SigningAccount, TxFee, sign};
use akash_provider_core::market::{Market, TenantMsg};
use akash_provider_core::types::{BidId, BlockTime, CloseReason, Coin, Dec, DeploymentId, Msg};
use akash_provider_devnet::Devnet;
use prost::Message;
use prost_types::Any;
use serde_json::{Value, json};

const GAS: u64 = 300_000;
const MINUTE_NANOS: i64 = 60_000_000_000;

/// Unsigned transaction for a test. `sign` uses key 2, the key of the provider.
struct Draft {
    chain_id: &'static str,
    number: u64,
    ordering: Ordering,
    fee: u128,
    gas: u64,
    msgs: Vec<Any>,
}

impl Draft {
    /// Returns the draft of a valid ordered transaction, with sequence 1.
    fn new(msgs: Vec<Any>) -> Self {
        Self {
            chain_id: CHAIN_ID,
            number: 1,
            ordering: ordered(1),
            fee: 7500,
            gas: GAS,
            msgs,
        }
    }

    fn sign(self) -> SignedTx {
        let key = key(2);
        let account = SigningAccount {
            key: &key,
            number: self.number,
            chain_id: self.chain_id,
        };
        let price = TxFee {
            fee: Coin::new("uakt", self.fee),
            gas_limit: self.gas,
            granter: None,
        };
        sign(&account, self.msgs, self.ordering, &price)
    }
}

const fn ordered(sequence: u64) -> Ordering {
    Ordering::Ordered {
        sequence,
        timeout_height: 0,
    }
}

fn deployment(dseq: u64) -> DeploymentId {
    DeploymentId::new(key(1).address().clone(), dseq)
}

fn bid_on(dseq: u64) -> BidId {
    driver::order(&deployment(dseq), 1).bid(key(2).address().clone())
}

fn a_bid(dseq: u64) -> Vec<Any> {
    vec![to_any(&driver::bid(&bid_on(dseq)))]
}

/// Returns the draft of a bid on the order of [`with_order`].
fn bid_draft() -> Draft {
    Draft::new(a_bid(1))
}

fn unordered(devnet: &Devnet, after_nanos: i64) -> Ordering {
    let BlockTime(now) = devnet.chain().market(|m| m.time());
    Ordering::Unordered {
        timeout_nanos: now * 1_000_000 + after_nanos,
    }
}

/// Starts a development network with an open order of deployment 1.
async fn with_order() -> Devnet {
    let devnet = devnet(None).await;
    devnet.chain().tenant(create(&deployment(1), 1)).unwrap();
    devnet.make_block();
    devnet
}

#[track_caller]
fn assert_code(result: &Value, space: &str, code: u32) {
    let found = (&result["codespace"], &result["code"]);
    assert_eq!(found, (&json!(space), &json!(code)), "{result}");
}

#[track_caller]
fn assert_refused(response: &Value, space: &str, code: u32, log: &str) {
    let result = &response["result"];
    assert_code(result, space, code);
    let text = result["log"].as_str().unwrap();
    assert!(text.contains(log), "`{log}` is not in: {text}");
}

/// Asserts that the mempool refuses a transaction.
async fn refused(rpc: &str, draft: Draft, space: &str, code: u32, log: &str) {
    let response = broadcast(rpc, &draft.sign().bytes).await;
    assert_refused(&response, space, code, log);
}

/// Sends a transaction that the mempool accepts, and returns its result in the next block.
async fn landed(devnet: &Devnet, draft: Draft) -> Value {
    let (rpc, tx) = (devnet.rpc_url(), draft.sign());
    let response = broadcast(&rpc, &tx.bytes).await;
    assert_eq!(response["result"]["code"], 0, "{response}");
    devnet.make_block();
    let (_, landed) = get(&rpc, &format!("/tx?hash=0x{}", tx.hash)).await;
    landed["result"]["tx_result"].clone()
}

#[tokio::test]
async fn invalid_bytes_are_refused_as_in_the_network() {
    let devnet = with_order().await;
    let rpc = devnet.rpc_url();
    let garbage = broadcast(&rpc, b"this is no transaction at all").await;
    assert_refused(&garbage, "sdk", 2, "tx parse error");
    assert_refused(&broadcast(&rpc, b"").await, "sdk", 18, "at least one message");
    let unknown = Any {
        type_url: "/akash.market.v1beta5.MsgMakeCoffee".to_owned(),
        value: Vec::new(),
    };
    let text = "unable to resolve type URL /akash.market.v1beta5.MsgMakeCoffee";
    refused(&rpc, Draft::new(vec![unknown]), "sdk", 2, text).await;
    let mut cut = bid_draft().sign().bytes;
    cut.truncate(cut.len() / 2);
    assert_refused(&broadcast(&rpc, &cut).await, "sdk", 2, "tx parse error");
    let of_two = vec![
        to_any(&driver::bid(&bid_on(1))),
        tenant_to_any(&TenantMsg::CloseDeployment { id: deployment(1) }).unwrap(),
    ];
    refused(&rpc, Draft::new(of_two), "sdk", 18, "several signers").await;
    devnet.stop().await;
}

#[tokio::test]
async fn wrong_signatures_sequences_and_chains_are_refused_as_in_the_network() {
    let devnet = with_order().await;
    let rpc = devnet.rpc_url();
    let verify = "signature verification failed; please verify account number (1) and chain-id (devnet): \
                  (unable to verify single signer signature): unauthorized";
    let mut forged = TxRaw::decode(&*bid_draft().sign().bytes).unwrap();
    forged.signatures[0][5] ^= 1;
    let other_chain = Draft {
        chain_id: "akashnet-2",
        ..bid_draft()
    };
    let other_number = Draft {
        number: 9,
        ..bid_draft()
    };
    for tx in [
        forged.encode_to_vec(),
        other_chain.sign().bytes,
        other_number.sign().bytes,
    ] {
        assert_refused(&broadcast(&rpc, &tx).await, "sdk", 4, verify);
    }
    for sequence in [0, 5] {
        let text =
            format!("account sequence mismatch, expected 1, got {sequence}: incorrect account sequence");
        let ordering = ordered(sequence);
        let draft = Draft {
            ordering,
            ..bid_draft()
        };
        refused(&rpc, draft, "sdk", 32, &text).await;
    }
    let key = key(77);
    let nobody = SigningAccount {
        key: &key,
        number: 0,
        chain_id: CHAIN_ID,
    };
    let id = BidId {
        provider: key.address().clone(),
        ..bid_on(1)
    };
    let price = TxFee {
        fee: "7500uakt".parse().unwrap(),
        gas_limit: GAS,
        granter: None,
    };
    let tx = sign(&nobody, vec![to_any(&driver::bid(&id))], ordered(0), &price);
    // An account exists only with a balance.
    let response = broadcast(&rpc, &tx.bytes).await;
    assert_refused(&response, "sdk", 5, "insufficient funds");
    devnet.stop().await;
}

#[tokio::test]
async fn fees_and_gas_are_checked_as_in_the_network() {
    let devnet = with_order().await;
    let rpc = devnet.rpc_url();
    for (fee, got) in [(10, "10uakt"), (0, "")] {
        let text = format!("insufficient fees; got: {got} required: 750uakt: insufficient fee");
        let draft = Draft { fee, ..bid_draft() };
        refused(&rpc, draft, "sdk", 13, &text).await;
    }
    let little = Draft {
        gas: 1000,
        ..bid_draft()
    };
    refused(&rpc, little, "sdk", 11, "gasWanted: 1000, gasUsed:").await;
    // Enough for the mempool, too little for the message: it fails in its block and pays the fee.
    let before = devnet.chain().market(|m| m.balance(key(2).address(), "uakt"));
    let not_enough = Draft {
        gas: 70_000,
        ..bid_draft()
    };
    let result = landed(&devnet, not_enough).await;
    assert_code(&result, "sdk", 11);
    assert_eq!(result["data"], Value::Null, "{result}");
    let events = result["events"].as_array().unwrap().iter();
    let kinds: Vec<&str> = events.map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds.join(" "),
        "coin_spent coin_received transfer message tx tx tx"
    );
    devnet.chain().market(|m| {
        let us = key(2).address().clone();
        assert_eq!(m.bid(&bid_on(1)), None);
        assert_eq!(before.amount - m.balance(&us, "uakt").amount, 7500);
        assert_eq!(m.account(&us).unwrap().sequence, 2);
    });
    devnet.stop().await;
}

#[tokio::test]
async fn unordered_transactions_are_checked_as_in_the_network() {
    let devnet = with_order().await;
    let rpc = devnet.rpc_url();
    let draft = |after| Draft {
        ordering: unordered(&devnet, after),
        ..bid_draft()
    };
    refused(&rpc, draft(-1_000_000), "sdk", 42, "+0000 UTC: tx timeout").await;
    let text = "unordered tx ttl exceeds 10m0s: invalid request";
    refused(&rpc, draft(11 * MINUTE_NANOS), "sdk", 18, text).await;
    let good = draft(MINUTE_NANOS).sign();
    assert_eq!(broadcast(&rpc, &good.bytes).await["result"]["code"], 0);
    let again = broadcast(&rpc, &good.bytes).await;
    assert_eq!(again["error"]["data"], "tx already exists in cache", "{again}");
    // The same nonce with other bytes.
    let other = Draft {
        fee: 8000,
        ..draft(MINUTE_NANOS)
    };
    refused(&rpc, other, "sdk", 18, "already used timeout").await;
    devnet.make_block();
    let again = broadcast(&rpc, &good.bytes).await;
    assert_eq!(
        again["error"]["data"], "tx already exists in cache",
        "after it landed: {again}"
    );
    let sequence = devnet
        .chain()
        .market(|m| m.account(key(2).address()).unwrap().sequence);
    assert_eq!(sequence, 1, "an unordered transaction counts no sequence");
    let late = Draft {
        ordering: Ordering::Ordered {
            sequence: 1,
            timeout_height: 1,
        },
        ..bid_draft()
    };
    refused(&rpc, late, "sdk", 30, "timeout height: 1: tx timeout height").await;
    devnet.stop().await;
}

#[tokio::test]
async fn pending_transaction_that_expires_fails_in_its_block() {
    let devnet = with_order().await;
    // The next block is later than this one, by 1 ms or more.
    let ordering = unordered(&devnet, 0);
    let result = landed(
        &devnet,
        Draft {
            ordering,
            ..bid_draft()
        },
    )
    .await;
    assert_eq!(result["code"], 42, "{result}");
    assert_eq!(devnet.chain().market(|m| m.bid(&bid_on(1)).cloned()), None);
    devnet.stop().await;
}

#[tokio::test]
async fn messages_are_refused_with_the_markets_codes() {
    let devnet = with_order().await;
    let rpc = devnet.rpc_url();
    let Msg::CreateBid { id, deposit, .. } = driver::bid(&bid_on(1)) else {
        unreachable!()
    };
    let free = Msg::CreateBid {
        id: id.clone(),
        price: akash_provider_core::types::DecCoin::new(&"uact".into(), Dec::ZERO),
        deposit,
        resources_offer: Vec::new(),
        reclamation_window: None,
    };
    let free = Draft::new(vec![to_any(&free)]);
    refused(&rpc, free, "market", 19, "invalid bid: zero price").await;
    let reason = CloseReason::Owner;
    let close = to_any(&Msg::CloseBid { id, reason });
    let text = "value \"1\" range 10000..19999: invalid lease closed reason";
    refused(&rpc, Draft::new(vec![close]), "market", 33, text).await;
    // Several transactions of one account in one block, each with its own result.
    for (sequence, dseq) in [(1, 1), (2, 1), (3, 404)] {
        let ordering = ordered(sequence);
        let draft = Draft {
            ordering,
            ..Draft::new(a_bid(dseq))
        };
        let response = broadcast(&rpc, &draft.sign().bytes).await;
        assert_eq!(response["result"]["code"], 0, "{response}");
    }
    let height = devnet.make_block();
    let results = call(&rpc, "block_results", json!({"height": height.to_string()})).await;
    let results = &results["result"]["txs_results"];
    for (at, (space, code)) in [("", 0), ("market", 21), ("market", 15)].into_iter().enumerate() {
        assert_code(&results[at], space, code);
    }
    let log = &results[1]["log"];
    assert_eq!(
        log,
        "failed to execute message; message index: 0: invalid bid: bid exists from provider"
    );
    devnet.stop().await;
}

#[tokio::test]
async fn unpayable_deposit_fails_in_its_block_and_unpayable_fee_before_it() {
    let devnet = with_order().await;
    let rpc = devnet.rpc_url();
    let set = |denom: &str, amount| {
        let coin = |m: &mut Market| m.account_mut(key(2).address()).coins.insert(denom.into(), amount);
        devnet.chain().market(coin);
    };
    set("uact", 499_999);
    set("uakt", 8_000);
    let result = landed(&devnet, bid_draft()).await;
    assert_code(&result, "undefined", 1);
    let text = "failed to execute message; message index: 0: deposit invalid: insufficient balance";
    assert_eq!(result["log"], text);
    let left = devnet.chain().market(|m| m.balance(key(2).address(), "uakt"));
    assert_eq!(left.amount, 500, "the fee is taken");
    let ordering = ordered(2);
    let text = "spendable balance 500uakt is smaller than 7500uakt: insufficient funds";
    refused(
        &rpc,
        Draft {
            ordering,
            ..bid_draft()
        },
        "sdk",
        5,
        text,
    )
    .await;
    devnet.stop().await;
}

#[tokio::test]
async fn a_transaction_of_several_messages_is_all_or_nothing() {
    let devnet = with_order().await;
    let before = devnet.chain().market(|m| m.balance(key(2).address(), "uact"));
    let draft = Draft {
        gas: 900_000,
        fee: 9000,
        ..Draft::new([a_bid(1), a_bid(404)].concat())
    };
    let result = landed(&devnet, draft).await;
    assert_eq!(result["code"], 15, "{result}");
    let text = "failed to execute message; message index: 1: invalid order: order not found";
    assert_eq!(result["log"], text);
    let (bid, after) = devnet
        .chain()
        .market(|m| (m.bid(&bid_on(1)).cloned(), m.balance(key(2).address(), "uact")));
    assert_eq!((bid, after), (None, before), "only the fee remains");
    devnet.stop().await;
}

#[tokio::test]
async fn invalid_calls_get_json_rpc_errors() {
    let devnet = with_order().await;
    let rpc = devnet.rpc_url();
    for (method, params, code) in [
        ("make_coffee", json!({}), -32601),
        ("block", json!({"height": "soon"}), -32602),
        ("block", json!("soon"), -32602),
    ] {
        assert_eq!(call(&rpc, method, params).await["error"]["code"], code);
    }
    let (_, body) = request(&rpc, "POST", "/", "{\"jsonrpc\": \"2.0\", ").await;
    let response: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(response["error"]["code"], -32700, "{response}");
    let (status, response) = get(&rpc, "/block_results?height=99999999").await;
    assert_eq!(status, 500);
    let text = "height 99999999 must be less than or equal to the current blockchain height 2";
    assert_eq!(response["error"]["data"], text);
    let (_, response) = get(&rpc, "/block_results?height=0").await;
    assert_eq!(
        response["error"]["data"],
        "height must be greater than 0, but got 0"
    );
    assert_eq!(get(&rpc, "/make_coffee").await.0, 404);
    let zeros = "0".repeat(64);
    let (_, response) = get(&rpc, &format!("/tx?hash=0x{zeros}")).await;
    assert_eq!(response["error"]["data"], format!("tx ({zeros}) not found"));
    let large = vec![b' '; 5 << 20];
    assert_eq!(request(&rpc, "POST", "/", large).await.0, 413);
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "health"},
        {"jsonrpc": "2.0", "id": "two", "method": "block", "params": ["2"]},
    ]);
    let (_, body) = request(&rpc, "POST", "/", batch.to_string()).await;
    let answers: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answers[0]["result"], json!({}));
    assert_eq!(answers[1]["id"], "two");
    assert_eq!(answers[1]["result"]["block"]["header"]["height"], "2");
    devnet.stop().await;
}

#[tokio::test]
async fn recent_heights_can_be_queried_and_older_ones_are_pruned() {
    let devnet = with_order().await;
    let rpc = devnet.rpc_url();
    let query = |height: u64| {
        let id = akash_provider_chain::proto::akash::deployment::v1::DeploymentId {
            owner: key(1).address().to_string(),
            dseq: 1,
        };
        let request =
            akash_provider_chain::proto::akash::deployment::v1beta4::QueryDeploymentRequest { id: Some(id) };
        json!({
            "path": "/akash.deployment.v1beta4.Query/Deployment",
            "data": data_encoding::HEXLOWER.encode(&request.encode_to_vec()),
            "height": height.to_string(),
            "prove": false,
        })
    };
    let response = call(&rpc, "abci_query", query(1)).await;
    assert_eq!(
        response["result"]["response"]["code"], 22,
        "not yet there: {response}"
    );
    assert_eq!(response["result"]["response"]["height"], "1");
    let then = call(&rpc, "abci_query", query(2)).await;
    let coin = uact(7_000_000);
    let deployment = deployment(1);
    devnet
        .chain()
        .tenant(TenantMsg::Deposit { deployment, coin })
        .unwrap();
    devnet.make_block();
    assert_eq!(
        call(&rpc, "abci_query", query(2)).await,
        then,
        "an old state is unchanged"
    );
    let now = call(&rpc, "abci_query", query(3)).await;
    assert_ne!(
        now["result"]["response"]["value"],
        then["result"]["response"]["value"]
    );
    assert_eq!(now["result"]["response"]["height"], "3");
    let ahead = call(&rpc, "abci_query", query(99)).await;
    assert_code(&ahead["result"]["response"], "sdk", 26);
    for _ in 0..200 {
        devnet.make_block();
    }
    let gone = call(&rpc, "abci_query", query(2)).await;
    let response = &gone["result"]["response"];
    assert_code(response, "sdk", 38);
    let text = "failed to load state at height 2; version does not exist (latest height: 203): not found";
    assert_eq!(response["log"], text);
    devnet.stop().await;
}
