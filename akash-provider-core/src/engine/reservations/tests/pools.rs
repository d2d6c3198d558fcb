//! External ports and leased IPs.

use super::*;

#[test]
fn w11_enforces_pool_of_external_ports() {
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
fn declines_leased_ips_without_pool() {
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
fn counts_leased_ips_until_pool_counts_them() {
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
fn displaces_reservation_if_adopted_one_needs_its_addresses_or_ports() {
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
    assert_eq!(ledger.displaced(&order(3)), None, "needs no addresses");
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
fn counts_addresses_once_if_lease_is_adopted_after_count() {
    let mut ledger = ledger(with_ips(capacity(&[("a", 4000)]), 3, 1, &[1]));
    let taken = |ledger: &Reservations| ledger.status().leased_ips.unwrap().allocated;
    ledger.adopt(&order(1), &ips(&[1]).resources, None);
    assert_eq!(taken(&ledger), 1);
    // Released, and adopted again before the next count of the pool.
    ledger.unreserve(&order(1));
    assert_eq!(taken(&ledger), 0);
    ledger.adopt(&order(1), &ips(&[1]).resources, None);
    assert_eq!(taken(&ledger), 1);
    ledger.unreserve(&order(1));
    assert_eq!(taken(&ledger), 0);
    assert!(ledger.recount_matches());
}

#[test]
fn counts_addresses_once_if_units_become_known_after_count() {
    let mut ledger = ledger(with_ips(capacity(&[("a", 4000)]), 3, 1, &[1]));
    let taken = |ledger: &Reservations| ledger.status().leased_ips.unwrap().allocated;
    // The event of the lease arrived before its resources were known.
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
fn matches_known_values_of_leased_ip_status() {
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
fn w8_confirmed_ips_are_free_immediately() {
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
fn w38_update_without_ip_count_blocks_no_other_orders() {
    let nodes = || capacity(&[("a", 4000)]);
    let mut ledger = ledger(nodes());
    assert!(matches!(
        ledger.reserve(&order(1), &ips(&[1])),
        Err(Decline::Unknown { .. })
    ));
    assert!(
        ledger.reserve(&order(2), &one(10)).is_ok(),
        "orders without addresses are not blocked"
    );
    ledger.update(with_ips(nodes(), 2, 1, &[]));
    ledger.update(nodes());
    assert!(ledger.reserve(&order(1), &ips(&[1])).is_ok());
}
