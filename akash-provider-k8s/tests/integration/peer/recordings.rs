//! Recorded leases: SDLs, and the objects of the cluster.

use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::hosts::{hostnames_wanted, ips_wanted};
use akash_provider_core::sdl;
use akash_provider_core::types::LeaseId;
use akash_provider_k8s::labels;
use akash_provider_k8s::settings::KubeSettings;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) struct Recording {
    pub(super) name: String,
    folder: PathBuf,
    sdl: PathBuf,
}

pub(super) fn all() -> Vec<Recording> {
    let root = testbed::recordings::folder("peer");
    let folders = testbed::recordings::files(&root.join("k8s"), "");
    assert!(folders.len() >= 8, "recordings are missing: {folders:?}");
    let recording = |folder: PathBuf| {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let sdl = if name == "web-after-update" {
            "web-updated"
        } else {
            &name
        };
        Recording {
            sdl: root.join("sdl").join(format!("{sdl}.yaml")),
            folder,
            name,
        }
    };
    folders.into_iter().map(recording).collect()
}

/// Reads the recordings with running workloads.
pub(super) fn running() -> Vec<Recording> {
    let all = all().into_iter();
    all.filter(|recording| recording.folder.join("services.json").is_file())
        .collect()
}

impl Recording {
    fn read(&self, file: &str) -> Option<Value> {
        let text = std::fs::read_to_string(self.folder.join(format!("{file}.json"))).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    pub(super) fn manifest(&self) -> Value {
        let mut manifest = self.read("manifest-cr").unwrap();
        manifest.as_object_mut().unwrap().remove("status");
        manifest
    }

    pub(super) fn manifest_version(&self) -> String {
        self.manifest()["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    pub(super) fn lease(&self) -> LeaseId {
        let recorded = self.manifest()["metadata"]["labels"].clone();
        labels::lease_of(&serde_json::from_value(recorded).unwrap()).unwrap()
    }

    pub(super) fn settings(&self) -> KubeSettings {
        let mut settings = KubeSettings::new(self.lease().provider);
        settings.public_hostname = "provider.localhost".to_owned();
        settings.runtime_class = "none".to_owned();
        settings
    }

    /// Creates the workload of the recorded lease from the SDL and the recorded scheduler parameters.
    pub(super) fn deployment(&self) -> WorkloadSpec {
        let text = std::fs::read_to_string(&self.sdl).unwrap();
        let parsed = sdl::parse(&text).unwrap();
        let group = parsed.manifest.groups.into_iter().next().unwrap();
        let recorded = &self.manifest()["spec"]["group"]["services"];
        let params = recorded.as_array().unwrap().iter().map(|service| {
            let id = u32::try_from(service["resources"]["id"].as_u64().unwrap()).unwrap();
            let params = service.get("scheduler_params").cloned().unwrap_or_default();
            (id, serde_json::from_value(params).unwrap())
        });
        let lease = self.lease();
        WorkloadSpec {
            hostnames: hostnames_wanted(&group, &lease, Some("ingress.localhost")),
            ips: ips_wanted(&group, &lease),
            params: Arc::new(params.collect()),
            ..WorkloadSpec::new(lease, Arc::new(group))
        }
    }

    /// Reads objects of a kind.
    pub(super) fn list(&self, file: &str) -> Vec<Value> {
        let list = self.read(file).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the objects of the provider, without fields that the cluster added.
    pub(super) fn objects(&self) -> BTreeMap<String, Value> {
        let mut all = vec![self.read("namespace").unwrap()];
        for file in [
            "networkpolicies",
            "secrets",
            "roles",
            "rolebindings",
            "deployments",
            "statefulsets",
            "services",
        ] {
            all.extend(self.list(file));
        }
        let accounts = self.list("serviceaccounts").into_iter();
        all.extend(accounts.filter(|account| account["metadata"]["name"] != "default"));
        all.into_iter()
            .map(|object| (key(&object), plain(object)))
            .collect()
    }
}

pub(super) fn key(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

/// Fields that the API server and its controllers set.
const ADDED: [&str; 18] = [
    "/metadata/creationTimestamp",
    "/metadata/generation",
    "/metadata/resourceVersion",
    "/metadata/uid",
    "/metadata/annotations/deployment.kubernetes.io~1revision",
    "/metadata/labels/kubernetes.io~1metadata.name",
    "/status",
    "/spec/finalizers",
    "/spec/clusterIP",
    "/spec/clusterIPs",
    "/spec/internalTrafficPolicy",
    "/spec/externalTrafficPolicy",
    "/spec/ipFamilies",
    "/spec/ipFamilyPolicy",
    "/spec/sessionAffinity",
    "/spec/progressDeadlineSeconds",
    "/spec/persistentVolumeClaimRetentionPolicy",
    "/spec/podManagementPolicy",
];
/// Fields that the API server sets in pod templates.
const ADDED_TO_PODS: [&str; 4] = [
    "dnsPolicy",
    "restartPolicy",
    "schedulerName",
    "terminationGracePeriodSeconds",
];
/// Fields that the API server sets in containers.
const ADDED_TO_CONTAINERS: [&str; 2] = ["terminationMessagePath", "terminationMessagePolicy"];

pub(super) fn plain(mut object: Value) -> Value {
    ADDED.iter().for_each(|pointer| remove(&mut object, pointer));
    if object["spec"]["serviceName"] == "" {
        remove(&mut object, "/spec/serviceName");
    }
    for port in object
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        remove(port, "/nodePort");
    }
    let claims = object
        .pointer_mut("/spec/volumeClaimTemplates")
        .and_then(Value::as_array_mut);
    for claim in claims.into_iter().flatten() {
        remove(claim, "/status");
    }
    if let Some(pod) = object.pointer_mut("/spec/template/spec") {
        ADDED_TO_PODS
            .iter()
            .for_each(|field| remove(pod, &format!("/{field}")));
        for container in pod["containers"].as_array_mut().unwrap() {
            ADDED_TO_CONTAINERS
                .iter()
                .for_each(|field| remove(container, &format!("/{field}")));
        }
    }
    for emptied in ["/metadata/annotations", "/spec"] {
        if object
            .pointer(emptied)
            .and_then(Value::as_object)
            .is_some_and(serde_json::Map::is_empty)
        {
            remove(&mut object, emptied);
        }
    }
    object
}

pub(super) fn remove(value: &mut Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else {
        return;
    };
    let field = field.replace("~1", "/");
    if let Some(parent) = value.pointer_mut(parent).and_then(Value::as_object_mut) {
        parent.remove(&field);
    }
}
