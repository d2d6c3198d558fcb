//! Determinism of the engine: the same inputs give the same events.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use akash_provider_core::types::Event;
use example_embedded::{SDL, Tenant};
use example_sans_io::ManualProvider;

fn played() -> Vec<Event> {
    let tenant = Tenant::new(SDL).unwrap();
    let mut provider = ManualProvider::new().unwrap();
    provider.tenant(tenant.create()).unwrap();
    provider.block();
    provider.tenant(Tenant::accept(tenant.lease().unwrap())).unwrap();
    // Without a manifest, the provider closes the lease after five minutes of the chain's time.
    for _ in 0..60 {
        provider.block();
    }
    assert!(provider.status().leases.is_empty() && provider.workloads().is_empty());
    provider.facts().iter().map(|fact| Event::clone(fact)).collect()
}

#[test]
fn same_inputs_give_same_events() {
    let facts = played();
    assert!(
        facts.iter().any(|f| matches!(f, Event::LeaseEnding { .. })),
        "{facts:?}"
    );
    assert_eq!(facts, played());
}
