use super::super::samples::{PROVIDER, deployment, host, lease, manifest, namespace, pod};
use super::*;
use akash_provider_core::cluster::Outage;
use akash_provider_kube_model::crd::{Manifest, ProviderHost};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

fn index() -> LeaseIndex {
    LeaseIndex::new(LeaseFilter {
        provider: PROVIDER.parse().unwrap(),
        chain_id: "chain-1".to_owned(),
    })
}

fn apply<K: WatchedKind>(index: &mut LeaseIndex, object: K) -> Vec<Signal> {
    index.applied(&Arc::new(object))
}

fn health_of(index: &LeaseIndex, dseq: u64) -> Option<Health> {
    index.leases.get(&lease(dseq).namespace()).and_then(|e| e.health)
}

fn out(outage: Outage) -> Option<Health> {
    Some(Health::Out(outage))
}

fn changed(dseq: u64) -> Vec<Signal> {
    vec![Signal::Lease(lease(dseq).namespace().into())]
}

/// Returns an index with one healthy lease.
fn good(dseq: u64) -> LeaseIndex {
    let mut index = index();
    let lease = lease(dseq);
    apply(&mut index, namespace(&lease));
    apply(&mut index, manifest(&lease, &[("web", 1)]));
    apply(&mut index, deployment(&lease, "web", (1, 1, 1, 1)));
    assert_eq!(health_of(&index, dseq), Some(Health::Good));
    index
}

#[test]
fn only_changes_of_health_are_signalled() {
    let mut index = index();
    let lease = lease(1);
    assert_eq!(
        apply(&mut index, manifest(&lease, &[("web", 1)])),
        [],
        "a recorded lease does not run"
    );
    assert_eq!(health_of(&index, 1), None);
    assert_eq!(apply(&mut index, namespace(&lease)), changed(1));
    assert_eq!(health_of(&index, 1), out(Outage::Missing));
    assert_eq!(
        apply(&mut index, deployment(&lease, "web", (1, 1, 1, 0))),
        changed(1),
        "the reason changed"
    );
    assert_eq!(apply(&mut index, deployment(&lease, "web", (1, 1, 1, 0))), []);
    assert_eq!(
        apply(&mut index, deployment(&lease, "web", (1, 1, 1, 1))),
        changed(1)
    );
    assert_eq!(apply(&mut index, deployment(&lease, "web", (1, 1, 1, 1))), []);
    assert_eq!(
        apply(&mut index, pod(&lease, "web-1", "web", "Running", true)),
        []
    );
}

#[test]
fn removed_lease_is_signalled_to_all_listeners() {
    let mut index = good(1);
    let lease = lease(1);
    let web = deployment(&lease, "web", (1, 1, 1, 1));
    assert_eq!(index.deleted::<Deployment>(&web.metadata), changed(1));
    assert_eq!(health_of(&index, 1), out(Outage::Missing));
    assert_eq!(
        index.deleted::<Namespace>(&namespace(&lease).metadata),
        [Signal::All]
    );
    assert_eq!(health_of(&index, 1), None);
    let record = manifest(&lease, &[]);
    assert_eq!(index.deleted::<Manifest>(&record.metadata), []);
    assert!(index.leases.is_empty(), "a removed lease leaves no state");
}

#[test]
fn record_deleted_by_another_client_is_a_loss() {
    let mut index = good(1);
    let lease = lease(1);
    let (record, name) = (manifest(&lease, &[("web", 1)]), host(&lease, "a.example", "web"));
    apply(&mut index, name.clone());
    let gone = index.deleted::<ProviderHost>(&name.metadata);
    assert_eq!((gone, index.losses), (changed(1), 1));
    index.deleted::<ProviderHost>(&name.metadata);
    assert_eq!(index.losses, 1, "the same event again");
    index.deleted::<Manifest>(&record.metadata);
    assert_eq!(index.losses, 2);
    apply(&mut index, name.clone());
    index.replaced::<ProviderHost>(&[], &[], Instant::now());
    assert_eq!(index.losses, 3, "a list without the record");
    index.replaced::<ProviderHost>(&[], &[], Instant::now());
    apply(&mut index, name.clone());
    let home = lease.namespace();
    index.hold(&home, 1);
    index.deleted::<ProviderHost>(&name.metadata);
    index.hold(&home, -1);
    apply(&mut index, name.clone());
    let mut ending = namespace(&lease);
    ending.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::now()));
    apply(&mut index, ending);
    index.deleted::<ProviderHost>(&name.metadata);
    assert_eq!(index.losses, 3, "deleted by a deploy and by a teardown");
}

#[test]
fn leases_of_other_providers_and_chains_are_foreign() {
    let lease = lease(1);
    let mut others = Vec::new();
    let mut provider = namespace(&lease);
    let label = labels::LEASE_PROVIDER.to_owned();
    let labels = provider.metadata.labels.as_mut().unwrap();
    labels.insert(label, lease.owner().to_string());
    others.push(provider);
    let mut chain = namespace(&lease);
    let annotation = (labels::CHAIN_ID.to_owned(), "chain-2".to_owned());
    chain.metadata.annotations = Some([annotation].into());
    others.push(chain);
    let mut unlabelled = namespace(&lease);
    unlabelled.metadata.labels = None;
    others.push(unlabelled);
    let mut misplaced = namespace(&lease);
    misplaced.metadata.name = Some("kube-system".to_owned());
    others.push(misplaced);
    for other in others {
        let mut index = index();
        let name = other.metadata.name.clone().unwrap();
        assert_eq!(apply(&mut index, other), []);
        assert_eq!(index.leases[&name].lease, None, "{name}");
    }
    let mut ours = namespace(&lease);
    let annotation = (labels::CHAIN_ID.to_owned(), "chain-1".to_owned());
    ours.metadata.annotations = Some([annotation].into());
    assert_eq!(apply(&mut index(), ours), changed(1));
}

#[test]
fn a_record_that_names_another_provider_does_not_disown_a_lease() {
    let mut index = good(1);
    let lease = lease(1);
    let mut record = manifest(&lease, &[("web", 1)]);
    let labels = record.metadata.labels.as_mut().unwrap();
    labels.insert(labels::LEASE_PROVIDER.to_owned(), lease.owner().to_string());
    apply(&mut index, record.clone());
    assert_eq!(index.leases[&lease.namespace()].lease.as_ref(), Some(&lease));
    let chain = (labels::CHAIN_ID.to_owned(), "chain-2".to_owned());
    record.metadata.annotations = Some([chain].into());
    apply(&mut index, record);
    assert_eq!(index.leases[&lease.namespace()].lease, None, "another chain");
}

#[test]
fn health_is_unknown_until_own_writes_are_observed() {
    let mut index = good(1);
    let home = lease(1).namespace();
    let write = |generation| WorkloadWrite {
        kind: CachedKind::Deployments,
        name: "web".to_owned(),
        uid: "d-web".to_owned(),
        generation,
    };
    assert_eq!(index.wrote(&home, write(2)), changed(1).pop());
    assert_eq!(health_of(&index, 1), Some(Health::Unknown));
    assert_eq!(apply(&mut index, deployment(&lease(1), "web", (1, 1, 1, 0))), []);
    assert_eq!(
        health_of(&index, 1),
        Some(Health::Unknown),
        "older than the own write"
    );
    apply(&mut index, deployment(&lease(1), "web", (2, 1, 1, 1)));
    let serves = Some(Health::Good);
    assert_eq!(
        health_of(&index, 1),
        serves,
        "not observed, and the previous generation serves"
    );
    apply(&mut index, deployment(&lease(1), "web", (2, 1, 1, 0)));
    let starts = out(Outage::Starting);
    assert_eq!(health_of(&index, 1), starts, "and without a serving replica");
    apply(&mut index, deployment(&lease(1), "web", (2, 2, 1, 1)));
    assert_eq!(health_of(&index, 1), Some(Health::Good));
    assert_eq!(index.wrote(&home, write(2)), None, "observed before the response");
    index.hold(&home, 1);
    index.hold(&home, 1);
    index.hold(&home, -1);
    assert_eq!(health_of(&index, 1), Some(Health::Unknown));
    index.hold(&home, -1);
    assert_eq!(health_of(&index, 1), Some(Health::Good));
}

#[tokio::test(start_paused = true)]
async fn reverted_write_is_dropped_with_the_next_list() {
    let mut index = good(1);
    let home = lease(1).namespace();
    let write = WorkloadWrite {
        kind: CachedKind::Deployments,
        name: "gone".to_owned(),
        uid: "never seen".to_owned(),
        generation: 1,
    };
    let before = Instant::now();
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    index.wrote(&home, write);
    let all = [Arc::new(deployment(&lease(1), "web", (1, 1, 1, 1)))];
    index.replaced(&all, &[], before);
    assert_eq!(
        health_of(&index, 1),
        Some(Health::Unknown),
        "the list may be older"
    );
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    index.replaced(&all, &[], Instant::now());
    assert_eq!(health_of(&index, 1), Some(Health::Good));
}

#[test]
fn list_replaces_only_objects_of_its_kind() {
    let mut index = good(1);
    apply(&mut index, pod(&lease(1), "web-1", "web", "Running", true));
    let other = Arc::new(deployment(&lease(2), "web", (1, 1, 1, 1)));
    index.replaced(&[other], &[], Instant::now());
    assert_eq!(health_of(&index, 1), out(Outage::Missing));
    let entry = &index.leases[&lease(1).namespace()];
    assert_eq!(entry.view.pods.len(), 1);
    assert!(
        index.leases[&lease(2).namespace()]
            .view
            .deployments
            .contains_key("web")
    );
    index.replaced::<Namespace>(&[], &[], Instant::now());
    assert_eq!(health_of(&index, 1), None);
}

#[test]
fn hostname_moves_to_its_new_lease() {
    let mut index = index();
    apply(&mut index, host(&lease(1), "a.example", "web"));
    apply(&mut index, host(&lease(2), "a.example", "api"));
    assert!(
        !index.leases.contains_key(&lease(1).namespace()),
        "the lease has no other object"
    );
    let entry = &index.leases[&lease(2).namespace()];
    assert_eq!(entry.view.hosts["a.example"].spec.service_name, "api");
    index.deleted::<ProviderHost>(&host(&lease(1), "a.example", "web").metadata);
    assert!(index.leases.is_empty(), "regardless of its labels");
}

#[test]
fn invalid_object_is_reported_and_hides_no_other() {
    let mut index = good(1);
    let record = manifest(&lease(1), &[]).metadata;
    assert_eq!(
        index.unreadable::<Manifest>(&record, "count: not a number"),
        changed(1)
    );
    assert_eq!(health_of(&index, 1), Some(Health::Unknown));
    let mut stray = host(&lease(1), "x.example", "web").metadata;
    stray.labels = None;
    index.unreadable::<ProviderHost>(&stray, "no spec");
    let found = super::super::orphans::orphans(&index);
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    let home = lease(1).namespace();
    let wanted = [
        format!("manifests.akash.network {home}/{home}: count: not a number"),
        "providerhosts.akash.network lease/x.example: no spec".to_owned(),
    ];
    assert_eq!(found, wanted);
    apply(&mut index, manifest(&lease(1), &[("web", 1)]));
    assert_eq!(health_of(&index, 1), Some(Health::Good), "fixed");
    let unreadable = [(record, "again".to_owned())];
    index.replaced::<Manifest>(&[], &unreadable, Instant::now());
    assert_eq!(health_of(&index, 1), Some(Health::Unknown), "also in a list");
}

#[test]
fn workload_without_a_record_is_an_orphan() {
    let mut index = index();
    apply(&mut index, namespace(&lease(1)));
    apply(&mut index, host(&lease(2), "a.example", "web"));
    apply(&mut index, manifest(&lease(3), &[]));
    let found = super::super::orphans::orphans(&index);
    let found: Vec<_> = found
        .into_iter()
        .map(|o| (o.kind, o.namespace, o.lease))
        .collect();
    let wanted = [
        (CachedKind::Namespaces, lease(1).namespace(), Some(lease(1))),
        (CachedKind::Hosts, lease(2).namespace(), None),
    ];
    assert_eq!(found, wanted);
}
