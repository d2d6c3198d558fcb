use super::*;
use crate::apply::exact;
use crate::apply::item::Id;
use crate::apply::plan::Live;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Default)]
struct Cluster(BTreeMap<Id, Live>);

impl Watched for Cluster {
    fn find(&self, id: &Id) -> Option<Live> {
        self.0.get(id).cloned()
    }

    fn ours(&self) -> Vec<(Id, String)> {
        Vec::new()
    }
}

impl Cluster {
    /// As a deploy leaves it.
    fn of(items: &[Item]) -> Self {
        let mut cluster = Self::default();
        for item in items {
            cluster.apply(&item.id, &item.annotated(item.body.clone(), false));
        }
        cluster
    }

    /// Server-side apply: what others added stays.
    fn apply(&mut self, id: &Id, body: &Value) {
        let live = self.0.entry(id.clone()).or_insert_with(|| Live {
            uid: "new".to_owned(),
            is_deleting: false,
            body: Value::Null,
        });
        merge(&mut live.body, body);
    }

    fn heal(&mut self, items: &[Item]) -> usize {
        let all = found(items, self);
        for Found { write, .. } in &all {
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
            Kind::NetworkPolicy,
            &json!({"metadata": meta("closed"), "spec": {"policyTypes": ["Egress"], "egress": [{"to": []}]}}),
        ),
        Item::new(
            Kind::ResourceQuota,
            &json!({"metadata": meta("quota"), "spec": {"hard": {"pods": 1}}}),
        ),
        Item::new(
            Kind::Deployment,
            &json!({"metadata": meta("web"), "spec": {"replicas": 2, "template": template}}),
        ),
        Item::new(
            Kind::Service,
            &json!({"metadata": meta("web"), "spec": {"ports": [{"port": 80}]}}),
        ),
    ]
}

fn reasons(items: &[Item], cluster: &Cluster) -> Vec<String> {
    let all = found(items, cluster).into_iter();
    all.map(|found| format!("{} {}", found.write.id, found.write.reason))
        .collect()
}

#[test]
fn what_is_as_it_was_applied_is_no_drift_whatever_others_added() {
    let items = items();
    let mut cluster = Cluster::of(&items);
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
fn what_is_gone_or_changed_is_named_with_its_field() {
    let items = items();
    let mut cluster = Cluster::of(&items);
    cluster.0.remove(&items[0].id);
    cluster.0.remove(&items[1].id);
    cluster.0.get_mut(&items[2].id).unwrap().body["spec"]["replicas"] = json!(0);
    cluster.0.get_mut(&items[3].id).unwrap().body["spec"]["ports"][0]["port"] = json!(81);
    let expected = [
        "NetworkPolicy/closed it is not there",
        "ResourceQuota/quota it is not there",
        "Deployment/web somebody changed spec.replicas",
        "Service/web somebody changed spec.ports.0.port",
    ];
    assert_eq!(reasons(&items, &cluster), expected);
}

#[test]
fn what_is_not_surely_an_edit_is_left_to_a_deploy() {
    let items = items();
    for annotations in [
        json!({labels::APPLIED_HASH: "of a newer rendering"}),
        json!({"provider.akash.network/kept": "true"}),
        json!({"provider.akash.network/applied-version": "another provider wrote"}),
        json!({labels::APPLIED_HASH: null}),
    ] {
        let mut cluster = Cluster::of(&items);
        let web = cluster.0.get_mut(&items[2].id).unwrap();
        merge(
            &mut web.body,
            &json!({"metadata": {"annotations": annotations}, "spec": {"replicas": 0}}),
        );
        assert_eq!(reasons(&items, &cluster), [""; 0], "{annotations}");
    }
    let mut cluster = Cluster::of(&items);
    let web = cluster.0.get_mut(&items[2].id).unwrap();
    (web.is_deleting, web.body["spec"]["replicas"]) = (true, json!(0));
    assert_eq!(reasons(&items, &cluster), [""; 0], "it is going");
}

#[test]
fn isolation_with_the_hash_of_another_rendering_is_found_with_the_doubt() {
    let items = items();
    let mut cluster = Cluster::of(&items);
    assert_eq!(items[1].id.kind, Kind::ResourceQuota);
    let edit = json!({
        "metadata": {"annotations": {labels::APPLIED_HASH: "edited"}}, "spec": {"hard": {"pods": 900}},
    });
    merge(&mut cluster.0.get_mut(&items[1].id).unwrap().body, &edit);
    let all = found(&items, &cluster);
    assert!(all.len() == 1 && all[0].has_other_hash && !all[0].write.take_over);
    cluster.heal(&items);
    assert_eq!(reasons(&items, &cluster), [""; 0]);
}

/// An update of one service leaves the objects of the others as they are, with the label of an older record.
#[test]
fn an_object_that_an_update_did_not_write_is_repaired_as_often_as_it_is_edited() {
    let versioned = |version: &str| -> Vec<Item> {
        let labelled = items().into_iter().map(|item| {
            let mut body = item.body;
            body["metadata"]["labels"][labels::MANIFEST_VERSION] = json!(version);
            Item::new(item.id.kind, &body)
        });
        labelled.collect()
    };
    let mut cluster = Cluster::of(&versioned("1"));
    // Others created this policy again, without our labels.
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
fn a_policy_that_somebody_made_anew_becomes_ours() {
    let items = items();
    let mut cluster = Cluster::of(&items);
    let open = json!({"metadata": {"name": "closed"}, "spec": {"egress": [{}]}});
    cluster.0.get_mut(&items[0].id).unwrap().body = open;
    let all = found(&items, &cluster);
    assert_eq!(all.len(), 1);
    assert!(all[0].write.patch.is_some() && !all[0].is_missing);
    cluster.heal(&items);
    assert_eq!(reasons(&items, &cluster), [""; 0]);
}

#[test]
fn isolation_is_restored_before_what_runs() {
    let items = items();
    let mut cluster = Cluster::of(&items);
    for at in 0..items.len() {
        cluster.edit(at, &json!({"spec": {"surplus": true}}));
    }
    // Written in this order: workloads would come before the account's rights.
    let mut reversed = items.clone();
    reversed.reverse();
    let kinds: Vec<Kind> = found(&reversed, &cluster)
        .iter()
        .map(|f| f.write.id.kind)
        .collect();
    let isolation = [Kind::ResourceQuota, Kind::NetworkPolicy];
    assert_eq!(
        kinds,
        [&isolation[..], &[Kind::Service, Kind::Deployment]].concat()
    );
}

#[test]
fn objects_that_open_a_lease_are_foreign_unless_rendered_or_kept() {
    let items = items();
    let named = |kind: Kind, name: &str, label: &str| {
        let labels = (!label.is_empty()).then(|| [(label.to_owned(), "true".to_owned())].into());
        let meta = ObjectMeta {
            labels,
            ..ObjectMeta::default()
        };
        let name = name.to_owned();
        (Id { kind, name }, meta)
    };
    let there = [
        named(Kind::NetworkPolicy, "closed", ""),
        named(Kind::NetworkPolicy, "open", ""),
        named(Kind::NetworkPolicy, "labelled", labels::MANAGED),
        named(Kind::NetworkPolicy, "operators", labels::KEEP),
        named(Kind::Role, "reader", ""),
        named(Kind::RoleBinding, "reader", ""),
        named(Kind::RoleBinding, "system:deployers", ""),
        named(Kind::Service, "address", ""),
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
fn isolation_is_put_right_whatever_is_chosen() {
    let kinds = [Kind::Role, Kind::Deployment, Kind::StatefulSet, Kind::Service];
    assert_eq!(kinds.map(|kind| Drift::Heal.heals(kind)), [true; 4]);
    assert_eq!(
        kinds.map(|kind| Drift::Report.heals(kind)),
        [true, false, false, false]
    );
}

fn hand() -> impl Strategy<Value = (usize, u8)> {
    (0usize..4, 0u8..5)
}

proptest! {
    /// Any order of changes by others ends in what a deploy writes, beside what they added.
    #[test]
    fn any_order_of_foreign_changes_is_put_right_at_once(hands in prop::collection::vec(hand(), 0..30)) {
        let items = items();
        let watched = items.clone();
        let mut cluster = Cluster::of(&watched);
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
