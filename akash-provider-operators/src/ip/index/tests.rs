//! Tests of the index: single cases, and every sequence of events up to a depth.

mod explore;

use super::*;
use crate::ip::balancer::AnnotationPrefix;
use akash_provider_core::cluster::IpDeclaration;
use akash_provider_core::manifest::Proto;
use akash_provider_core::types::{DeploymentId, LeaseId};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_model::leased_ips::{DEFAULT_POOL, object_name};
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::json;
use std::slice::from_ref;

fn provider() -> Address {
    Address::from_bytes(&[99; 20]).unwrap()
}

fn lease(tenant: u8, dseq: u64) -> LeaseId {
    let owner = Address::from_bytes(&[tenant; 20]).unwrap();
    let group = DeploymentId::new(owner, dseq).group(1);
    group.order(1).bid(provider())
}

/// Returns the record for port 80 of a service, on this endpoint of the lease.
fn leased(lease: &LeaseId, endpoint: &str, service: &str) -> LeasedPort {
    LeasedPort {
        lease: lease.clone(),
        ip: IpDeclaration {
            service: service.to_owned(),
            port: 8080,
            external_port: 80,
            proto: Proto::Tcp,
            sharing_key: format!("{}-ip-{endpoint}", lease.owner()),
        },
    }
}

fn name(leased: &LeasedPort) -> String {
    object_name(&leased.ip)
}

fn bad(place: Option<String>) -> DecodedRecord {
    Err(InvalidRecord {
        problem: "garbage".to_owned(),
        place,
    })
}

fn written(body: &Value, version: u64) -> LiveService {
    let mut object = body.clone();
    let meta = &mut object["metadata"];
    meta["uid"] = json!(format!("{}/{}", meta["namespace"], meta["name"]));
    meta["resourceVersion"] = json!(version.to_string());
    LiveService::new(&serde_json::from_value(object).unwrap(), Timestamp::UNIX_EPOCH)
}

fn service(leased: &LeasedPort, version: u64) -> LiveService {
    written(&Mode::default().render(leased), version)
}

fn records(all: &[LeasedPort]) -> BTreeMap<String, DecodedRecord> {
    all.iter().map(|one| (name(one), Ok(one.clone()))).collect()
}

fn declares(provider: Address, all: &[LeasedPort]) -> Option<DeclaredIps> {
    Some(DeclaredIps {
        provider,
        records: Some(all.iter().map(name).collect()),
    })
}

fn index(declared: BTreeMap<String, DecodedRecord>, services: &[(String, LiveService)]) -> IpIndex {
    let mut index = IpIndex::new(provider(), Mode::default());
    let manifests = BTreeMap::from([("some".to_owned(), declares(provider(), &[]))]);
    index.apply(IpEvent::Manifests(ObjectChange::Listed(manifests)));
    index.apply(IpEvent::Services(ObjectChange::Listed(
        services.iter().cloned().collect(),
    )));
    index.apply(IpEvent::Records(ObjectChange::Listed(declared)));
    index
}

#[test]
fn no_work_before_records_manifests_and_services_were_listed() {
    let one = leased(&lease(1, 1), "front", "web");
    let mut index = IpIndex::new(provider(), Mode::default());
    let services = BTreeMap::from([(one.place(), service(&one, 5))]);
    index.apply(IpEvent::Services(ObjectChange::Listed(services)));
    let manifests = BTreeMap::from([("some".to_owned(), declares(provider(), &[]))]);
    index.apply(IpEvent::Manifests(ObjectChange::Listed(manifests)));
    assert!(
        index.work(&one.place()).is_done(),
        "a missing list is not an empty list"
    );
    index.apply(IpEvent::Records(ObjectChange::Put("x".to_owned(), bad(None))));
    assert!(!index.is_known(), "an event before the list does not count");
    index.apply(IpEvent::Records(ObjectChange::Listed(BTreeMap::new())));
    assert!(index.names().contains(&one.place()));
    assert!(
        index.work(&one.place()).delete.is_some(),
        "the record was deleted while the operator was down"
    );
}

#[test]
fn service_of_an_uncertain_provider_is_not_deleted() {
    let one = leased(&lease(1, 1), "front", "web");
    let work_of = |manifests: Option<Address>, place: String, live: LiveService| {
        let mut index = IpIndex::new(provider(), Mode::default());
        let manifests = BTreeMap::from([(
            "some".to_owned(),
            manifests.and_then(|provider| declares(provider, &[])),
        )]);
        index.apply(IpEvent::Manifests(ObjectChange::Listed(manifests)));
        index.apply(IpEvent::Services(ObjectChange::Listed(BTreeMap::from([(
            place.clone(),
            live,
        )]))));
        index.apply(IpEvent::Records(ObjectChange::Listed(BTreeMap::new())));
        index.work(&place)
    };
    assert!(
        work_of(Some(provider()), one.place(), service(&one, 1))
            .delete
            .is_some()
    );
    // A wrong namespace of records is empty; so is the namespace of another provider.
    let foreign = work_of(None, one.place(), service(&one, 1));
    assert!(foreign.is_done() && foreign.problem.is_some(), "{foreign:?}");
    let other = Address::from_bytes(&[7; 20]).unwrap();
    assert!(work_of(Some(other.clone()), one.place(), service(&one, 1)).is_done());
    // Own labels outside the namespace of the lease.
    let stray = work_of(
        Some(provider()),
        "kube-system/web-ip-80-tcp".to_owned(),
        service(&one, 1),
    );
    assert!(stray.is_done() && stray.problem.is_some());
    let mut theirs = one.clone();
    theirs.lease.provider = other;
    assert_eq!(
        work_of(Some(provider()), theirs.place(), service(&theirs, 1)),
        IpWork::default()
    );
    let mut unlabelled = Mode::default().render(&one);
    unlabelled["metadata"]["labels"] = json!(labels::lease(&one.lease));
    assert_eq!(
        work_of(Some(provider()), one.place(), written(&unlabelled, 1)),
        IpWork::default()
    );
}

#[test]
fn invalid_record_is_reported_and_its_service_stays() {
    let one = leased(&lease(1, 1), "front", "web");
    let there = [(one.place(), service(&one, 1))];
    for (record, fact) in [
        (name(&one), bad(None)),
        ("odd".to_owned(), bad(Some(one.place()))),
    ] {
        let mut index = index(BTreeMap::from([(record.clone(), fact)]), &there);
        let work = index.work(&record);
        assert!(work.problem.unwrap().contains("invalid record"));
        let work = index.work(&one.place());
        assert!(work.is_done() && work.problem.is_some(), "{work:?}");
        let touched = index.apply(IpEvent::Records(ObjectChange::Gone(record, bad(None))));
        assert!(touched.contains(&one.place()));
        assert!(index.work(&one.place()).delete.is_some());
    }
    // Without its sharing key the record of the Service is unknown.
    let mut body = Mode::default().render(&one);
    body["metadata"]["annotations"] = json!({});
    let index = index(
        BTreeMap::from([("odd".to_owned(), bad(None))]),
        &[(one.place(), written(&body, 1))],
    );
    assert!(index.work(&one.place()).is_done());
}

#[test]
fn moved_port_has_only_its_old_service_deleted_first() {
    let (old, new) = (
        leased(&lease(1, 1), "front", "web"),
        leased(&lease(1, 2), "front", "api"),
    );
    let other = leased(&lease(2, 9), "front", "web");
    let there = [
        (old.place(), service(&old, 1)),
        (other.place(), service(&other, 2)),
    ];
    let mut index = index(records(&[new.clone(), other.clone()]), &there);
    let waits = index.work(&new.place());
    assert!(waits.is_done() && waits.problem.unwrap().contains(&old.place()));
    let delete = index.work(&old.place()).delete.unwrap();
    let touched = index.apply(IpEvent::Deleted(old.place(), delete));
    assert!(
        touched.contains(&new.place()),
        "the waiting Service is reconciled"
    );
    assert!(index.work(&new.place()).write.is_some());
    assert_eq!(
        index.work(&other.place()),
        IpWork::default(),
        "an endpoint of another tenant with that name"
    );
}

#[test]
fn two_records_of_one_service_block_each_other() {
    let (one, two) = (
        leased(&lease(1, 1), "front", "web"),
        leased(&lease(1, 1), "back", "web"),
    );
    assert_eq!(one.place(), two.place());
    let mut index = index(
        records(&[one.clone(), two.clone()]),
        &[(one.place(), service(&one, 1))],
    );
    let work = index.work(&one.place());
    assert!(work.is_done() && work.problem.unwrap().contains("several records"));
    index.apply(IpEvent::Records(ObjectChange::Gone(name(&one), Ok(one.clone()))));
    let write = index.work(&one.place()).write.unwrap();
    assert_eq!(
        write.at,
        "metadata.annotations.metallb.universe.tf/allow-shared-ip"
    );
}

#[test]
fn foreign_service_with_the_name_is_unchanged() {
    let one = leased(&lease(1, 1), "front", "web");
    let mut body = Mode::default().render(&one);
    body["metadata"]["labels"] = json!({"akash.network": "true"});
    let index = index(records(from_ref(&one)), &[(one.place(), written(&body, 1))]);
    let work = index.work(&one.place());
    assert!(work.is_done() && work.problem.unwrap().contains("another client"));
}

#[test]
fn record_of_another_provider_is_reported_and_not_written() {
    let mut one = leased(&lease(1, 1), "front", "web");
    one.lease.provider = Address::from_bytes(&[7; 20]).unwrap();
    let work = index(records(from_ref(&one)), &[]).work(&one.place());
    assert!(work.is_done() && work.problem.unwrap().contains("--provider"));
}

/// Returns the Service that the Go operator writes, with the defaults of the API server.
fn go_service(one: &LeasedPort, pool: Option<&str>) -> DynamicObject {
    let mut object_labels = labels::lease(&one.lease);
    object_labels.insert("akash.network".to_owned(), "true".to_owned());
    object_labels.insert("akash.network/service-target".to_owned(), "metal-lb".to_owned());
    let mut annotations = json!({
        "metallb.universe.tf/allow-shared-ip": one.ip.sharing_key,
        "metallb.universe.tf/ip-allocated-from-pool": "default",
    });
    if let Some(pool) = pool {
        annotations["metallb.universe.tf/address-pool"] = json!(pool);
    }
    let object = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web-ip-80-tcp", "namespace": one.lease.namespace(), "uid": "u", "resourceVersion": "7",
            "labels": object_labels, "annotations": annotations,
        },
        "spec": {
            "type": "LoadBalancer", "allocateLoadBalancerNodePorts": true, "clusterIP": "10.96.1.2",
            "clusterIPs": ["10.96.1.2"], "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
            "ports": [{"name": "web-ip-80-tcp", "port": 80, "targetPort": 8080, "protocol": "TCP", "nodePort": 31234}],
            "selector": {"akash.network": "true", "akash.network/manifest-service": "web"},
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}},
    });
    serde_json::from_value(object).unwrap()
}

#[test]
fn service_of_the_go_operator_is_in_its_desired_state() {
    let one = leased(&lease(1, 1), "front", "web");
    for pool in [None, Some("public")] {
        let live = LiveService::new(&go_service(&one, pool), Timestamp::UNIX_EPOCH);
        let mode = Mode {
            pool: pool.unwrap_or(DEFAULT_POOL).to_owned(),
            ..Mode::default()
        };
        assert_eq!(live.differs(&mode.render(&one)), None);
        // Another pool, other annotation prefixes and fields that affect traffic are differences.
        let other = Mode {
            pool: if pool.is_some() { DEFAULT_POOL } else { "public" }.to_owned(),
            ..Mode::default()
        };
        let difference = live.differs(&other.render(&one)).unwrap();
        assert_eq!(difference.is_surplus, pool.is_some(), "{difference:?}");
        let new = Mode {
            words: AnnotationPrefix::New,
            ..mode.clone()
        };
        assert!(
            live.differs(&new.render(&one)).unwrap().is_surplus,
            "the old annotations are removed"
        );
        let both = Mode {
            words: AnnotationPrefix::Both,
            ..mode
        };
        assert!(!live.differs(&both.render(&one)).unwrap().is_surplus);
        for (field, value) in [
            ("/spec/ports/0/targetPort", json!(81)),
            ("/spec/ports/0/protocol", json!("UDP")),
            ("/spec/selector/akash.network~1manifest-service", json!("db")),
            ("/spec/type", json!("ClusterIP")),
            ("/spec/ports", json!([])),
        ] {
            let mut wanted = Mode::default().render(&one);
            *wanted.pointer_mut(field).unwrap() = value;
            assert!(live.differs(&wanted).is_some(), "{field}");
        }
    }
}

#[test]
fn load_balancer_class_of_an_existing_service_stays() {
    let one = leased(&lease(1, 1), "front", "web");
    let mode = Mode {
        class: Some("metallb".to_owned()),
        ..Mode::default()
    };
    let mut index = IpIndex::new(provider(), mode);
    index.apply(IpEvent::Manifests(ObjectChange::Listed(BTreeMap::new())));
    index.apply(IpEvent::Services(ObjectChange::Listed(BTreeMap::new())));
    index.apply(IpEvent::Records(ObjectChange::Listed(records(from_ref(&one)))));
    let made = index.work(&one.place()).write.unwrap();
    assert_eq!(made.body["spec"]["loadBalancerClass"], "metallb");
    let mut old = Mode::default().render(&one);
    old["spec"]["ports"][0]["targetPort"] = json!(1);
    index.apply(IpEvent::Services(ObjectChange::Put(
        one.place(),
        written(&old, 1),
    )));
    let again = index.work(&one.place()).write.unwrap();
    assert!(
        again.body["spec"].get("loadBalancerClass").is_none(),
        "the class is immutable"
    );
}

#[test]
fn write_retains_assigned_addresses_and_times() {
    let one = leased(&lease(1, 1), "front", "web");
    let mut index = index(records(from_ref(&one)), &[]);
    let at = |second| Timestamp::from_second(second).unwrap();
    let seen = |version: u64, second: i64, ips: &[&str]| {
        let mut object = Mode::default().render(&one);
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let ingress: Vec<_> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        object["status"] = json!({"loadBalancer": {"ingress": ingress}});
        LiveService::new(&serde_json::from_value(object).unwrap(), at(second))
    };
    let put = |index: &mut IpIndex, live| {
        drop(index.apply(IpEvent::Services(ObjectChange::Put(one.place(), live))))
    };
    put(&mut index, seen(1, 10, &[]));
    put(&mut index, seen(2, 20, &[]));
    assert_eq!(
        index.live(&one.place()).unwrap().since,
        at(10),
        "the Service has waited since then"
    );
    put(&mut index, seen(3, 30, &["203.0.113.7"]));
    let mut own = seen(4, 40, &[]);
    own.given = Default::default();
    index.apply(IpEvent::Written(one.place(), own));
    let live = index.live(&one.place()).unwrap();
    assert_eq!(
        (live.given.addresses.len(), live.since),
        (1, at(30)),
        "the response to a write has no status"
    );
    put(&mut index, seen(3, 50, &[]));
    assert_eq!(
        index.live(&one.place()).unwrap().given.addresses.len(),
        1,
        "an old event is dropped"
    );
    put(&mut index, seen(5, 60, &[]));
    assert_eq!(
        index.live(&one.place()).unwrap().since,
        at(60),
        "the address was removed"
    );
    let listed = BTreeMap::from([(one.place(), seen(5, 70, &[]))]);
    assert!(
        index
            .apply(IpEvent::Services(ObjectChange::Listed(listed)))
            .is_empty(),
        "nothing changed"
    );
    assert_eq!(index.live(&one.place()).unwrap().since, at(60));
}

#[test]
fn leased_ip_missing_at_the_start_is_explained_only_by_its_manifest() {
    let one = leased(&lease(1, 1), "front", "web");
    let other = leased(&lease(1, 1), "back", "web");
    let unreadable = Some(DeclaredIps {
        provider: provider(),
        records: None,
    });
    let home = one.lease.namespace();
    for (manifest, explained) in [
        (None, false),
        (Some(None), false),
        (Some(unreadable), false),
        (Some(declares(provider(), std::slice::from_ref(&one))), false),
        (Some(declares(provider(), &[other])), true),
    ] {
        let mut index = index(BTreeMap::new(), &[(one.place(), service(&one, 1))]);
        if let Some(manifest) = &manifest {
            index.apply(IpEvent::Manifests(ObjectChange::Put(
                home.clone(),
                manifest.clone(),
            )));
        }
        let missing = index.work(&one.place()).missing.unwrap();
        assert_eq!(
            (missing.key, missing.has_reason),
            (name(&one), explained),
            "{manifest:?}"
        );
        // A record that was removed after the start has a reason.
        index.apply(IpEvent::Records(ObjectChange::Put(name(&one), Ok(one.clone()))));
        index.apply(IpEvent::Records(ObjectChange::Listed(BTreeMap::new())));
        assert!(index.work(&one.place()).missing.unwrap().has_reason);
    }
}
