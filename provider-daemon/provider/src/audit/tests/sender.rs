//! Acts of the messages of a sender of transactions.

use super::*;

#[derive(Debug, Clone, Default)]
struct MemoryLog(Arc<Mutex<Vec<AuditEntry>>>);

#[async_trait::async_trait]
impl AuditLog for MemoryLog {
    async fn record(&self, entry: AuditEntry) -> Result<(), akash_provider_core::Error> {
        self.submit(entry);
        Ok(())
    }
    fn submit(&self, entry: AuditEntry) {
        self.0.lock().unwrap().push(entry);
    }
}

/// Returns test messages. Each item contains a message, the name and the subject of its act, and the result
/// of the message on a market without orders.
fn messages() -> Vec<(Msg, &'static str, String, &'static str)> {
    let owner: Address = ACCOUNT.parse().unwrap();
    let id: BidId = format!("{ACCOUNT}/1/1/1/{ACCOUNT}").parse().unwrap();
    let record = ProviderRecord {
        owner: owner.clone(),
        host_uri: "https://provider.example:8443".into(),
        attributes: Vec::new(),
        info: Default::default(),
    };
    let (reason, serial) = (CloseReason::Decommission, "12".to_owned());
    let bid = Msg::CreateBid {
        id: id.clone(),
        price: DecCoin::new(&"uact".into(), "1".parse().unwrap()),
        deposit: "5uact".parse().unwrap(),
        resources_offer: Vec::new(),
        reclamation_window: None,
    };
    let certificate = Msg::CreateCertificate {
        owner: owner.clone(),
        cert: Vec::new(),
        pubkey: Vec::new(),
    };
    let (close, reclaim) = (id.clone(), id.clone());
    let (account, lease) = (|| ACCOUNT.to_owned(), || id.to_string());
    vec![
        (
            Msg::CreateProvider(record.clone()),
            "provider_create",
            account(),
            "committed",
        ),
        (
            Msg::UpdateProvider(record),
            "provider_update",
            account(),
            "committed",
        ),
        (certificate, "certificate_publish", account(), "rejected"),
        (
            Msg::RevokeCertificate { owner, serial },
            "certificate_revoke",
            account() + "/12",
            "rejected",
        ),
        (bid, "bid", lease(), "rejected"),
        (
            Msg::CloseBid { id: close, reason },
            "bid_close",
            lease(),
            "rejected",
        ),
        (
            Msg::StartReclaim { id: reclaim, reason },
            "lease_reclaim",
            lease(),
            "rejected",
        ),
        (
            Msg::WithdrawLease { id: id.clone() },
            "withdrawal",
            lease(),
            "rejected",
        ),
    ]
}

#[tokio::test]
async fn each_message_of_a_sender_has_an_intent_and_an_outcome() {
    let chain = MemoryChain::new(MarketConfig::new("test", BlockTime(0)));
    let block_time = Duration::from_secs(6);
    chain.set_inclusion(Inclusion::Immediate { block_time });
    for (message, name, subject, result) in messages() {
        let log = MemoryLog::default();
        let sender = AuditedSender::new(chain.clone(), log.clone(), "test");
        sender.broadcast_msgs(vec![message]).await.unwrap();
        let entries = log.0.lock().unwrap();
        assert_eq!(entries.len(), 2, "{name}");
        for entry in entries.iter() {
            assert_eq!((entry.act.kind.name(), &entry.act.subject), (name, &subject));
            assert_eq!(entry.act.reason.as_deref(), Some("test"));
        }
        let outcome = entries[1].outcome.as_ref().unwrap();
        assert!(entries[0].outcome.is_none());
        assert_eq!(outcome.result, result, "{name}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_revocation_is_not_sent_while_the_log_fails() {
    let (_home, settings) = home();
    fs::write(&settings.dir, "").unwrap();
    let audit = start(settings.clone()).unwrap();
    let chain = MemoryChain::new(MarketConfig::new("test", BlockTime(0)));
    let sender = AuditedSender::new(chain.clone(), audit.clone(), "certificate_rotation");
    let message = Msg::RevokeCertificate {
        owner: ACCOUNT.parse().unwrap(),
        serial: "12".to_owned(),
    };
    let error = sender.broadcast_msgs(vec![message]).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(
        error.message().starts_with("cannot write the audit log: "),
        "{error}"
    );
    assert_eq!(chain.waiting(), 0);
    let health = audit.health();
    assert_eq!((health.lines, health.delayed), (0, 1));
    assert!(health.problem.is_some());
    audit.finish().await;
}
