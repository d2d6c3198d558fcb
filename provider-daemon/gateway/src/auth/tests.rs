use super::*;
use akash_provider_core::chain::{MemoryChain, QueryOutage};
use akash_provider_core::market::MarketConfig;
use akash_provider_core::types::BlockTime;
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn bearer_header_has_scheme_and_token() {
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
async fn account_without_key_is_refused_until_it_has_one() {
    let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
    let memory = Arc::new(memory::InMemory::default());
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
    // Another account's key is refused, whatever the node returns.
    let stranger = akash_provider_chain::private_key::PrivateKey::from_bytes(&[4; 32]).unwrap();
    chain.market(|m| m.set_pubkey(stranger.address(), key.public().as_bytes().to_vec()));
    assert_eq!(issuers.key(stranger.address(), peer).await, Ok(None));
    assert_eq!(memory.key(stranger.address()), None);
}

/// Checks that a failed certificate query is cached for a second.
#[tokio::test]
async fn failed_certificate_query_is_not_repeated_at_once() {
    let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
    let memory = Arc::new(memory::InMemory::default());
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
        &akash_provider_chain::cert::CertUsage::Client,
        now,
    );
    let certificate = ClientCertificate::read(own.unwrap().der()).unwrap();
    let peer = IpAddr::from([127, 0, 0, 1]);
    chain.fail_queries(QueryOutage::UntilRestored);
    assert_eq!(
        certificates.is_valid(&certificate, peer).await,
        Err(LookupFault::Outage)
    );
    chain.restore_queries();
    assert_eq!(
        certificates.is_valid(&certificate, peer).await,
        Err(LookupFault::Outage)
    );
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(certificates.is_valid(&certificate, peer).await, Ok(false));
}

#[tokio::test(start_paused = true)]
async fn known_certificate_does_not_wait_for_a_silent_chain_and_a_late_revocation_counts() {
    use tokio::time::{Instant, sleep};
    let chain = MemoryChain::new(MarketConfig::new("local", BlockTime(0)));
    let (memory, lookups) = (Arc::new(memory::InMemory::default()), Arc::new(Lookups::new(60)));
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
    let own = made(akash_provider_chain::cert::CertUsage::Client);
    chain.market(|market| market.execute(&own.publish()).unwrap());
    let certificate = ClientCertificate::read(own.der()).unwrap();
    let peer = IpAddr::from([127, 0, 0, 1]);
    assert_eq!(started().is_valid(&certificate, peer).await, Ok(true));
    // Every permit is taken by a query without a response.
    let hang = || {
        let lookups = Arc::clone(&lookups);
        tokio::spawn(async move {
            lookups
                .query(peer, std::future::pending::<Result<Option<()>, _>>())
                .await
        })
    };
    let hung: Vec<_> = (0..100).map(|_| hang()).collect();
    sleep(Duration::from_millis(10)).await;
    chain.market(|market| market.execute(&own.revoke()).unwrap());
    let certificates = started();
    let begun = Instant::now();
    assert_eq!(certificates.is_valid(&certificate, peer).await, Ok(true));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    hung.iter().for_each(tokio::task::JoinHandle::abort);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(certificates.is_valid(&certificate, peer).await, Ok(false));
}
