//! `doctor` with an API server that serves fixed responses: CustomResourceDefinitions, ingress class and
//! controller, gateway, operators, rights and GPUs.

use super::doctor::{Results, SETTINGS, installation};
use super::doctor_machine::kubeconfig;
use crate::stage::until;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

const DEFINITIONS: &str = "/apis/akash.network/v2beta2";
const SCHEMAS: &str = "/openapi/v3/apis/akash.network/v2beta2";
const CLASS: &str = "/apis/networking.k8s.io/v1/ingressclasses/akash-ingress-class";
const GATEWAY: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/akash-gateway/gateways/akash-gateway";
const RUNTIME: &str = "/apis/node.k8s.io/v1/runtimeclasses/nvidia";
const SERVICES: &str = "/api/v1/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Operators, and the severity if the Service of the operator fails. The provider counts the capacity itself, so
/// it does not require the inventory operator.
const OPERATORS: [(&str, &str); 3] = [
    ("hostname", "failure"),
    ("ip", "failure"),
    ("inventory", "warning"),
];

/// Responses of a simulated API server by path. Other paths get 404.
#[derive(Clone, Default)]
struct Responses(Arc<Mutex<BTreeMap<String, (u16, Value)>>>);

impl Responses {
    fn set(&self, path: &str, status: u16, body: Value) {
        self.0.lock().unwrap().insert(path.to_owned(), (status, body));
    }

    fn respond(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(&stream);
        let (mut line, mut length) = (String::new(), 0);
        reader.read_line(&mut line)?;
        let path = line.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            let header = header.trim().to_lowercase();
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if header.is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length])?;
        let missing = || (404, status(404, "NotFound"));
        let found = self.0.lock().unwrap().get(&path).cloned();
        let (code, body) = found.unwrap_or_else(missing);
        let body = body.to_string();
        write!(
            &stream,
            "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }

    /// Serves on loopback until the test process ends.
    fn serve(&self) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let responses = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let responses = responses.clone();
                std::thread::spawn(move || responses.respond(stream));
            }
        });
        at
    }
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason})
}

/// Returns the API discovery response for these resources of `akash.network/v2beta2`.
fn definitions(kinds: &[&str]) -> Value {
    let resource = |name: &&str| json!({"name": name, "singularName": "", "namespaced": true, "kind": name, "verbs": []});
    let resources: Vec<Value> = kinds.iter().map(resource).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "akash.network/v2beta2", "resources": resources})
}

fn review(is_allowed: bool) -> Value {
    json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {},
        "status": {"allowed": is_allowed}})
}

#[test]
fn objects_and_rights_of_the_cluster_are_reported_until_they_exist() {
    let stage = installation("doctor-objects");
    let responses = Responses::default();
    let config = kubeconfig(&stage, &format!("http://{}", responses.serve()));
    let doctor = || Results::new(&stage, &[&config]);
    doctor().expect("cluster", "failure");

    responses.set("/version", 200, json!({"gitVersion": "v1.34.0"}));
    responses.set(REVIEWS, 201, review(false));
    // A version of the definitions without a kind.
    responses.set(DEFINITIONS, 200, definitions(&["manifests"]));
    let missing = doctor();
    for (subject, severity) in [
        ("cluster", "ok"),
        ("rights", "failure"),
        ("custom resource definitions", "failure"),
        ("ingress class", "failure"),
    ] {
        missing.expect(subject, severity);
    }

    responses.set(REVIEWS, 201, review(true));
    responses.set(
        DEFINITIONS,
        200,
        definitions(&["manifests", "providerhosts", "providerleasedips"]),
    );
    responses.set(SCHEMAS, 200, json!({"components": {"schemas": {}}}));
    responses.set(
        CLASS,
        200,
        json!({"metadata": {"name": "akash-ingress-class"}, "spec": {}}),
    );
    responses.set(
        "/api/v1/namespaces",
        200,
        json!({"kind": "NamespaceList", "apiVersion": "v1", "metadata": {}, "items": []}),
    );
    let complete = doctor();
    for subject in ["custom resource definitions", "ingress class"] {
        complete.expect(subject, "ok");
    }
    let rights = complete.checks().filter(|check| check["subject"] == "rights");
    let severities: Vec<&Value> = rights.map(|check| &check["severity"]).collect();
    assert_eq!(severities, ["ok"], "{}", complete.report());
    complete.expect("rights in leases", "skipped");
}

#[test]
fn controller_gateway_and_gpus_are_reported_until_they_work() {
    let stage = installation("doctor-controllers");
    let responses = Responses::default();
    let config = kubeconfig(&stage, &format!("http://{}", responses.serve()));
    let list =
        |kind: &str, item: Value| json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": [item]});
    let condition = |kind: &str, is_met: &str| json!({"type": kind, "status": is_met});
    let pods = |ready: &str| {
        let status = json!({"phase": "Running", "conditions": [condition("Ready", ready)]});
        list(
            "PodList",
            json!({"metadata": {"name": "controller"}, "status": status}),
        )
    };
    let nodes = |gpus: &str| {
        let labels = json!({"akash.network": "true", "nvidia.com/gpu.present": "true"});
        let node = json!({"metadata": {"name": "gpu-1", "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": gpus}}});
        list("NodeList", node)
    };
    let gateway = |programmed: &str| {
        let conditions = [condition("Accepted", "True"), condition("Programmed", programmed)];
        let metadata = json!({"name": "akash-gateway", "namespace": "akash-gateway"});
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": metadata,
            "status": {"conditions": conditions}})
    };
    // Other subjects also start with `gateway`.
    let gateway_severity = |results: &Results| {
        let check = results.checks().find(|check| check["subject"] == "gateway");
        check.unwrap()["severity"].clone()
    };
    responses.set("/version", 200, json!({"gitVersion": "v1.34.0"}));
    let spec = json!({"controller": "k8s.io/ingress-nginx"});
    responses.set(
        CLASS,
        200,
        json!({"metadata": {"name": "akash-ingress-class"}, "spec": spec}),
    );

    responses.set("/api/v1/pods", 200, pods("False"));
    responses.set("/api/v1/nodes", 200, nodes("0"));
    let missing = Results::new(&stage, &[&config]);
    missing.expect("ingress controller", "failure");
    missing.expect("GPU drivers", "warning");
    missing.expect("runtime class", "failure");
    responses.set(GATEWAY, 200, gateway("False"));
    responses.set(
        RUNTIME,
        200,
        json!({"metadata": {"name": "nvidia"}, "handler": "nvidia"}),
    );
    let not_programmed = Results::new(&stage, &[&config, "--ingress-mode=gateway-api"]);
    assert_eq!(gateway_severity(&not_programmed), "failure");
    not_programmed.expect("runtime class", "ok");

    responses.set("/api/v1/pods", 200, pods("True"));
    responses.set("/api/v1/nodes", 200, nodes("2"));
    let complete = Results::new(&stage, &[&config]);
    complete.expect("ingress controller", "ok");
    complete.expect("GPU drivers", "ok");
    responses.set(GATEWAY, 200, gateway("True"));
    let programmed = Results::new(&stage, &[&config, "--ingress-mode=gateway-api"]);
    assert_eq!(gateway_severity(&programmed), "ok");
}

#[test]
fn operator_in_the_cluster_is_reported_until_it_responds() {
    let stage = installation("doctor-operators");
    let responses = Responses::default();
    let config = kubeconfig(&stage, &format!("http://{}", responses.serve()));
    responses.set("/version", 200, json!({"gitVersion": "v1.34.0"}));
    let service = json!({"metadata": {"name": "operator", "namespace": "akash-services"}});
    responses.set(
        SERVICES,
        200,
        json!({"kind": "ServiceList", "apiVersion": "v1", "metadata": {}, "items": [service]}),
    );
    let respond = |name: &str, code: u16| {
        let path = format!("/api/v1/namespaces/akash-services/services/operator-{name}:rest/proxy/health");
        responses.set(&path, code, status(code, "X"));
    };
    let check = |failed: Option<&str>| {
        let results = Results::new(&stage, &[&config, "--ip-operator"]);
        for (name, severity) in OPERATORS {
            let (subject, is_failed) = (format!("{name} operator"), failed == Some(name));
            results.expect(&subject, if is_failed { severity } else { "ok" });
            let help = results.check(&subject)["help"].as_str();
            let remedy = format!("restart the pod of `operator-{name}`");
            assert_eq!(
                help.is_some_and(|help| help.starts_with(&remedy)),
                is_failed,
                "{help:?}"
            );
        }
    };
    OPERATORS.iter().for_each(|(name, _)| respond(name, 200));
    for (name, _) in OPERATORS {
        respond(name, 503);
        check(Some(name));
        respond(name, 200);
    }
    check(None);
}

#[test]
fn embedded_operator_is_reported_until_its_election_works() {
    let stage = installation("doctor-embedded");
    let responses = Responses::default();
    let config = kubeconfig(&stage, &format!("http://{}", responses.serve()));
    responses.set("/version", 200, json!({"gitVersion": "v1.34.0"}));
    for (path, kind) in [("/api/v1/nodes", "NodeList"), (SLICES, "EndpointSliceList")] {
        let list = json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": []});
        responses.set(path, 200, list);
    }
    let flags = [
        &*config,
        "--with-operators=hostname,ip,inventory",
        "--provider-configs-url=",
    ];
    let provider = stage.provider("provider", &[&flags[..], &SETTINGS].concat());
    let reports = |expected: &[(&str, &str)]| {
        let results = Results::new(&stage, &flags);
        let subject = |name: &str| format!("{name} operator");
        let mut all = expected.iter();
        let is_reported = all.all(|(name, severity)| results.check(&subject(name))["severity"] == *severity);
        if is_reported {
            expected
                .iter()
                .for_each(|(name, severity)| results.expect(&subject(name), severity));
        }
        is_reported
    };
    // The Leases of the elections do not exist and cannot be created.
    let mut expected = OPERATORS.map(|(name, _)| (name, "warning"));
    until("failed elections", || provider.dump(), || reports(&expected));
    for (number, (name, _)) in OPERATORS.iter().enumerate() {
        let election = format!("akash-operator-{name}");
        let spec = json!({"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 1,
            "renewTime": "2026-01-01T00:00:00.000000Z"});
        let metadata = json!({"name": election, "namespace": "lease", "resourceVersion": "1"});
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/lease/leases/{election}");
        responses.set(&path, 200, lease);
        expected[number].1 = "ok";
        // An earlier operator may no longer be a standby, because no process renews its Lease.
        until("a standby", || provider.dump(), || reports(&expected[number..]));
    }
}
