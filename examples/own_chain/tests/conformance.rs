//! Conformance suite on the chain in a file, and tests that the file remains when the program ends and is
//! usable although it has damaged lines.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

#[path = "conformance/limits.rs"]
mod limits;
#[path = "conformance/world.rs"]
mod world;

use akash_provider_core::ErrorKind;
use akash_provider_core::chain::conformance::{self, Driver};
use akash_provider_core::chain::{ChainClient, ChainEvents, ChainQuery};
use akash_provider_core::types::{Agreement, BidState, ChainEvent, TxError, TxOutcome};
use example_own_chain::{Genesis, OwnChain};
use futures::StreamExt;
use std::sync::Arc;
use world::{Accounts, BLOCK, Folder, genesis};

#[tokio::test]
async fn conformance_of_the_own_chain() {
    let folder = Folder::new("conformance");
    let accounts = Accounts::new(folder.open(), 1).await;
    conformance::suite(&accounts.chain, &accounts).await;
    let (provider, chain) = (accounts.provider(), accounts.chain.clone());
    let before = chain.snapshot(&provider).await.unwrap();
    let mut events = chain.subscribe(&provider);
    drop((accounts, chain));
    events.next().await.unwrap().unwrap();
    assert!(events.next().await.is_none(), "the stream ends with its chain");

    // The same file gives the same chain, which continues.
    let again = folder.open();
    assert_eq!(again.damages(), []);
    assert_eq!(again.snapshot(&provider).await.unwrap(), before);
    let accounts = Accounts::new(again, 1000).await;
    conformance::suite(&accounts.chain, &accounts).await;
}

#[tokio::test]
async fn conformance_of_the_own_chain_with_automatic_blocks() {
    let folder = Folder::new("ticking");
    let accounts = Accounts::new(folder.open(), 1).await;
    let chain = accounts.chain.clone();
    let ticker = tokio::spawn(chain.tick(std::time::Duration::from_millis(5), BLOCK, |e| {
        eprintln!("{e}");
    }));
    let shared: Arc<dyn ChainClient> = Arc::new(accounts.chain.clone());
    conformance::suite(&shared, &accounts).await;
    ticker.abort();
}

#[tokio::test]
async fn truncated_line_is_reported_and_replaced_by_the_next_block() {
    let folder = Folder::new("cut");
    let accounts = Accounts::new(folder.open(), 1).await;
    let order = accounts.create_deployment(1).await.remove(0);
    let whole = folder.text();
    let (bid, _) = accounts.bid(&order, accounts.provider()).await;
    drop(accounts);
    // The program was killed while it wrote the bid, which was never published.
    folder.write(&folder.text()[..whole.len() + 40]);

    let chain = folder.open();
    let damage = chain.damages()[0].to_string();
    let place = format!("{}:5: ", folder.ledger().display());
    assert!(
        damage.starts_with(&place) && damage.contains("no action needed"),
        "{damage}"
    );
    assert_eq!(chain.damages().len(), 1);
    let seen = chain.bid(&bid).await.unwrap();
    assert_eq!((seen.value, seen.agreement), (None, Agreement::Single));
    let accounts = Accounts::new(chain, 2).await;
    let (_, outcome) = accounts.bid(&order, accounts.provider()).await;
    assert!(matches!(outcome, TxOutcome::Committed { .. }), "{outcome:?}");
    drop(accounts);
    assert_eq!(folder.open().damages(), [], "the truncated line is overwritten");
}

#[tokio::test]
async fn damaged_line_is_reported_and_only_prevents_lease_ends() {
    let folder = Folder::new("damaged");
    let accounts = Accounts::new(folder.open(), 1).await;
    let orders = accounts.create_deployment(2).await;
    let (lost, _) = accounts.bid(&orders[0], accounts.provider()).await;
    let (bid_read, _) = accounts.bid(&orders[1], accounts.provider()).await;
    let height = accounts.chain.sync_info().await.unwrap().height;
    drop(accounts);
    // Line n has block n. The lost bid is in the last but one.
    let text = folder.text();
    let mut lines: Vec<&str> = text.lines().collect();
    let at = lines.len() - 2;
    lines[at] = "{\"block\": rubbish";
    folder.write(&(lines.join("\n") + "\n"));

    let chain = folder.open();
    let damage = chain.damages()[0].to_string();
    let place = format!("{}:{}: ", folder.ledger().display(), at + 1);
    assert!(
        damage.starts_with(&place) && damage.contains("restore it from a backup"),
        "{damage}"
    );
    assert_eq!(chain.damages().len(), 1);
    assert_eq!(
        chain.sync_info().await.unwrap().height,
        height,
        "heights are unchanged"
    );
    assert_eq!(chain.block_time(height - 1).await.unwrap(), None, "unknown");
    assert!(chain.block_time(height).await.unwrap().is_some());
    assert_eq!(chain.bid(&lost).await.unwrap().value, None);
    let bid_read = chain.bid(&bid_read).await.unwrap();
    assert_eq!(bid_read.value.map(|bid| bid.state), Some(BidState::Open));
    assert_eq!(
        bid_read.agreement,
        Agreement::Disputed,
        "not sufficient to end a lease"
    );
    chain.block(BLOCK).await.unwrap();
    drop(chain);

    // The line is restored.
    let end = folder.text().lines().last().unwrap().to_owned();
    folder.write(&(text + &end + "\n"));
    let chain = folder.open();
    assert_eq!(chain.damages(), []);
    let mended = chain.bid(&lost).await.unwrap();
    assert_eq!(mended.value.map(|bid| bid.state), Some(BidState::Open));
    assert_eq!(mended.agreement, Agreement::Single);
}

#[tokio::test]
async fn lost_last_block_still_counts() {
    let folder = Folder::new("last");
    let accounts = Accounts::new(folder.open(), 1).await;
    let height = accounts.chain.sync_info().await.unwrap().height;
    drop(accounts);
    let text = folder.text();
    let at = text.trim_end().rfind('\n').unwrap() + 1;
    folder.write(&format!("{}rubbish\n", &text[..at]));
    let chain = folder.open();
    assert_eq!(
        chain.block(BLOCK).await.unwrap(),
        height + 1,
        "the height was published"
    );
    drop(chain);
    // The same after reopening, and after the line is removed.
    for text in [folder.text(), folder.text().replace("rubbish\n", "")] {
        folder.write(&text);
        let chain = folder.open();
        assert_eq!(chain.damages().len(), 1, "{:?}", chain.damages());
        let sync = chain.sync_info().await.unwrap();
        assert_eq!(sync.height, height + 1);
        assert_eq!(chain.block_time(height).await.unwrap(), None);
    }
}

#[tokio::test]
async fn complete_line_without_line_break_is_read() {
    let folder = Folder::new("endless");
    let accounts = Accounts::new(folder.open(), 1).await;
    let height = accounts.chain.sync_info().await.unwrap().height;
    drop(accounts);
    folder.write(folder.text().trim_end());
    let chain = folder.open();
    assert_eq!(
        (chain.damages(), chain.sync_info().await.unwrap().height),
        (&[][..], height)
    );
    chain.block(BLOCK).await.unwrap();
    drop(chain);
    assert_eq!(folder.open().sync_info().await.unwrap().height, height + 1);
}

#[tokio::test]
async fn refused_transaction_is_refused_again_after_reopening() {
    let folder = Folder::new("refused");
    let accounts = Accounts::new(folder.open(), 1).await;
    let order = accounts.create_deployment(1).await.remove(0);
    accounts.bid(&order, accounts.provider()).await;
    let (_, again) = accounts.bid(&order, accounts.provider()).await;
    assert!(matches!(
        again,
        TxOutcome::Rejected {
            error: TxError::BidExists,
            ..
        }
    ));
    let before = accounts.chain.snapshot(&accounts.provider()).await.unwrap();
    let provider = accounts.provider();
    drop(accounts);
    assert_eq!(folder.open().snapshot(&provider).await.unwrap(), before);
}

#[test]
fn ledger_with_another_genesis_is_left_unchanged() {
    let folder = Folder::new("others");
    let chain = folder.open();
    let open = |genesis: &Genesis| OwnChain::open(&folder.ledger(), genesis).unwrap_err();
    let error = open(&genesis());
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("another program"), "{error}");
    drop(chain);
    let other = Genesis {
        chain_id: "other".to_owned(),
        ..genesis()
    };
    assert_eq!(open(&other).kind(), ErrorKind::Conflict);
    let text = folder.text();
    folder.write("rubbish\n");
    let error = open(&genesis());
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.message().contains("restore line 1"), "{error}");
    assert_eq!(folder.text(), "rubbish\n");
    folder.write(&text);
    assert_eq!(folder.open().damages(), []);
}

#[tokio::test]
async fn bids_of_competing_providers_are_not_published() {
    let folder = Folder::new("foreign");
    let accounts = Accounts::new(folder.open(), 1).await;
    let order = accounts.create_deployment(1).await.remove(0);
    let mut events = accounts.chain.subscribe(&accounts.provider());
    accounts.competing_bid(&order).await;
    events.next().await.unwrap().unwrap();
    let event = events.next().await.unwrap().unwrap();
    assert!(matches!(event, ChainEvent::Block { .. }), "{event:?}");
}

#[tokio::test]
async fn slow_reader_gets_a_snapshot() {
    let folder = Folder::new("slow");
    let chain = folder.open();
    let mut events = chain.subscribe(&world::account(2));
    for _ in 0..257 {
        chain.block(BLOCK).await.unwrap();
    }
    for height in [1, 258] {
        let event = events.next().await.unwrap().unwrap();
        assert!(
            matches!(&event, ChainEvent::Resync(now) if now.height == height),
            "{event:?}"
        );
    }
    chain.block(BLOCK).await.unwrap();
    let event = events.next().await.unwrap().unwrap();
    assert!(
        matches!(event, ChainEvent::Block { height: 259, .. }),
        "{event:?}"
    );
}
