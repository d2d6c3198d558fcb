//! The suite every [`PricingStrategy`] passes. Call it from a test of your own:
//!
//! ```
//! # use akash_provider_core::pricing::{RandomRange, conformance};
//! # use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! conformance::suite(Arc::new(RandomRange::new(1))).await;
//! # }
//! ```
//! The strategy must price plain orders: CPU, memory, ephemeral storage, one HTTP endpoint, in any
//! denomination. Each chapter panics with what was broken.

use super::{PRICE_PRECISION, PriceRequest, PricingStrategy};
use crate::error::{Error, ErrorKind};
use crate::types::price::Dec;
use crate::types::{
    Address, Attribute, Cpu, DecCoin, Endpoint, Gpu, GroupSpec, Memory, PlacementRequirements, ResourceUnit,
    Resources, Storage,
};
use futures::future::join_all;
use std::sync::Arc;

/// Everything the contract asks of every strategy.
///
/// # Panics
/// When the contract is broken, saying how.
pub async fn suite(strategy: Arc<dyn PricingStrategy>) {
    let strategy = strategy.as_ref();
    a_plain_order_has_a_price_in_its_denomination(strategy).await;
    a_group_without_units_is_invalid(strategy).await;
    calls_at_once_keep_their_answers(strategy).await;
    reserved_units_are_priced(strategy).await;
    odd_orders_get_a_price_or_an_error(strategy).await;
    a_call_given_up_harms_no_later_one(strategy).await;
}

/// For a strategy whose price follows from the order alone: [`suite`], and the same order has the same price.
///
/// # Panics
/// When the contract is broken, saying how.
pub async fn suite_deterministic(strategy: Arc<dyn PricingStrategy>) {
    suite(Arc::clone(&strategy)).await;
    let request = plain_order("uact");
    let first = strategy.calculate_price(&request).await;
    for _ in 0..5 {
        let again = strategy.calculate_price(&request).await;
        assert_eq!(
            again.as_ref().ok(),
            first.as_ref().ok(),
            "the same order has the same price"
        );
    }
}

async fn a_plain_order_has_a_price_in_its_denomination(strategy: &dyn PricingStrategy) {
    for denom in [
        "uact",
        "uakt",
        "ibc/170C677610AC31DF0904FFE09CD3B5C657492170E7E52372E48756B71E56F2F1",
    ] {
        let request = plain_order(denom);
        assert_price(&request, &strategy.calculate_price(&request).await);
    }
}

async fn a_group_without_units_is_invalid(strategy: &dyn PricingStrategy) {
    let empty = request(Vec::new());
    let error = strategy
        .calculate_price(&empty)
        .await
        .expect_err("a group without units has no price");
    assert_eq!(
        error.kind(),
        ErrorKind::Invalid,
        "a group without units is invalid: {error}"
    );
    assert!(
        !error.is_transient(),
        "asking again gives an empty group no units"
    );
}

async fn calls_at_once_keep_their_answers(strategy: &dyn PricingStrategy) {
    let requests: Vec<PriceRequest> = (0..24).map(|n| plain_order(&format!("denom{n}"))).collect();
    let prices = join_all(requests.iter().map(|r| strategy.calculate_price(r))).await;
    for (request, price) in requests.iter().zip(&prices) {
        assert_price(request, price);
    }
}

async fn reserved_units_are_priced(strategy: &dyn PricingStrategy) {
    let mut request = plain_order("uact");
    let mut reserved = request.group.resources.clone();
    for unit in &mut reserved {
        unit.resources.cpu.units = (unit.resources.cpu.units / 2).max(1);
    }
    request.allocated = Some(Arc::new(reserved));
    assert_price(&request, &strategy.calculate_price(&request).await);
}

/// Whatever the answer, it is a price or one of the errors a caller knows what to do with.
async fn odd_orders_get_a_price_or_an_error(strategy: &dyn PricingStrategy) {
    let mut malformed_gpu = unit("uact");
    malformed_gpu.resources.gpu = Gpu {
        units: 1,
        attributes: ["", "vendor", "vendor/x/model", "vendor/x/model/y/ram"]
            .map(|k| Attribute::new(k, "true"))
            .into(),
    };
    let mut unknown_class = unit("uact");
    unknown_class.resources.storage[0].attributes = vec![
        Attribute::new("class", "no such \"class\"\n"),
        Attribute::new("persistent", "true"),
    ];
    let mut largest = unit("uact");
    largest.count = 50;
    largest.resources.cpu.units = 384_000;
    largest.resources.memory.bytes = 2 << 40;
    largest.resources.storage[0].bytes = 32 << 40;
    let mut odd_size = unit("uact");
    odd_size.resources.memory.bytes = (512 << 20) + 1;
    for unit in [malformed_gpu, unknown_class, largest, odd_size] {
        let request = request(vec![unit]);
        let answer = strategy.calculate_price(&request).await;
        match &answer {
            Ok(_) => assert_price(&request, &answer),
            Err(error) => {
                let known = [ErrorKind::Invalid, ErrorKind::Timeout, ErrorKind::Unavailable];
                assert!(
                    known.contains(&error.kind()),
                    "an error of kind {:?}: {error}",
                    error.kind()
                );
            }
        }
    }
}

async fn a_call_given_up_harms_no_later_one(strategy: &dyn PricingStrategy) {
    let request = plain_order("uact");
    for _ in 0..40 {
        let mut call = strategy.calculate_price(&request);
        let _ = futures::poll!(&mut call);
    }
    assert_price(&request, &strategy.calculate_price(&request).await);
}

fn assert_price(request: &PriceRequest, answer: &Result<DecCoin, Error>) {
    let price = answer
        .as_ref()
        .map_err(Error::to_failure)
        .expect("a plain order has a price");
    let denom = request.group.resources.first().map(|u| &u.price.denom);
    assert_eq!(
        Some(&price.denom),
        denom,
        "the price is in the order's denomination"
    );
    assert!(price.amount > Dec::ZERO, "the price {price} is above zero");
}

/// One replica of a core, 512 MiB, 1 GiB ephemeral and an HTTP endpoint for at most 1000.
fn unit(denom: &str) -> ResourceUnit {
    let resources = Resources {
        id: 1,
        cpu: Cpu {
            units: 1000,
            attributes: Vec::new(),
        },
        memory: Memory {
            bytes: 512 << 20,
            attributes: Vec::new(),
        },
        storage: vec![Storage {
            name: "default".to_owned(),
            bytes: 1 << 30,
            attributes: Vec::new(),
        }],
        gpu: Gpu::default(),
        endpoints: vec![Endpoint::default()],
    };
    ResourceUnit {
        resources,
        count: 1,
        price: DecCoin::new(&denom.into(), Dec::from_int(1000)),
    }
}

fn plain_order(denom: &str) -> PriceRequest {
    request(vec![unit(denom)])
}

fn request(resources: Vec<ResourceUnit>) -> PriceRequest {
    let requirements = PlacementRequirements::default();
    let group = GroupSpec {
        name: "westcoast".to_owned(),
        requirements,
        resources,
    };
    PriceRequest {
        owner: Address::from_bytes(&[7; 20]).expect("20 bytes are an address"),
        group: Arc::new(group),
        allocated: None,
        precision: PRICE_PRECISION,
    }
}

#[cfg(test)]
mod tests;
