//! Conformance suite of price strategies on the fixed price.

use akash_provider_core::pricing::conformance;
use akash_provider_core::types::Dec;
use example_fixed_price::FixedPrice;
use std::sync::Arc;

#[tokio::test]
async fn conformance_of_the_fixed_price() {
    let strategy = FixedPrice::new(Dec::from_int(3)).unwrap();
    conformance::suite_deterministic(Arc::new(strategy)).await;
}

#[test]
fn price_of_zero_is_refused() {
    assert!(FixedPrice::new(Dec::ZERO).is_none());
    assert!(FixedPrice::new(Dec::from_int(-1)).is_none());
}
