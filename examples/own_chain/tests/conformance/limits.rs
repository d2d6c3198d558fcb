//! Limits of the chain.

use crate::world::{BLOCK, Folder, account, record};
use akash_provider_core::ErrorKind;
use akash_provider_core::chain::{ChainQuery, ChainTx};
use akash_provider_core::types::{Msg, TxOutcome};
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use std::time::Duration;

fn named(length: usize) -> Vec<Msg> {
    let mut record = record(account(2));
    record.info.website = "w".repeat(length);
    vec![Msg::CreateProvider(record)]
}

#[tokio::test]
async fn transaction_size_is_limited_and_a_full_block_can_be_read() {
    let folder = Folder::new("large");
    let chain = folder.open();
    let frame = serde_json::to_vec(&serde_json::json!({"provider": named(0)}))
        .unwrap()
        .len();
    let largest = (64 << 10) - frame;
    let mut sent: FuturesUnordered<_> = (0..101).map(|_| chain.broadcast_msgs(named(largest))).collect();
    let mut landed = Vec::new();
    for _ in 0..2 {
        assert!(futures::poll!(sent.next()).is_pending());
        let height = chain.block(BLOCK).await.unwrap();
        let mut of_block = 0;
        while let std::task::Poll::Ready(Some(outcome)) = futures::poll!(sent.next()) {
            assert!(!matches!(outcome.unwrap(), TxOutcome::Unknown { .. }));
            of_block += 1;
        }
        landed.push((height, of_block));
    }
    assert_eq!(landed, [(2, 100), (3, 1)]);
    let larger = chain.broadcast_msgs(named(largest + 1)).now_or_never();
    let error = larger.expect("refused at once").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    drop(sent);
    drop(chain);
    let again = folder.open();
    assert_eq!(again.damages(), []);
    assert!(again.provider(&account(2)).await.unwrap().is_some());
}

#[tokio::test]
async fn number_and_lifetime_of_pending_transactions_are_limited() {
    let folder = Folder::new("pool");
    let chain = folder.open();
    let mut sent: FuturesUnordered<_> = (0..1000).map(|_| chain.broadcast_msgs(named(1))).collect();
    assert!(futures::poll!(sent.next()).is_pending());
    let another = chain.broadcast_msgs(named(1)).now_or_never();
    let error = another.expect("refused at once").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // The next block is later than their expiry.
    chain.block(Duration::from_secs(61)).await.unwrap();
    while let Some(outcome) = sent.next().await {
        let outcome = outcome.unwrap();
        assert!(
            matches!(&outcome, TxOutcome::Rejected { code, .. } if code == "ledger/1"),
            "{outcome:?}"
        );
    }
    assert_eq!(chain.provider(&account(2)).await.unwrap(), None);
}

#[tokio::test]
async fn line_beyond_the_maximum_length_is_reported() {
    let folder = Folder::new("long");
    let chain = folder.open();
    chain.block(BLOCK).await.unwrap();
    drop(chain);
    let text = folder.text();
    let at = text.find('\n').unwrap() + 1;
    let long = "x".repeat((8 << 20) + 1);
    folder.write(&format!(
        "{}{long}\n{}",
        &text[..at],
        &text[at..].replace("\"height\":2", "\"height\":3")
    ));
    let chain = folder.open();
    assert_eq!(chain.damages().len(), 1);
    assert!(
        chain.damages()[0].what.contains("longer than"),
        "{}",
        chain.damages()[0]
    );
    assert_eq!(
        (chain.damages()[0].line, chain.sync_info().await.unwrap().height),
        (2, 3)
    );
}

#[tokio::test]
async fn implausible_height_is_a_wrong_number_and_not_a_gap() {
    let folder = Folder::new("far");
    for (height, expected) in [(1002, 1002), (1003, 2), (u64::MAX, 2)] {
        drop(folder.open());
        let genesis = folder.text().lines().next().unwrap().to_owned();
        let block = format!("{{\"block\":{{\"height\":{height},\"time\":1700000000000,\"txs\":[]}}}}");
        folder.write(&format!("{genesis}\n{block}\n"));
        let chain = folder.open();
        assert_eq!(chain.damages().len(), 1);
        assert_eq!(chain.sync_info().await.unwrap().height, expected);
    }
}
