//! Test data.

use crate::labels;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_model::crd::{Manifest, ProviderHost};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use serde_json::{Value, json};

pub(crate) const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";

pub(crate) fn lease(dseq: u64) -> LeaseId {
    let owner = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";
    format!("{owner}/{dseq}/1/1/{PROVIDER}").parse().unwrap()
}

pub(crate) fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn labelled(lease: &LeaseId) -> Value {
    let mut all = labels::selector(&lease.namespace());
    all.extend(labels::lease(lease));
    json!(all)
}

pub(crate) fn namespace(lease: &LeaseId) -> Namespace {
    of(json!({"metadata": {"name": lease.namespace(), "uid": "ns", "labels": labelled(lease)}}))
}

/// Returns a Manifest of services with these names and counts. A name with the suffix `!` gets persistent
/// storage.
pub(crate) fn manifest(lease: &LeaseId, services: &[(&str, u32)]) -> Manifest {
    let service = |(name, count): &(&str, u32)| {
        let persistent = name.ends_with('!').to_string();
        json!({
            "name": name.trim_end_matches('!'), "image": "i", "count": count,
            "resources": {
                "id": 1, "cpu": {"units": 1}, "gpu": {"units": 0}, "memory": {"size": "1"},
                "storage": [{"name": "data", "size": "1", "attributes": [{"key": "persistent", "value": persistent}]}],
            },
        })
    };
    let services: Vec<_> = services.iter().map(service).collect();
    of(json!({
        "apiVersion": "akash.network/v2beta2", "kind": "Manifest",
        "metadata": {
            "name": lease.namespace(), "namespace": "lease", "uid": "m", "generation": 1,
            "labels": labelled(lease),
        },
        "spec": {
            "lease_id": {
                "owner": lease.owner().to_string(), "dseq": "1", "gseq": 1, "oseq": 1, "provider": PROVIDER,
            },
            "group": {"name": "g", "services": services},
        },
    }))
}

/// Generation, observed generation, desired and available replicas of a workload.
pub(crate) type Counts = (i64, i64, i32, i32);

pub(crate) fn deployment(lease: &LeaseId, name: &str, counts: Counts) -> Deployment {
    let (generation, observed, wanted, available) = counts;
    of(json!({
        "metadata": {
            "name": name, "namespace": lease.namespace(), "uid": format!("d-{name}"), "generation": generation,
        },
        "spec": {"replicas": wanted, "selector": {}, "template": {}},
        "status": {
            "observedGeneration": observed, "replicas": wanted, "updatedReplicas": wanted,
            "readyReplicas": available, "availableReplicas": available,
        },
    }))
}

pub(crate) fn stateful_set(lease: &LeaseId, name: &str, counts: Counts) -> StatefulSet {
    let (generation, observed, wanted, available) = counts;
    of(json!({
        "metadata": {
            "name": name, "namespace": lease.namespace(), "uid": format!("s-{name}"), "generation": generation,
        },
        "spec": {"replicas": wanted, "selector": {}, "serviceName": "", "template": {}},
        // The current replicas belong to the previous revision.
        "status": {
            "observedGeneration": observed, "replicas": wanted, "currentReplicas": wanted,
            "readyReplicas": available, "availableReplicas": available,
        },
    }))
}

pub(crate) fn service(lease: &LeaseId, name: &str, kind: &str, ports: Value) -> Service {
    of(json!({
        "metadata": {"name": name, "namespace": lease.namespace()},
        "spec": {"type": kind, "ports": ports},
    }))
}

pub(crate) fn host(lease: &LeaseId, name: &str, service: &str) -> ProviderHost {
    of(json!({
        "apiVersion": "akash.network/v2beta2", "kind": "ProviderHost",
        "metadata": {"name": name, "namespace": "lease", "labels": labelled(lease)},
        "spec": {
            "owner": lease.owner().to_string(), "provider": PROVIDER, "hostname": name,
            "dseq": lease.deployment().dseq, "gseq": 1, "oseq": 1, "service_name": service, "external_port": 80,
        },
    }))
}

/// Returns a pod in a phase. If `ready` is true, the container of the pod runs.
pub(crate) fn pod(lease: &LeaseId, name: &str, service: &str, phase: &str, ready: bool) -> Pod {
    let state = if ready {
        json!({"running": {}})
    } else {
        json!({"waiting": {}})
    };
    of(json!({
        "metadata": {
            "name": name, "namespace": lease.namespace(), "uid": format!("p-{name}"),
            "labels": {"akash.network": "true", "akash.network/manifest-service": service},
        },
        "spec": {"containers": [{"name": "sidecar"}, {"name": service}]},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
            "containerStatuses": [
                {"name": "sidecar", "ready": true, "restartCount": 1, "image": "", "imageID": ""},
                {"name": service, "ready": ready, "restartCount": 2, "image": "", "imageID": "", "state": state},
            ],
        },
    }))
}
