use super::*;

#[derive(Default)]
struct Cache(BTreeMap<ObjectId, LiveObject>);

impl WatchedObjects for Cache {
    fn find(&self, id: &ObjectId) -> Option<LiveObject> {
        self.0.get(id).cloned()
    }

    fn ours(&self) -> Vec<(ObjectId, String)> {
        let alive = self.0.iter().filter(|(_, live)| !live.is_deleting);
        alive.map(|(id, live)| (id.clone(), live.uid.clone())).collect()
    }
}

impl Cache {
    fn take(&mut self, id: &ObjectId, body: Value) {
        let live = LiveObject {
            uid: format!("uid of {id}"),
            is_deleting: false,
            body,
        };
        self.0.insert(id.clone(), live);
    }

    fn run(&mut self, plan: &Plan) {
        for write in plan.writes.iter().filter(|w| w.id.kind.is_watched()) {
            self.take(&write.id, write.body.clone());
        }
        for delete in &plan.deletes {
            self.0.remove(&delete.id);
        }
    }
}

fn workload(image: &str, replicas: u32, version: &str) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "template": {
            "metadata": {"labels": {labels::MANIFEST_VERSION: version}},
            "spec": {"containers": [{"name": "web", "image": image}]},
        }},
    })
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn plan_of(items: &[Item], ledger: &ObjectHashes, adopted: &[&str], cache: &Cache) -> Plan {
    let there = items.iter().map(|i| (i.id.clone(), found(i))).collect();
    plan_with(items, ledger, &there, adopted, cache)
}

fn plan_with(
    items: &[Item],
    ledger: &ObjectHashes,
    there: &ExistingObjects,
    adopted: &[&str],
    cache: &Cache,
) -> Plan {
    let adopted = adopted.iter().map(|&k| k.to_owned()).collect();
    let wanted = DesiredState {
        items,
        ledger,
        there,
        without_password: &BTreeSet::new(),
        adopted: &adopted,
        prune: false,
    };
    plan(&wanted, cache)
}

/// Returns the item as the API server returns it after a write.
fn found(item: &Item) -> ExistingObject {
    ExistingObject {
        is_deleting: false,
        data: item.data.clone(),
    }
}

fn written(plan: &Plan) -> Vec<String> {
    plan.writes.iter().map(|w| w.id.to_string()).collect()
}

fn version_of(write: &ObjectWrite) -> &str {
    let labels = write.body.pointer("/spec/template/metadata/labels").unwrap();
    labels[labels::MANIFEST_VERSION].as_str().unwrap()
}

#[test]
fn an_unchanged_object_is_not_written() {
    let items = [
        Item::new(ItemKind::NetworkPolicy, &named("closed")),
        Item::new(ItemKind::ResourceQuota, &named("quota")),
        Item::new(ItemKind::Deployment, &workload("a", 1, "1")),
    ];
    let mut cache = Cache::default();
    let first = plan_of(&items, &ObjectHashes::new(), &[], &cache);
    assert_eq!(
        written(&first),
        ["NetworkPolicy/closed", "ResourceQuota/quota", "Deployment/web"]
    );
    assert!(first.writes.iter().all(|w| !w.take_over));
    cache.run(&first);
    let ledger = ledger_after(&items);
    assert!(plan_of(&items, &ledger, &[], &cache).is_empty());
    let unfinished = ledger_during(&ledger, &first);
    assert_eq!(
        written(&plan_of(&items, &unfinished, &[], &cache)),
        ["ResourceQuota/quota"]
    );
}

#[test]
fn a_new_version_or_replica_count_replaces_no_pod() {
    let mut cache = Cache::default();
    let one = [Item::new(ItemKind::Deployment, &workload("a", 1, "1"))];
    cache.run(&plan_of(&one, &ObjectHashes::new(), &[], &cache));
    let newer = [Item::new(ItemKind::Deployment, &workload("a", 1, "2"))];
    assert!(plan_of(&newer, &ObjectHashes::new(), &[], &cache).is_empty());
    let more = [Item::new(ItemKind::Deployment, &workload("a", 2, "2"))];
    let plan = plan_of(&more, &ObjectHashes::new(), &[], &cache);
    assert_eq!(version_of(&plan.writes[0]), "1", "the template is unchanged");
    let other = [Item::new(ItemKind::Deployment, &workload("b", 2, "2"))];
    let plan = plan_of(&other, &ObjectHashes::new(), &[], &cache);
    assert_eq!(version_of(&plan.writes[0]), "2");
}

#[test]
fn an_edited_object_is_restored() {
    let items = [Item::new(ItemKind::Deployment, &workload("a", 1, "1"))];
    let mut cache = Cache::default();
    cache.run(&plan_of(&items, &ObjectHashes::new(), &[], &cache));
    let live = cache.0.get_mut(&items[0].id).unwrap();
    live.body["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil");
    let plan = plan_of(&items, &ObjectHashes::new(), &[], &cache);
    assert!(
        plan.writes[0].reason.contains("spec.template.spec.containers.0"),
        "{plan:?}"
    );
    cache.run(&plan);
    assert!(plan_of(&items, &ObjectHashes::new(), &[], &cache).is_empty());
}

#[test]
fn a_workload_of_the_other_kind_is_deleted_after_the_new_one_is_written() {
    let mut cache = Cache::default();
    let before = [Item::new(ItemKind::Deployment, &workload("a", 1, "1"))];
    cache.run(&plan_of(&before, &ObjectHashes::new(), &[], &cache));
    let after = [Item::new(ItemKind::StatefulSet, &workload("a", 1, "2"))];
    let plan = plan_of(&after, &ObjectHashes::new(), &[], &cache);
    assert_eq!(written(&plan), ["StatefulSet/web"]);
    assert_eq!(plan.deletes[0].id, before[0].id);
    assert_eq!(plan.deletes[0].uid.as_deref(), Some("uid of Deployment/web"));
    cache.run(&plan);
    assert_eq!(cache.0.len(), 1, "one workload");
    cache.0.get_mut(&after[0].id).unwrap().is_deleting = true;
    let blocked = plan_of(&after, &ObjectHashes::new(), &[], &cache);
    assert_eq!(
        blocked.blocked,
        [after[0].id.clone()],
        "an object being deleted is not written"
    );
}

#[test]
fn an_object_in_the_ledger_may_be_missing() {
    for kind in ItemKind::ALL.into_iter().filter(|kind| !kind.is_watched()) {
        let items = [Item::new(kind, &named("one")), Item::new(kind, &named("two"))];
        let ledger = ledger_after(&items);
        let mut there: ExistingObjects = items.iter().map(|i| (i.id.clone(), found(i))).collect();
        let plan = |there: &ExistingObjects| plan_with(&items, &ledger, there, &[], &Cache::default());
        assert!(plan(&there).is_empty(), "{kind:?}");
        there.remove(&items[1].id);
        assert_eq!(written(&plan(&there)), [format!("{kind:?}/two")]);
        there.entry(items[0].id.clone()).or_default().is_deleting = true;
        assert_eq!(
            plan(&there).blocked,
            [items[0].id.clone()],
            "created after the deletion"
        );
    }
}

#[test]
fn a_login_is_compared_with_the_existing_one() {
    let login = |text: &str| {
        let secret = json!({"metadata": {"name": "docker-creds-web"}, "data": {".dockerconfigjson": text}});
        [Item::new(ItemKind::Secret, &secret)]
    };
    let (old, new) = (login("b2xk"), login("bmV3"));
    let ledger = ledger_after(&old);
    assert_eq!(
        ledger,
        ledger_after(&new),
        "the ledger does not contain the password"
    );
    let mut there = ExistingObjects::from([(old[0].id.clone(), found(&old[0]))]);
    let cache = Cache::default();
    assert!(plan_with(&old, &ledger, &there, &[], &cache).is_empty());
    assert_eq!(
        written(&plan_with(&new, &ledger, &there, &[], &cache)),
        ["Secret/docker-creds-web"]
    );
    // Additional entries are ignored.
    let found = there.entry(old[0].id.clone()).or_default();
    found.data.insert("note".to_owned(), "x".to_owned());
    assert!(plan_with(&old, &ledger, &there, &[], &cache).is_empty());
    let unknown = BTreeSet::from([new[0].id.clone()]);
    let mut wanted = DesiredState {
        items: &new,
        ledger: &ObjectHashes::new(),
        there: &there,
        without_password: &unknown,
        adopted: &BTreeSet::new(),
        prune: false,
    };
    assert!(
        plan(&wanted, &cache).is_empty(),
        "an unknown password does not replace a login"
    );
    let nothing = ExistingObjects::new();
    wanted.there = &nothing;
    assert_eq!(plan(&wanted, &cache).writes.len(), 1);
}

#[test]
fn an_object_that_left_the_manifest_is_deleted_by_name() {
    let secret = [Item::new(ItemKind::Secret, &named("docker-creds-web"))];
    let ledger = ledger_after(&secret);
    let plan = plan_of(&[], &ledger, &[], &Cache::default());
    assert_eq!(
        plan.deletes,
        [Delete {
            id: secret[0].id.clone(),
            uid: None
        }]
    );
}

#[test]
fn an_adopted_workload_preserves_its_template_until_it_changes() {
    let mut adopted = workload("a", 1, "77");
    adopted["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    adopted["spec"]["template"]["spec"]["containers"][0]["tty"] = json!(true);
    let item = Item::new(ItemKind::Deployment, &workload("a", 1, "90"));
    let mut cache = Cache::default();
    cache.take(&item.id, adopted.clone());

    let marked = plan_of(
        std::slice::from_ref(&item),
        &ObjectHashes::new(),
        &["web"],
        &cache,
    );
    assert_eq!(marked.writes[0].body, item.mark());
    assert!(!marked.writes[0].take_over);
    let mut live = adopted.clone();
    live["metadata"] = item.mark()["metadata"].clone();
    cache.take(&item.id, live);
    assert!(plan_of(std::slice::from_ref(&item), &ObjectHashes::new(), &[], &cache).is_empty());

    let more = Item::new(ItemKind::Deployment, &workload("a", 3, "91"));
    let plan = plan_of(std::slice::from_ref(&more), &ObjectHashes::new(), &[], &cache);
    assert!(plan.writes[0].take_over);
    assert_eq!(
        plan.writes[0].body.pointer("/spec/template"),
        adopted.pointer("/spec/template")
    );
    let changed = Item::new(ItemKind::Deployment, &workload("b", 3, "92"));
    let plan = plan_of(std::slice::from_ref(&changed), &ObjectHashes::new(), &[], &cache);
    assert!(plan.writes[0].take_over);
    assert_eq!(version_of(&plan.writes[0]), "92");
}

#[test]
fn a_stateful_set_with_changed_volumes_is_replaced() {
    let with = |size: &str, name: &str| {
        let mut set = workload("a", 1, "1");
        set["spec"]["volumeClaimTemplates"] = json!([{
            "metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": size}}},
        }]);
        Item::new(ItemKind::StatefulSet, &set)
    };
    let mut cache = Cache::default();
    let mut live = with("1Gi", "web-data").body;
    live["spec"]["volumeClaimTemplates"][0]["spec"]["volumeMode"] = json!("Filesystem");
    live["spec"]["volumeClaimTemplates"][0]["status"] = json!({"phase": "Pending"});
    cache.take(&with("1Gi", "web-data").id, live);
    let same = plan_of(&[with("1024Mi", "web-data")], &ObjectHashes::new(), &[], &cache);
    assert_eq!((same.writes.len(), same.replaced.len()), (1, 0));
    for other in [
        with("2Gi", "web-data"),
        with("1Gi", "web-other"),
        Item::new(ItemKind::StatefulSet, &workload("a", 1, "1")),
    ] {
        let plan = plan_of(&[other], &ObjectHashes::new(), &[], &cache);
        assert_eq!((plan.writes.len(), plan.replaced.len()), (0, 1), "{plan:?}");
    }
}
