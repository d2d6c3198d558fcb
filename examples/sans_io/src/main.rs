//! The embedded example without an event loop: the same order, with an engine that the program drives step by
//! step.

use akash_provider_core::engine::Request;
use akash_provider_core::types::Event;
use example_embedded::{Failed, SDL, Tenant};
use example_sans_io::ManualProvider;

fn main() -> Result<(), Failed> {
    let tenant = Tenant::new(SDL)?;
    let lease = tenant.lease()?;
    let mut provider = ManualProvider::new()?;

    provider.tenant(tenant.create())?;
    provider.block();
    let bid = provider.market().bid(&lease).ok_or("the provider does not bid")?;
    println!("the provider bids {}", bid.price);
    assert_eq!(bid.price.to_string(), "8.072uact");

    provider.tenant(Tenant::accept(lease.clone()))?;
    provider.block();
    let manifest = Request::SubmitManifest {
        deployment: tenant.deployment().clone(),
        manifest: tenant.manifest(),
        hashes: tenant.hash().into(),
    };
    provider
        .request(manifest)
        .ok_or("no response to the manifest")??;
    provider.block();
    assert!(provider.workloads().contains_key(&lease));
    println!("the workload runs");

    provider.tenant(tenant.close())?;
    for _ in 0..3 {
        provider.block();
    }
    assert!(provider.workloads().is_empty());
    let status = provider.status();
    assert!(status.leases.is_empty() && status.orders.is_empty() && status.hostnames.is_empty());
    assert!(status.inventory.active.is_empty() && status.inventory.pending.is_empty());
    assert_eq!(status.unexpected_inputs, 0);
    let closed = |fact: &Event| matches!(fact, Event::LeaseClosed { lease: of, .. } if *of == lease);
    assert!(provider.facts().iter().any(|fact| closed(fact)));
    println!(
        "everything is released; {} events were published",
        provider.facts().len()
    );
    Ok(())
}
