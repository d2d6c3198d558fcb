use super::*;
use crate::OwnChain;
use akash_provider_core::chain::{ChainEvents, ChainQuery, ChainTx};
use akash_provider_core::market::network_params;
use akash_provider_core::types::{ProviderRecord, TxOutcome};
use futures::StreamExt;
use std::time::Duration;

#[tokio::test]
async fn block_that_cannot_be_written_is_not_published_and_retried() {
    let path = std::env::temp_dir().join(format!("ledger-unwritten-{}.jsonl", std::process::id()));
    let genesis = Genesis {
        chain_id: "own".to_owned(),
        time: BlockTime(0),
        params: network_params(),
        money: Vec::new(),
    };
    let chain = OwnChain::open(&path, &genesis).unwrap();
    let owner = Address::from_bytes(&[2; 20]).unwrap();
    let mut events = chain.subscribe(&owner);
    events.next().await.unwrap().unwrap();
    let record = ProviderRecord {
        owner: owner.clone(),
        host_uri: "https://provider.example:8443".to_owned(),
        info: Default::default(),
        attributes: Vec::new(),
    };
    let mut sent = chain.broadcast_msgs(vec![Msg::CreateProvider(record)]);
    assert!(futures::poll!(&mut sent).is_pending());

    // A read-only handle fails like a full disk.
    let readonly = File::open(&path).unwrap();
    let good = std::mem::replace(&mut crate::lock(&chain.0.ledger).file, readonly);
    let error = chain.block(Duration::from_secs(6)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(futures::poll!(&mut sent).is_pending());
    assert!(futures::poll!(events.next()).is_pending());
    assert_eq!(chain.provider(&owner).await.unwrap(), None);

    // Half of the block is written, and the disk has space again.
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"block\"").unwrap();
    crate::lock(&chain.0.ledger).file = good;
    chain.block(Duration::from_secs(6)).await.unwrap();
    assert_eq!(sent.await.unwrap(), TxOutcome::Committed { height: 2 });
    drop((events, chain));
    let again = OwnChain::open(&path, &genesis).unwrap();
    assert_eq!(again.damages(), []);
    assert!(again.provider(&owner).await.unwrap().is_some());
    std::fs::remove_file(&path).unwrap();
}
