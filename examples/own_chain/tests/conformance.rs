//! The chain of a file against the suite of every chain, and what is its own: a file that outlives the program, also
//! where somebody damaged it.

#![expect(clippy::unwrap_used, reason = "a test says what broke and stops")]

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
use world::{BLOCK, Folder, People, genesis};

#[tokio::test]
async fn conformance_of_the_own_chain() {
    let folder = Folder::new("conformance");
    let people = People::new(folder.open(), 1).await;
    conformance::suite(&people.chain, &people).await;
    let (provider, chain) = (people.provider(), people.chain.clone());
    let before = chain.snapshot(&provider).await.unwrap();
    let mut events = chain.subscribe(&provider);
    drop((people, chain));
    events.next().await.unwrap().unwrap();
    assert!(events.next().await.is_none(), "the stream ends with its chain");

    // The same file, the same chain; and it goes on.
    let again = folder.open();
    assert_eq!(again.damages(), []);
    assert_eq!(again.snapshot(&provider).await.unwrap(), before);
    let people = People::new(again, 1000).await;
    conformance::suite(&people.chain, &people).await;
}

#[tokio::test]
async fn conformance_of_the_own_chain_where_blocks_come_by_themselves() {
    let folder = Folder::new("ticking");
    let people = People::new(folder.open(), 1).await;
    let chain = people.chain.clone();
    let ticker = tokio::spawn(chain.tick(std::time::Duration::from_millis(5), BLOCK, |e| {
        eprintln!("{e}");
    }));
    let shared: Arc<dyn ChainClient> = Arc::new(people.chain.clone());
    conformance::suite(&shared, &people).await;
    ticker.abort();
}

#[tokio::test]
async fn a_cut_line_is_told_and_the_next_block_takes_its_place() {
    let folder = Folder::new("cut");
    let people = People::new(folder.open(), 1).await;
    let order = people.create_deployment(1).await.remove(0);
    let whole = folder.text();
    let (bid, _) = people.bid(&order, people.provider()).await;
    drop(people);
    // The program died while it wrote the bid: nobody was told of it.
    folder.write(&folder.text()[..whole.len() + 40]);

    let chain = folder.open();
    let told = chain.damages()[0].to_string();
    let place = format!("{}:5: ", folder.ledger().display());
    assert!(
        told.starts_with(&place) && told.contains("nothing to mend"),
        "{told}"
    );
    assert_eq!(chain.damages().len(), 1);
    let seen = chain.bid(&bid).await.unwrap();
    assert_eq!((seen.value, seen.agreement), (None, Agreement::Single));
    let people = People::new(chain, 2).await;
    let (_, outcome) = people.bid(&order, people.provider()).await;
    assert!(matches!(outcome, TxOutcome::Committed { .. }), "{outcome:?}");
    drop(people);
    assert_eq!(folder.open().damages(), [], "nothing is left of the cut line");
}

#[tokio::test]
async fn a_damaged_line_is_told_and_stops_nothing_but_ends() {
    let folder = Folder::new("damaged");
    let people = People::new(folder.open(), 1).await;
    let orders = people.create_deployment(2).await;
    let (lost, _) = people.bid(&orders[0], people.provider()).await;
    let (kept, _) = people.bid(&orders[1], people.provider()).await;
    let height = people.chain.sync_info().await.unwrap().height;
    drop(people);
    // Line n has block n. The bid that is lost is in the last but one.
    let text = folder.text();
    let mut lines: Vec<&str> = text.lines().collect();
    let at = lines.len() - 2;
    lines[at] = "{\"block\": rubbish";
    folder.write(&(lines.join("\n") + "\n"));

    let chain = folder.open();
    let told = chain.damages()[0].to_string();
    let place = format!("{}:{}: ", folder.ledger().display(), at + 1);
    assert!(
        told.starts_with(&place) && told.contains("put it back from a copy"),
        "{told}"
    );
    assert_eq!(chain.damages().len(), 1);
    assert_eq!(
        chain.sync_info().await.unwrap().height,
        height,
        "heights stay what they were"
    );
    assert_eq!(
        chain.block_time(height - 1).await.unwrap(),
        None,
        "nobody knows it"
    );
    assert!(chain.block_time(height).await.unwrap().is_some());
    assert_eq!(chain.bid(&lost).await.unwrap().value, None);
    let kept = chain.bid(&kept).await.unwrap();
    assert_eq!(kept.value.map(|bid| bid.state), Some(BidState::Open));
    assert_eq!(kept.agreement, Agreement::Disputed, "its word ends nothing");
    chain.block(BLOCK).await.unwrap();
    drop(chain);

    // The line is put back.
    let end = folder.text().lines().last().unwrap().to_owned();
    folder.write(&(text + &end + "\n"));
    let chain = folder.open();
    assert_eq!(chain.damages(), []);
    let mended = chain.bid(&lost).await.unwrap();
    assert_eq!(mended.value.map(|bid| bid.state), Some(BidState::Open));
    assert_eq!(mended.agreement, Agreement::Single);
}

#[tokio::test]
async fn a_lost_last_block_is_a_block_all_the_same() {
    let folder = Folder::new("last");
    let people = People::new(folder.open(), 1).await;
    let height = people.chain.sync_info().await.unwrap().height;
    drop(people);
    let text = folder.text();
    let at = text.trim_end().rfind('\n').unwrap() + 1;
    folder.write(&format!("{}rubbish\n", &text[..at]));
    let chain = folder.open();
    assert_eq!(
        chain.block(BLOCK).await.unwrap(),
        height + 1,
        "somebody was told of that height"
    );
    drop(chain);
    // Opened again it is the same; and so it is when the line is gone.
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
async fn a_whole_line_without_its_end_is_a_line() {
    let folder = Folder::new("endless");
    let people = People::new(folder.open(), 1).await;
    let height = people.chain.sync_info().await.unwrap().height;
    drop(people);
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
async fn what_was_refused_is_refused_again() {
    let folder = Folder::new("refused");
    let people = People::new(folder.open(), 1).await;
    let order = people.create_deployment(1).await.remove(0);
    people.bid(&order, people.provider()).await;
    let (_, again) = people.bid(&order, people.provider()).await;
    assert!(matches!(
        again,
        TxOutcome::Rejected {
            error: TxError::BidExists,
            ..
        }
    ));
    let before = people.chain.snapshot(&people.provider()).await.unwrap();
    let provider = people.provider();
    drop(people);
    assert_eq!(folder.open().snapshot(&provider).await.unwrap(), before);
}

#[test]
fn a_ledger_of_another_is_left_alone() {
    let folder = Folder::new("others");
    let chain = folder.open();
    let open = |genesis: &Genesis| OwnChain::open(&folder.ledger(), genesis).unwrap_err();
    let held = open(&genesis());
    assert_eq!(held.kind(), ErrorKind::Conflict);
    assert!(held.message().contains("another program"), "{held}");
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
    assert!(error.message().contains("put line 1 back"), "{error}");
    assert_eq!(folder.text(), "rubbish\n");
    folder.write(&text);
    assert_eq!(folder.open().damages(), []);
}

#[tokio::test]
async fn what_others_bid_is_not_told() {
    let folder = Folder::new("foreign");
    let people = People::new(folder.open(), 1).await;
    let order = people.create_deployment(1).await.remove(0);
    let mut events = people.chain.subscribe(&people.provider());
    people.rival_bid(&order).await;
    events.next().await.unwrap().unwrap();
    let event = events.next().await.unwrap().unwrap();
    assert!(matches!(event, ChainEvent::Block { .. }), "{event:?}");
}

#[tokio::test]
async fn who_reads_too_slowly_is_told_the_whole_present() {
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
