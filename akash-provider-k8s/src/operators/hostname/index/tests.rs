//! The index by itself: single cases, and every order of events to a depth.

mod explore;
mod modes;
mod proofs;

use super::*;
use crate::labels;
use crate::operators::hostname::notes::Notes;
use crate::operators::hostname::route::{Controller, GatewayProvider};
use akash_provider_core::types::{DeploymentId, GroupId, LeaseId, OrderId};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

/// A lease by the number of its tenant and its deployment.
pub(super) fn lease(tenant: u8, dseq: u64) -> LeaseId {
    let owner = Address::from_bytes(&[tenant; 20]).unwrap();
    let deployment = DeploymentId { owner, dseq };
    let group = GroupId { deployment, gseq: 1 };
    let provider = Address::from_bytes(&[99; 20]).unwrap();
    LeaseId {
        order: OrderId { group, oseq: 1 },
        provider,
    }
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

/// What the API server has of a route after it was written.
pub(super) fn written(body: &Value, version: u64) -> Live {
    let mut metadata = body["metadata"].clone();
    metadata["uid"] = json!(format!("{}/{}", metadata["namespace"], metadata["name"]));
    metadata["resourceVersion"] = json!(version.to_string());
    let meta: ObjectMeta = serde_json::from_value(metadata).unwrap();
    Live::written(&meta, body)
}

/// The version of an object that an event speaks of.
fn version_in(event: &mut Event) -> Option<&mut u64> {
    match event {
        Event::Objects(_, Change::Put(_, live) | Change::Gone(_, live)) => Some(&mut live.version),
        _ => None,
    }
}

/// An object without its version.
fn bare(live: &Live) -> Live {
    let mut live = live.clone();
    live.version = 0;
    live
}

/// An index that knows these, and no route.
fn index(hosts: &[(&str, Fact<Host>)], manifests: &[Exposes]) -> Index {
    let mut index = Index::new(Mode::default());
    let hosts = hosts
        .iter()
        .map(|(name, host)| ((*name).to_owned(), host.clone()));
    index.apply(Event::Hosts(Change::Listed(hosts.collect())));
    let manifests = manifests.iter().map(|m| (m.lease.namespace(), Ok(m.clone())));
    index.apply(Event::Manifests(Change::Listed(manifests.collect())));
    index.apply(Event::Objects(Sort::Ingress, Change::Listed(BTreeMap::new())));
    index
}

const NAME: &str = "shop.example.com";

#[test]
fn nothing_is_to_be_done_before_everything_was_listed() {
    let a = lease(1, 1);
    let mut index = Index::new(Mode::default());
    let route = written(&index.mode().render(NAME, &host(&a), &HttpOptions::default()), 5);
    let place = (a.namespace(), NAME.to_owned());
    index.apply(Event::Objects(
        Sort::Ingress,
        Change::Listed(BTreeMap::from([(place, route)])),
    ));
    assert!(index.work(NAME).is_done(), "no list of hosts is no empty list");
    let manifests = BTreeMap::from([(a.namespace(), Ok(exposes(&a, 60_000)))]);
    index.apply(Event::Manifests(Change::Listed(manifests)));
    assert!(index.work(NAME).is_done());
    index.apply(Event::Hosts(Change::Listed(BTreeMap::new())));
    assert_eq!(index.names(), BTreeSet::from([NAME.to_owned()]));
    assert_eq!(
        index.work(NAME).deletes.len(),
        1,
        "it was deleted while nobody looked"
    );
}

#[test]
fn a_route_of_a_provider_without_records_here_is_not_touched() {
    let (ours, a) = (lease(1, 1), lease(2, 2));
    let mut theirs = a.clone();
    theirs.provider = Address::from_bytes(&[7; 20]).unwrap();
    let mut index = index(&[], &[exposes(&ours, 60_000)]);
    let route = written(
        &index.mode().render(NAME, &host(&theirs), &HttpOptions::default()),
        5,
    );
    let place = (theirs.namespace(), NAME.to_owned());
    index.apply(Event::Objects(Sort::Ingress, Change::Put(place, route.clone())));
    let work = index.work(NAME);
    assert!(work.is_done() && work.problem.is_some(), "{work:?}");
    // Nor is one that has our labels and lies where the lease does not.
    let route = written(
        &index.mode().render(NAME, &host(&ours), &HttpOptions::default()),
        6,
    );
    index.apply(Event::Objects(
        Sort::Ingress,
        Change::Put(("kube-system".to_owned(), NAME.to_owned()), route),
    ));
    assert!(index.work(NAME).is_done());
}

#[test]
fn a_record_that_makes_no_sense_is_told_and_its_route_stays() {
    let a = lease(1, 1);
    let mut index = index(&[(NAME, Err("garbage".to_owned()))], &[exposes(&a, 60_000)]);
    let body = index.mode().render(NAME, &host(&a), &HttpOptions::default());
    let place = (a.namespace(), NAME.to_owned());
    index.apply(Event::Objects(
        Sort::Ingress,
        Change::Put(place, written(&body, 5)),
    ));
    let work = index.work(NAME);
    assert!(work.is_done() && work.problem.unwrap().contains("garbage"));
}

#[test]
fn a_name_waits_for_its_manifest_and_leads_on_to_the_same_tenant_alone() {
    let (old, own, other) = (lease(1, 1), lease(1, 2), lease(2, 3));
    for (to, deletes) in [(&own, 0), (&other, 1)] {
        let mut index = index(&[(NAME, Ok(host(&old)))], &[exposes(&old, 60_000)]);
        let body = index.work(NAME).write.unwrap().body;
        let place = (old.namespace(), NAME.to_owned());
        index.apply(Event::Objects(
            Sort::Ingress,
            Change::Put(place, written(&body, 5)),
        ));
        assert!(index.work(NAME).is_done());
        index.apply(Event::Hosts(Change::Put(NAME.to_owned(), Ok(host(to)))));
        let work = index.work(NAME);
        assert!(work.write.is_none() && work.problem.is_some());
        assert_eq!(work.deletes.len(), deletes, "{to}");
        index.apply(Event::Manifests(Change::Put(
            to.namespace(),
            Ok(exposes(to, 60_000)),
        )));
        let work = index.work(NAME);
        assert_eq!(work.write.unwrap().namespace, to.namespace());
        assert_eq!((work.deletes.len(), work.problem), (1, None));
    }
}

#[test]
fn what_a_lease_does_not_expose_is_told() {
    let a = lease(1, 1);
    let mut odd = host(&a);
    odd.port = 8080;
    let index = index(&[(NAME, Ok(odd))], &[exposes(&a, 60_000)]);
    let work = index.work(NAME);
    assert!(work.is_done() && work.problem.unwrap().contains("port 8080"));
}

#[test]
fn a_name_that_nobody_gets_has_no_route_and_keeps_the_one_it_has() {
    let a = lease(1, 1);
    let blocked = |names: &[&str]| Plan {
        blocked: HostnameLedger::new(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()),
        ..Plan::default()
    };
    for (plan, name, is_had) in [
        (blocked(&["provider.example.com"]), "provider.example.com", false),
        (blocked(&["provider.example.com"]), "*.example.com", false),
        (blocked(&[".example.com"]), "shop.example.com", false),
        (blocked(&["provider.example.com"]), "shop.example.com", true),
    ] {
        let mut index = Index::new(plan);
        let hosts = BTreeMap::from([(name.to_owned(), Ok(host(&a)))]);
        index.apply(Event::Hosts(Change::Listed(hosts)));
        let manifests = BTreeMap::from([(a.namespace(), Ok(exposes(&a, 60_000)))]);
        index.apply(Event::Manifests(Change::Listed(manifests)));
        index.apply(Event::Objects(Sort::Ingress, Change::Listed(BTreeMap::new())));
        let work = index.work(name);
        assert_eq!(work.write.is_some(), is_had, "{name}");
        let told = work
            .problem
            .is_some_and(|problem| problem.contains("nobody gets"));
        assert_eq!(told, !is_had, "{name}");
        let body = index.mode().render(name, &host(&a), &HttpOptions::default());
        let place = (a.namespace(), name.to_owned());
        index.apply(Event::Objects(
            Sort::Ingress,
            Change::Put(place, written(&body, 5)),
        ));
        assert!(index.work(name).is_done(), "who has it keeps it: {name}");
    }
}

#[test]
fn an_event_from_before_our_own_write_changes_nothing() {
    let a = lease(1, 1);
    let mut index = index(&[(NAME, Ok(host(&a)))], &[exposes(&a, 60_000)]);
    let place = (a.namespace(), NAME.to_owned());
    let old = written(&index.work(NAME).write.unwrap().body, 5);
    index.apply(Event::Manifests(Change::Put(
        a.namespace(),
        Ok(exposes(&a, 5_000)),
    )));
    let new = written(&index.work(NAME).write.unwrap().body, 9);
    index.apply(Event::Objects(Sort::Ingress, Change::Put(place.clone(), new)));
    assert!(index.work(NAME).is_done());
    index.apply(Event::Objects(
        Sort::Ingress,
        Change::Put(place.clone(), old.clone()),
    ));
    assert!(index.work(NAME).is_done(), "it is older than what we wrote");
    index.apply(Event::Objects(Sort::Ingress, Change::Gone(place, old)));
    assert!(index.work(NAME).is_done());
}

#[test]
fn annotations_of_others_stay_and_those_of_a_proxy_go() {
    let a = lease(1, 1);
    let mut index = index(&[(NAME, Ok(host(&a)))], &[exposes(&a, 60_000)]);
    let body = index.work(NAME).write.unwrap().body;
    let place = (a.namespace(), NAME.to_owned());
    let mut theirs = body.clone();
    theirs["metadata"]["annotations"]["cert-manager.io/cluster-issuer"] = json!("letsencrypt");
    theirs["spec"]["tls"] = json!([{"hosts": [NAME]}]);
    index.apply(Event::Objects(
        Sort::Ingress,
        Change::Put(place.clone(), written(&theirs, 5)),
    ));
    assert!(index.work(NAME).is_done());
    theirs["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-buffer-size"] = json!("8m");
    index.apply(Event::Objects(
        Sort::Ingress,
        Change::Put(place, written(&theirs, 6)),
    ));
    let write = index.work(NAME).write.unwrap();
    assert!(
        write.take_over && write.at.ends_with("proxy-buffer-size"),
        "{}",
        write.at
    );
}

#[test]
fn a_route_that_says_it_is_of_another_lease_is_not_overwritten() {
    let (a, b) = (lease(1, 1), lease(1, 2));
    let mut index = index(&[(NAME, Ok(host(&a)))], &[exposes(&a, 60_000)]);
    let mut body = index.work(NAME).write.unwrap().body;
    body["metadata"]["labels"] = json!(labels::lease(&b));
    index.apply(Event::Objects(
        Sort::Ingress,
        Change::Put((a.namespace(), NAME.to_owned()), written(&body, 5)),
    ));
    let work = index.work(NAME);
    assert!(work.is_done() && work.problem.unwrap().contains("another lease"));
}

#[test]
fn ten_thousand_names_that_are_as_wanted_are_not_written() {
    let a = lease(1, 1);
    let names: Vec<String> = (0..10_000).map(|n| format!("n{n}.example.com")).collect();
    let mut index = Index::new(Mode::default());
    let routes = names.iter().map(|name| {
        let body = index.mode().render(name, &host(&a), &HttpOptions::default());
        ((a.namespace(), name.clone()), written(&body, 5))
    });
    let routes = routes.collect();
    let hosts = names.iter().map(|name| (name.clone(), Ok(host(&a)))).collect();
    let manifests = BTreeMap::from([(a.namespace(), Ok(exposes(&a, 60_000)))]);
    index.apply(Event::Hosts(Change::Listed(hosts)));
    index.apply(Event::Manifests(Change::Listed(manifests)));
    index.apply(Event::Objects(Sort::Ingress, Change::Listed(routes)));
    let to_do = names.iter().filter(|name| index.work(name) != Work::default());
    assert_eq!(to_do.count(), 0);
}

#[test]
fn every_proxy_has_its_own_words() {
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
    // A limit that a tenant takes off goes.
    assert!(written(&standard, 1).differs(&usual).is_some());
    assert!(written(&usual, 1).differs(&usual).is_none());
}

#[test]
fn a_field_that_others_add_to_an_ingress_is_removed() {
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
fn a_record_that_was_missing_at_the_start_is_explained_by_the_manifest_of_its_lease_alone() {
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
        index.apply(Event::Objects(Sort::Ingress, Change::Put(place, route)));
        if let Some(manifest) = &manifest {
            index.apply(Event::Manifests(Change::Put(a.namespace(), manifest.clone())));
        }
        let missing = index.work(name).missing.unwrap();
        assert_eq!(
            (missing.key.as_str(), missing.has_reason),
            (name, explained),
            "{manifest:?}"
        );
        // A record that was there and went explains itself.
        index.apply(Event::Hosts(Change::Put(name.to_owned(), Ok(host(&a)))));
        index.apply(Event::Hosts(Change::Listed(BTreeMap::new())));
        assert!(index.work(name).missing.unwrap().has_reason);
    }
}
