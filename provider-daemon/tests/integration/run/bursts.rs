//! Bursts of orders while the price policy changes: all orders of one block get the same price.
//!
//! `BURSTS` is the number of bursts: 2 in the test command, 20 in `cargo xtask campaign bursts`.

use crate::stage::{Running, Stage, until};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::{Address, Coin, DecCoin, DeploymentId};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Number of orders in a block, each of a different tenant.
const ORDERS: u8 = 50;
/// Time between two blocks.
const BLOCK: Duration = Duration::from_millis(200);
/// Delays between a block with orders and the change of the policy, in milliseconds. The bursts use the
/// delays in turn.
const CHANGES_AFTER_MS: [u64; 5] = [0, 60, 20, 120, 250];

fn bursts() -> u64 {
    std::env::var("BURSTS").map_or(2, |text| text.parse().unwrap())
}

/// Replaces the policy file by a rename, as editors do.
fn write_policy(file: &Path, cpu: u64) {
    let text = format!(
        "version: 1\nper: block\ndenominations: {{uact: 1}}\nprices:\n  cpu: {cpu}\n  memory: 0\n  endpoint: 0\n  \
         storage: {{ephemeral: 0}}\n"
    );
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, file).unwrap();
}

fn tenants(stage: &Stage) -> Vec<Address> {
    let tenant = |seed: u8| PrivateKey::from_bytes(&[seed; 32]).unwrap().address().clone();
    let tenants: Vec<Address> = (1..=ORDERS).map(tenant).collect();
    let coin = Coin::new("uact", 1_000_000_000_000);
    stage
        .chain
        .market(|market| tenants.iter().for_each(|tenant| market.fund(tenant, &coin)));
    tenants
}

fn blocks_until(what: &str, stage: &Stage, provider: &Running, mut done: impl FnMut() -> bool) {
    until(
        what,
        || provider.dump(),
        || {
            if done() {
                return true;
            }
            stage.make_block();
            std::thread::sleep(BLOCK);
            false
        },
    );
}

/// Adds a block with the orders, waits for the duration `after`, calls `change`, and returns the bid prices.
fn burst(
    stage: &Stage,
    provider: &Running,
    orders: &[DeploymentId],
    after: Duration,
    change: impl FnOnce(),
) -> Vec<DecCoin> {
    stage.make_block();
    std::thread::sleep(after);
    change();
    blocks_until("every order has a bid", stage, provider, || {
        orders.iter().all(|id| !stage.bids(id).is_empty())
    });
    orders.iter().map(|id| stage.bids(id).remove(0).price).collect()
}

#[test]
fn orders_of_one_block_have_one_price_during_policy_change() {
    let mut stage = Stage::new("bursts", true);
    let file = stage.path("prices.yaml");
    write_policy(&file, 1);
    stage.start_node(None);
    let tenants = tenants(&stage);
    let policy = format!("--bid-price-policy={}", file.display());
    let words = ["run", "--bid-price-strategy=policy", &policy, "--nodes=20"];
    let provider = stage.running("provider", &words);
    let is_ready = || provider.output().contains("ready: bidding");
    blocks_until("the provider is ready", &stage, &provider, is_ready);
    let (mut seen, mut changes_at_once) = (BTreeSet::new(), 0);
    for burst_of in 1..=bursts() {
        let orders: Vec<DeploymentId> = tenants
            .iter()
            .map(|tenant| stage.order_of(tenant, burst_of))
            .collect();
        let after = CHANGES_AFTER_MS[usize::try_from(burst_of).unwrap() % CHANGES_AFTER_MS.len()];
        let change = || write_policy(&file, burst_of + 1);
        let prices = burst(&stage, &provider, &orders, Duration::from_millis(after), change);
        let distinct: BTreeSet<String> = prices.iter().map(DecCoin::to_string).collect();
        println!(
            "burst {burst_of}: {} bids, change after {after} ms, prices {distinct:?}",
            prices.len()
        );
        assert_eq!(
            distinct.len(),
            1,
            "burst {burst_of}: {distinct:?}\n{}",
            provider.dump()
        );
        changes_at_once += usize::from(seen.is_disjoint(&distinct));
        seen.extend(distinct);
        for id in orders {
            stage.close(id);
        }
        // The new policy is in force before the next burst.
        std::thread::sleep(Duration::from_millis(700));
    }
    println!(
        "{} bursts of {ORDERS} orders, one price each; {} prices",
        bursts(),
        seen.len()
    );
    assert!(
        changes_at_once > 1,
        "too few price changes were observed: {seen:?}"
    );
}
