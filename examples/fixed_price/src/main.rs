//! Embedded example with a constant price of 12.5 per block.

use akash_provider_core::types::Dec;
use example_embedded::{Failed, Play, ProviderBackends, SDL};
use example_fixed_price::FixedPrice;
use std::sync::Arc;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let pricing = FixedPrice::new("12.5".parse::<Dec>()?).ok_or("the price must be above zero")?;
    let ports = ProviderBackends {
        pricing: Arc::new(pricing),
        ..ProviderBackends::memory()?
    };
    let play = Play::start(ports, SDL).await?;
    let price = play.order().await?;
    assert_eq!(price.to_string(), "12.5uact");
    play.run().await?;
    let earned = play.close().await?;
    // Whole blocks are paid at 12.5 each, and fractions of a uact stay in the account.
    assert!(
        earned.amount >= 12 && matches!(earned.amount * 2 % 25, 0 | 24),
        "{earned}"
    );
    play.stop().await?;
    Ok(())
}
