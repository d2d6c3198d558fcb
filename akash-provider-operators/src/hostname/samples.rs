//! Test data for probes and proofs: records, routes, and a cluster that stores notes.

use super::facts::{Exposes, Host};
use super::index::{HostnameEvent, ObjectChange, ObjectKey, RoutePlan};
use super::live::LiveObject;
use super::note_writer::NoteWriter;
use super::object_kind::ObjectKind;
use super::route::{Mode, References};
use super::shared::HostnameOperatorState;
use crate::queue::RetryPolicy;
use akash_provider_core::manifest::HttpOptions;
use akash_provider_core::types::{Address, DeploymentId};
use akash_provider_kube_kernel::watch::Definitions;
use akash_provider_kube_model::crd::notes::Notes;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) fn host(tenant: u8) -> Host {
    let owner = Address::from_bytes(&[tenant; 20]).unwrap();
    let lease = DeploymentId::new(owner, 1)
        .group(1)
        .order(1)
        .bid(Address::from_bytes(&[9; 20]).unwrap());
    Host {
        namespace: lease.namespace(),
        lease,
        service: "web".to_owned(),
        port: 80,
        updated_at: String::new(),
        uid: "1".to_owned(),
        notes: Notes::default(),
    }
}

/// Returns the desired Ingress of a record, with `ip` in its status.
pub(super) fn route(name: &str, host: &Host, ip: Option<&str>, certificate: bool) -> (ObjectKey, LiveObject) {
    let mode = Mode::default();
    let refers = References {
        certificate,
        ..References::default()
    };
    let mut object = mode.render_with(name, host, &HttpOptions::default(), refers);
    object["metadata"]["uid"] = json!("2");
    object["metadata"]["resourceVersion"] = json!("5");
    let addresses: Vec<Value> = ip.iter().map(|ip| json!({"ip": ip})).collect();
    object["status"] = json!({"loadBalancer": {"ingress": addresses}});
    let object = serde_json::from_value(object).unwrap();
    let place = (host.namespace.clone(), name.to_owned());
    (place, LiveObject::new(&object, ObjectKind::Ingress, &mode))
}

/// Returns the state of an operator that has listed these records and routes.
pub(super) fn shared(
    plan: RoutePlan,
    hosts: &[(&str, Host)],
    routes: Vec<(ObjectKey, LiveObject)>,
) -> Arc<HostnameOperatorState> {
    let shared = HostnameOperatorState::new(
        plan,
        RetryPolicy::default(),
        Duration::ZERO,
        Definitions::default(),
    );
    let manifests = hosts.iter().map(|(_, host)| {
        let options = BTreeMap::from([((host.service.clone(), host.port), HttpOptions::default())]);
        let lease = host.lease.clone();
        (
            host.namespace.clone(),
            Ok(Exposes {
                lease,
                options,
                hosts: BTreeSet::new(),
            }),
        )
    });
    let manifests = ObjectChange::Listed(manifests.collect());
    let hosts = hosts
        .iter()
        .map(|(name, host)| ((*name).to_owned(), Ok(host.clone())));
    let hosts = ObjectChange::Listed(hosts.collect());
    let routes = ObjectChange::Listed(routes.into_iter().collect());
    for event in [
        HostnameEvent::Hosts(hosts),
        HostnameEvent::Manifests(manifests),
        HostnameEvent::Objects(ObjectKind::Ingress, routes),
    ] {
        shared.state.apply(event);
    }
    Arc::new(shared)
}

/// Fake cluster that returns one status code for all writes, and stores their bodies.
#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) code: Arc<AtomicU16>,
    pub(super) written: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Cluster {
    pub(super) fn new() -> Self {
        Self {
            code: Arc::new(AtomicU16::new(200)),
            written: Arc::default(),
        }
    }

    pub(super) fn notebook(&self) -> NoteWriter {
        let cluster = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap();
                cluster.written.lock().unwrap().push((path, body));
                let code = cluster.code.load(Ordering::Relaxed);
                let answer = match code {
                    200 => json!({
                        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "x"},
                    }),
                    code => {
                        json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": code})
                    }
                };
                let answer = Response::builder()
                    .status(code)
                    .body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, std::io::Error>(answer.unwrap())
            }
        });
        NoteWriter::new(&Client::new(service, "default"), "lease", Duration::from_secs(5))
    }

    pub(super) fn notes(&self, key: &str) -> Vec<(String, Value)> {
        let written = self.written.lock().unwrap();
        let notes = written.iter().filter_map(|(path, body)| {
            let text = body["metadata"]["annotations"][key].as_str()?;
            let object = path.rsplit('/').next()?.to_owned();
            Some((object, serde_json::from_str(text).unwrap()))
        });
        notes.collect()
    }
}
