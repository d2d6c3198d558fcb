use super::*;
use tokio::sync::Semaphore;

fn client(network: u16, host: u16) -> IpAddr {
    network_of(IpAddr::from([0x2001, 0xdb8, 0, network, host, 2, 3, 4]), None)
}

fn account(number: u8) -> Address {
    Address::from_bytes(&[number; 20]).unwrap()
}

fn enter(connections: &Arc<Connections>, network: IpAddr) -> Connection {
    enter_at(connections, Port::Rest, network)
}

fn enter_at(connections: &Arc<Connections>, port: Port, network: IpAddr) -> Connection {
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    connections.enter(port, network, place)
}

fn is_closed(connection: &Connection) -> bool {
    connection.close.is_cancelled()
}

fn closed(connections: &[Connection]) -> Vec<bool> {
    connections.iter().map(is_closed).collect()
}

#[test]
fn a_network_with_too_many_connections_loses_its_oldest_anonymous_one() {
    let counters = GatewayCounters::default();
    let table = Connections::new([100, 8], 3, counters.clone());
    let other = enter(&table, client(2, 1));
    let first = enter(&table, client(1, 0));
    first.used_by(&account(1), false);
    // A connection with a live lease counts only for its account.
    let leased = enter(&table, client(1, 1));
    leased.used_by(&account(2), true);
    let mine: Vec<_> = (0..3).map(|host| enter(&table, client(1, host))).collect();
    assert_eq!(closed(&mine), [true, false, false]);
    let counted = counters.statistics().rest;
    assert_eq!((counted.accepted, counted.displaced, counted.open), (6, 1, 6));
    assert!(!is_closed(&first) && !is_closed(&leased) && !is_closed(&other));
    // Connections of an account count against the network too, and are closed if no anonymous one is left.
    for (number, one) in (3..).zip(&mine) {
        one.used_by(&account(number), false);
    }
    drop(enter(&table, client(1, 9)));
    assert!(is_closed(&first) && !is_closed(&leased) && !is_closed(&other));
}

#[test]
fn network_with_most_connections_loses_one_first_and_authenticated_ones_last() {
    let table = Connections::new([100, 8], 100, GatewayCounters::default());
    let lone = enter(&table, client(2, 1));
    let many: Vec<_> = (0..4).map(|host| enter(&table, client(1, host))).collect();
    many[0].used_by(&account(1), true);
    many[1].used_by(&account(2), false);
    assert!(table.make_room(Port::Rest) && table.make_room(Port::Rest));
    assert_eq!(closed(&many), [false, false, true, true]);
    assert!(!is_closed(&lone) && table.make_room(Port::Rest) && is_closed(&lone));
    assert!(table.make_room(Port::Rest) && is_closed(&many[1]));
    assert!(!table.make_room(Port::Rest) && !is_closed(&many[0]));
    drop((many, lone));
    let table = table.lock();
    assert!(table.open.is_empty() && table.unleased.is_empty() && table.of_account.is_empty());
    assert_eq!(table.ports[0].authenticated, 0);
}

#[test]
fn authenticated_connections_leave_places_and_the_least_recently_used_is_closed() {
    let table = Connections::new([16, 8], 100, GatewayCounters::default());
    let leased: Vec<_> = (0..6).map(|_| enter(&table, client(1, 1))).collect();
    for (number, one) in (100..).zip(&leased) {
        one.used_by(&account(number), true);
    }
    let unleased: Vec<_> = (0..7).map(|_| enter(&table, client(1, 1))).collect();
    for (number, one) in (0..6).zip(&unleased) {
        one.used_by(&account(number), false);
    }
    // The request is a use of the first one, so the second is the least recently used.
    unleased[0].used_by(&account(0), false);
    unleased[6].used_by(&account(6), false);
    assert_eq!(table.lock().ports[0].authenticated, 12);
    assert_eq!(
        closed(&unleased),
        [false, true, false, false, false, false, false]
    );
    // A lease takes the place of an account without one, also if the lease is new.
    unleased[2].used_by(&account(2), true);
    assert_eq!(table.lock().ports[0].authenticated, 12);
    let late = enter(&table, client(2, 1));
    late.used_by(&account(200), true);
    assert_eq!(closed(&unleased), [false, true, false, true, false, false, false]);
    assert!(closed(&leased).iter().all(|closed| !closed));
}

#[test]
fn with_leases_only_the_account_with_most_connections_loses_one() {
    let table = Connections::new([8, 8], 100, GatewayCounters::default());
    let many: Vec<_> = (0..6).map(|_| enter(&table, client(1, 1))).collect();
    many.iter().for_each(|one| one.used_by(&account(1), true));
    let other = enter(&table, client(2, 1));
    other.used_by(&account(2), false);
    assert!(closed(&many).iter().all(|closed| !closed));
    other.used_by(&account(2), true);
    assert_eq!(closed(&many), [true, false, false, false, false, false]);
    // Five and one: a sixth connection of the account with five stays anonymous.
    let sixth = enter(&table, client(1, 1));
    sixth.used_by(&account(1), true);
    assert!(!is_closed(&other) && table.make_room(Port::Rest) && is_closed(&sixth));
}

#[test]
fn one_account_has_a_number_of_connections_and_more_are_anonymous() {
    for (is_leased, most) in [(false, UNLEASED_OF_ACCOUNT), (true, LEASED_OF_ACCOUNT)] {
        let table = Connections::new([10_000, 8], 10_000, GatewayCounters::default());
        let mine: Vec<_> = (0..=most).map(|_| enter(&table, client(1, 1))).collect();
        for one in &mine {
            one.used_by(&account(1), is_leased);
            one.used_by(&account(1), is_leased);
        }
        assert!(table.make_room(Port::Rest) && is_closed(&mine[most]));
        assert_eq!(table.lock().ports[0].authenticated, most);
    }
}

#[test]
fn local_probes_have_reserved_places() {
    let server: IpAddr = "10.0.0.7".parse().unwrap();
    for local in ["127.0.0.1", "::1", "10.0.0.7", "::ffff:10.0.0.7"] {
        assert_eq!(network_of(local.parse().unwrap(), Some(server)), LOCAL, "{local}");
    }
    for remote in ["127.0.0.2", "10.0.0.8"] {
        assert_ne!(
            network_of(remote.parse().unwrap(), Some(server)),
            LOCAL,
            "{remote}"
        );
    }
    let table = Connections::new([16, 8], 100, GatewayCounters::default());
    let probes: Vec<_> = (0..2).map(|_| enter(&table, LOCAL)).collect();
    let flood: Vec<_> = (0..14).map(|network| enter(&table, client(network, 1))).collect();
    while table.make_room(Port::Rest) {}
    assert_eq!(closed(&probes), [false, false]);
    assert!(closed(&flood).iter().all(|closed| *closed));
    // Those beyond the reserve are closed like all others.
    let third = enter(&table, LOCAL);
    assert!(table.make_room(Port::Rest) && is_closed(&probes[0]) && !is_closed(&third));
}

#[test]
fn limits_count_both_ports_and_places_are_those_of_one() {
    let table = Connections::new([8, 4], 3, GatewayCounters::default());
    let [first, second] = [0, 1].map(|host| enter(&table, client(1, host)));
    let third = enter_at(&table, Port::Grpc, client(1, 2));
    let fourth = enter_at(&table, Port::Grpc, client(1, 3));
    assert!(is_closed(&first), "the network has three");
    // A port only closes its own connections.
    assert!(table.make_room(Port::Grpc) && table.make_room(Port::Grpc) && !table.make_room(Port::Grpc));
    assert!(is_closed(&third) && is_closed(&fourth) && !is_closed(&second));
    // An account with its maximum number of REST connections stays anonymous over gRPC.
    let table = Connections::new([200, 100], 1000, GatewayCounters::default());
    let rest: Vec<_> = (0..UNLEASED_OF_ACCOUNT)
        .map(|_| enter(&table, client(1, 0)))
        .collect();
    rest.iter().for_each(|one| one.used_by(&account(1), false));
    let grpc = enter_at(&table, Port::Grpc, client(1, 0));
    grpc.used_by(&account(1), false);
    let counts = |table: &Connections| table.lock().ports.each_ref().map(|port| port.authenticated);
    assert_eq!(counts(&table), [UNLEASED_OF_ACCOUNT, 0]);
    drop(rest);
    grpc.used_by(&account(1), false);
    assert_eq!(counts(&table), [0, 1]);
}
