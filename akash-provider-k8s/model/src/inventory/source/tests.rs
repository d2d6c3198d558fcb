use super::*;
use crate::inventory::facts::{FactChange, NamespacedName};
use crate::leased_ips::AddressCount;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::watch::{Sink, WatchObserver};
use futures::StreamExt;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";

struct World {
    shared: Arc<CapacityTracker>,
    updates: BoxStream<'static, Result<InventoryUpdate, Error>>,
    _publisher: AbortOnDropHandle<()>,
}

impl World {
    fn new() -> Self {
        Self::with(&CapacityOptions::default())
    }

    fn with(options: &CapacityOptions) -> Self {
        let mut settings = KubeSettings::new(PROVIDER.parse().unwrap());
        settings.leased_ips = true;
        settings.leased_ip_pool = 5;
        let shared = Arc::new(CapacityTracker::new(Some(settings), options));
        let publisher = tokio::spawn(Arc::clone(&shared).publish());
        Self {
            updates: shared.updates.watch(),
            shared,
            _publisher: AbortOnDropHandle::new(publisher),
        }
    }

    fn node(&self, name: &str) {
        let node = json!({"metadata": {"name": name, "labels": {"akash.network": "true"}}});
        let facts = NodeFacts::from_object(&serde_json::from_value(node).unwrap()).unwrap();
        let key = NamespacedName::new("", name);
        self.shared
            .apply([FactChange::Set(key, ObjectFacts::Node(facts))]);
    }

    fn listed(&self, kinds: &[InventoryKind]) {
        for kind in kinds {
            self.reporter(*kind).listed();
        }
    }

    fn reporter(&self, kind: InventoryKind) -> Reporter {
        let shared = Arc::clone(&self.shared);
        Reporter { kind, shared }
    }

    fn fails(&self, kind: InventoryKind, why: &str) {
        self.reporter(kind).failed(why.to_owned(), Instant::now());
    }

    /// Waits for the next update, and returns its usage of leased addresses.
    async fn addresses(&mut self) -> (u32, u32, Vec<LeaseId>) {
        let next = timeout(Duration::from_millis(500), self.updates.next()).await;
        let usage = next.unwrap().unwrap().unwrap().leased_ips.unwrap();
        (usage.total, usage.in_use, usage.confirmed)
    }

    /// Waits for the next update or error, for at most half a second of paused time.
    async fn next_update(&mut self) -> Option<Result<usize, String>> {
        let next_update = timeout(Duration::from_millis(500), self.updates.next()).await;
        let next_update = next_update.ok()?.expect("the stream goes on");
        Some(match next_update {
            Ok(update) => Ok(update.inventory.metrics().nodes.len()),
            Err(error) => Err(error.to_string()),
        })
    }
}

const ESSENTIAL: [InventoryKind; 3] = [InventoryKind::Node, InventoryKind::Pod, InventoryKind::Lease];

#[tokio::test(start_paused = true)]
async fn no_update_before_all_kinds_were_listed() {
    let mut world = World::new();
    world.node("n1");
    for kind in InventoryKind::ALL {
        assert_eq!(world.next_update().await, None, "before {kind:?}");
        world.listed(&[kind]);
    }
    assert_eq!(world.next_update().await, Some(Ok(1)));
    assert_eq!(world.next_update().await, None, "no change");
}

#[tokio::test(start_paused = true)]
async fn watches_report_their_connection_restarts_and_last_event() {
    let world = World::new();
    let watch = || world.shared.watches().get("nodes").copied();
    world.listed(&[InventoryKind::Pod]);
    assert_eq!(world.shared.watches(), BTreeMap::new(), "no watch is started");
    let reporter = world.reporter(InventoryKind::Node);
    reporter.starts();
    let expected = |is_connected, starts, failures, last_event: Option<u64>| {
        let last_event = last_event.map(Duration::from_secs);
        Some(InventoryWatch {
            is_connected,
            starts,
            failures,
            last_event,
        })
    };
    assert_eq!(watch(), expected(false, 1, 0, None));
    let mut sink = CountSink::<Node>::new(InventoryKind::Node, &world.shared, Box::new(|_| None));
    sink.complete(Instant::now());
    reporter.listed();
    sleep(Duration::from_secs(7)).await;
    assert_eq!(watch(), expected(true, 1, 0, Some(7)));
    world.fails(InventoryKind::Node, "connection refused");
    sink.applied(Node::default());
    sleep(Duration::from_secs(3)).await;
    assert_eq!(watch(), expected(false, 1, 1, Some(3)));
    reporter.starts();
    reporter.works();
    assert_eq!(watch(), expected(true, 2, 1, Some(3)));
}

#[tokio::test(start_paused = true)]
async fn burst_is_one_update_within_a_second() {
    let mut world = World::new();
    world.listed(&InventoryKind::ALL);
    assert_eq!(world.next_update().await, Some(Ok(0)));
    let began = Instant::now();
    for n in 0..100 {
        world.node(&format!("n{n}"));
    }
    assert_eq!(world.next_update().await, Some(Ok(100)));
    assert!(
        began.elapsed() <= Duration::from_millis(100),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(world.next_update().await, None);
}

#[tokio::test(start_paused = true)]
async fn w25_watch_failure_keeps_the_last_update_and_is_reported_once() {
    for kind in ESSENTIAL {
        let mut world = World::new();
        world.node("n1");
        world.listed(&InventoryKind::ALL);
        assert_eq!(world.next_update().await, Some(Ok(1)));
        world.fails(kind, "connection refused");
        let failure = world
            .next_update()
            .await
            .expect("the failure is reported")
            .unwrap_err();
        assert!(
            failure.contains("connection refused") && failure.contains(kind.plural()),
            "{failure}"
        );
        world.fails(kind, "connection refused again");
        world.node("n2");
        assert_eq!(world.next_update().await, None, "no empty or partial cluster");
        world.reporter(kind).works();
        assert_eq!(world.next_update().await, Some(Ok(2)), "the missed change");
        world.fails(kind, "again");
        assert!(
            world
                .next_update()
                .await
                .expect("each failure is reported")
                .is_err()
        );
        world.reporter(kind).works();
        assert_eq!(
            world.next_update().await,
            Some(Ok(2)),
            "an update after the outage without a change"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn late_subscriber_receives_the_last_update() {
    let mut world = World::new();
    world.node("n1");
    world.listed(&InventoryKind::ALL);
    assert_eq!(world.next_update().await, Some(Ok(1)));
    world.fails(InventoryKind::Pod, "gone");
    assert!(world.next_update().await.expect("reported").is_err());
    world.updates = world.shared.updates.watch();
    assert_eq!(world.next_update().await, Some(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn unreadable_storage_delays_the_first_update_and_is_reported() {
    let mut world = World::new();
    let readable: Vec<_> = InventoryKind::ALL
        .into_iter()
        .filter(|k| *k != InventoryKind::Volume)
        .collect();
    world.listed(&readable);
    world.fails(InventoryKind::Volume, "forbidden");
    assert_eq!(world.next_update().await, None, "the list may be late");
    tokio::time::advance(Duration::from_secs(20)).await;
    let update = world.updates.next().await.unwrap().unwrap();
    let ignored = update.inventory.explain(&[]).ignored;
    assert_eq!(ignored.len(), 1);
    assert_eq!(ignored[0].reason(), "persistentvolumes cannot be read: forbidden");
    world.listed(&[InventoryKind::Volume]);
    let update = world.updates.next().await.unwrap().unwrap();
    assert!(update.inventory.explain(&[]).ignored.is_empty());
    world.fails(InventoryKind::Volume, "for a moment");
    world.node("n1");
    assert_eq!(world.next_update().await, Some(Ok(1)), "other updates continue");
}

#[tokio::test(start_paused = true)]
async fn cluster_without_rook_causes_no_delay() {
    let mut world = World::new();
    let there = InventoryKind::ALL
        .into_iter()
        .filter(|k| !matches!(k, InventoryKind::CephCluster | InventoryKind::CephPool));
    world.listed(&there.collect::<Vec<_>>());
    for kind in [InventoryKind::CephCluster, InventoryKind::CephPool] {
        world.reporter(kind).absent("404".to_owned());
    }
    assert_eq!(world.next_update().await, Some(Ok(0)));
}

#[tokio::test(start_paused = true)]
async fn cluster_without_the_manifest_kind_is_unknown() {
    let mut world = World::new();
    world.listed(
        &InventoryKind::ALL
            .into_iter()
            .filter(|k| *k != InventoryKind::Lease)
            .collect::<Vec<_>>(),
    );
    world.reporter(InventoryKind::Lease).absent("404".to_owned());
    let failure = world
        .next_update()
        .await
        .expect("the failure is reported")
        .unwrap_err();
    assert!(failure.contains("manifests cannot be watched: 404"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn configured_pool_limits_the_number_of_addresses() {
    let mut world = World::new();
    world.listed(&InventoryKind::ALL);
    let update = world.updates.next().await.unwrap().unwrap();
    assert_eq!(update.leased_ips.unwrap().total, 5);
}

fn lease() -> LeaseId {
    format!("{PROVIDER}/1/1/1/{PROVIDER}").parse().unwrap()
}

/// Returns the Manifest of [`lease`].
fn manifest(expose: &Value) -> DynamicObject {
    let manifest = json!({
        "apiVersion": "akash.network/v2beta2", "kind": "Manifest",
        "metadata": {"name": lease().namespace(), "namespace": "lease"},
        "spec": {
            "lease_id": {"owner": PROVIDER, "dseq": "1", "gseq": 1, "oseq": 1, "provider": PROVIDER},
            "group": {"name": "g", "services": [{
                "name": "web", "image": "i", "count": 1, "expose": expose,
                "resources": {"id": 7, "cpu": {"units": 1}, "gpu": {"units": 0}, "memory": {"size": "1"}},
            }]},
        },
    });
    serde_json::from_value(manifest).unwrap()
}

fn leases(world: &World) -> CountSink<DynamicObject> {
    let settings = KubeSettings::new(PROVIDER.parse().unwrap());
    let read = move |m: &DynamicObject| {
        LeaseFacts::from_object(m, &settings)
            .unwrap()
            .map(ObjectFacts::Lease)
    };
    CountSink::new(InventoryKind::Lease, &world.shared, Box::new(read))
}

fn service(name: &str, lease: Option<&LeaseId>, ip: Option<&str>) -> DynamicObject {
    let labels = lease.map(|lease| {
        let mut labels = labels::lease(lease);
        labels.insert(labels::MANAGED.to_owned(), "true".to_owned());
        labels.insert(labels::SERVICE_TARGET.to_owned(), "metal-lb".to_owned());
        labels
    });
    let addresses: Vec<Value> = ip.iter().map(|ip| json!({"ip": ip})).collect();
    let service = json!({
        "metadata": {"namespace": "ns", "name": name, "labels": labels},
        "spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": addresses}},
    });
    serde_json::from_value(service).unwrap()
}

#[tokio::test(start_paused = true)]
async fn address_of_a_lease_is_confirmed_once_it_is_assigned() {
    let mut world = World::new();
    let mut leases = leases(&world);
    let (shared, kind) = (&world.shared, InventoryKind::AddressPool);
    let read = |object: &DynamicObject| Some(ObjectFacts::AddressPool(pool(object)));
    let mut pools = CountSink::new(kind, shared, Box::new(read));
    let read = |object: &DynamicObject| balancer(object).map(ObjectFacts::Balancer);
    let mut services = CountSink::new(InventoryKind::Balancer, shared, Box::new(read));
    let object = json!({"metadata": {"name": "p"}, "spec": {"addresses": ["203.0.113.0/28"]}});
    pools.page(vec![serde_json::from_value(object).unwrap()]);
    pools.complete(Instant::now());
    services.page(vec![service("edge", None, Some("203.0.113.3"))]);
    services.complete(Instant::now());
    let declared =
        json!([{"port": 80, "external_port": 8080, "proto": "TCP", "global": true, "ip": "front"}]);
    leases.page(vec![manifest(&declared)]);
    world.listed(&InventoryKind::ALL);
    assert_eq!(
        world.addresses().await,
        (6, 1, vec![]),
        "five addresses are for leases"
    );
    let own = |ip| service("web-ip-8080-tcp", Some(&lease()), ip);
    services.applied(own(None));
    assert_eq!(world.next_update().await, None);
    services.applied(own(Some("203.0.113.1")));
    assert_eq!(world.addresses().await, (6, 2, vec![lease()]));
    leases.deleted(manifest(&declared));
    assert_eq!(
        world.addresses().await,
        (6, 2, vec![]),
        "in use until the Service is deleted"
    );
    services.deleted(own(None));
    assert_eq!(world.addresses().await, (6, 1, vec![]));
}

#[tokio::test(start_paused = true)]
async fn count_of_the_ip_operator_is_published() {
    let options = CapacityOptions {
        counts_addresses: false,
        ..CapacityOptions::default()
    };
    let mut world = World::with(&options);
    let count = world.shared.leased_ips.clone().unwrap().leased_ip_count;
    let following = Arc::clone(&world.shared).follow_count(count.changes());
    let _following = AbortOnDropHandle::new(tokio::spawn(following));
    world.listed(&InventoryKind::ALL);
    assert_eq!(world.addresses().await, (5, 0, vec![]), "the configured size");
    assert!(count.set(counted(16, 3)));
    assert_eq!(world.addresses().await, (8, 3, vec![]));
}

fn counted(total: u32, others: u32) -> AddressCount {
    let mut count = AddressCount::default();
    (count.total, count.others) = (total, others);
    count
}

#[tokio::test(start_paused = true)]
async fn repeated_list_keeps_its_objects_and_removes_the_others() {
    let mut world = World::new();
    let space = lease().namespace();
    let manifest = manifest(&json!(null));
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web-0", "namespace": space, "labels": {
            "akash.network": "true", "akash.network/namespace": space, "akash.network/manifest-service": "web",
        }},
        "spec": {"nodeName": "n1", "containers": []},
    }))
    .unwrap();
    let mut leases = leases(&world);
    let mut pods = CountSink::new(
        InventoryKind::Pod,
        &world.shared,
        Box::new(|p| PodFacts::from_object(p).map(ObjectFacts::Pod)),
    );
    for times in 0..2 {
        leases.begin();
        leases.page(vec![manifest.clone()]);
        leases.complete(Instant::now());
        pods.begin();
        pods.page(vec![pod.clone()]);
        pods.complete(Instant::now());
        world.listed(&InventoryKind::ALL);
        if times == 0 {
            let update = world.updates.next().await.unwrap().unwrap();
            assert_eq!(update.placements[0].places[0].unit, 7);
        }
    }
    assert_eq!(world.next_update().await, None, "an equal list is no change");
    pods.begin();
    pods.complete(Instant::now());
    let update = world.updates.next().await.unwrap().unwrap();
    assert!(update.placements.is_empty());
}

#[tokio::test(start_paused = true)]
async fn addresses_come_from_the_pools_after_the_first_count() {
    let mut settings = KubeSettings::new(PROVIDER.parse().unwrap());
    settings.leased_ips = true;
    let shared = |settings: &KubeSettings| {
        CapacityTracker::new(
            settings.leased_ips.then(|| settings.clone()),
            &CapacityOptions::default(),
        )
    };
    let pool = |shared: &CapacityTracker| shared.leased_ips().map(|usage| (usage.total, usage.in_use));
    let tracker = shared(&settings);
    assert_eq!(pool(&tracker), None, "an unknown number is not published");
    assert!(settings.leased_ip_count.set(counted(16, 3)));
    assert_eq!(pool(&tracker), Some((16, 3)), "the count is shared");
    assert!(
        !settings.leased_ip_count.set(counted(16, 3)),
        "an equal count is no change"
    );
    // A configured maximum applies, and addresses of other users do not lower it.
    settings.leased_ip_pool = 5;
    assert_eq!(pool(&shared(&settings)), Some((8, 3)));
    settings.leased_ip_pool = 500;
    assert_eq!(pool(&shared(&settings)), Some((16, 3)));
    settings.leased_ips = false;
    assert_eq!(pool(&shared(&settings)), None);
    // Without pools the configured number applies.
    let mut alone = KubeSettings::new(PROVIDER.parse().unwrap());
    (alone.leased_ips, alone.leased_ip_pool) = (true, 5);
    assert_eq!(pool(&shared(&alone)), Some((5, 0)));
}

#[tokio::test(start_paused = true)]
async fn changed_number_of_addresses_is_published_alone() {
    let mut world = World::new();
    world.node("a");
    world.listed(&InventoryKind::ALL);
    assert_eq!(world.next_update().await, Some(Ok(1)));
    assert_eq!(world.next_update().await, None);
    world.shared.inner().recounted = true;
    world.shared.change.notify_one();
    assert_eq!(world.next_update().await, Some(Ok(1)));
    assert_eq!(world.next_update().await, None);
}

/// Starts a capacity count of a cluster with two nodes and a pod.
async fn whole() -> (WholeInventory, AbortOnDropHandle<()>) {
    let (sender, publications) = watch::channel(None);
    let shared = Arc::new(CapacityTracker {
        publisher: Some(sender),
        ..CapacityTracker::new(None, &CapacityOptions::default())
    });
    let publisher = AbortOnDropHandle::new(tokio::spawn(Arc::clone(&shared).publish()));
    for name in ["n1", "n2"] {
        let node = json!({
            "metadata": {"name": name, "labels": {"akash.network": "true"}},
            "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let facts = NodeFacts::from_object(&serde_json::from_value(node).unwrap()).unwrap();
        shared.apply([FactChange::Set(
            NamespacedName::new("", name),
            ObjectFacts::Node(facts),
        )]);
    }
    pod(&shared, "1");
    for kind in InventoryKind::ALL {
        let shared = Arc::clone(&shared);
        Reporter { kind, shared }.listed();
    }
    let tasks = Vec::new();
    (
        WholeInventory {
            shared,
            publications,
            tasks,
        },
        publisher,
    )
}

fn pod(shared: &CapacityTracker, cpu: &str) {
    let pod = json!({
        "metadata": {"name": "web-0", "namespace": "ns", "uid": "u1"},
        "spec": {"nodeName": "n1", "containers": [{"name": "web", "resources": {"requests": {"cpu": cpu}}}]},
    });
    let facts = PodFacts::from_object(&serde_json::from_value(pod).unwrap()).unwrap();
    shared.apply([FactChange::Set(
        NamespacedName::new("ns", "web-0"),
        ObjectFacts::Pod(facts),
    )]);
}

/// Returns the free CPU of the first node.
fn free(counting: &CountHandle) -> u64 {
    counting.count().metrics().nodes[0].cpu.available
}

async fn next(inventory: &mut WholeInventory) -> Option<Result<CountHandle, String>> {
    timeout(Duration::from_millis(500), inventory.next()).await.ok()
}

#[tokio::test(start_paused = true)]
async fn count_is_computed_on_request_and_not_per_pod() {
    let (mut inventory, _publisher) = whole().await;
    next(&mut inventory).await.unwrap().unwrap();
    for cpu in ["2", "3", "4"] {
        pod(&inventory.shared, cpu);
        next(&mut inventory).await.unwrap().unwrap();
    }
    assert!(
        inventory.shared.inner().tally.is_uncounted(),
        "no count was requested"
    );
    pod(&inventory.shared, "4");
    assert!(next(&mut inventory).await.is_none(), "nothing changed");
    pod(&inventory.shared, "5");
    let counting = next(&mut inventory).await.unwrap().unwrap();
    assert_eq!(free(&counting), 3_000);
}

#[tokio::test(start_paused = true)]
async fn count_in_between_does_not_hide_a_change() {
    let (mut inventory, _publisher) = whole().await;
    let old = next(&mut inventory).await.unwrap().unwrap();
    assert_eq!(free(&old), 7_000);
    pod(&inventory.shared, "3");
    // Before the change is published.
    assert_eq!(free(&old), 5_000);
    let new = next(&mut inventory).await.unwrap().unwrap();
    assert_eq!(free(&new), 5_000);
}

#[tokio::test(start_paused = true)]
async fn reason_of_an_unknown_count_is_published() {
    let (mut inventory, _publisher) = whole().await;
    next(&mut inventory).await.unwrap().unwrap();
    let shared = Arc::clone(&inventory.shared);
    let kind = InventoryKind::Pod;
    Reporter { kind, shared }.failed("refused".to_owned(), Instant::now());
    let error = next(&mut inventory).await.unwrap().unwrap_err();
    assert!(error.contains("pods cannot be watched: refused"), "{error}");
}
