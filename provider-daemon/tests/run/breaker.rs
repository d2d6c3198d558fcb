//! The circuit breaker of a provider that runs.

use crate::stage::{ADDRESS, Stage, until};
use akash_provider_core::market::TenantMsg;
use std::time::Duration;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// A lease whose manifest does not come is closed after this.
const MANIFEST: &str = "--manifest-timeout=3s";
/// Blocks, of a quarter of a second each, after which that close is long due.
const LONG_DUE: u64 = 40;

#[test]
fn removing_its_file_releases_the_breaker_of_a_provider_that_runs() {
    let mut stage = Stage::new("breaker", true);
    stage.start_node(FAST);
    let file = stage.path(&format!("{ADDRESS}.devnet.breaker-tripped"));
    std::fs::write(&file, "tripped").unwrap();
    let provider = stage.provider("provider", &[MANIFEST]);
    provider.says(&format!(
        "waiting for the circuit breaker to be released: remove {}",
        file.display()
    ));
    let id = stage.order(1);
    let bid = stage.bid(&id, &provider);
    stage
        .chain
        .tenant(TenantMsg::CreateLease { bid: bid.id })
        .unwrap();
    provider.says("lease won");
    let height = || stage.chain.market(|market| market.height());
    let won = height();
    until("blocks", || provider.told(), || height() > won + LONG_DUE);
    assert_eq!(
        stage.live_leases(),
        1,
        "its own close is held back: {}",
        provider.told()
    );
    std::fs::remove_file(&file).unwrap();
    provider.says("the circuit breaker is released");
    until("the close", || provider.told(), || stage.live_leases() == 0);
    provider.says("ready: bidding");
}
