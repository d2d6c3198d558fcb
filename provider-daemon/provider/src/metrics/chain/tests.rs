use super::super::Metrics;
use super::*;
use akash_provider_chain::ReaderStatus;
use akash_provider_chain::tx::MessageOutcome;

#[test]
fn scrape_has_each_count_of_a_chain_client() {
    let follower = FollowerStatus {
        blocks: 1_111,
        polled: 100,
        missed: 10,
        replayed: 1,
        skipped: 2,
        resyncs: 3,
        connections: 4,
        malformed: 5,
        ..FollowerStatus::default()
    };
    let reader = ReaderStatus {
        endpoints: Vec::new(),
        switches: 6,
        last_switch: None,
        follower,
        unreached: None,
        clock_behind: None,
    };
    let transactions = TxStatistics {
        messages: [(("MsgCreateBid", MessageOutcome::NotSent), 7)].into(),
        refusals: [("market/21".to_owned(), 8)].into(),
        submissions: 9,
        refused_submissions: [("sdk/13".to_owned(), 10)].into(),
        mempool_full: 11,
        included: 12,
        fees: BTreeMap::new(),
        gas_used: 13,
        outcome_times: Default::default(),
    };
    let endpoint = EndpointStatistics {
        address: "http://node".into(),
        responses: Default::default(),
        errors: [("timeout", 14)].into(),
    };
    let statistics = ClientStatistics {
        endpoints: vec![endpoint],
        transactions: Some(transactions),
    };
    let status = ClientStatus { reader, writer: None };
    let lines = r#"
        akash_provider_chain_blocks_total{source="polled"} 100.0
        akash_provider_chain_blocks_total{source="missed"} 10.0
        akash_provider_chain_blocks_total{source="replayed"} 1.0
        akash_provider_chain_skipped_blocks_total 2.0
        akash_provider_chain_resyncs_total 3.0
        akash_provider_chain_malformed_events_total 5.0
        akash_provider_chain_switches_total 6.0
        akash_provider_tx_messages_total{message="MsgCreateBid",outcome="not_sent"} 7.0
        akash_provider_tx_refusals_total{code="market/21"} 8.0
        akash_provider_tx_refused_submissions_total{code="sdk/13"} 10.0
        akash_provider_tx_mempool_full_total 11.0
        akash_provider_chain_errors_total{endpoint="http://node",error="timeout"} 14.0"#;
    Metrics::of(measures(&status, &statistics)).check(lines);
}
