use super::*;
use akash_provider_core::chain::{MemoryChain, Outage};
use akash_provider_core::market::MarketConfig;
use akash_provider_core::types::BlockTime;

#[test]
fn a_bearer_is_two_words() {
    assert_eq!(bearer(b"Bearer a"), Some("a"));
    assert_eq!(bearer(b"  bEARER\t a  "), Some("a"));
    for wrong in [
        &b""[..],
        b"Bearer",
        b"Bearer a b",
        b"Basic a",
        b"Bearera",
        b"\xff a",
    ] {
        assert_eq!(bearer(wrong), None, "{wrong:?}");
    }
}

#[tokio::test]
async fn an_account_without_a_key_is_nobody_and_does_not_stay_so() {
    let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
    let memory = Arc::new(memory::Volatile::default());
    let lookups = Arc::new(Lookups::new(60));
    let issuers = Issuers::new(Arc::new(chain.clone()), memory.clone(), lookups);
    let key = akash_provider_chain::private_key::PrivateKey::from_bytes(&[3; 32]).unwrap();
    let coin = akash_provider_core::types::Coin {
        denom: "uact".into(),
        amount: 1,
    };
    chain.market(|m| m.fund(key.address(), &coin));
    let peer = IpAddr::from([127, 0, 0, 1]);
    assert_eq!(issuers.key(key.address(), peer).await, Ok(None));
    // Another account's key is not taken for this one's, whatever a node says.
    let stranger = akash_provider_chain::private_key::PrivateKey::from_bytes(&[4; 32]).unwrap();
    chain.market(|m| m.set_pubkey(stranger.address(), key.public().as_bytes().to_vec()));
    assert_eq!(issuers.key(stranger.address(), peer).await, Ok(None));
    assert_eq!(memory.key(stranger.address()), None);
}

/// A connection's certificate is looked up, and again with each request: who waits in vain waits once.
#[tokio::test]
async fn a_question_in_vain_is_not_put_again_at_once() {
    let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
    let memory = Arc::new(memory::Volatile::default());
    let certificates = Certificates::new(
        Arc::new(chain.clone()),
        memory,
        Arc::new(Lookups::new(60)),
        Duration::from_secs(30),
    );
    let key = akash_provider_chain::private_key::PrivateKey::from_bytes(&[3; 32]).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let own = akash_provider_chain::cert::OwnCertificate::make(
        key.address(),
        &akash_provider_chain::cert::Usage::Client,
        now,
    );
    let shown = ClientCertificate::read(own.unwrap().der()).unwrap();
    let peer = IpAddr::from([127, 0, 0, 1]);
    chain.fail_queries(Outage::UntilRestored);
    assert_eq!(
        certificates.is_valid(&shown, peer).await,
        Err(LookupFault::Outage)
    );
    chain.restore_queries();
    assert_eq!(
        certificates.is_valid(&shown, peer).await,
        Err(LookupFault::Outage)
    );
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(certificates.is_valid(&shown, peer).await, Ok(false));
}

/// A chain that is silent is waited for where somebody is not known, and otherwise not for long.
#[tokio::test(start_paused = true)]
async fn who_was_known_does_not_wait_for_a_silent_chain_and_a_revocation_counts_when_it_speaks() {
    use tokio::time::{Instant, sleep};
    let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
    let (memory, lookups) = (Arc::new(memory::Volatile::default()), Arc::new(Lookups::new(60)));
    let started = || {
        let lookups = Arc::clone(&lookups);
        Certificates::new(
            Arc::new(chain.clone()),
            memory.clone(),
            lookups,
            Duration::from_secs(30),
        )
    };
    let key = akash_provider_chain::private_key::PrivateKey::from_bytes(&[3; 32]).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let made = |usage| akash_provider_chain::cert::OwnCertificate::make(key.address(), &usage, now).unwrap();
    let own = made(akash_provider_chain::cert::Usage::Client);
    chain.market(|market| market.execute(&own.publish()).unwrap());
    let shown = ClientCertificate::read(own.der()).unwrap();
    let peer = IpAddr::from([127, 0, 0, 1]);
    assert_eq!(started().is_valid(&shown, peer).await, Ok(true));
    // Every turn to ask is taken by a question without an answer.
    let hang = || {
        let lookups = Arc::clone(&lookups);
        tokio::spawn(async move {
            lookups
                .ask(peer, std::future::pending::<Result<Option<()>, _>>())
                .await
        })
    };
    let hung: Vec<_> = (0..100).map(|_| hang()).collect();
    sleep(Duration::from_millis(10)).await;
    chain.market(|market| market.execute(&own.revoke()).unwrap());
    let certificates = started();
    let begun = Instant::now();
    assert_eq!(certificates.is_valid(&shown, peer).await, Ok(true));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    hung.iter().for_each(tokio::task::JoinHandle::abort);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(certificates.is_valid(&shown, peer).await, Ok(false));
}
