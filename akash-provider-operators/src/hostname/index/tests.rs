//! Tests of the index: single cases, and every sequence of events up to a depth.

mod explore;
mod modes;
mod proofs;

use super::*;
use crate::hostname::route::{Controller, GatewayProvider};
use akash_provider_core::types::{DeploymentId, LeaseId};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_model::crd::notes::Notes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

pub(super) fn lease(tenant: u8, dseq: u64) -> LeaseId {
    let owner = Address::from_bytes(&[tenant; 20]).unwrap();
    let group = DeploymentId::new(owner, dseq).group(1);
    let provider = Address::from_bytes(&[99; 20]).unwrap();
    group.order(1).bid(provider)
}

pub(super) fn host(lease: &LeaseId) -> Host {
    Host {
        lease: lease.clone(),
        namespace: lease.namespace(),
        service: "web".to_owned(),
        port: 80,
        updated_at: String::new(),
        uid: "1".to_owned(),
        notes: Notes::default(),
    }
}

pub(super) fn exposes(lease: &LeaseId, read_timeout: u32) -> Exposes {
    let options = HttpOptions {
        read_timeout,
        ..HttpOptions::default()
    };
    Exposes {
        lease: lease.clone(),
        options: BTreeMap::from([(("web".to_owned(), 80), options)]),
        hosts: BTreeSet::new(),
    }
}

/// Returns the route that the API server stores for this body.
pub(super) fn written(body: &Value, version: u64) -> LiveObject {
    let mut metadata = body["metadata"].clone();
    metadata["uid"] = json!(format!("{}/{}", metadata["namespace"], metadata["name"]));
    metadata["resourceVersion"] = json!(version.to_string());
    let meta: ObjectMeta = serde_json::from_value(metadata).unwrap();
    LiveObject::written(&meta, body)
}

fn version_in(event: &mut HostnameEvent) -> Option<&mut u64> {
    match event {
        HostnameEvent::Objects(_, ObjectChange::Put(_, live) | ObjectChange::Gone(_, live)) => {
            Some(&mut live.version)
        }
        _ => None,
    }
}

fn bare(live: &LiveObject) -> LiveObject {
    let mut live = live.clone();
    live.version = 0;
    live
}

fn index(hosts: &[(&str, DecodedRecord<Host>)], manifests: &[Exposes]) -> HostnameIndex {
    let mut index = HostnameIndex::new(Mode::default());
    let hosts = hosts
        .iter()
        .map(|(name, host)| ((*name).to_owned(), host.clone()));
    index.apply(HostnameEvent::Hosts(ObjectChange::Listed(hosts.collect())));
    let manifests = manifests.iter().map(|m| (m.lease.namespace(), Ok(m.clone())));
    index.apply(HostnameEvent::Manifests(ObjectChange::Listed(
        manifests.collect(),
    )));
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Listed(BTreeMap::new()),
    ));
    index
}

const NAME: &str = "shop.example.com";

#[test]
fn no_work_before_the_initial_lists() {
    let a = lease(1, 1);
    let mut index = HostnameIndex::new(Mode::default());
    let route = written(&index.mode().render(NAME, &host(&a), &HttpOptions::default()), 5);
    let place = (a.namespace(), NAME.to_owned());
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Listed(BTreeMap::from([(place, route)])),
    ));
    assert!(index.work(NAME).is_done(), "a missing list is not an empty list");
    let manifests = BTreeMap::from([(a.namespace(), Ok(exposes(&a, 60_000)))]);
    index.apply(HostnameEvent::Manifests(ObjectChange::Listed(manifests)));
    assert!(index.work(NAME).is_done());
    index.apply(HostnameEvent::Hosts(ObjectChange::Listed(BTreeMap::new())));
    assert_eq!(index.names(), BTreeSet::from([NAME.to_owned()]));
    assert_eq!(
        index.work(NAME).deletes.len(),
        1,
        "the record was deleted while the operator was down"
    );
}

#[test]
fn route_of_a_provider_without_records_is_unchanged() {
    let (ours, a) = (lease(1, 1), lease(2, 2));
    let mut theirs = a.clone();
    theirs.provider = Address::from_bytes(&[7; 20]).unwrap();
    let mut index = index(&[], &[exposes(&ours, 60_000)]);
    let route = written(
        &index.mode().render(NAME, &host(&theirs), &HttpOptions::default()),
        5,
    );
    let place = (theirs.namespace(), NAME.to_owned());
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Put(place, route.clone()),
    ));
    let work = index.work(NAME);
    assert!(work.is_done() && work.problem.is_some(), "{work:?}");
    // A route with own labels outside the namespace of its lease is unchanged too.
    let route = written(
        &index.mode().render(NAME, &host(&ours), &HttpOptions::default()),
        6,
    );
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Put(("kube-system".to_owned(), NAME.to_owned()), route),
    ));
    assert!(index.work(NAME).is_done());
}

#[test]
fn invalid_record_is_reported_and_its_route_stays() {
    let a = lease(1, 1);
    let mut index = index(&[(NAME, Err("garbage".to_owned()))], &[exposes(&a, 60_000)]);
    let body = index.mode().render(NAME, &host(&a), &HttpOptions::default());
    let place = (a.namespace(), NAME.to_owned());
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Put(place, written(&body, 5)),
    ));
    let work = index.work(NAME);
    assert!(work.is_done() && work.problem.unwrap().contains("garbage"));
}

#[test]
fn hostname_waits_for_its_manifest_and_serves_only_the_same_tenant() {
    let (old, own, other) = (lease(1, 1), lease(1, 2), lease(2, 3));
    for (to, deletes) in [(&own, 0), (&other, 1)] {
        let mut index = index(&[(NAME, Ok(host(&old)))], &[exposes(&old, 60_000)]);
        let body = index.work(NAME).write.unwrap().body;
        let place = (old.namespace(), NAME.to_owned());
        index.apply(HostnameEvent::Objects(
            ObjectKind::Ingress,
            ObjectChange::Put(place, written(&body, 5)),
        ));
        assert!(index.work(NAME).is_done());
        index.apply(HostnameEvent::Hosts(ObjectChange::Put(
            NAME.to_owned(),
            Ok(host(to)),
        )));
        let work = index.work(NAME);
        assert!(work.write.is_none() && work.problem.is_some());
        assert_eq!(work.deletes.len(), deletes, "{to}");
        index.apply(HostnameEvent::Manifests(ObjectChange::Put(
            to.namespace(),
            Ok(exposes(to, 60_000)),
        )));
        let work = index.work(NAME);
        assert_eq!(work.write.unwrap().namespace, to.namespace());
        assert_eq!((work.deletes.len(), work.problem), (1, None));
    }
}

#[test]
fn undeclared_port_is_reported() {
    let a = lease(1, 1);
    let mut odd = host(&a);
    odd.port = 8080;
    let index = index(&[(NAME, Ok(odd))], &[exposes(&a, 60_000)]);
    let work = index.work(NAME);
    assert!(work.is_done() && work.problem.unwrap().contains("port 8080"));
}

#[test]
fn blocked_hostname_gets_no_route_and_an_existing_route_stays() {
    let a = lease(1, 1);
    let blocked = |names: &[&str]| RoutePlan {
        blocked: HostnameLedger::new(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()),
        ..RoutePlan::default()
    };
    for (plan, name, is_had) in [
        (blocked(&["provider.example.com"]), "provider.example.com", false),
        (blocked(&["provider.example.com"]), "*.example.com", false),
        (blocked(&[".example.com"]), "shop.example.com", false),
        (blocked(&["provider.example.com"]), "shop.example.com", true),
    ] {
        let mut index = HostnameIndex::new(plan);
        let hosts = BTreeMap::from([(name.to_owned(), Ok(host(&a)))]);
        index.apply(HostnameEvent::Hosts(ObjectChange::Listed(hosts)));
        let manifests = BTreeMap::from([(a.namespace(), Ok(exposes(&a, 60_000)))]);
        index.apply(HostnameEvent::Manifests(ObjectChange::Listed(manifests)));
        index.apply(HostnameEvent::Objects(
            ObjectKind::Ingress,
            ObjectChange::Listed(BTreeMap::new()),
        ));
        let work = index.work(name);
        assert_eq!(work.write.is_some(), is_had, "{name}");
        let is_reported = work.problem.is_some_and(|problem| problem.contains("is blocked"));
        assert_eq!(is_reported, !is_had, "{name}");
        let body = index.mode().render(name, &host(&a), &HttpOptions::default());
        let place = (a.namespace(), name.to_owned());
        index.apply(HostnameEvent::Objects(
            ObjectKind::Ingress,
            ObjectChange::Put(place, written(&body, 5)),
        ));
        assert!(index.work(name).is_done(), "an existing route stays: {name}");
    }
}

#[test]
fn event_older_than_the_own_write_is_dropped() {
    let a = lease(1, 1);
    let mut index = index(&[(NAME, Ok(host(&a)))], &[exposes(&a, 60_000)]);
    let place = (a.namespace(), NAME.to_owned());
    let old = written(&index.work(NAME).write.unwrap().body, 5);
    index.apply(HostnameEvent::Manifests(ObjectChange::Put(
        a.namespace(),
        Ok(exposes(&a, 5_000)),
    )));
    let new = written(&index.work(NAME).write.unwrap().body, 9);
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Put(place.clone(), new),
    ));
    assert!(index.work(NAME).is_done());
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Put(place.clone(), old.clone()),
    ));
    assert!(index.work(NAME).is_done(), "the event is older than the write");
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Gone(place, old),
    ));
    assert!(index.work(NAME).is_done());
}

#[test]
fn foreign_annotations_stay_and_surplus_proxy_annotations_are_removed() {
    let a = lease(1, 1);
    let mut index = index(&[(NAME, Ok(host(&a)))], &[exposes(&a, 60_000)]);
    let body = index.work(NAME).write.unwrap().body;
    let place = (a.namespace(), NAME.to_owned());
    let mut theirs = body.clone();
    theirs["metadata"]["annotations"]["cert-manager.io/cluster-issuer"] = json!("letsencrypt");
    theirs["spec"]["tls"] = json!([{"hosts": [NAME]}]);
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Put(place.clone(), written(&theirs, 5)),
    ));
    assert!(index.work(NAME).is_done());
    theirs["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-buffer-size"] = json!("8m");
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Put(place, written(&theirs, 6)),
    ));
    let write = index.work(NAME).write.unwrap();
    assert!(
        write.take_over && write.at.ends_with("proxy-buffer-size"),
        "{}",
        write.at
    );
}

#[test]
fn route_with_labels_of_another_lease_is_not_overwritten() {
    let (a, b) = (lease(1, 1), lease(1, 2));
    let mut index = index(&[(NAME, Ok(host(&a)))], &[exposes(&a, 60_000)]);
    let mut body = index.work(NAME).write.unwrap().body;
    body["metadata"]["labels"] = json!(labels::lease(&b));
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Put((a.namespace(), NAME.to_owned()), written(&body, 5)),
    ));
    let work = index.work(NAME);
    assert!(work.is_done() && work.problem.unwrap().contains("another lease"));
}

#[test]
fn ten_thousand_hostnames_in_their_desired_state_are_not_written() {
    let a = lease(1, 1);
    let names: Vec<String> = (0..10_000).map(|n| format!("n{n}.example.com")).collect();
    let mut index = HostnameIndex::new(Mode::default());
    let routes = names.iter().map(|name| {
        let body = index.mode().render(name, &host(&a), &HttpOptions::default());
        ((a.namespace(), name.clone()), written(&body, 5))
    });
    let routes = routes.collect();
    let hosts = names.iter().map(|name| (name.clone(), Ok(host(&a)))).collect();
    let manifests = BTreeMap::from([(a.namespace(), Ok(exposes(&a, 60_000)))]);
    index.apply(HostnameEvent::Hosts(ObjectChange::Listed(hosts)));
    index.apply(HostnameEvent::Manifests(ObjectChange::Listed(manifests)));
    index.apply(HostnameEvent::Objects(
        ObjectKind::Ingress,
        ObjectChange::Listed(routes),
    ));
    let to_do = names
        .iter()
        .filter(|name| index.work(name) != HostnameWork::default());
    assert_eq!(to_do.count(), 0);
}

#[test]
fn each_proxy_gets_its_own_annotations() {
    let a = lease(1, 1);
    let own = HttpOptions {
        read_timeout: 5_000,
        next_cases: Some(vec![
            "error".to_owned(),
            "off; return 301 http://evil.example".to_owned(),
        ]),
        ..HttpOptions::default()
    };
    let ingress = |controller| Mode::Ingress {
        class: "edge".to_owned(),
        controller,
    };
    let gateway = |provider| Mode::GatewayApi {
        name: "gate".to_owned(),
        namespace: "gates".to_owned(),
        provider,
        buffer_size: "16k".to_owned(),
    };
    let render = |mode: Mode, options: &HttpOptions| mode.render(NAME, &host(&a), options);
    let nginx = render(ingress(Controller::Nginx), &own);
    assert_eq!(nginx["spec"]["ingressClassName"], "edge");
    let annotations = &nginx["metadata"]["annotations"];
    assert_eq!(annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"], "5");
    assert_eq!(
        annotations["nginx.ingress.kubernetes.io/proxy-next-upstream"],
        "error"
    );
    assert!(!nginx.to_string().contains("evil"), "{nginx}");
    let traefik = render(ingress(Controller::Traefik), &own);
    assert_eq!(traefik["metadata"].get("annotations"), None);
    let haproxy = render(ingress(Controller::Haproxy), &own);
    assert_eq!(
        haproxy["metadata"]["annotations"],
        json!({"haproxy.org/timeout-server": "5000ms"})
    );
    let fabric = render(gateway(GatewayProvider::Nginx), &own);
    assert_eq!(
        fabric["spec"]["parentRefs"],
        json!([{"name": "gate", "namespace": "gates"}])
    );
    assert_eq!(
        fabric["metadata"]["annotations"]["nginx.org/proxy-buffer-size"],
        "16k"
    );
    let standard = render(gateway(GatewayProvider::Standard), &own);
    assert_eq!(standard["metadata"].get("annotations"), None);
    assert_eq!(
        standard["spec"]["rules"][0]["timeouts"],
        json!({"backendRequest": "5000ms"})
    );
    let usual = render(gateway(GatewayProvider::Standard), &HttpOptions::default());
    assert_eq!(usual["spec"]["rules"][0].get("timeouts"), None);
    // A timeout that a tenant removes is deleted.
    assert!(written(&standard, 1).differs(&usual).is_some());
    assert!(written(&usual, 1).differs(&usual).is_none());
}

#[test]
fn buffer_size_of_a_tenant_takes_effect_in_ingress_mode() {
    let a = lease(1, 1);
    let render = |proxy_buffer_size| {
        let options = HttpOptions {
            proxy_buffer_size,
            ..HttpOptions::default()
        };
        Mode::default().render(NAME, &host(&a), &options)
    };
    let buffers = |route: &Value| {
        ["buffer-size", "buffers-number", "busy-buffers-size"].map(|name| {
            let key = format!("nginx.ingress.kubernetes.io/proxy-{name}");
            route["metadata"]["annotations"][key].as_str().map(str::to_owned)
        })
    };
    let (own, usual) = (render(16_384), render(0));
    assert_eq!(
        buffers(&own),
        ["16384", "4", "32768"].map(|text| Some(text.to_owned()))
    );
    assert_eq!(buffers(&usual), [None, None, None], "the controller decides");
    // A size that the tenant removes is deleted.
    assert!(written(&own, 1).differs(&usual).unwrap().is_surplus);
}

#[test]
fn field_that_another_client_adds_to_an_ingress_is_removed() {
    let a = lease(1, 1);
    let wanted = Mode::default().render(NAME, &host(&a), &HttpOptions::default());
    let mut live = wanted.clone();
    live["spec"]["defaultBackend"] = json!({"service": {"name": "x", "port": {"number": 80}}});
    let difference = written(&live, 1).differs(&wanted).unwrap();
    assert_eq!(difference.at, "spec.defaultBackend");
    assert_eq!(difference.patch.unwrap()["spec"], json!({"defaultBackend": null}));
    let mut live = wanted.clone();
    live["spec"]["rules"][0]["http"]["paths"][0]["backend"]["resource"] = json!({"kind": "x", "name": "y"});
    assert!(written(&live, 1).differs(&wanted).unwrap().patch.is_some());
}

#[test]
fn record_missing_at_the_start_is_explained_only_by_its_manifest() {
    let a = lease(1, 1);
    let automatic = format!("{}.ingress.example.com", a.ingress_label("web"));
    let listing = |names: &[&str]| Exposes {
        hosts: names.iter().map(|&name| name.to_owned()).collect(),
        ..exposes(&a, 60_000)
    };
    for (name, manifest, explained) in [
        (NAME, None, false),
        (NAME, Some(Err("garbage".to_owned())), false),
        (NAME, Some(Ok(listing(&["other.example.com", NAME]))), false),
        (automatic.as_str(), Some(Ok(listing(&[]))), false),
        (NAME, Some(Ok(listing(&["other.example.com"]))), true),
    ] {
        let mut index = index(&[], &[exposes(&lease(2, 2), 60_000)]);
        let route = written(&index.mode().render(name, &host(&a), &HttpOptions::default()), 5);
        let place = (a.namespace(), name.to_owned());
        index.apply(HostnameEvent::Objects(
            ObjectKind::Ingress,
            ObjectChange::Put(place, route),
        ));
        if let Some(manifest) = &manifest {
            index.apply(HostnameEvent::Manifests(ObjectChange::Put(
                a.namespace(),
                manifest.clone(),
            )));
        }
        let missing = index.work(name).missing.unwrap();
        assert_eq!(
            (missing.key.as_str(), missing.has_reason),
            (name, explained),
            "{manifest:?}"
        );
        // A record that was removed after the start has a reason.
        index.apply(HostnameEvent::Hosts(ObjectChange::Put(
            name.to_owned(),
            Ok(host(&a)),
        )));
        index.apply(HostnameEvent::Hosts(ObjectChange::Listed(BTreeMap::new())));
        assert!(index.work(name).missing.unwrap().has_reason);
    }
}
