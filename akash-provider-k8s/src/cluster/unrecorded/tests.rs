use super::*;
use crate::apply::plan::ObjectWrite;
use crate::apply::{exact, marked};
use crate::drift::{DriftedObject, drifted};
use akash_provider_core::cluster::WorkloadSpec;
use akash_provider_core::manifest::{Permissions, Service, ServiceExpose, ServiceParams, StorageParams};
use akash_provider_core::types::{Attribute, Cpu, Gpu, Memory, Resources, Storage};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;

const LEASE: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh/3944427/1/1/\
                     akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";

fn expose(port: u16, ip: &str) -> ServiceExpose {
    ServiceExpose {
        global: true,
        ip: ip.to_owned(),
        ..ServiceExpose::new(port)
    }
}

fn service(name: &str, permissions: &[&str]) -> Service {
    let volume = |name: &str, class: &str, persistent: &str| Storage {
        name: name.to_owned(),
        bytes: 64 << 20,
        attributes: vec![
            Attribute::new("class", class),
            Attribute::new("persistent", persistent),
        ],
    };
    let is_stateful = permissions.is_empty();
    let mut storage = vec![volume("cache", "ram", "false")];
    storage.extend(is_stateful.then(|| volume("data", "beta2", "true")));
    let mounts = storage.iter().map(|volume| StorageParams {
        name: volume.name.clone(),
        mount: format!("/{}", volume.name),
        read_only: false,
    });
    Service {
        command: Some(vec!["sh".to_owned()]),
        env: Some(vec!["A=1".to_owned()]),
        count: 2,
        expose: vec![expose(80, ""), expose(9000, ""), expose(9001, "")],
        params: Some(ServiceParams {
            storage: Some(mounts.collect()),
            permissions: (!is_stateful).then(|| Permissions {
                read: Some(permissions.iter().map(|&word| word.to_owned()).collect()),
            }),
            ..ServiceParams::default()
        }),
        ..Service::new(
            name,
            "nginx:1.27",
            Resources {
                id: 1,
                cpu: Cpu::new(1500, Vec::new()),
                memory: Memory::new(512 << 20, Vec::new()),
                storage,
                gpu: Gpu::new(1, vec![Attribute::new("vendor/nvidia/model/t4", "true")]),
                endpoints: Vec::new(),
            },
        )
    }
}

/// Lease, with the objects that the API server stores for it.
struct Lease {
    settings: KubeSettings,
    deployment: WorkloadSpec,
    namespace: Namespace,
    objects: BTreeMap<ObjectId, Value>,
}

impl Lease {
    fn applied() -> Self {
        let lease: LeaseId = LEASE.parse().unwrap();
        let mut settings = KubeSettings::new(lease.provider.clone());
        settings.egress.api_servers = vec!["10.1.2.3:6443".parse().unwrap()];
        settings.commit.cpu = 2.0;
        let services = vec![service("db", &[]), service("web", &["logs", "deployment"])];
        let deployment = stand_in::workload(&lease, services);
        let prior = PriorState {
            manifest_version: "7".to_owned(),
            isolation: settings.isolation,
            unchanged: BTreeMap::new(),
        };
        let rendered = objects::render(&deployment, &settings, &prior).unwrap();
        let all = items(&rendered);
        let namespace = marked(&with_type(&rendered.namespace), &all);
        let objects = all.iter().map(|item| {
            let mut body = item.annotated(item.body.clone(), false);
            fill_in(item.id.kind, &mut body);
            (item.id.clone(), body)
        });
        Self {
            objects: objects.collect(),
            namespace: serde_json::from_value(namespace).unwrap(),
            settings,
            deployment,
        }
    }

    fn view(&self) -> LeaseView {
        fn all<K: DeserializeOwned>(lease: &Lease, kind: ItemKind) -> BTreeMap<String, Arc<K>> {
            let of_kind = lease.objects.iter().filter(|(id, _)| id.kind == kind);
            of_kind
                .map(|(id, body)| {
                    (
                        id.name.clone(),
                        Arc::new(serde_json::from_value(body.clone()).unwrap()),
                    )
                })
                .collect()
        }
        LeaseView {
            namespace: Some(Arc::new(self.namespace.clone())),
            policies: all(self, ItemKind::NetworkPolicy),
            quotas: all(self, ItemKind::ResourceQuota),
            accounts: all(self, ItemKind::ServiceAccount),
            roles: all(self, ItemKind::Role),
            role_bindings: all(self, ItemKind::RoleBinding),
            deployments: all(self, ItemKind::Deployment),
            stateful_sets: all(self, ItemKind::StatefulSet),
            services: all(self, ItemKind::Service),
            ..LeaseView::default()
        }
    }

    fn derived(&self) -> Vec<DerivedItem> {
        let view = self.view();
        DerivedObjects::new(
            &self.deployment.lease,
            &self.namespace,
            &view,
            self.settings.clone(),
        )
        .derive(&view)
    }

    fn heal(&mut self) -> Vec<ObjectWrite> {
        let items: Vec<Item> = self.derived().into_iter().map(|derived| derived.item).collect();
        let all = drifted(&items, &self.view()).into_iter();
        let writes: Vec<ObjectWrite> = all.map(|DriftedObject { write, .. }| write).collect();
        for write in &writes {
            match (&write.patch, self.objects.get_mut(&write.id)) {
                (Some(patch), Some(live)) => {
                    exact::tests::merge(live, patch);
                    fill_in(write.id.kind, live);
                }
                _ => drop(self.objects.insert(write.id.clone(), write.body.clone())),
            }
        }
        writes
    }

    fn unverified(&self) -> Vec<String> {
        let derived = self.derived().into_iter().filter(|derived| !derived.is_verified);
        derived.map(|derived| derived.item.id.to_string()).collect()
    }

    fn edit(&mut self, id: &str, patch: &Value) -> ObjectId {
        let id = ObjectId::parse(id).unwrap();
        exact::tests::merge(self.objects.get_mut(&id).unwrap(), patch);
        id
    }

    /// Returns the objects without annotations, because a repair adds an annotation.
    fn content(&self) -> BTreeMap<ObjectId, Value> {
        let mut objects = self.objects.clone();
        for body in objects.values_mut() {
            body["metadata"]["annotations"].take();
        }
        objects
    }
}

/// Adds the default values that the API server sets.
fn fill_in(kind: ItemKind, body: &mut Value) {
    body["metadata"]["uid"] = json!("1");
    match kind {
        ItemKind::Deployment | ItemKind::StatefulSet => {
            let pod = &mut body["spec"]["template"]["spec"];
            pod["restartPolicy"] = json!("Always");
            pod["terminationGracePeriodSeconds"] = json!(30);
            pod["dnsPolicy"] = json!("ClusterFirst");
            pod["schedulerName"] = json!("default-scheduler");
            pod["containers"][0]["terminationMessagePath"] = json!("/dev/termination-log");
            pod["containers"][0]["terminationMessagePolicy"] = json!("File");
            if let Some(account) = pod.get("serviceAccountName").cloned() {
                pod["serviceAccount"] = account;
            }
            if kind == ItemKind::Deployment {
                body["spec"]["progressDeadlineSeconds"] = json!(600);
            } else {
                body["spec"]["podManagementPolicy"] = json!("OrderedReady");
                body["spec"]["volumeClaimTemplates"][0]["status"] = json!({"phase": "Pending"});
            }
        }
        ItemKind::Service => {
            body["spec"]["clusterIP"] = json!("10.0.0.9");
            body["spec"]["sessionAffinity"] = json!("None");
            body["spec"]["internalTrafficPolicy"] = json!("Cluster");
        }
        _ => {}
    }
}

#[test]
fn an_edited_level_of_isolation_loosens_nothing() {
    let mut lease = Lease::applied();
    let before = lease.content();
    let annotations = lease.namespace.metadata.annotations.as_mut().unwrap();
    annotations.insert(labels::ISOLATION.to_owned(), "legacy".to_owned());
    let quota = json!({"spec": {"hard": {"requests.cpu": "900"}}});
    lease.edit("ResourceQuota/akash-lease", &quota);
    let pod = json!({"spec": {"template": {"spec": {"securityContext": null}}}});
    lease.edit("Deployment/web", &pod);
    lease.heal();
    assert_eq!(lease.content(), before);
    let view = lease.view();
    let (lease_id, settings) = (&lease.deployment.lease, lease.settings.clone());
    let rules = DerivedObjects::new(lease_id, &lease.namespace, &view, settings);
    let annotations = &rules.namespace["metadata"]["annotations"];
    assert_eq!(annotations[labels::ISOLATION], "baseline");
}

/// Returns edits that the provider must revert, each with kind and name of the object.
fn edits() -> Vec<(&'static str, Value)> {
    [edits_of_rules(), edits_of_workloads()].concat()
}

fn edits_of_rules() -> Vec<(&'static str, Value)> {
    let restrictions = "NetworkPolicy/akash-deployment-restrictions";
    vec![
        (
            restrictions,
            json!({"spec": {"podSelector": {"matchLabels": {"x": "y"}}}}),
        ),
        (restrictions, json!({"spec": {"egress": [{}]}})),
        (restrictions, json!({"spec": {"policyTypes": ["Ingress"]}})),
        (
            "NetworkPolicy/akash-web-np",
            json!({"spec": {"ingress": [{"ports": [{"port": 1, "endPort": 65535, "protocol": "TCP"}]}]}}),
        ),
        (
            "NetworkPolicy/akash-db-np",
            json!({"spec": {"podSelector": {"matchLabels": null}}}),
        ),
        (
            "NetworkPolicy/akash-apiserver-web",
            json!({"spec": {"egress": [{}]}}),
        ),
        (
            "Role/web",
            json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]}),
        ),
        (
            "RoleBinding/web",
            json!({"subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]}),
        ),
        (
            "ServiceAccount/web",
            json!({"automountServiceAccountToken": false}),
        ),
        (
            "ResourceQuota/akash-lease",
            json!({"spec": {"hard": {"requests.cpu": "900"}}}),
        ),
        (
            "ResourceQuota/akash-lease",
            json!({"spec": {"scopes": ["BestEffort"]}}),
        ),
        ("Service/web", json!({"spec": {"selector": {"x": "y"}}})),
        ("Service/web-np", json!({"spec": {"externalIPs": ["1.2.3.4"]}})),
    ]
}

fn edits_of_workloads() -> Vec<(&'static str, Value)> {
    let container = |field: &str, value: Value| {
        let mut lease = Lease::applied();
        let web = ObjectId::parse("Deployment/web").unwrap();
        let mut container =
            lease.objects.get_mut(&web).unwrap()["spec"]["template"]["spec"]["containers"][0].take();
        container[field] = value;
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    };
    vec![
        ("Deployment/web", json!({"spec": {"paused": true}})),
        (
            "Deployment/web",
            json!({"metadata": {"labels": {labels::SERVICE: "db"}}}),
        ),
        (
            "Deployment/web",
            json!({"spec": {"template": {"metadata": {"labels": {labels::SERVICE: "db"}}}}}),
        ),
        (
            "Deployment/web",
            json!({"spec": {"template": {"spec": {"automountServiceAccountToken": null}}}}),
        ),
        (
            "Deployment/web",
            json!({"spec": {"template": {"spec": {"hostNetwork": true, "hostPID": true}}}}),
        ),
        (
            "Deployment/web",
            json!({"spec": {"template": {"spec": {"serviceAccountName": "default"}}}}),
        ),
        (
            "Deployment/web",
            json!({"spec": {"template": {"spec": {"initContainers": [{"name": "x"}]}}}}),
        ),
        (
            "Deployment/web",
            container("securityContext", json!({"privileged": true})),
        ),
        (
            "Deployment/web",
            container("lifecycle", json!({"postStart": {"exec": {"command": ["sh"]}}})),
        ),
        (
            "Deployment/web",
            json!({"spec": {"template": {"spec": {"volumes": [
                {"name": "web-cache", "emptyDir": {"medium": "Memory", "sizeLimit": "67108864"}},
                {"name": "root", "hostPath": {"path": "/"}},
            ]}}}}),
        ),
        (
            "StatefulSet/db",
            json!({"spec": {"template": {"spec": {"automountServiceAccountToken": true}}}}),
        ),
        (
            "StatefulSet/db",
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 9}}}}),
        ),
    ]
}

#[test]
fn an_unchanged_lease_is_verified_and_not_written() {
    let mut lease = Lease::applied();
    let derived = lease.derived();
    let ids: Vec<&ObjectId> = derived.iter().map(|derived| &derived.item.id).collect();
    assert_eq!(
        ids,
        lease.objects.keys().collect::<Vec<_>>(),
        "every object is derived"
    );
    assert_eq!(lease.unverified(), [""; 0]);
    assert_eq!(lease.heal(), []);
}

#[test]
fn one_write_reverts_each_edit_that_needs_no_record() {
    for (id, patch) in edits() {
        let mut lease = Lease::applied();
        let before = lease.content();
        let id = lease.edit(id, &patch);
        assert!(lease.content() != before, "{id} {patch}");
        let writes: Vec<ObjectId> = lease.heal().into_iter().map(|write| write.id).collect();
        assert_eq!(writes, std::slice::from_ref(&id), "{patch}");
        assert!(lease.content() == before, "{id} {patch}: {}", lease.objects[&id]);
        assert_eq!(lease.heal(), [], "{id} {patch}");
    }
}

#[test]
fn all_edits_are_reverted_except_fields_of_the_record() {
    let mut lease = Lease::applied();
    let before = lease.content();
    for (id, patch) in edits() {
        lease.edit(id, &patch);
    }
    lease.heal();
    assert_eq!(lease.heal(), []);
    let changed: Vec<String> = lease
        .content()
        .into_iter()
        .filter(|(id, body)| before.get(id) != Some(body))
        .map(|(id, _)| id.to_string())
        .collect();
    assert_eq!(changed, [""; 0]);
}

#[test]
fn fields_of_the_manifest_remain_and_are_reported() {
    let mut lease = Lease::applied();
    let web = lease.edit(
        "Deployment/web",
        &json!({"spec": {"replicas": 0, "paused": true}}),
    );
    lease.edit(
        "ResourceQuota/akash-lease",
        &json!({"spec": {"hard": {"requests.cpu": "900"}}}),
    );
    let named = ["ResourceQuota/akash-lease", "Deployment/web"];
    assert_eq!(lease.unverified(), named);
    lease.heal();
    assert_eq!(lease.objects[&web]["spec"]["replicas"], json!(0));
    assert_eq!(lease.objects[&web]["spec"].get("paused"), None);
    assert_eq!(lease.unverified(), named);
    assert_eq!(lease.heal(), []);
}

#[test]
fn a_role_with_unknown_rules_loses_rules_that_no_permission_allows() {
    let mut lease = Lease::applied();
    let mut ledger: BTreeMap<String, String> =
        serde_json::from_str(annotation(&lease.namespace, LEDGER).unwrap()).unwrap();
    ledger.insert("Role/web".to_owned(), "of an older rendering".to_owned());
    let annotations = lease.namespace.metadata.annotations.as_mut().unwrap();
    annotations.insert(LEDGER.to_owned(), serde_json::to_string(&ledger).unwrap());
    let role = ObjectId::parse("Role/web").unwrap();
    let before = lease.objects[&role]["rules"].clone();
    let mut rules = before.clone();
    rules
        .as_array_mut()
        .unwrap()
        .push(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}));
    lease.edit("Role/web", &json!({"rules": rules}));
    lease.heal();
    assert_eq!(lease.objects[&role]["rules"], before);
}

#[test]
fn missing_objects_are_created_if_their_hash_is_verified() {
    let mut lease = Lease::applied();
    let before = lease.content();
    let missing = [
        "ResourceQuota/akash-lease",
        "Role/web",
        "RoleBinding/web",
        "ServiceAccount/web",
    ];
    for id in missing {
        lease.objects.remove(&ObjectId::parse(id).unwrap());
    }
    let mut written: Vec<String> = lease.heal().iter().map(|write| write.id.to_string()).collect();
    written.sort();
    let mut wanted = missing.to_vec();
    wanted.sort_unstable();
    assert_eq!(written, wanted);
    for id in missing {
        let id = ObjectId::parse(id).unwrap();
        for field in ["spec", "rules", "subjects", "roleRef"] {
            assert_eq!(lease.objects[&id].get(field), before[&id].get(field), "{id}");
        }
    }
}

#[test]
fn roles_and_bindings_outside_the_ledger_do_not_belong_to_the_lease() {
    let lease = Lease::applied();
    let view = lease.view();
    let rules = DerivedObjects::new(
        &lease.deployment.lease,
        &lease.namespace,
        &view,
        lease.settings.clone(),
    );
    let labelled = ObjectMeta {
        labels: Some([(labels::MANAGED.to_owned(), "true".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let is = |id: &str, meta: &ObjectMeta| rules.is_rendered(&ObjectId::parse(id).unwrap(), meta);
    assert!(is("Role/web", &ObjectMeta::default()) && is("RoleBinding/web", &ObjectMeta::default()));
    assert!(!is("Role/opening", &labelled) && !is("RoleBinding/opening", &labelled));
    // The policy may belong to a service without a workload.
    assert!(is("NetworkPolicy/opening", &labelled) && !is("NetworkPolicy/opening", &ObjectMeta::default()));
    let mut unledgered = lease.namespace.clone();
    unledgered.metadata.annotations.as_mut().unwrap().remove(LEDGER);
    let rules = DerivedObjects::new(
        &lease.deployment.lease,
        &unledgered,
        &view,
        lease.settings.clone(),
    );
    assert!(
        rules.is_rendered(&ObjectId::parse("Role/opening").unwrap(), &labelled),
        "unknown objects are not foreign"
    );
}

#[test]
fn unlisted_nodes_stay_closed() {
    let mut lease = Lease::applied();
    let restrictions = "NetworkPolicy/akash-deployment-restrictions";
    lease
        .settings
        .egress
        .closed
        .retain(|network| network != "10.0.0.0/8");
    lease.settings.egress.closed.push("203.0.113.0/24".to_owned());
    assert_eq!(lease.heal(), [], "a deploy updates the applied policy");
    let id = lease.edit(
        restrictions,
        &json!({"spec": {"podSelector": {"matchLabels": {"x": "y"}}}}),
    );
    lease.heal();
    let text = lease.objects[&id].to_string();
    assert!(
        text.contains("10.0.0.0/8") && text.contains("203.0.113.0/24"),
        "{text}"
    );
    assert_eq!(lease.objects[&id]["spec"]["podSelector"], json!({}));
    assert_eq!(lease.heal(), []);
}
