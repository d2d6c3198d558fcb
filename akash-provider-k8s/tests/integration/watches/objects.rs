//! Objects of test leases.

use akash_provider_core::types::LeaseId;
use akash_provider_k8s::labels;
use akash_provider_k8s::settings::KubeSettings;
use serde_json::{Value, json};

pub(crate) const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
const OWNER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";

pub(crate) fn settings() -> KubeSettings {
    let mut settings = KubeSettings::new(PROVIDER.parse().unwrap());
    settings.public_hostname = "provider.example".to_owned();
    settings
}

pub(crate) fn lease(dseq: u64) -> LeaseId {
    format!("{OWNER}/{dseq}/1/1/{PROVIDER}").parse().unwrap()
}

fn labels_of(lease: &LeaseId) -> Value {
    let mut all = labels::selector(&lease.namespace());
    all.extend(labels::lease(lease));
    json!(all)
}

pub(crate) fn namespace(dseq: u64, version: &str) -> Value {
    let lease = lease(dseq);
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": lease.namespace(), "uid": "n", "resourceVersion": version, "labels": labels_of(&lease),
        },
    })
}

pub(crate) fn manifest(dseq: u64, count: u32) -> Value {
    let lease = lease(dseq);
    json!({
        "apiVersion": "akash.network/v2beta2", "kind": "Manifest",
        "metadata": {
            "name": lease.namespace(), "namespace": "lease", "uid": "m", "generation": 1, "resourceVersion": "1",
            "labels": labels_of(&lease),
        },
        "spec": {
            "lease_id": {
                "owner": OWNER, "dseq": dseq.to_string(), "gseq": 1, "oseq": 1, "provider": PROVIDER,
            },
            "group": {"name": "g", "services": [{
                "name": "web", "image": "i", "count": count,
                "resources": {"id": 1, "cpu": {"units": 1}, "gpu": {"units": 0}, "memory": {"size": "1"}},
            }]},
        },
    })
}

pub(crate) fn deployment(dseq: u64, available: u32, version: &str) -> Value {
    let home = lease(dseq).namespace();
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": home, "uid": format!("d{dseq}"), "generation": 1,
            "resourceVersion": version, "labels": labels::service_selector(&home, "web"),
            "managedFields": [{"manager": "x", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"replicas": 1, "selector": {}, "template": {}},
        "status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": available, "availableReplicas": available},
    })
}

pub(crate) fn pod(dseq: u64, name: &str, version: &str) -> Value {
    let home = lease(dseq).namespace();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": home, "uid": format!("{dseq}-{name}"), "resourceVersion": version,
            "labels": labels::service_selector(&home, "web"),
        },
        "spec": {"containers": [{"name": "web", "image": "i"}]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{
                "name": "web", "ready": true, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {}},
            }],
        },
    })
}
