//! The embedded example without a loop: the same order, with the engine driven by hand.

use akash_provider_core::engine::Request;
use akash_provider_core::types::Event;
use example_embedded::{Failed, SDL, Tenant};
use example_sans_io::Hand;

fn main() -> Result<(), Failed> {
    let tenant = Tenant::new(SDL)?;
    let lease = tenant.lease()?;
    let mut hand = Hand::new()?;

    hand.tenant(tenant.create())?;
    hand.block();
    let bid = hand.market().bid(&lease).ok_or("the provider does not bid")?;
    println!("the provider bids {}", bid.price);
    assert_eq!(bid.price.to_string(), "8.072uact");

    hand.tenant(Tenant::accept(lease.clone()))?;
    hand.block();
    let manifest = Request::SubmitManifest {
        deployment: tenant.deployment().clone(),
        manifest: tenant.manifest(),
        hashes: tenant.hash().into(),
    };
    hand.request(manifest).ok_or("the manifest has no answer")??;
    hand.block();
    assert!(hand.workloads().contains_key(&lease));
    println!("the workload runs");

    hand.tenant(tenant.close())?;
    for _ in 0..3 {
        hand.block();
    }
    assert!(hand.workloads().is_empty());
    let status = hand.status();
    assert!(status.leases.is_empty() && status.orders.is_empty() && status.hostnames.is_empty());
    assert!(status.inventory.active.is_empty() && status.inventory.pending.is_empty());
    assert_eq!(status.unexpected_inputs, 0);
    let closed = |fact: &Event| matches!(fact, Event::LeaseClosed { lease: of, .. } if *of == lease);
    assert!(hand.facts().iter().any(|fact| closed(fact)));
    println!("everything is released; {} facts were told", hand.facts().len());
    Ok(())
}
