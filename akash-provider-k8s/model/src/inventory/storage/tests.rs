use super::*;
use kube::core::DynamicObject;
use serde_json::{Value, json};

const GIB: i64 = 1 << 30;

#[derive(Default)]
struct World {
    classes: BTreeMap<Box<str>, ClassFacts>,
    volumes: Vec<VolumeFacts>,
    capacities: Vec<CapacityFacts>,
    clusters: Vec<CephClusterFacts>,
    pools: Vec<CephPoolFacts>,
    disks: (i128, i128),
    options: StorageOptions,
}

impl World {
    fn class(mut self, name: &str, provisioner: &str, parameters: &Value) -> Self {
        let class = json!({
            "metadata": {"name": name, "labels": {"akash.network": "true"}},
            "provisioner": provisioner, "parameters": parameters,
        });
        let class = ClassFacts::from_object(&serde_json::from_value(class).unwrap());
        self.classes.insert(name.into(), class);
        self
    }

    /// Adds a volume of `gib` GiB, bound in the namespace `claim`, or unbound if `claim` is empty.
    fn volume(mut self, class: &str, gib: i64, claim: &str) -> Self {
        let mut volume =
            json!({"spec": {"storageClassName": class, "capacity": {"storage": format!("{gib}Gi")}}});
        if !claim.is_empty() {
            volume["spec"]["claimRef"] = json!({"namespace": claim, "name": "data"});
        }
        self.volumes
            .extend(VolumeFacts::from_object(&serde_json::from_value(volume).unwrap()));
        self
    }

    fn free(mut self, class: &str, gib: i64) -> Self {
        let capacity = json!({"metadata": {}, "storageClassName": class, "capacity": format!("{gib}Gi")});
        self.capacities.extend(CapacityFacts::from_object(
            &serde_json::from_value(capacity).unwrap(),
        ));
        self
    }

    fn ceph(mut self, total: i64, used: i64, pool: &Value) -> Self {
        let object = |kind: &str, name: &str, rest: Value| {
            let mut object = json!({
                "apiVersion": "ceph.rook.io/v1", "kind": kind,
                "metadata": {"name": name, "namespace": "rook-ceph"},
            });
            object
                .as_object_mut()
                .unwrap()
                .extend(rest.as_object().unwrap().clone());
            serde_json::from_value::<DynamicObject>(object).unwrap()
        };
        let status = json!({"status": {"ceph": {"capacity": {"bytesTotal": total, "bytesUsed": used}}}});
        self.clusters.push(CephClusterFacts::from_object(&object(
            "CephCluster",
            "my-cluster",
            status,
        )));
        self.pools.push(CephPoolFacts::from_object(&object(
            "CephBlockPool",
            "pool",
            json!({"spec": pool}),
        )));
        self
    }

    fn pools(&self) -> (BTreeMap<String, Quantity>, Vec<IgnoredClass>) {
        pools(StorageInputs {
            classes: &self.classes,
            volumes: &mut self.volumes.iter(),
            capacities: &mut self.capacities.iter(),
            clusters: &self.clusters,
            pools: &self.pools,
            ours: &|namespace| namespace == "ours",
            disks: &|_| self.disks,
            options: &self.options,
        })
    }

    /// Returns the usable GiB of a storage class, and the GiB that other clients use.
    fn gib(&self, class: &str) -> (i64, i64) {
        let (pools, notes) = self.pools();
        let pool = pools.get(class).unwrap_or_else(|| panic!("{notes:?}"));
        (pool.allocatable / GIB, pool.allocated / GIB)
    }
}

fn ceph_class() -> Value {
    json!({"clusterID": "rook-ceph", "pool": "pool"})
}

#[test]
fn class_without_the_label_is_reported_and_not_offered() {
    let mut world = World::default()
        .class("beta3", "example.com/disk", &json!({}))
        .free("beta3", 5);
    world.classes.get_mut("beta3").unwrap().offered = false;
    let (pools, notes) = world.pools();
    assert!(pools.is_empty());
    assert_eq!(
        notes[0].to_string(),
        "storage class `beta3`: missing label akash.network=true"
    );
}

#[test]
fn class_of_unknown_size_is_offered_only_if_enabled() {
    let mut world = World::default()
        .class("nfs", "example.com/nfs", &json!({}))
        .volume("nfs", 7, "others");
    let (pools, notes) = world.pools();
    assert!(pools.is_empty());
    assert_eq!(
        notes[0].to_string(),
        "storage class `nfs` of example.com/nfs: unknown size"
    );
    world.options.unknown_is_unlimited = true;
    assert!(world.pools().0["nfs"].is_unlimited());
    world.options.capacity.insert("nfs".to_owned(), 100 * GIB);
    assert_eq!(world.gib("nfs"), (100, 7), "the configuration has precedence");
}

#[test]
fn driver_capacity_does_not_count_own_volumes_twice() {
    let world = World::default()
        .class("beta2", "topolvm.io", &json!({}))
        .free("beta2", 30)
        .free("beta2", 20)
        .volume("beta2", 10, "ours")
        .volume("beta2", 5, "others")
        .volume("beta2", 1, "");
    assert_eq!(
        world.gib("beta2"),
        (66, 6),
        "60 left for us: 50 free and the 10 that our reservation counts"
    );
}

#[test]
fn ceph_counts_copies_and_volumes_of_others() {
    let total = 300 * GIB;
    let class = |world: World| world.class("beta3", "rook-ceph.rbd.csi.ceph.com", &ceph_class());
    let three = class(World::default().ceph(total, 0, &json!({"replicated": {"size": 3}})));
    assert_eq!(three.gib("beta3"), (95, 0));
    let coded = class(World::default().ceph(
        total,
        0,
        &json!({"erasureCoded": {"dataChunks": 4, "codingChunks": 2}}),
    ));
    assert_eq!(coded.gib("beta3"), (190, 0));
    let unsaid = class(World::default().ceph(total, 0, &json!({})));
    assert_eq!(unsaid.gib("beta3"), (95, 0), "three copies by default");
    let used = three.volume("beta3", 20, "ours").volume("beta3", 30, "others");
    assert_eq!(
        used.gib("beta3"),
        (95, 30),
        "own volumes are counted by reservations"
    );
}

#[test]
fn ceph_data_beyond_own_volumes_is_in_use() {
    let world = World::default()
        .ceph(300 * GIB, 150 * GIB, &json!({"replicated": {"size": 3}}))
        .class("beta3", "rook-ceph.rbd.csi.ceph.com", &ceph_class())
        .volume("beta3", 20, "ours")
        .volume("beta3", 1, "others");
    assert_eq!(world.gib("beta3"), (95, 30), "50 written, 20 of it at most ours");
}

#[test]
fn classes_of_one_ceph_cluster_share_its_size() {
    let world = World::default()
        .ceph(300 * GIB, 0, &json!({"replicated": {"size": 3}}))
        .class("beta2", "rook-ceph.rbd.csi.ceph.com", &ceph_class())
        .class("beta3", "rook-ceph.rbd.csi.ceph.com", &ceph_class())
        .volume("beta2", 20, "ours")
        .volume("beta3", 10, "ours");
    assert_eq!(world.gib("beta2"), (95, 10));
    assert_eq!(world.gib("beta3"), (95, 20));
}

#[test]
fn missing_ceph_cluster_or_size_is_reported() {
    let world = World::default().class("beta3", "rook-ceph.rbd.csi.ceph.com", &ceph_class());
    assert!(
        world.pools().1[0]
            .to_string()
            .contains("no CephCluster in namespace `rook-ceph`")
    );
    let world = world.ceph(0, 0, &json!({}));
    assert!(
        world.pools().1[0]
            .to_string()
            .contains("`my-cluster` reports no size")
    );
}

#[test]
fn local_path_size_is_the_disks_of_the_nodes() {
    let mut world = World::default()
        .class("local", "rancher.io/local-path", &json!({}))
        .volume("local", 10, "ours")
        .volume("local", 5, "others");
    world.disks = (i128::from(200 * GIB), i128::from(40 * GIB));
    assert_eq!(world.gib("local"), (200, 45));
}

#[test]
fn static_volumes_are_summed() {
    let world = World::default()
        .class("manual", "kubernetes.io/no-provisioner", &json!({}))
        .volume("manual", 10, "ours")
        .volume("manual", 5, "others")
        .volume("manual", 3, "");
    assert_eq!(world.gib("manual"), (18, 5));
}

#[test]
fn volume_of_a_deleted_class_is_ignored() {
    let world = World::default()
        .volume("gone", 10, "others")
        .volume("", 10, "others");
    assert_eq!(world.volumes.len(), 1);
    assert_eq!(world.pools(), (BTreeMap::new(), Vec::new()));
}

#[test]
fn only_local_path_volumes_use_the_disk_of_a_node() {
    let node = |provisioner: &str| {
        let volume = json!({
            "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": provisioner}},
            "spec": {"storageClassName": "local", "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]},
            ]}}},
        });
        VolumeFacts::from_object(&serde_json::from_value(volume).unwrap())
            .unwrap()
            .node
    };
    assert_eq!(node("rancher.io/local-path").as_deref(), Some("n1"));
    assert_eq!(node("topolvm.io"), None, "a separate disk");
}
