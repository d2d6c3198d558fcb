//! Intended differences from the objects of the Go provider. Each difference has a row in `docs/parity.md`.

use super::recordings::remove;
use akash_provider_k8s::settings::Isolation;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// An intended difference, with its name in `docs/parity.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Difference {
    /// `namespace notes`: namespaces have annotations for chain and isolation level.
    NamespaceNotes,
    /// `container ports`: this provider sets the protocol of container ports and omits duplicates.
    ContainerPorts,
    /// `pod security`: the namespace enforces the Pod Security Standard `baseline`.
    PodSecurity,
    /// `seccomp`: pods use the default profile of the runtime.
    Seccomp,
    /// `capabilities`: four unnecessary capabilities are dropped.
    Capabilities,
    /// `quota`: each lease has a ResourceQuota.
    Quota,
    /// `metadata`: cloud metadata services are blocked even at the isolation level `legacy`.
    Metadata,
    /// `egress`: more networks are blocked, in both address families. The DNS cache of the node is allowed.
    Egress,
}

pub(super) fn of(isolation: Isolation) -> BTreeSet<Difference> {
    use Difference as D;
    let always = [D::NamespaceNotes, D::ContainerPorts];
    let baseline = [D::PodSecurity, D::Seccomp, D::Capabilities, D::Quota, D::Egress];
    match isolation {
        Isolation::Legacy => always.into_iter().chain([D::Metadata]).collect(),
        Isolation::Baseline => always.into_iter().chain(baseline).collect(),
    }
}

type Objects = BTreeMap<String, Value>;

/// Removes the differences that the isolation level allows. Adds each removed difference to `needed`.
pub(super) fn even_out(
    isolation: Isolation,
    ours: &mut Objects,
    theirs: &mut Objects,
    needed: &mut BTreeSet<Difference>,
) {
    for difference in of(isolation) {
        if take_out(difference, ours, theirs) {
            needed.insert(difference);
        }
    }
}

fn take_out(difference: Difference, ours: &mut Objects, theirs: &mut Objects) -> bool {
    match difference {
        Difference::NamespaceNotes => remove_if_equal(
            ours,
            "/metadata/annotations/provider.akash.network~1chain-id",
            &json!(""),
        ),
        Difference::ContainerPorts => container_ports(theirs),
        Difference::PodSecurity => remove_if_equal(
            ours,
            "/metadata/labels/pod-security.kubernetes.io~1enforce",
            &json!("baseline"),
        ),
        Difference::Seccomp => remove_if_equal(
            ours,
            "/spec/template/spec/securityContext/seccompProfile",
            &json!({ "type": "RuntimeDefault" }),
        ),
        Difference::Capabilities => remove_if_equal(
            ours,
            "/spec/template/spec/containers/0/securityContext/capabilities",
            &json!({ "drop": ["AUDIT_WRITE", "MKNOD", "NET_RAW", "SYS_CHROOT"] }),
        ),
        Difference::Quota => ours.remove("ResourceQuota/akash-lease").is_some(),
        Difference::Metadata => metadata(theirs),
        Difference::Egress => egress(ours, theirs),
    }
}

/// Removes a field with exactly this value from the rendered objects.
fn remove_if_equal(ours: &mut Objects, pointer: &str, value: &Value) -> bool {
    let mut any = false;
    for object in ours.values_mut() {
        if object.pointer(pointer) == Some(value) {
            remove(object, pointer);
            any = true;
        }
        if pointer.starts_with("/metadata/annotations") {
            remove(object, "/metadata/annotations/provider.akash.network~1isolation");
            remove(object, "/metadata/annotations");
        }
    }
    any
}

/// Adds protocols to the recorded container ports, and removes duplicates.
fn container_ports(theirs: &mut Objects) -> bool {
    let mut protocols: BTreeMap<String, Vec<(Value, Value)>> = BTreeMap::new();
    for service in theirs.values().filter(|object| object["kind"] == "Service") {
        let name = service["metadata"]["labels"]["akash.network/manifest-service"]
            .as_str()
            .unwrap();
        let ports = service["spec"]["ports"].as_array().unwrap().iter();
        let ports = ports.map(|port| (port["targetPort"].clone(), port["protocol"].clone()));
        protocols.entry(name.to_owned()).or_default().extend(ports);
    }
    let mut any = false;
    for (key, object) in theirs.iter_mut() {
        let Some(list) = object.pointer_mut("/spec/template/spec/containers/0/ports") else {
            continue;
        };
        let ports = &protocols[key.split_once('/').unwrap().1];
        let mut mended: Vec<Value> = Vec::new();
        for port in list.as_array().unwrap() {
            let protocol = ports
                .iter()
                .find(|(target, _)| *target == port["containerPort"])
                .unwrap();
            let port = json!({ "containerPort": port["containerPort"], "protocol": protocol.1 });
            if !mended.contains(&port) {
                mended.push(port);
            }
        }
        let mended = Value::from(mended);
        any |= *list != mended;
        *list = mended;
    }
    any
}

/// Addresses of cloud metadata services in the rendered policies.
const METADATA: [&str; 6] = [
    "100.100.100.200/32",
    "168.63.129.16/32",
    "169.254.169.254/32",
    "169.254.170.2/32",
    "169.254.170.23/32",
    "192.0.0.192/32",
];

/// Adds the addresses of cloud metadata services to the exceptions of the recorded egress rule.
fn metadata(theirs: &mut Objects) -> bool {
    let policy = theirs
        .get_mut("NetworkPolicy/akash-deployment-restrictions")
        .unwrap();
    let rules = policy.pointer_mut("/spec/egress").and_then(Value::as_array_mut);
    let world = rules.unwrap().last_mut().unwrap();
    let except = world
        .pointer_mut("/to/0/ipBlock/except")
        .and_then(Value::as_array_mut);
    except.unwrap().extend(METADATA.map(Value::from));
    true
}

/// Replaces the recorded egress rule for the internet with the three rendered rules.
fn egress(ours: &Objects, theirs: &mut Objects) -> bool {
    let key = "NetworkPolicy/akash-deployment-restrictions";
    let block =
        |cidr: &str, except: &[&str]| json!({ "to": [{ "ipBlock": { "cidr": cidr, "except": except } }] });
    let resolver = json!({
        "ports": [{ "port": 53, "protocol": "UDP" }, { "port": 53, "protocol": "TCP" }],
        "to": [{ "ipBlock": { "cidr": "169.254.20.10/32" } }],
    });
    let v4 = [
        "10.0.0.0/8",
        "100.64.0.0/10",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.192/32",
        "192.168.0.0/16",
    ];
    let rules = theirs.get_mut(key).unwrap().pointer_mut("/spec/egress").unwrap();
    let rules = rules.as_array_mut().unwrap();
    let world = rules.pop().unwrap();
    assert_eq!(
        world,
        block("0.0.0.0/0", &["10.0.0.0/8", "192.168.0.0/16", "172.16.0.0/12"])
    );
    rules.extend([
        resolver,
        block("0.0.0.0/0", &v4),
        block(
            "::/0",
            &["64:ff9b::/96", "64:ff9b:1::/48", "fc00::/7", "fe80::/10"],
        ),
    ]);
    ours.contains_key(key)
}
