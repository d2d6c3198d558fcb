//! Measures how many transactions are signed per second, and prints one JSON object `{"name", "value", "unit"}`.

use akash_provider_chain::convert::to_any;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::signer::{Ordering, SigningAccount, TxFee, sign};
use akash_provider_core::types::{Coin, Dec, DecCoin, DeploymentId, Msg, ResourceUnit, Resources};
use std::hint::black_box;
use std::time::{Duration, Instant};

const MEASURE_FOR: Duration = if cfg!(debug_assertions) {
    Duration::from_millis(50)
} else {
    Duration::from_secs(2)
};

type Failed = Box<dyn std::error::Error>;

/// Signs bids in a loop. Each repetition builds the message, the encoded transaction and its hash.
fn main() -> Result<(), Failed> {
    let key = PrivateKey::from_bytes(&[7; 32])?;
    let bid = bid(&key);
    let account = SigningAccount {
        key: &key,
        number: 1,
        chain_id: "akashnet-2",
    };
    let fee = Coin::new("uakt", 4_000);
    let price = TxFee {
        fee,
        gas_limit: 160_000,
        granter: None,
    };
    let (began, on_core, mut signed) = (Instant::now(), time_on_core(), 0_u32);
    while began.elapsed() < MEASURE_FOR {
        let timeout_nanos = 1_700_000_000_000_000_000 + i64::from(signed);
        let ordering = Ordering::Unordered { timeout_nanos };
        black_box(sign(&account, vec![to_any(black_box(&bid))], ordering, &price));
        signed += 1;
    }
    // CPU time of the thread, where available, excludes the load of other processes.
    let took = match (on_core, time_on_core()) {
        (Some(before), Some(after)) => after.saturating_sub(before),
        _ => began.elapsed(),
    };
    let per_second = f64::from(signed) / took.as_secs_f64();
    println!(r#"{{"name":"sign_per_s","value":{per_second:.0},"unit":"1/s"}}"#);
    Ok(())
}

/// Returns the CPU time that this thread has used, or `None` if the system does not report the time.
fn time_on_core() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn bid(key: &PrivateKey) -> Msg {
    let deployment = DeploymentId::new(key.address().clone(), 1);
    let denom = "uact".into();
    let price = DecCoin::new(&denom, Dec::from_int(40));
    Msg::CreateBid {
        id: deployment.group(1).order(1).bid(key.address().clone()),
        price: price.clone(),
        deposit: Coin::new(denom, 500_000),
        resources_offer: vec![ResourceUnit {
            resources: Resources {
                id: 1,
                ..Resources::default()
            },
            count: 1,
            price,
        }],
        reclamation_window: None,
    }
}
