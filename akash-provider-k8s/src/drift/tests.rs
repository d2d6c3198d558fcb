use super::*;
use crate::apply::exact;
use crate::apply::item::ObjectId;
use crate::apply::plan::LiveObject;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Default)]
struct Cluster(BTreeMap<ObjectId, LiveObject>);

impl WatchedObjects for Cluster {
    fn find(&self, id: &ObjectId) -> Option<LiveObject> {
        self.0.get(id).cloned()
    }

    fn ours(&self) -> Vec<(ObjectId, String)> {
        Vec::new()
    }
}

impl Cluster {
    /// Returns a cluster after a deploy of the items.
    fn with_items(items: &[Item]) -> Self {
        let mut cluster = Self::default();
        for item in items {
            cluster.apply(&item.id, &item.annotated(item.body.clone(), false));
        }
        cluster
    }

    /// Applies an object like a server-side apply: fields that other clients added remain.
    fn apply(&mut self, id: &ObjectId, body: &Value) {
        let live = self.0.entry(id.clone()).or_insert_with(|| LiveObject {
            uid: "new".to_owned(),
            is_deleting: false,
            body: Value::Null,
        });
        merge(&mut live.body, body);
    }

    fn heal(&mut self, items: &[Item]) -> usize {
        let all = drifted(items, self);
        for DriftedObject { write, .. } in &all {
            let live = self.0.get_mut(&write.id);
            if let (Some(patch), Some(live)) = (&write.patch, live) {
                exact::tests::merge(&mut live.body, patch);
            } else {
                self.apply(&write.id, &write.body);
            }
        }
        all.len()
    }

    fn edit(&mut self, at: usize, patch: &Value) {
        if let Some(live) = self.0.values_mut().nth(at) {
            merge(&mut live.body, patch);
        }
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn items() -> Vec<Item> {
    let meta = |name: &str| json!({"name": name, "labels": {"akash.network": "true"}});
    let template = json!({"spec": {"containers": [{"name": "web", "image": "nginx:1"}]}});
    vec![
        Item::new(
            ItemKind::NetworkPolicy,
            &json!({"metadata": meta("closed"), "spec": {"policyTypes": ["Egress"], "egress": [{"to": []}]}}),
        ),
        Item::new(
            ItemKind::ResourceQuota,
            &json!({"metadata": meta("quota"), "spec": {"hard": {"pods": 1}}}),
        ),
        Item::new(
            ItemKind::Deployment,
            &json!({"metadata": meta("web"), "spec": {"replicas": 2, "template": template}}),
        ),
        Item::new(
            ItemKind::Service,
            &json!({"metadata": meta("web"), "spec": {"ports": [{"port": 80}]}}),
        ),
    ]
}

fn reasons(items: &[Item], cluster: &Cluster) -> Vec<String> {
    let all = drifted(items, cluster).into_iter();
    all.map(|found| format!("{} {}", found.write.id, found.write.reason))
        .collect()
}

#[test]
fn additions_of_others_are_no_drift() {
    let items = items();
    let mut cluster = Cluster::with_items(&items);
    assert_eq!(reasons(&items, &cluster), [""; 0]);
    for at in 0..cluster.0.len() {
        cluster.edit(
            at,
            &json!({
                "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
                "status": {"replicas": 1},
            }),
        );
    }
    assert_eq!(reasons(&items, &cluster), [""; 0]);
}

#[test]
fn missing_and_changed_objects_are_returned_with_the_field() {
    let items = items();
    let mut cluster = Cluster::with_items(&items);
    cluster.0.remove(&items[0].id);
    cluster.0.remove(&items[1].id);
    cluster.0.get_mut(&items[2].id).unwrap().body["spec"]["replicas"] = json!(0);
    cluster.0.get_mut(&items[3].id).unwrap().body["spec"]["ports"][0]["port"] = json!(81);
    let expected = [
        "NetworkPolicy/closed missing",
        "ResourceQuota/quota missing",
        "Deployment/web changed by another client: spec.replicas",
        "Service/web changed by another client: spec.ports.0.port",
    ];
    assert_eq!(reasons(&items, &cluster), expected);
}

#[test]
fn an_uncertain_edit_is_left_to_a_deploy() {
    let items = items();
    for annotations in [
        json!({labels::APPLIED_HASH: "of a newer rendering"}),
        json!({"provider.akash.network/kept": "true"}),
        json!({"provider.akash.network/applied-version": "another provider wrote"}),
        json!({labels::APPLIED_HASH: null}),
    ] {
        let mut cluster = Cluster::with_items(&items);
        let web = cluster.0.get_mut(&items[2].id).unwrap();
        merge(
            &mut web.body,
            &json!({"metadata": {"annotations": annotations}, "spec": {"replicas": 0}}),
        );
        assert_eq!(reasons(&items, &cluster), [""; 0], "{annotations}");
    }
    let mut cluster = Cluster::with_items(&items);
    let web = cluster.0.get_mut(&items[2].id).unwrap();
    (web.is_deleting, web.body["spec"]["replicas"]) = (true, json!(0));
    assert_eq!(reasons(&items, &cluster), [""; 0], "the object is being deleted");
}

#[test]
fn isolation_with_another_hash_is_returned_as_uncertain() {
    let items = items();
    let mut cluster = Cluster::with_items(&items);
    assert_eq!(items[1].id.kind, ItemKind::ResourceQuota);
    let edit = json!({
        "metadata": {"annotations": {labels::APPLIED_HASH: "edited"}}, "spec": {"hard": {"pods": 900}},
    });
    merge(&mut cluster.0.get_mut(&items[1].id).unwrap().body, &edit);
    let all = drifted(&items, &cluster);
    assert!(all.len() == 1 && all[0].has_other_hash && !all[0].write.take_over);
    cluster.heal(&items);
    assert_eq!(reasons(&items, &cluster), [""; 0]);
}

/// An update of one service leaves the older version label on the objects of other services.
#[test]
fn an_object_with_an_older_version_label_is_repaired_after_each_edit() {
    let versioned = |version: &str| -> Vec<Item> {
        let labelled = items().into_iter().map(|item| {
            let mut body = item.body;
            body["metadata"]["labels"][labels::MANIFEST_VERSION] = json!(version);
            Item::new(item.id.kind, &body)
        });
        labelled.collect()
    };
    let mut cluster = Cluster::with_items(&versioned("1"));
    // Another client recreated this policy without the labels.
    let items = versioned("2");
    let open = json!({"metadata": {"name": "closed"}, "spec": {"egress": [{}]}});
    cluster.0.get_mut(&items[0].id).unwrap().body = open;
    for edit in 0..3 {
        for at in 0..items.len() {
            cluster.edit(at, &json!({"spec": {"surplus": edit}}));
        }
        assert_eq!(cluster.heal(&items), items.len(), "edit {edit}");
        assert_eq!(reasons(&items, &cluster), [""; 0]);
    }
}

#[test]
fn a_policy_recreated_by_another_client_is_taken_over() {
    let items = items();
    let mut cluster = Cluster::with_items(&items);
    let open = json!({"metadata": {"name": "closed"}, "spec": {"egress": [{}]}});
    cluster.0.get_mut(&items[0].id).unwrap().body = open;
    let all = drifted(&items, &cluster);
    assert_eq!(all.len(), 1);
    assert!(all[0].write.patch.is_some() && !all[0].is_missing);
    cluster.heal(&items);
    assert_eq!(reasons(&items, &cluster), [""; 0]);
}

#[test]
fn isolation_is_restored_before_workloads() {
    let items = items();
    let mut cluster = Cluster::with_items(&items);
    for at in 0..items.len() {
        cluster.edit(at, &json!({"spec": {"surplus": true}}));
    }
    // In this order, workloads would precede the rights of the account.
    let mut reversed = items.clone();
    reversed.reverse();
    let kinds: Vec<ItemKind> = drifted(&reversed, &cluster)
        .iter()
        .map(|f| f.write.id.kind)
        .collect();
    let isolation = [ItemKind::ResourceQuota, ItemKind::NetworkPolicy];
    assert_eq!(
        kinds,
        [&isolation[..], &[ItemKind::Service, ItemKind::Deployment]].concat()
    );
}

#[test]
fn objects_that_weaken_isolation_are_foreign_unless_rendered_or_labelled_keep() {
    let items = items();
    let named = |kind: ItemKind, name: &str, label: &str| {
        let labels = (!label.is_empty()).then(|| [(label.to_owned(), "true".to_owned())].into());
        let meta = ObjectMeta {
            labels,
            ..ObjectMeta::default()
        };
        let name = name.to_owned();
        (ObjectId::new(kind, name), meta)
    };
    let there = [
        named(ItemKind::NetworkPolicy, "closed", ""),
        named(ItemKind::NetworkPolicy, "open", ""),
        named(ItemKind::NetworkPolicy, "labelled", labels::MANAGED),
        named(ItemKind::NetworkPolicy, "operators", labels::KEEP),
        named(ItemKind::Role, "reader", ""),
        named(ItemKind::RoleBinding, "reader", ""),
        named(ItemKind::RoleBinding, "system:deployers", ""),
        named(ItemKind::Service, "address", ""),
    ];
    let there = there.iter().map(|(id, meta)| (id.clone(), meta));
    let all = foreign(is_among(&items), there).into_iter();
    let names: Vec<String> = all.map(|(id, _)| id.to_string()).collect();
    assert_eq!(
        names,
        [
            "NetworkPolicy/open",
            "NetworkPolicy/labelled",
            "Role/reader",
            "RoleBinding/reader"
        ]
    );
}

#[test]
fn isolation_is_repaired_in_each_drift_mode() {
    let kinds = [
        ItemKind::Role,
        ItemKind::Deployment,
        ItemKind::StatefulSet,
        ItemKind::Service,
    ];
    assert_eq!(kinds.map(|kind| kind.is_healed(Drift::Heal)), [true; 4]);
    assert_eq!(
        kinds.map(|kind| kind.is_healed(Drift::Report)),
        [true, false, false, false]
    );
}

fn hand() -> impl Strategy<Value = (usize, u8)> {
    (0usize..4, 0u8..5)
}

proptest! {
    /// After any sequence of changes by other clients, one repair restores the deployed objects.
    #[test]
    fn any_order_of_foreign_changes_is_put_right_at_once(hands in prop::collection::vec(hand(), 0..30)) {
        let items = items();
        let watched = items.clone();
        let mut cluster = Cluster::with_items(&watched);
        for (at, what) in hands {
            match what {
                0 => drop(cluster.0.remove(&watched[at].id)),
                1 => cluster.edit(at, &json!({"spec": {"replicas": 0, "egress": [{}], "ports": [{"port": 1}]}})),
                2 => cluster.edit(at, &json!({"metadata": {"labels": {"akash.network": "false"}}})),
                3 => cluster.edit(at, &json!({"metadata": {"annotations": {"note": "b"}}})),
                _ => drop(cluster.heal(&items)),
            }
        }
        cluster.heal(&items);
        prop_assert_eq!(cluster.heal(&items), 0);
        for item in &watched {
            let live = cluster.find(&item.id).unwrap();
            prop_assert_eq!(exact::difference(item.id.kind, &item.body, &live.body), None);
        }
    }
}
