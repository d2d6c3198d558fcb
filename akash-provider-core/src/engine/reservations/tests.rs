use super::*;
use crate::bidding::Decline;
use crate::engine::status::{LeasedIpStatus, ReservationStatus};
use crate::inventory::{ClusterSpec, GpuSpec, LeasedIpUsage, NodeInventory, NodeSpec, Placement};
use crate::types::{Address, Attribute, Dec, DecCoin, Endpoint, Gpu, LeaseId, Resources};
use proptest::prelude::*;

mod pools;
mod unplaced;

const GIB: i64 = 1 << 30;

fn address(byte: u8) -> Address {
    Address::from_bytes(&[byte; 20]).unwrap()
}

fn config() -> Config {
    Config {
        leased_ips: true,
        external_ports: 1000,
        ..Config::new(address(9), "chain")
    }
}

fn order(dseq: u64) -> OrderId {
    format!("{}/{dseq}/1/1", address(1)).parse().unwrap()
}

fn lease(dseq: u64) -> LeaseId {
    order(dseq).bid(address(9))
}

fn unit(id: u32, cpu: u64, count: u32) -> ResourceUnit {
    let mut resources = Resources {
        id,
        ..Resources::default()
    };
    resources.cpu.units = cpu;
    resources.memory.bytes = 1 << 20;
    ResourceUnit::new(resources, count, DecCoin::new(&"uact".into(), Dec::ZERO))
}

fn with_gpu(mut unit: ResourceUnit, keys: &[&str]) -> ResourceUnit {
    let attributes = keys.iter().map(|k| Attribute::new(*k, "true")).collect();
    unit.resources.gpu = Gpu::new(1, attributes);
    unit
}

fn group(units: Vec<ResourceUnit>) -> GroupSpec {
    GroupSpec::new("dcloud", units)
}

fn one(cpu: u64) -> GroupSpec {
    group(vec![unit(1, cpu, 1)])
}

fn with_endpoints(kind: EndpointKind, sequence_numbers: &[u32]) -> GroupSpec {
    let mut spec = one(10);
    let endpoint = |n: &u32| Endpoint::new(kind, *n);
    spec.resources[0].resources.endpoints = sequence_numbers.iter().map(endpoint).collect();
    spec
}

fn ips(sequence_numbers: &[u32]) -> GroupSpec {
    with_endpoints(EndpointKind::LeasedIp, sequence_numbers)
}

fn capacity(nodes: &[(&str, i64)]) -> InventoryUpdate {
    let nodes = nodes
        .iter()
        .map(|(name, cpu)| NodeSpec::new(*name, *cpu, 64 * GIB, 1 << 40));
    of_spec(&ClusterSpec::from_nodes(nodes))
}

fn of_spec(spec: &ClusterSpec) -> InventoryUpdate {
    InventoryUpdate::new(Arc::new(NodeInventory::new(spec)), Vec::new())
}

fn with_ips(mut update: InventoryUpdate, total: u32, in_use: u32, confirmed: &[u64]) -> InventoryUpdate {
    update.leased_ips = Some(LeasedIpUsage {
        total,
        in_use,
        confirmed: confirmed.iter().map(|d| lease(*d)).collect(),
    });
    update
}

fn pods(mut update: InventoryUpdate, dseq: u64, places: &[(&str, u32)]) -> InventoryUpdate {
    let places = places.iter().map(|(node, replicas)| ReplicaGroup {
        unit: 1,
        node: (*node).into(),
        replicas: *replicas,
    });
    update.placements.push(Placement {
        lease: lease(dseq),
        places: places.collect(),
    });
    update
}

fn ledger(update: InventoryUpdate) -> Reservations {
    let mut ledger = Reservations::new(&config());
    ledger.update(update);
    ledger
}

fn free_cpu(ledger: &Reservations) -> Vec<u64> {
    ledger.available().nodes.iter().map(|n| n.cpu.available).collect()
}

#[test]
fn reserves_nothing_before_first_inventory_update() {
    let mut ledger = Reservations::new(&config());
    assert!(!ledger.is_known());
    assert!(matches!(
        ledger.reserve(&order(1), &one(100)),
        Err(Decline::Unknown { .. })
    ));
    assert!(ledger.capacity().is_none());
    assert!(ledger.is_empty() && ledger.recount_matches());
}

#[test]
fn w8_release_frees_capacity_immediately() {
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    ledger.reserve(&order(1), &one(4000)).unwrap();
    let full = ledger.reserve(&order(2), &one(4000));
    assert!(matches!(full, Err(Decline::InsufficientCapacity { .. })));
    assert!(ledger.unreserve(&order(1)));
    assert!(!ledger.unreserve(&order(1)));
    assert!(ledger.reserve(&order(2), &one(4000)).is_ok());
    assert!(ledger.recount_matches());
}

#[test]
fn running_lease_is_counted_on_nodes_of_its_pods() {
    let update = || pods(capacity(&[("a", 1240), ("b", 1240)]), 1, &[("a", 1), ("b", 1)]);
    let spec = group(vec![unit(1, 100, 2)]);
    let mut chain_first = Reservations::new(&config());
    chain_first.adopt(&order(1), &[], Some(&spec));
    chain_first.update(update());
    let mut cluster_first = ledger(update());
    cluster_first.adopt(&order(1), &[], Some(&spec));
    for ledger in [chain_first, cluster_first] {
        assert_eq!(free_cpu(&ledger), [1140, 1140]);
        assert!(ledger.recount_matches());
    }
}

#[test]
fn second_reserve_returns_existing_reservation() {
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    let first = ledger.reserve(&order(1), &one(3000)).unwrap();
    let second = ledger.reserve(&order(1), &one(3000)).unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(free_cpu(&ledger), [1000]);
}

#[test]
fn w10_overcommit_of_half_reserves_two_thirds() {
    let config = Config {
        overcommit_cpu_percent: 50,
        overcommit_memory_percent: 150,
        overcommit_storage_percent: 20,
        ..config()
    };
    let mut ledger = Reservations::new(&config);
    ledger.update(capacity(&[("a", 4000)]));
    let mut spec = group(vec![unit(1, 6000, 1)]);
    spec.resources[0].resources.memory.bytes = 1000;
    let units = ledger.reserve(&order(1), &spec).unwrap();
    assert_eq!(units[0].resources.cpu.units, 4000);
    assert_eq!(units[0].resources.memory.bytes, 400);
    assert_eq!(free_cpu(&ledger), [0]);
}

#[test]
fn w10_adopted_offer_is_not_divided_again() {
    let config = Config {
        overcommit_cpu_percent: 100,
        ..config()
    };
    let mut ledger = Reservations::new(&config);
    ledger.adopt(&order(1), &[unit(1, 1000, 1)], Some(&one(2000)));
    ledger.adopt(&order(2), &[], Some(&one(2000)));
    ledger.adopt(&order(3), &[], None);
    ledger.update(capacity(&[("a", 4000)]));
    assert_eq!(free_cpu(&ledger), [2000]);
    assert_eq!(ledger.len(), 3);
    ledger.adopt(&order(3), &[unit(1, 500, 1)], None);
    ledger.adopt(&order(3), &[unit(1, 900, 1)], None);
    assert_eq!(free_cpu(&ledger), [1500]);
    assert!(ledger.recount_matches());
}

fn two_models() -> ClusterSpec {
    let node = |name: &str, model: &str| {
        let gpus = GpuSpec::new("nvidia", model, "80Gi", "pcie", 2);
        NodeSpec::new(name, 4000, 64 * GIB, 64 * GIB).with_gpus(gpus)
    };
    ClusterSpec::from_nodes([node("a", "a100"), node("h", "h100")])
}

#[test]
fn w15_reserved_gpu_model_survives_every_update() {
    let mut ledger = ledger(of_spec(&two_models()));
    let any = group(vec![with_gpu(unit(1, 100, 1), &["vendor/nvidia/model/*"])]);
    let promised = ledger.reserve(&order(1), &any).unwrap();
    let params = ledger.params(&order(1)).unwrap();
    assert_eq!(
        promised[0].resources.gpu.attributes[0].key,
        "vendor/nvidia/model/a100"
    );
    let mut without = two_models();
    without.nodes.remove(0);
    ledger.update(of_spec(&without));
    assert_eq!(ledger.available().overcommitted_replicas, 1, "no a100 is left");
    assert_eq!(
        ledger.available().nodes[0].gpu.available,
        2,
        "the h100 GPUs are not used"
    );
    ledger.update(of_spec(&two_models()));
    assert_eq!(ledger.units(&order(1)).unwrap(), promised);
    assert_eq!(ledger.params(&order(1)).unwrap(), params);
    assert_eq!(ledger.available().nodes[0].gpu.available, 1);
    assert_eq!(ledger.available().overcommitted_replicas, 0);
    assert!(ledger.recount_matches());
}

#[test]
fn w15_lease_is_counted_once_for_any_pods() {
    let nodes = || capacity(&[("a", 4000), ("b", 4000)]);
    let mut ledger = ledger(nodes());
    let spec = group(vec![unit(1, 1000, 2)]);
    ledger.reserve(&order(1), &spec).unwrap();
    assert_eq!(free_cpu(&ledger), [2000, 4000]);
    for (pods_at, expected) in [
        (vec![("b", 2)], [4000, 2000]),
        (vec![("b", 1)], [4000, 2000]),
        (vec![("a", 1)], [3000, 3000]),
        (vec![("a", 2), ("b", 2)], [2000, 4000]),
        (vec![], [2000, 4000]),
    ] {
        ledger.update(pods(nodes(), 1, &pods_at));
        assert_eq!(free_cpu(&ledger), expected, "{pods_at:?}");
        assert!(ledger.recount_matches());
    }
    ledger.unreserve(&order(1));
    assert_eq!(free_cpu(&ledger), [4000, 4000]);
}

#[test]
fn w15_replica_without_pod_stays_on_its_node() {
    let nodes = || capacity(&[("a", 2000), ("b", 4000)]);
    let mut ledger = ledger(nodes());
    ledger.reserve(&order(1), &group(vec![unit(1, 1000, 3)])).unwrap();
    assert_eq!(free_cpu(&ledger), [0, 3000]);
    ledger.update(pods(nodes(), 1, &[("a", 2)]));
    assert_eq!(free_cpu(&ledger), [0, 3000]);
    ledger.update(pods(nodes(), 2, &[("b", 3)]));
    assert_eq!(
        free_cpu(&ledger),
        [0, 3000],
        "pods without a known lease are ignored"
    );
}

#[test]
fn shrinking_capacity_is_overcommitted_without_losing_reservations() {
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    let spec = group(vec![unit(1, 1000, 4)]);
    ledger.reserve(&order(1), &spec).unwrap();
    ledger.update(capacity(&[("a", 2500)]));
    assert_eq!(ledger.available().overcommitted_replicas, 2);
    assert_eq!(free_cpu(&ledger), [0]);
    assert!(ledger.reserve(&order(2), &one(1)).is_err());
    ledger.update(capacity(&[("a", 5000)]));
    assert_eq!(free_cpu(&ledger), [1000]);
    ledger.update(capacity(&[]));
    assert_eq!(ledger.available().overcommitted_replicas, 4);
    ledger.update(capacity(&[("b", 3000)]));
    assert_eq!(
        ledger.available().overcommitted_replicas,
        1,
        "as many replicas as fit are placed"
    );
    assert_eq!(free_cpu(&ledger), [0]);
    assert!(ledger.recount_matches());
}

#[test]
fn unplaced_replicas_precede_new_orders() {
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    ledger.reserve(&order(1), &one(4000)).unwrap();
    ledger.adopt(&order(2), &[unit(1, 3000, 1)], None);
    assert_eq!(ledger.available().overcommitted_replicas, 1);
    ledger.unreserve(&order(1));
    assert_eq!(ledger.available().overcommitted_replicas, 0);
    assert_eq!(free_cpu(&ledger), [1000]);
}

#[test]
fn places_only_unplaced_replicas() {
    let mut ledger = ledger(capacity(&[("a", 9000)]));
    ledger.reserve(&order(1), &one(6500)).unwrap();
    ledger.adopt(&order(2), &[unit(1, 1000, 4)], None);
    assert_eq!(ledger.available().overcommitted_replicas, 2);
    ledger.unreserve(&order(1));
    assert_eq!(ledger.available().overcommitted_replicas, 0);
    assert_eq!(free_cpu(&ledger), [5000]);
    assert!(ledger.recount_matches());
}

#[test]
fn merges_params_of_running_deployment() {
    let mut ledger = ledger(of_spec(&two_models()));
    let open = with_gpu(unit(1, 100, 1), &["vendor/nvidia/model/*"]);
    ledger.adopt(&order(1), &[open], None);
    let h100 = with_gpu(unit(1, 100, 1), &["vendor/nvidia/model/h100"]);
    let params = params::fixed_params(&[h100]);
    assert!(ledger.set_params(&order(1), &params));
    assert!(!ledger.set_params(&order(2), &params));
    assert!(ledger.set_params(&order(1), &SchedulerParamsById::from([(1, None)])));
    assert!(ledger.set_params(&order(1), &SchedulerParamsById::new()));
    assert_eq!(
        *ledger.params(&order(1)).unwrap(),
        params,
        "empty parameters remove nothing"
    );
    let free: Vec<_> = ledger.available().nodes.iter().map(|n| n.gpu.available).collect();
    assert_eq!(free, [2, 1]);
    assert!(ledger.recount_matches());
}

#[test]
fn adjusted_offer_displaces_reservation_without_bid() {
    let mut ledger = ledger(of_spec(&two_models()));
    let h100 = |count| {
        let mut unit = with_gpu(unit(1, 100, count), &["vendor/nvidia/model/h100"]);
        unit.resources.id = 1;
        unit
    };
    let a100 = with_gpu(unit(1, 100, 1), &["vendor/nvidia/model/a100"]);
    ledger.reserve(&order(1), &group(vec![a100])).unwrap();
    ledger.reserve(&order(2), &group(vec![h100(2)])).unwrap();
    ledger.reserve(&order(3), &one(10)).unwrap();
    assert_eq!(ledger.displaced(&order(2)), None);
    ledger.apply_offer(&order(1), &[h100(1)]);
    assert!(matches!(
        ledger.displaced(&order(2)),
        Some(Decline::InsufficientCapacity { .. })
    ));
    assert_eq!(ledger.displaced(&order(3)), None, "needs no GPU");
    ledger.unreserve(&order(2));
    assert_eq!(ledger.displaced(&order(1)), None);
    assert!(ledger.recount_matches());
}

#[test]
fn rechecked_offer_is_known_after_bid_was_read() {
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    ledger.reserve(&order(1), &one(10)).unwrap();
    assert!(ledger.is_offer_known(&order(1)));
    ledger.recheck_offer(&order(1));
    assert!(!ledger.is_offer_known(&order(1)));
    ledger.apply_offer(&order(1), &[unit(1, 20, 1)]);
    assert!(ledger.is_offer_known(&order(1)));
    assert_eq!(ledger.units(&order(1)).unwrap()[0].resources.cpu.units, 20);
    ledger.adopt(&order(2), &[], None);
    assert!(!ledger.is_offer_known(&order(2)), "unknown resources");
}

#[test]
fn empty_or_equal_offer_changes_nothing() {
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    let units = ledger.reserve(&order(1), &one(10)).unwrap();
    ledger.apply_offer(&order(1), &[]);
    ledger.apply_offer(&order(1), &[unit(1, 10, 1)]);
    assert!(Arc::ptr_eq(&units, &ledger.units(&order(1)).unwrap()));
}

#[test]
fn equal_params_are_shared() {
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    ledger.reserve(&order(1), &one(10)).unwrap();
    ledger.reserve(&order(2), &one(20)).unwrap();
    let (one, other) = (
        ledger.params(&order(1)).unwrap(),
        ledger.params(&order(2)).unwrap(),
    );
    assert!(Arc::ptr_eq(&one, &other));
    assert_eq!(*one, SchedulerParamsById::from([(1, None)]));
}

#[test]
fn reservation_is_small() {
    let each = size_of::<(OrderId, Reservation)>();
    let heap = 16 + size_of::<Vec<ResourceUnit>>() + size_of::<ResourceUnit>() + size_of::<ReplicaGroup>();
    assert!(
        each <= 96 && heap <= 320,
        "{each} bytes in the map, {heap} on the heap"
    );
}

#[test]
fn status_separates_active_from_pending_reservations() {
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    for dseq in [3, 1, 2] {
        ledger.reserve(&order(dseq), &one(100 * dseq)).unwrap();
    }
    assert!(ledger.mark_active(&order(2)));
    assert!(!ledger.mark_active(&order(7)));
    let status = ledger.status();
    let dseqs =
        |list: &[ReservationStatus]| list.iter().map(|r| r.order.deployment().dseq).collect::<Vec<_>>();
    assert_eq!(dseqs(&status.active), [2]);
    assert_eq!(dseqs(&status.pending), [1, 3]);
    assert_eq!(status.active[0].cpu, 200);
    assert_eq!(ledger.orders().count(), 3);
}

#[test]
fn endpoints_of_all_kinds_count_once_for_each_unit() {
    let mut ledger = ledger(with_ips(capacity(&[("a", 4000)]), 9, 0, &[]));
    let mut web = with_endpoints(EndpointKind::SharedHttp, &[0]);
    web.resources[0].count = 2;
    web.resources.push(unit(2, 10, 1));
    web.resources[1].resources.endpoints = with_endpoints(EndpointKind::RandomPort, &[0, 0]).resources[0]
        .resources
        .endpoints
        .clone();
    ledger.reserve(&order(1), &web).unwrap();
    ledger.reserve(&order(2), &ips(&[1, 2])).unwrap();
    assert!(ledger.mark_active(&order(1)));
    let status = ledger.status();
    assert_eq!((status.endpoints_active, status.endpoints_pending), (3, 2));
    assert_eq!(status.external_ports_active, 2);
}

#[test]
fn explains_ports_and_addresses() {
    let capacity = ledger(with_ips(capacity(&[("a", 4000)]), 1, 1, &[]))
        .capacity()
        .unwrap();
    let explanation = capacity.explain(&ips(&[1]));
    assert!(!explanation.fits);
    assert_eq!(
        explanation.cluster,
        ["insufficient number of IPs: unable to reserve 1, 0 are free"]
    );
    assert!(capacity.explain(&one(100)).fits);
    assert!(!capacity.explain(&one(5000)).nodes[0].missing.is_empty());
}

#[test]
fn copy_of_capacity_reserves_nothing_and_does_not_change() {
    let mut ledger = ledger(with_ips(capacity(&[("a", 4000)]), 1, 1, &[]));
    let mut before = ledger.capacity().unwrap();
    ledger.reserve(&order(1), &one(4000)).unwrap();
    let mut after = ledger.capacity().unwrap();
    for _ in 0..2 {
        assert!(before.fit(&one(4000)).is_ok() && before.explain(&one(4000)).fits);
        assert!(after.fit(&one(4000)).is_err() && !after.explain(&one(4000)).fits);
    }
    for spec in [one(5000), ips(&[1]), one(1)] {
        let reserved = ledger.reserve(&order(2), &spec).map(|units| units.to_vec());
        assert_eq!(after.fit(&spec), reserved);
        ledger.unreserve(&order(2));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Reserve(u64, u64, u32),
    ReserveGpu(u64),
    Adopt(u64, u64, u32),
    Unreserve(u64),
    Update(Vec<i64>),
    Pods(u64, usize, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let dseq = 0u64..8;
    prop_oneof![
        (dseq.clone(), 1u64..3000, 1u32..4).prop_map(|(d, c, n)| Step::Reserve(d, c, n)),
        dseq.clone().prop_map(Step::ReserveGpu),
        (dseq.clone(), 1u64..3000, 0u32..4).prop_map(|(d, c, n)| Step::Adopt(d, c, n)),
        dseq.clone().prop_map(Step::Unreserve),
        prop::collection::vec(0i64..6000, 0..4).prop_map(Step::Update),
        (dseq, 0usize..4, 0u32..4).prop_map(|(d, node, n)| Step::Pods(d, node, n)),
    ]
}

const NODES: [&str; 4] = ["a", "b", "c", "d"];

fn world(cpus: &[i64]) -> InventoryUpdate {
    let node = |(name, cpu): (&&str, &i64)| {
        let gpus = GpuSpec::new("nvidia", if *cpu % 2 == 0 { "a100" } else { "h100" }, "", "", 1);
        NodeSpec::new(*name, *cpu, GIB, GIB).with_gpus(gpus)
    };
    of_spec(&ClusterSpec::from_nodes(NODES.iter().zip(cpus).map(node)))
}

/// Reserves capacity, and asserts that a dry run returns the same result.
fn reserved_as_tried(
    ledger: &mut Reservations,
    dseq: u64,
    spec: &GroupSpec,
) -> Result<Arc<Vec<ResourceUnit>>, Decline> {
    let tried = ledger.capacity().filter(|_| !ledger.contains(&order(dseq)));
    let reserved = ledger.reserve(&order(dseq), spec);
    if let Some(mut copy) = tried {
        assert_eq!(copy.explain(spec).fits, reserved.is_ok());
        assert_eq!(copy.fit(spec).map(Arc::new), reserved);
    }
    reserved
}

proptest! {
    #[test]
    fn any_order_of_calls_matches_recount(steps in prop::collection::vec(step(), 1..40)) {
        let mut ledger = Reservations::new(&config());
        let mut cpus = vec![4000, 4001];
        for step in steps {
            let before = ledger.available();
            match step {
                Step::Reserve(d, cpu, n) => {
                    let is_reserved = ledger.contains(&order(d));
                    let result = reserved_as_tried(&mut ledger, d, &group(vec![unit(1, cpu, n), unit(2, cpu / 2, 1)]));
                    if is_reserved || result.is_err() {
                        prop_assert_eq!(ledger.available(), before);
                    }
                }
                Step::ReserveGpu(d) => {
                    let any = with_gpu(unit(1, 10, 1), &["vendor/nvidia/model/*"]);
                    let _ = reserved_as_tried(&mut ledger, d, &group(vec![any]));
                }
                Step::Adopt(d, cpu, n) => ledger.adopt(&order(d), &[unit(1, cpu, n)], None),
                Step::Unreserve(d) => drop(ledger.unreserve(&order(d))),
                Step::Update(new) => {
                    ledger.update(world(&new));
                    cpus = new;
                }
                Step::Pods(d, node, n) => ledger.update(pods(world(&cpus), d, &[(NODES[node], n)])),
            }
            prop_assert!(ledger.recount_matches());
            if let Some(inventory) = &ledger.inventory {
                let mut exact = inventory.base.dup();
                ledger.reservations.values().for_each(|h| exact.restore(&h.allocation()));
                prop_assert_eq!(format!("{exact:?}"), format!("{:?}", inventory.left));
            }
        }
        let orders: Vec<_> = ledger.orders().cloned().collect();
        for order in orders {
            ledger.unreserve(&order);
        }
        let expected = ledger.inventory.as_ref().map(|k| k.base.metrics()).unwrap_or_default();
        prop_assert_eq!(ledger.available(), expected);
    }
}
