//! External ports and leased IPs.

use super::*;

#[test]
fn w11_the_pool_of_external_ports_is_enforced() {
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    let ports = |k: u32| with_endpoints(EndpointKind::RandomPort, &vec![0; k as usize]);
    ledger.reserve(&order(1), &ports(7)).unwrap();
    ledger.reserve(&order(1), &ports(7)).unwrap();
    assert_eq!(ledger.status().external_ports_free, 993);
    ledger.update(capacity(&[("a", 4000)]));
    assert_eq!(ledger.status().external_ports_free, 993);
    let wanted = ledger.reserve(&order(2), &ports(994));
    assert_eq!(
        wanted,
        Err(Decline::ExternalPortsExhausted {
            wanted: 994,
            free: 993
        })
    );
    ledger.unreserve(&order(1));
    assert_eq!(ledger.status().external_ports_free, 1000);
    assert!(ledger.reserve(&order(2), &ports(994)).is_ok());
}

#[test]
fn leased_ips_without_a_pool_are_declined() {
    let mut ledger = Reservations::new(&Config {
        leased_ips: false,
        ..config()
    });
    ledger.update(capacity(&[("a", 4000)]));
    assert_eq!(
        ledger.reserve(&order(1), &ips(&[1, 1, 2])),
        Err(Decline::NoLeasedIps { wanted: 2 })
    );
    assert_eq!(ledger.status().leased_ips, None);
    assert_eq!(free_cpu(&ledger), [4000]);
}

#[test]
fn leased_ips_are_counted_until_the_pool_counts_them() {
    let nodes = || capacity(&[("a", 4000)]);
    let mut ledger = ledger(with_ips(nodes(), 5, 5, &[]));
    let exhausted = Err(Decline::LeasedIpsExhausted { wanted: 1, free: 0 });
    assert_eq!(ledger.reserve(&order(1), &ips(&[1])), exhausted);
    ledger.update(with_ips(nodes(), 5, 4, &[]));
    assert!(ledger.reserve(&order(1), &ips(&[1])).is_ok());
    assert_eq!(ledger.reserve(&order(2), &ips(&[1])), exhausted);
    ledger.update(with_ips(nodes(), 6, 5, &[1]));
    assert!(ledger.reserve(&order(2), &ips(&[1])).is_ok());
    assert!(ledger.recount_matches());
}

#[test]
fn addresses_and_ports_are_not_bid_when_a_promise_that_came_to_light_has_them() {
    let mut ledger = ledger(with_ips(capacity(&[("a", 4000)]), 1, 0, &[]));
    let all_ports: Vec<u32> = (1..=ledger.status().external_ports_free).collect();
    ledger.reserve(&order(2), &ips(&[1])).unwrap();
    ledger
        .reserve(&order(3), &with_endpoints(EndpointKind::RandomPort, &all_ports))
        .unwrap();
    assert_eq!(
        (ledger.displaced(&order(2)), ledger.displaced(&order(3))),
        (None, None)
    );
    ledger.adopt(&order(1), &ips(&[1]).resources, None);
    assert_eq!(
        ledger.displaced(&order(2)),
        Some(Decline::LeasedIpsExhausted { wanted: 1, free: 0 })
    );
    assert_eq!(ledger.displaced(&order(3)), None, "it needs none of what is owed");
    ledger.adopt(
        &order(4),
        &with_endpoints(EndpointKind::RandomPort, &[1]).resources,
        None,
    );
    assert!(matches!(
        ledger.displaced(&order(3)),
        Some(Decline::ExternalPortsExhausted { .. })
    ));
    ledger.unreserve(&order(1));
    assert_eq!(ledger.displaced(&order(2)), None);
    assert!(ledger.recount_matches());
}

#[test]
fn addresses_of_a_lease_that_is_adopted_after_the_count_are_counted_once() {
    let mut ledger = ledger(with_ips(capacity(&[("a", 4000)]), 3, 1, &[1]));
    let taken = |ledger: &Reservations| ledger.status().leased_ips.unwrap().allocated;
    ledger.adopt(&order(1), &ips(&[1]).resources, None);
    assert_eq!(taken(&ledger), 1);
    // Given back, and taken over once more before the pool is counted anew.
    ledger.unreserve(&order(1));
    assert_eq!(taken(&ledger), 0);
    ledger.adopt(&order(1), &ips(&[1]).resources, None);
    assert_eq!(taken(&ledger), 1);
    ledger.unreserve(&order(1));
    assert_eq!(taken(&ledger), 0);
    assert!(ledger.recount_matches());
}

#[test]
fn addresses_are_counted_once_when_what_a_lease_holds_is_known_after_the_count() {
    let mut ledger = ledger(with_ips(capacity(&[("a", 4000)]), 3, 1, &[1]));
    let taken = |ledger: &Reservations| ledger.status().leased_ips.unwrap().allocated;
    // Its event came before anything that says what it holds.
    ledger.adopt(&order(1), &[], None);
    ledger.update(with_ips(capacity(&[("a", 4000)]), 3, 1, &[1]));
    ledger.unreserve(&order(1));
    ledger.adopt(&order(1), &ips(&[1]).resources, None);
    assert_eq!(taken(&ledger), 1);
    ledger.unreserve(&order(1));
    assert_eq!(taken(&ledger), 0);
    assert!(ledger.recount_matches());
}

#[test]
fn leased_ip_status_vectors() {
    let nodes = || capacity(&[("a", 4000)]);
    let mut first = ledger(with_ips(nodes(), 10, 0, &[]));
    first.reserve(&order(1), &ips(&[1, 2])).unwrap();
    first.reserve(&order(2), &ips(&[1])).unwrap();
    first.reserve(&order(3), &ips(&[1, 2, 3])).unwrap();
    first.update(with_ips(nodes(), 10, 4, &[3]));
    let status = |total, allocated, available| {
        Some(LeasedIpStatus {
            total,
            allocated,
            available,
        })
    };
    assert_eq!(first.status().leased_ips, status(10, 7, 3));

    let mut second = ledger(with_ips(nodes(), 10, 0, &[]));
    second.reserve(&order(1), &ips(&[1, 2, 3, 4])).unwrap();
    second.update(with_ips(nodes(), 3, 2, &[]));
    assert_eq!(second.status().leased_ips, status(3, 6, 0));
}

#[test]
fn w8_confirmed_ips_are_free_at_once_too() {
    let nodes = || capacity(&[("a", 4000)]);
    let mut ledger = ledger(with_ips(nodes(), 1, 0, &[]));
    ledger.reserve(&order(1), &ips(&[1])).unwrap();
    ledger.update(with_ips(nodes(), 1, 1, &[1]));
    ledger.unreserve(&order(1));
    assert!(ledger.reserve(&order(2), &ips(&[1])).is_ok());
    ledger.update(with_ips(nodes(), 1, 0, &[]));
    assert_eq!(ledger.status().leased_ips.unwrap().available, 0);
}

#[test]
fn w38_an_update_without_a_count_of_ips_stops_nobody() {
    let nodes = || capacity(&[("a", 4000)]);
    let mut ledger = ledger(nodes());
    assert!(matches!(
        ledger.reserve(&order(1), &ips(&[1])),
        Err(Decline::Unknown { .. })
    ));
    assert!(
        ledger.reserve(&order(2), &one(10)).is_ok(),
        "others are not held back"
    );
    ledger.update(with_ips(nodes(), 2, 1, &[]));
    ledger.update(nodes());
    assert!(ledger.reserve(&order(1), &ips(&[1])).is_ok());
}
