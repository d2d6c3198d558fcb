use super::*;
use serde_json::json;

/// Applies a JSON merge patch, as the API server does.
pub(crate) fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        into.clone_from(patch);
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut into[key], value);
        }
    }
}

fn meta() -> Value {
    json!({"name": "web", "labels": {"akash.network": "true", labels::MANIFEST_VERSION: "7"}})
}

/// Returns a pod as rendered, and as the API server returns it.
fn pod() -> (Value, Value) {
    let security = json!({"allowPrivilegeEscalation": false, "privileged": false, "runAsNonRoot": false});
    let rendered = json!({
        "automountServiceAccountToken": false, "serviceAccountName": "web", "securityContext": {"runAsNonRoot": false},
        "containers": [{
            "name": "web", "image": "nginx:1", "env": [{"name": "A", "value": "1"}], "securityContext": security,
            "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
        }],
    });
    let mut live = rendered.clone();
    live["serviceAccount"] = json!("web");
    live["containers"][0]["resources"]["limits"] = json!({"cpu": "1", "memory": "1Gi"});
    for (path, filled) in POD.into_iter().filter(|(_, filled)| *filled != "{}") {
        let value: Value = serde_json::from_str(filled).unwrap();
        match path.strip_prefix("containers.*.") {
            Some(field) => live["containers"][0][field] = value,
            None => live[path] = value,
        }
    }
    (rendered, live)
}

/// Returns one rendered object of each kind, and the fields that the API server adds.
fn objects() -> Vec<(ItemKind, Value, Value)> {
    let (template, running) = pod();
    let with = |spec: &Value| json!({"metadata": {"labels": {"a": "b"}}, "spec": spec});
    let egress = json!([{"to": [{"podSelector": {"matchLabels": {"a": "b"}}}], "ports": [{"port": 53}]}]);
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"volumeMode": "Filesystem"}}]);
    let port = json!({"name": "0-80", "port": 80, "targetPort": 80, "protocol": "TCP"});
    let filled_port =
        json!({"name": "0-80", "port": 80, "targetPort": 80, "protocol": "TCP", "nodePort": 30000});
    vec![
        (
            ItemKind::NetworkPolicy,
            json!({"spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress}}),
            json!({}),
        ),
        (
            ItemKind::ResourceQuota,
            json!({"spec": {"hard": {"requests.cpu": "2000m"}}}),
            json!({"spec": {"hard": {"requests.cpu": "2"}}, "status": {"used": {}}}),
        ),
        (
            ItemKind::ServiceAccount,
            json!({}),
            json!({"imagePullSecrets": [{"name": "mirror"}]}),
        ),
        (
            ItemKind::Role,
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
            json!({}),
        ),
        (
            ItemKind::RoleBinding,
            json!({"roleRef": {"kind": "Role", "name": "web"}, "subjects": [{"kind": "ServiceAccount", "name": "web"}]}),
            json!({}),
        ),
        (
            ItemKind::Service,
            json!({"spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [port]}}),
            json!({"spec": {
                "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ports": [filled_port],
                "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
                "externalTrafficPolicy": "Cluster",
            }, "status": {"loadBalancer": {}}}),
        ),
        (
            ItemKind::Deployment,
            json!({"spec": {"replicas": 1, "template": with(&template)}}),
            json!({"spec": {"progressDeadlineSeconds": 600, "template": with(&running)}, "status": {"replicas": 1}}),
        ),
        (
            ItemKind::StatefulSet,
            json!({"spec": {"replicas": 1, "template": with(&template), "volumeClaimTemplates": claims}}),
            json!({"spec": {
                "podManagementPolicy": "OrderedReady", "serviceName": "", "template": with(&running),
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "volumeClaimTemplates": [{
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                    "spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"},
                }],
            }}),
        ),
    ]
}

/// Labels and annotations that other clients may add to any object.
fn of_others() -> Value {
    json!({"metadata": {
        "uid": "u", "resourceVersion": "9", "labels": {"team": "a", labels::MANIFEST_VERSION: "3"},
        "annotations": {"note": "b"},
    }})
}

#[expect(clippy::too_many_lines, reason = "a table with one row per edit")]
fn edits() -> Vec<(ItemKind, Value, &'static str)> {
    use ItemKind::{
        Deployment, NetworkPolicy, ResourceQuota, Role, RoleBinding, Service, ServiceAccount, StatefulSet,
    };
    let pod = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let container = |fields: Value| {
        let mut container = self::pod().1["containers"][0].take();
        merge(&mut container, &fields);
        json!({"spec": {"template": {"spec": {"containers": [container]}}}})
    };
    let peer = |peer: Value| json!({"spec": {"egress": [{"to": [peer], "ports": [{"port": 53}]}]}});
    let ports = |port: Value| {
        let to = json!([{"podSelector": {"matchLabels": {"a": "b"}}}]);
        json!({"spec": {"egress": [{"to": to, "ports": [port]}]}})
    };
    let rule = json!({"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"]});
    let other = json!({"kind": "ServiceAccount", "name": "default"});
    let limits = json!({"resources": {"limits": {"cpu": "2"}}});
    let first = "spec.template.spec.containers.0";
    vec![
        (
            NetworkPolicy,
            json!({"spec": {"podSelector": {"matchLabels": {"x": "y"}}}}),
            "spec.podSelector.matchLabels",
        ),
        (
            NetworkPolicy,
            ports(json!({"port": 53, "endPort": 65535})),
            "spec.egress.0.ports.0.endPort",
        ),
        (
            NetworkPolicy,
            peer(json!({"podSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {}})),
            "spec.egress.0.to.0.namespaceSelector",
        ),
        (
            NetworkPolicy,
            json!({"spec": {"egress": [{}]}}),
            "spec.egress.0.ports",
        ),
        (NetworkPolicy, json!({"spec": {"ingress": [{}]}}), "spec.ingress"),
        (
            NetworkPolicy,
            json!({"spec": {"policyTypes": ["Ingress"]}}),
            "spec.policyTypes.0",
        ),
        (
            ResourceQuota,
            json!({"spec": {"hard": {"requests.cpu": "3"}}}),
            "spec.hard.requests.cpu",
        ),
        (ResourceQuota, json!({"spec": {"hard": null}}), "spec.hard"),
        (
            ResourceQuota,
            json!({"spec": {"scopes": ["BestEffort"]}}),
            "spec.scopes",
        ),
        (
            ServiceAccount,
            json!({"automountServiceAccountToken": true}),
            "automountServiceAccountToken",
        ),
        (Role, json!({"rules": [rule]}), "rules.0.resources"),
        (Role, json!({"rules": []}), "rules"),
        (RoleBinding, json!({"subjects": [other]}), "subjects.0.name"),
        (
            RoleBinding,
            json!({"roleRef": {"kind": "ClusterRole"}}),
            "roleRef.kind",
        ),
        (
            Service,
            json!({"spec": {"selector": {"x": "y"}}}),
            "spec.selector.x",
        ),
        (
            Service,
            json!({"spec": {"ports": [{"name": "0-80", "port": 81, "targetPort": 80, "protocol": "TCP"}]}}),
            "spec.ports.0.port",
        ),
        (
            Service,
            json!({"spec": {"externalIPs": ["192.0.2.1"]}}),
            "spec.externalIPs",
        ),
        (
            Service,
            json!({"spec": {"sessionAffinity": "ClientIP"}}),
            "spec.sessionAffinity",
        ),
        (Deployment, json!({"spec": {"paused": true}}), "spec.paused"),
        (
            Deployment,
            json!({"spec": {"progressDeadlineSeconds": 1}}),
            "spec.progressDeadlineSeconds",
        ),
        (
            Deployment,
            pod(json!({"automountServiceAccountToken": null})),
            "spec.template.spec.automountServiceAccountToken",
        ),
        (
            Deployment,
            pod(json!({"hostNetwork": true})),
            "spec.template.spec.hostNetwork",
        ),
        (
            Deployment,
            pod(json!({"serviceAccount": "x"})),
            "spec.template.spec.serviceAccount",
        ),
        (
            Deployment,
            container(json!({"securityContext": {"allowPrivilegeEscalation": null}})),
            first,
        ),
        (Deployment, container(json!({"securityContext": null})), first),
        (
            Deployment,
            container(json!({"env": [{"name": "A", "value": "1"}, {"name": "B"}]})),
            first,
        ),
        (Deployment, container(limits), first),
        (
            StatefulSet,
            pod(json!({"containers": [{"name": "web"}, {"name": "proxy"}]})),
            "spec.template.spec.containers",
        ),
        (
            StatefulSet,
            json!({"spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}}),
            "spec.persistentVolumeClaimRetentionPolicy",
        ),
    ]
}

#[test]
fn defaults_and_labels_of_others_are_no_difference() {
    for (kind, mut wanted, filled) in objects() {
        wanted["metadata"] = meta();
        let mut live = wanted.clone();
        merge(&mut live, &filled);
        merge(&mut live, &of_others());
        assert_eq!(difference(kind, &wanted, &live), None, "{kind:?}");
        let patch = replacement(kind, &wanted, &live);
        assert_eq!(patch, json!({"metadata": {"uid": "u"}}), "{kind:?}");
    }
}

#[test]
fn each_edit_is_a_difference_and_its_patch_restores_the_object() {
    let objects = objects();
    for (kind, edit, path) in edits() {
        let (_, wanted, filled) = objects.iter().find(|(of, ..)| *of == kind).unwrap();
        let mut wanted = wanted.clone();
        wanted["metadata"] = meta();
        let mut live = wanted.clone();
        merge(&mut live, filled);
        merge(&mut live, &of_others());
        merge(&mut live, &edit);
        let found = difference(kind, &wanted, &live);
        assert!(
            found.as_deref().is_some_and(|found| found.starts_with(path)),
            "{kind:?} {edit}: {found:?}"
        );
        let patch = replacement(kind, &wanted, &live);
        merge(&mut live, &patch);
        assert_eq!(difference(kind, &wanted, &live), None, "{kind:?} {edit}");
        assert_eq!(
            live["metadata"]["labels"]["team"],
            json!("a"),
            "labels of others remain"
        );
    }
}
