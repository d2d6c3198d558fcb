use super::*;
use crate::chain::{ChainQuery, OrderFilter, PageRequest};
use crate::types::{BidId, DecCoin};
use crate::types::{Coin, DeploymentId, GroupSpec, ProviderRecord, ResourceUnit, Resources};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

const BLOCK: Duration = Duration::from_secs(6);

fn account(number: u8) -> Address {
    Address::from_bytes(&[number; 20]).unwrap()
}

fn uact(amount: u128) -> Coin {
    Coin::new("uact", amount)
}

fn price() -> DecCoin {
    DecCoin::new(&"uact".into(), crate::types::Dec::from_int(1))
}

fn chain() -> MemoryChain {
    let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
    chain.market(|m| {
        m.fund(&account(1), &uact(100_000_000));
        m.fund(&account(2), &uact(100_000_000));
        let record = ProviderRecord {
            owner: account(2),
            host_uri: "https://provider.example".to_owned(),
            info: Default::default(),
            attributes: Vec::new(),
        };
        m.execute(&Msg::CreateProvider(record)).unwrap();
    });
    chain
}

fn create(chain: &MemoryChain, dseq: u64) -> BidId {
    let deployment = DeploymentId::new(account(1), dseq);
    let unit = ResourceUnit::new(Resources::default(), 1, price());
    let group = GroupSpec::new("web", vec![unit]);
    let create = TenantMsg::CreateDeployment {
        id: deployment.clone(),
        groups: vec![group],
        hash: [0; 32],
        deposit: uact(500_000),
        reclamation_min_window: None,
    };
    chain.tenant(create).unwrap();
    deployment.group(1).order(1).bid(account(2))
}

fn bid(id: &BidId) -> Vec<Msg> {
    vec![Msg::CreateBid {
        id: id.clone(),
        price: price(),
        deposit: uact(500_000),
        resources_offer: Vec::new(),
        reclamation_window: None,
    }]
}

#[tokio::test]
async fn an_outcome_is_known_only_after_its_block() {
    let chain = chain();
    let id = create(&chain, 1);
    let mut outcome = chain.broadcast_msgs(bid(&id));
    assert_eq!((&mut outcome).now_or_never().map(|o| o.is_ok()), None);
    assert_eq!(chain.bid(&id).await.unwrap().value, None);
    let height = chain.advance(BLOCK);
    assert_eq!(outcome.await.unwrap(), TxOutcome::Committed { height });
}

/// A snapshot during an incomplete block has the height of the previous block.
#[tokio::test]
async fn snapshot_within_a_block_has_the_height_of_the_complete_block() {
    let chain = chain();
    let height = chain.market(|m| m.height());
    let read = async || chain.snapshot(&account(2)).await.unwrap();
    assert_eq!(read().await.height, height);
    create(&chain, 1);
    let within = read().await;
    create(&chain, 2);
    assert_eq!((within.height, within.orders.len()), (height, 1));
    chain.advance(BLOCK);
    let complete = read().await;
    assert_eq!((complete.height, complete.orders.len()), (height + 1, 2));
}

#[tokio::test]
async fn snapshot_within_a_block_can_wait_for_the_end_of_the_block() {
    let chain = chain();
    chain.wait_for_block_end();
    let provider = account(2);
    create(&chain, 1);
    let mut waiting = std::pin::pin!(chain.snapshot(&provider));
    assert!(waiting.as_mut().now_or_never().is_none());
    create(&chain, 2);
    let height = chain.advance(BLOCK);
    let complete = waiting.await.unwrap();
    assert_eq!((complete.height, complete.orders.len()), (height, 2));
}

#[tokio::test]
async fn unknown_transactions_are_included_late_or_never_and_not_after_their_expiry() {
    let chain = chain();
    let ids = [1, 2, 3].map(|dseq| create(&chain, dseq));
    for (id, included_after) in ids.iter().zip([Some(1), None, Some(11)]) {
        chain.set_next_broadcast(BroadcastResult::Unknown { included_after });
        let outcome = chain.broadcast_msgs(bid(id)).await.unwrap();
        let expires = BlockTime(60_000);
        assert_eq!(outcome, TxOutcome::Unknown { expires });
    }
    chain.advance(BLOCK);
    assert_eq!(chain.bid(&ids[0]).await.unwrap().value, None);
    chain.advance(BLOCK);
    assert!(chain.bid(&ids[0]).await.unwrap().value.is_some());
    for _ in 0..20 {
        chain.advance(BLOCK);
    }
    assert_eq!(chain.bid(&ids[1]).await.unwrap().value, None);
    assert_eq!(chain.bid(&ids[2]).await.unwrap().value, None);
    assert_eq!(chain.waiting(), 0);
}

#[tokio::test]
async fn unsent_transactions_are_errors_and_are_never_included() {
    let chain = chain();
    let id = create(&chain, 1);
    chain.set_next_broadcast(BroadcastResult::NotSent);
    let error = chain.broadcast_msgs(bid(&id)).await.unwrap_err();
    assert!(error.is_transient());
    chain.advance(BLOCK);
    assert_eq!(chain.bid(&id).await.unwrap().value, None);
    let empty = chain.broadcast_msgs(Vec::new()).await.unwrap_err();
    assert_eq!(empty.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn queries_fail_the_injected_number_of_times() {
    let chain = chain();
    chain.fail_queries(QueryOutage::Next(2));
    for fails in [true, true, false] {
        assert_eq!(chain.params().await.is_err(), fails);
    }
    chain.fail_queries(QueryOutage::UntilRestored);
    for _ in 0..5 {
        assert_eq!(chain.params().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    chain.restore_queries();
    chain.params().await.unwrap();
}

#[tokio::test]
async fn a_frozen_node_returns_its_old_height() {
    let chain = chain();
    let id = create(&chain, 1);
    chain.freeze_reads();
    let sent = chain.broadcast_msgs(bid(&id));
    let (_, height) = futures::join!(sent, async { chain.advance(BLOCK) });
    chain.set_agreement(Agreement::Disputed);
    let stale = chain.bid(&id).await.unwrap();
    assert_eq!((stale.value, stale.agreement), (None, Agreement::Disputed));
    assert!(stale.height < height);
    chain.thaw_reads();
    assert_eq!(chain.bid(&id).await.unwrap().height, height);
}

#[tokio::test]
async fn w19_lost_events_are_followed_by_a_resync_that_has_them() {
    let chain = chain();
    let mut events = chain.subscribe(&account(2));
    assert!(matches!(events.next().await, Some(Ok(ChainEvent::Resync(_)))));
    chain.interrupt_events();
    let id = create(&chain, 1);
    chain.advance(BLOCK);
    assert!(events.next().await.unwrap().is_err());
    assert!(events.next().now_or_never().is_none());
    chain.restore_events();
    let Some(Ok(ChainEvent::Resync(snapshot))) = events.next().await else {
        panic!("a gap ends with a Resync")
    };
    assert_eq!(snapshot.orders[0].id, id.order);
    chain.advance(BLOCK);
    assert!(matches!(
        events.next().await,
        Some(Ok(ChainEvent::Block { height: 3, .. }))
    ));
}

#[tokio::test]
async fn a_slow_subscriber_gets_a_resync_instead_of_a_gap() {
    let chain = chain();
    chain.set_queue_limit(4);
    let mut events = chain.subscribe(&account(2));
    for dseq in 1..10 {
        create(&chain, dseq);
        chain.advance(BLOCK);
    }
    let Some(Ok(ChainEvent::Resync(snapshot))) = events.next().await else {
        panic!("a Resync comes first")
    };
    let mut height = snapshot.height;
    let mut orders = snapshot.orders.len();
    assert!(height > 1);
    while let Some(Some(event)) = events.next().now_or_never() {
        match event.unwrap() {
            ChainEvent::OrderCreated { .. } => orders += 1,
            ChainEvent::Block { height: next, .. } => {
                assert_eq!(next, height + 1);
                height = next;
            }
            ChainEvent::DeploymentCreated { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((height, orders), (10, 9));
}

#[tokio::test]
async fn a_subscriber_within_a_block_receives_no_event_twice() {
    let chain = chain();
    create(&chain, 1);
    let mut events = chain.subscribe(&account(2));
    create(&chain, 2);
    chain.advance(BLOCK);
    let Some(Ok(ChainEvent::Resync(snapshot))) = events.next().await else {
        panic!("a Resync comes first")
    };
    assert_eq!(snapshot.orders.len(), 1);
    let mut created = 0;
    while let Some(Some(Ok(event))) = events.next().now_or_never() {
        created += u32::from(matches!(event, ChainEvent::OrderCreated { .. }));
    }
    assert_eq!(created, 1);
}

#[tokio::test]
async fn a_wrong_page_key_is_refused() {
    let chain = chain();
    let page = PageRequest {
        key: Some(vec![0xff]),
        limit: 1,
    };
    let error = chain.orders(&OrderFilter::default(), page).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// Returns a buffer that contains the encoded market. Each change of the market replaces the content.
fn stored_market(chain: &MemoryChain) -> Arc<Mutex<Vec<u8>>> {
    let newest: Arc<Mutex<Vec<u8>>> = Arc::default();
    let target = Arc::clone(&newest);
    chain.on_change(move |market| *lock(&target) = rmp_serde::to_vec_named(market).unwrap());
    newest
}

#[tokio::test]
async fn a_chain_continues_from_the_stored_market() {
    let chain = chain();
    let newest = stored_market(&chain);
    let id = create(&chain, 1);
    assert!(!lock(&newest).is_empty(), "a tenant's message is stored at once");
    let placing = chain.broadcast_msgs(bid(&id));
    let (outcome, _) = futures::join!(placing, async { chain.advance(BLOCK) });
    assert_eq!(outcome.unwrap(), TxOutcome::Committed { height: 2 });
    chain.tenant(TenantMsg::CreateLease { bid: id.clone() }).unwrap();
    chain.advance(BLOCK);

    let bytes = lock(&newest).clone();
    let market: Market = rmp_serde::from_slice(&bytes).unwrap();
    assert_eq!(rmp_serde::to_vec_named(&market).unwrap(), bytes);
    let again = MemoryChain::with_market(market);
    assert_eq!(again.sync_info().await.unwrap().height, 3);
    assert_eq!(again.lease(&id).await.unwrap(), chain.lease(&id).await.unwrap());
    assert!(again.lease(&id).await.unwrap().value.is_some());
    let closed = again.tenant(TenantMsg::CloseDeployment {
        id: id.deployment().clone(),
    });
    assert!(closed.is_ok(), "the market is consistent: {closed:?}");
}

#[tokio::test]
async fn an_outcome_is_returned_only_after_it_is_stored() {
    let chain = chain();
    let id = create(&chain, 1);
    let placing = {
        let (chain, msgs) = (chain.clone(), bid(&id));
        async move { chain.broadcast_msgs(msgs).await }.boxed()
    };
    let placing = Arc::new(Mutex::new(placing));
    let look = |placing: &Mutex<BoxFuture<'static, _>>| (&mut *lock(placing)).now_or_never();
    assert!(look(&placing).is_none(), "the bid is pending");
    let (seen, asked) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&placing));
    let notes = Arc::clone(&seen);
    chain.on_change(move |market| {
        let in_block = market.bids().any(|b| b.id == id);
        lock(&notes).push((in_block, look(&asked).is_some()));
    });
    let height = chain.advance(BLOCK);
    assert_eq!(
        *lock(&seen),
        [(true, false)],
        "stored with the bid, without an event"
    );
    assert_eq!(look(&placing).unwrap().unwrap(), TxOutcome::Committed { height });
}
