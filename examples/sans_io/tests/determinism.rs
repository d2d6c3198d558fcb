//! The engine keeps to its promise that the same inputs give the same facts.

#![expect(clippy::unwrap_used, reason = "a test says what broke and stops")]

use akash_provider_core::types::Event;
use example_embedded::{SDL, Tenant};
use example_sans_io::Hand;

fn played() -> Vec<Event> {
    let tenant = Tenant::new(SDL).unwrap();
    let mut hand = Hand::new().unwrap();
    hand.tenant(tenant.create()).unwrap();
    hand.block();
    hand.tenant(Tenant::accept(tenant.lease().unwrap())).unwrap();
    // Nobody hands in a manifest: after five minutes of the chain's time the provider gives the lease up.
    for _ in 0..60 {
        hand.block();
    }
    assert!(hand.status().leases.is_empty() && hand.workloads().is_empty());
    hand.facts().iter().map(|fact| Event::clone(fact)).collect()
}

#[test]
fn the_same_inputs_give_the_same_facts() {
    let facts = played();
    assert!(
        facts.iter().any(|f| matches!(f, Event::LeaseEnding { .. })),
        "{facts:?}"
    );
    assert_eq!(facts, played());
}
