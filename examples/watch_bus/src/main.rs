//! Prints each lease that a provider wins, from the events on its bus: `cargo run -p example-watch_bus --
//! redis://10.0.0.5`.

use akash_provider_core::bus::{Bus, Delivery};
use akash_provider_core::election::LeadershipGate;
use akash_provider_core::types::{Event, Topic};
use akash_provider_redis::{Location, RedisBus};
use futures::StreamExt;
use std::error::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("missing argument: redis://HOST")?;
    let bus = RedisBus::new(url.parse::<Location>()?, LeadershipGate::new(false));
    let mut facts = bus.subscribe(&[Topic::Facts]).await?;
    println!("watching");
    while let Some(delivery) = facts.next().await {
        match delivery {
            Delivery::Event { event, .. } => match &*event {
                Event::LeaseWon { lease, price } => println!("won {lease} for {price}"),
                Event::LeaseClosed { lease, .. } => println!("over {lease}"),
                _ => {}
            },
            Delivery::Lagged(Some(lost)) => println!("missed {lost}"),
            Delivery::Lagged(None) => println!("missed some"),
        }
    }
    Ok(())
}
