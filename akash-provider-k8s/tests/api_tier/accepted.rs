//! A real API server accepts the rendered objects and stores them unchanged.
//!
//! The tests create objects as a dry run, in a namespace that is deleted afterwards. Only the custom resource
//! definitions remain in the cluster.

#[path = "accepted/cluster.rs"]
mod cluster;
#[expect(dead_code, reason = "another test compares these objects")]
#[path = "../integration/peer/recordings.rs"]
mod recordings;
#[path = "../../model/tests/integration/objects/sdl.rs"]
mod sdl;

use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_k8s::settings::Isolation;
use akash_provider_kube_model::crd::{self, Manifest, convert};
use akash_provider_kube_model::objects::{self, LeaseObjects, PriorState};
use cluster::{Cluster, Trial, missing};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ObjectMeta;
use std::collections::BTreeMap;
use std::path::Path;

fn cases() -> Vec<(String, WorkloadSpec)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("model/tests/data/objects");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let sdls = files.filter(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, sdl::deployment(&std::fs::read_to_string(path).unwrap()))
    };
    let mut cases: Vec<_> = sdls.map(read).collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(cases.len() >= 4);
    let odd = sdl::web(|service| {
        service.count = 0;
        service.image = "registry.example.com:5000/team/web_app:1.2@sha256:".to_owned() + &"ab".repeat(32);
        service.resources.cpu.units = 123_456_789;
        service.resources.memory.bytes = 5_000_000_000_000;
        service.env = Some(vec!["EMPTY=".to_owned(), "A-B.c=$(EMPTY)".to_owned()]);
        service.command = Some(vec![String::new()]);
    });
    cases.push(("odd amounts".to_owned(), odd));
    cases
}

fn rendered(deployment: &WorkloadSpec, isolation: Isolation) -> LeaseObjects {
    let mut settings = sdl::settings();
    settings.commit.cpu = 1.5;
    settings.commit.memory = 1.1;
    settings.commit.storage = 3.0;
    let prior = PriorState {
        manifest_version: "1".to_owned(),
        isolation,
        unchanged: BTreeMap::new(),
    };
    objects::render(deployment, &settings, &prior).unwrap()
}

async fn apply_all(trial: &Trial, name: &str, objects: &LeaseObjects) {
    trial.all(name, &objects.policies).await;
    trial.all(name, objects.quota.as_slice()).await;
    trial.all(name, &objects.service_accounts).await;
    trial.all(name, &objects.roles).await;
    trial.all(name, &objects.role_bindings).await;
    trial.all(name, &objects.secrets).await;
    trial.all(name, &objects.deployments).await;
    trial.all(name, &objects.stateful_sets).await;
    trial.all(name, &objects.services).await;
}

#[tokio::test]
async fn every_object_is_accepted_and_stored_as_rendered() {
    let Some(cluster) = Cluster::from_env().await else {
        return;
    };
    for isolation in [Isolation::Baseline, Isolation::Legacy] {
        for (name, deployment) in cases() {
            let objects = rendered(&deployment, isolation);
            let trial = cluster.trial(&objects.namespace).await;
            apply_all(&trial, &name, &objects).await;
            trial.all(&name, &routes(&deployment)).await;
            let ips = deployment.ips.iter();
            let ips: Vec<_> = ips
                .map(|ip| objects::leased_ip_service(&deployment.lease, ip, "public"))
                .collect();
            trial.all(&name, &ips).await;
            trial.end().await;
        }
    }
}

fn routes(deployment: &WorkloadSpec) -> Vec<k8s_openapi::api::networking::v1::Ingress> {
    let hosts = deployment.hostnames.iter();
    let route = |host| {
        let options = akash_provider_core::cluster::http_options(&deployment.group, host).unwrap();
        objects::ingress(&deployment.lease, host, options)
    };
    hosts.map(route).collect()
}

#[tokio::test]
async fn pods_satisfy_pod_security_standard_of_their_namespace() {
    let Some(cluster) = Cluster::from_env().await else {
        return;
    };
    for (name, deployment) in cases() {
        let objects = rendered(&deployment, Isolation::Baseline);
        let trial = cluster.trial(&objects.namespace).await;
        let templates = objects
            .deployments
            .iter()
            .map(|d| d.spec.as_ref().unwrap().template.clone());
        let sets = objects
            .stateful_sets
            .iter()
            .map(|s| s.spec.as_ref().unwrap().template.clone());
        for template in templates.chain(sets) {
            let mut spec = template.spec.unwrap();
            spec.service_account_name = None;
            spec.automount_service_account_token = Some(false);
            spec.containers[0].volume_mounts = None;
            spec.runtime_class_name = None;
            let pod = |host_network: bool| Pod {
                metadata: ObjectMeta {
                    name: Some("trial".to_owned()),
                    ..template.metadata.clone().unwrap()
                },
                spec: Some(k8s_openapi::api::core::v1::PodSpec {
                    host_network: host_network.then_some(true),
                    ..spec.clone()
                }),
                status: None,
            };
            trial.created(&name, &pod(false)).await.unwrap();
            let refused = trial.created(&name, &pod(true)).await.unwrap_err();
            assert!(refused.contains("PodSecurity"), "{name}: {refused}");
        }
        trial.end().await;
    }
}

#[tokio::test]
async fn records_are_stored_as_written_and_retain_unknown_fields() {
    let Some(cluster) = Cluster::from_env().await else {
        return;
    };
    cluster.install(crd::definitions()).await;
    for (name, deployment) in cases() {
        let objects = rendered(&deployment, Isolation::Baseline);
        let trial = cluster.trial(&objects.namespace).await;
        let mut settings = sdl::settings();
        settings.manifest_namespace = trial.namespace.clone();
        let manifest = convert::to_manifest(&deployment, &settings).unwrap();
        trial.all(&name, std::slice::from_ref(&manifest)).await;
        let mut newer = serde_json::to_value(&manifest).unwrap();
        newer["spec"]["newer"] = serde_json::json!({ "a": [1] });
        newer["spec"]["group"]["services"][0]["resources"]["newer"] = serde_json::json!(true);
        newer["spec"]["group"]["services"][0]["scheduler_params"] = serde_json::Value::Null;
        let stored = trial.value("Manifest", &newer).await;
        assert_eq!(
            stored["spec"], newer["spec"],
            "{name}: the stored record equals the sent record"
        );
        let read: Manifest = convert::decode("Manifest", &stored).unwrap();
        assert_eq!(
            convert::from_manifest(&read).unwrap().deployment.group.name,
            deployment.group.name
        );
        trial.end().await;
    }
}

#[tokio::test]
async fn recorded_objects_of_the_go_provider_are_accepted_unchanged() {
    let Some(cluster) = Cluster::from_env().await else {
        return;
    };
    cluster.install(crd::definitions()).await;
    let trial = cluster
        .trial(&rendered(&sdl::web(|_| {}), Isolation::Legacy).namespace)
        .await;
    for recording in recordings::all() {
        let hosts = recording
            .list("providerhosts")
            .into_iter()
            .map(|host| ("ProviderHost", host));
        for (kind, recorded) in [("Manifest", recording.manifest())].into_iter().chain(hosts) {
            let mut sent = recorded.clone();
            let name = recorded["metadata"]["name"].clone();
            sent["metadata"] = serde_json::json!({ "name": name });
            let stored = trial.value(kind, &sent).await;
            assert_eq!(
                stored["spec"], recorded["spec"],
                "{}: {kind} {name}",
                recording.name
            );
        }
    }
    trial.end().await;
}

/// The provider and the API server accept names of the maximum length, and refuse longer names.
#[tokio::test]
async fn names_refused_by_the_provider_are_refused_by_the_api_server() {
    let Some(cluster) = Cluster::from_env().await else {
        return;
    };
    let deployment = sdl::web(|_| {});
    let objects = rendered(&deployment, Isolation::Baseline);
    let trial = cluster.trial(&objects.namespace).await;
    let mut service = objects.services[0].clone();
    service.metadata.name = Some("a".repeat(63));
    trial.created("63", &service).await.unwrap();
    service.metadata.name = Some("a".repeat(64));
    trial.created("64", &service).await.unwrap_err();
    let mut workload = objects.deployments[0].clone();
    let pod = |workload: &mut k8s_openapi::api::apps::v1::Deployment,
               change: &dyn Fn(&mut k8s_openapi::api::core::v1::PodSpec)| {
        change(workload.spec.as_mut().unwrap().template.spec.as_mut().unwrap());
    };
    trial.created("unchanged", &workload).await.unwrap();
    pod(&mut workload, &|spec| {
        spec.containers[0].volume_mounts = Some(vec![k8s_openapi::api::core::v1::VolumeMount {
            name: "web-nothing".to_owned(),
            mount_path: "/data".to_owned(),
            ..Default::default()
        }]);
    });
    let refused = trial
        .created("a mount without a volume", &workload)
        .await
        .unwrap_err();
    assert!(refused.contains("volumeMounts"), "{refused}");
    assert_eq!(
        missing(&serde_json::json!({ "a": [1] }), &serde_json::json!({ "a": [2] })),
        Some("/a/0".to_owned())
    );
    trial.end().await;
}

/// Two updates while the old pods terminate slowly: the quota must allow all pods.
#[tokio::test]
async fn quota_has_capacity_for_an_update() {
    let Some(cluster) = Cluster::from_env().await else {
        return;
    };
    let runtime = cluster.runtime_class("900m", "900Mi").await;
    let mut settings = sdl::settings();
    settings.runtime_class = runtime.clone();
    let prior = |version: &str| PriorState {
        manifest_version: version.to_owned(),
        isolation: Isolation::Baseline,
        unchanged: BTreeMap::new(),
    };
    let deployment = sdl::web(|service| service.count = 4);
    let objects = objects::render(&deployment, &settings, &prior("1")).unwrap();
    let trial = cluster.trial(&objects.namespace).await;
    trial.apply(objects.quota.as_ref().unwrap()).await;
    trial.quota_counts().await;
    trial.apply(&objects.deployments[0]).await;
    trial.pods_of("1", 4, 0).await;
    for (version, ending) in [("2", 4), ("3", 8)] {
        trial.pods_end_slowly().await;
        let objects = objects::render(&deployment, &settings, &prior(version)).unwrap();
        trial.apply(&objects.deployments[0]).await;
        trial.pods_of(version, 4, ending).await;
    }
    let too_many = sdl::web(|service| service.count = 30);
    let objects = objects::render(&too_many, &settings, &prior("3")).unwrap();
    trial.apply(&objects.deployments[0]).await;
    trial.event("exceeded quota").await;
    trial.end().await;
    cluster.remove_runtime_class(&runtime).await;
}
