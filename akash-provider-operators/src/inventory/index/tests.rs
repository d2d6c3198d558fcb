use super::super::rules::Pattern;
use super::super::wanted::tests::patched;
use super::*;
use akash_provider_kube_kernel::labels::Labels;
use akash_provider_kube_kernel::labels::MANAGED;

mod explore;

const CLASS: &str = "akash.network/capabilities.storage.class.beta2";

fn rules() -> Rules {
    Rules::new(["beta2".to_owned()]).unwrap()
}

fn view(name: &str, version: u64) -> NodeView {
    NodeView {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        version,
        is_ready: true,
        ..NodeView::default()
    }
}

fn by_name(views: &[NodeView]) -> BTreeMap<ClusterObjectName, NodeView> {
    let named = views.iter().map(|view| (view.name.clone(), view.clone()));
    named.collect()
}

fn listed(views: &[NodeView]) -> InventoryEvent {
    InventoryEvent::Nodes(ObjectChange::Listed(by_name(views)))
}

fn put(view: NodeView) -> InventoryEvent {
    InventoryEvent::Nodes(ObjectChange::Put(view.name.clone(), view))
}

fn classes(offered: bool) -> InventoryEvent {
    InventoryEvent::Classes(ObjectChange::Listed(BTreeMap::from([(
        "beta2".to_owned(),
        offered,
    )])))
}

fn listed_index(views: &[NodeView]) -> LabelIndex {
    let mut index = LabelIndex::new(rules());
    index.apply(listed(views));
    index.apply(classes(true));
    index
}

/// Returns the metadata of the node in a response of the API server.
fn meta(view: &NodeView) -> ObjectMeta {
    let path = "f:nvidia.com~1gpu.present";
    let manager = json!([{
        "manager": super::super::node::MANAGER, "operation": "Update",
        "fieldsV1": {"f:metadata": {"f:labels": {path.replace("~1", "/"): {}}}},
    }]);
    let mut meta = json!({
        "name": view.name, "uid": view.uid, "resourceVersion": view.version.to_string(), "labels": view.labels,
    });
    if view.gpu_present_is_ours {
        meta["managedFields"] = manager;
    }
    serde_json::from_value(meta).unwrap()
}

fn names(names: &[&str]) -> BTreeSet<ClusterObjectName> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn no_label_is_written_before_nodes_and_classes_were_listed() {
    for first in [listed(&[view("one", 1)]), classes(true)] {
        let mut index = LabelIndex::new(rules());
        index.apply(first.clone());
        index.apply(put(view("one", 1)));
        assert!(!index.is_known());
        assert_eq!(
            index.work("one"),
            InventoryWork::default(),
            "one list is not enough"
        );
        let second = match first {
            InventoryEvent::Nodes(_) => classes(true),
            _ => listed(&[view("one", 1)]),
        };
        index.apply(second);
        assert!(index.is_known());
        let write = index.work("one").write.unwrap();
        let labels = &write.patch["metadata"]["labels"];
        assert_eq!(
            *labels,
            json!({MANAGED: "true", CLASS: "1"}),
            "all labels at once"
        );
    }
}

#[test]
fn only_changes_that_affect_labels_reconcile_a_node() {
    let mut index = listed_index(&[view("one", 1), view("two", 1)]);
    assert!(
        index.apply(put(view("one", 7))).is_empty(),
        "an update of the kubelet"
    );
    assert_eq!(index.work("one").write.unwrap().version, 7, "the newest version");
    assert!(index.apply(put(view("one", 3))).is_empty());
    assert_eq!(
        index.work("one").write.unwrap().version,
        7,
        "an old event is dropped"
    );
    let mut cordoned = view("one", 8);
    cordoned.is_cordoned = true;
    assert_eq!(index.apply(put(cordoned.clone())), names(&["one"]));
    // A list from before an applied event.
    assert!(index.apply(listed(&[view("one", 7), view("two", 1)])).is_empty());
    assert!(index.nodes().any(|(_, node)| *node == cordoned));
    assert_eq!(
        index.apply(listed(&[cordoned])),
        names(&["two"]),
        "the node is deleted"
    );
    assert!(index.apply(classes(true)).is_empty(), "the same classes");
    assert_eq!(index.apply(classes(false)), names(&["one"]));
    let other = ObjectChange::Put("other".to_owned(), false);
    assert!(
        index.apply(InventoryEvent::Classes(other)).is_empty(),
        "a class that is not offered"
    );
    assert_eq!(
        index.apply(InventoryEvent::Rules(Rules::default())),
        names(&["one"])
    );
    assert_eq!(
        index.apply(InventoryEvent::List(Database::default())),
        names(&["one"])
    );
}

#[test]
fn response_for_a_replaced_node_is_dropped() {
    let mut index = listed_index(&[view("one", 1)]);
    let write = index.work("one").write.unwrap();
    let mut new = view("one", 9);
    new.uid = "new".to_owned();
    assert_eq!(index.apply(put(new)), names(&["one"]));
    let mut answer = patched(&view("one", 1), &write.patch);
    answer.version = 10;
    assert!(
        index
            .apply(InventoryEvent::Answered(
                "one".to_owned(),
                Box::new(meta(&answer))
            ))
            .is_empty()
    );
    let again = index.work("one").write.unwrap();
    assert_eq!(
        (again.version, &again.patch["metadata"]["uid"]),
        (9, &json!("new"))
    );
    // A late deletion of the old node does not delete the new one.
    assert!(
        index
            .apply(InventoryEvent::Nodes(ObjectChange::Gone(
                "one".to_owned(),
                view("one", 2)
            )))
            .is_empty()
    );
    assert_eq!(index.names(), names(&["one"]));
}

#[test]
fn node_that_new_rules_exclude_loses_its_labels() {
    let mut labelled = view("one", 1);
    labelled.labels = Labels::from([
        (MANAGED.to_owned(), "true".to_owned()),
        (CLASS.to_owned(), "1".to_owned()),
    ]);
    let mut index = listed_index(&[labelled]);
    assert_eq!(
        index.work("one"),
        InventoryWork::default(),
        "the labels are in the desired state"
    );
    let mut rules = rules();
    rules.exclude(Pattern::new("one").unwrap()).unwrap();
    index.apply(InventoryEvent::Rules(rules));
    let write = index.work("one").write.unwrap();
    assert_eq!(
        write.patch["metadata"]["labels"],
        json!({MANAGED: null, CLASS: null})
    );
}
