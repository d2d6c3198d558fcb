//! Existing objects of a hostname, and their differences from the desired objects.

use super::certificate::{self, CertificateState};
use super::filter;
use super::object_kind::ObjectKind;
use super::proxy_address::ProxyAddress;
use super::route::{self, Mode};
use crate::change::version_of;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::subset::{self, Lists};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Existing object of a hostname.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct LiveObject {
    /// UID of the object.
    pub uid: String,
    /// Resource version of the object.
    pub version: u64,
    /// Lease in the labels of the object.
    pub lease: Option<LeaseId>,
    /// The object is being deleted.
    pub is_going: bool,
    /// Status of the object. cert-manager reports the status of certificates, and the proxy reports the
    /// status of other objects.
    pub accepted: Acceptance,
    /// State of a certificate as reported by cert-manager.
    pub certificate: Option<CertificateState>,
    /// Address of the proxy, from the status of an Ingress.
    pub entrance: Option<ProxyAddress>,
    /// Labels, annotations and spec.
    body: Value,
}

/// Acceptance of a route by its proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Acceptance {
    /// The Gateway reports `Accepted` and `ResolvedRefs` for this generation, or the Ingress has an address.
    Yes,
    /// The proxy refuses the route. Contains the reason.
    No(String),
    /// No status was reported. Some Ingress controllers never report a status.
    #[serde(rename = "unsaid")]
    Unknown,
}

/// Difference between an existing and a desired object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Path of the first field that differs, or the surplus annotation.
    pub at: String,
    /// True if the object has a surplus field, timeout or annotation.
    pub is_surplus: bool,
    /// Merge patch that removes fields of other clients; an apply does not remove such fields.
    pub patch: Option<Value>,
}

impl LiveObject {
    /// Decodes an object that the API server returned.
    #[must_use]
    pub fn new(object: &DynamicObject, sort: ObjectKind, mode: &Mode) -> Self {
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let (status, generation) = (object.data.get("status"), object.metadata.generation.unwrap_or(0));
        let certificate = (sort == ObjectKind::Certificate).then(|| certificate::state(status, generation));
        let accepted = match sort {
            ObjectKind::Ingress => of_ingress(status),
            ObjectKind::HttpRoute => of_route(object, status, generation, mode),
            ObjectKind::Filter => of_filter(status, generation),
            ObjectKind::Certificate => of_certificate(certificate.as_ref()),
        };
        let entrance = (sort == ObjectKind::Ingress)
            .then(|| ProxyAddress::from_ingress(status))
            .flatten();
        Self {
            accepted,
            certificate,
            entrance,
            ..Self::with(&object.metadata, spec)
        }
    }

    /// Creates the live object after a write. `body` is from the request, `meta` from the response.
    #[must_use]
    pub fn written(meta: &ObjectMeta, body: &Value) -> Self {
        let spec = body.get("spec").cloned().unwrap_or_default();
        Self::with(meta, spec)
    }

    fn with(meta: &ObjectMeta, spec: Value) -> Self {
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: version_of(meta),
            lease: meta.labels.as_ref().and_then(labels::lease_of),
            is_going: meta.deletion_timestamp.is_some(),
            // The reported status belongs to the object before this write.
            accepted: Acceptance::Unknown,
            certificate: None,
            entrance: None,
            body: json!({
                "metadata": {"labels": meta.labels, "annotations": meta.annotations},
                "spec": spec,
            }),
        }
    }

    /// Returns the difference between this object and the desired object, or `None` if the objects agree.
    #[must_use]
    pub fn differs(&self, wanted: &Value) -> Option<Difference> {
        let relevant = json!({
            "metadata": {
                "labels": wanted.pointer("/metadata/labels"),
                "annotations": wanted.pointer("/metadata/annotations"),
            },
            "spec": wanted.get("spec"),
        });
        // Computed in any case: a surplus decides how the object is written.
        let surplus = self.surplus(&relevant);
        let missing = subset::missing(&relevant, &self.body, Lists::Closed);
        if missing.is_none()
            && surplus.is_none()
            && let Some((at, patch)) = self.added(&relevant)
        {
            return Some(Difference {
                at,
                is_surplus: false,
                patch: Some(patch),
            });
        }
        let at = missing.or_else(|| surplus.clone())?;
        Some(Difference {
            at,
            is_surplus: surplus.is_some(),
            patch: None,
        })
    }

    /// Returns true if a route references the filter or the certificate of its hostname.
    #[must_use]
    pub fn refers_to(&self, sort: ObjectKind, name: &str) -> bool {
        refers(&self.body, sort, name)
    }

    /// Returns the path of a field that another client added to the spec of an Ingress, and the patch that
    /// removes the field. TLS entries remain unchanged.
    fn added(&self, wanted: &Value) -> Option<(String, Value)> {
        wanted.pointer("/spec/ingressClassName")?;
        let mut live = self.body["spec"].as_object()?.clone();
        live.remove("tls");
        let wanted = &wanted["spec"];
        let path = subset::missing(&Value::Object(live.clone()), wanted, Lists::Closed)?;
        live.retain(|key, value| wanted[key.as_str()] != *value);
        let fields = live.into_iter().map(|(key, _)| {
            let value = wanted[key.as_str()].clone();
            (key, value)
        });
        let spec: Map<String, Value> = fields.collect();
        let patch = json!({"metadata": {"uid": self.uid}, "spec": spec});
        Some((format!("spec.{path}"), patch))
    }

    /// Returns the path of a proxy annotation, a timeout or a reference that must be removed.
    fn surplus(&self, wanted: &Value) -> Option<String> {
        const TIMEOUTS: &str = "/spec/rules/0/timeouts";
        let annotations = |value: &Value| value.pointer("/metadata/annotations").cloned();
        let (live, asked) = (annotations(&self.body), annotations(wanted));
        let live = live.as_ref().and_then(Value::as_object);
        let is_asked = |key: &str| asked.as_ref().is_some_and(|all| all.get(key).is_some());
        let extra = live.into_iter().flat_map(|all| all.keys());
        let mut extra = extra.filter(|key| route::is_of_routes(key) && !is_asked(key));
        if let Some(key) = extra.next() {
            return Some(format!("metadata.annotations.{key}"));
        }
        let has = |value: &Value| value.pointer(TIMEOUTS).is_some();
        if has(&self.body) && !has(wanted) {
            return Some("spec.rules.0.timeouts".to_owned());
        }
        let name = hostname_of(wanted)?;
        let too_much = |sort| refers(&self.body, sort, name) && !refers(wanted, sort, name);
        if too_much(ObjectKind::Filter) {
            return Some("spec.rules.0.filters".to_owned());
        }
        too_much(ObjectKind::Certificate).then(|| "spec.tls".to_owned())
    }
}

fn hostname_of(route: &Value) -> Option<&str> {
    let name = route.pointer("/spec/rules/0/host");
    name.or_else(|| route.pointer("/spec/hostnames/0"))?.as_str()
}

fn refers(route: &Value, sort: ObjectKind, name: &str) -> bool {
    let list = |path: &str| {
        route
            .pointer(path)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    match sort {
        ObjectKind::Filter => {
            let own = filter::reference(name);
            list("/spec/rules/0/filters").any(|filter| filter.get("extensionRef") == own.get("extensionRef"))
        }
        ObjectKind::Certificate => {
            let own = certificate::secret(name);
            list("/spec/tls").any(|tls| tls.get("secretName").and_then(Value::as_str) == Some(&own))
        }
        ObjectKind::Ingress | ObjectKind::HttpRoute => false,
    }
}

fn of_ingress(status: Option<&Value>) -> Acceptance {
    let addresses = status.and_then(|status| status.pointer("/loadBalancer/ingress")?.as_array());
    match addresses {
        Some(list) if !list.is_empty() => Acceptance::Yes,
        _ => Acceptance::Unknown,
    }
}

fn of_route(object: &DynamicObject, status: Option<&Value>, generation: i64, mode: &Mode) -> Acceptance {
    // Statuses from other gateways are ignored.
    let Mode::GatewayApi { name, namespace, .. } = mode else {
        return Acceptance::Unknown;
    };
    let parents = status.and_then(|status| status.get("parents")?.as_array());
    let own = object.metadata.namespace.as_deref();
    let is_ours = |parent: &&Value| {
        let text = |path: &str| parent.pointer(path).and_then(Value::as_str);
        text("/parentRef/name") == Some(name)
            // The default is the namespace of the route.
            && text("/parentRef/namespace").or(own) == Some(namespace)
    };
    let ours = parents.into_iter().flatten().filter(is_ours);
    acceptance(ours, generation, &["Accepted", "ResolvedRefs"])
}

fn of_filter(status: Option<&Value>, generation: i64) -> Acceptance {
    let controllers = status.and_then(|status| status.get("controllers")?.as_array());
    acceptance(controllers.into_iter().flatten(), generation, &["Accepted"])
}

fn of_certificate(state: Option<&CertificateState>) -> Acceptance {
    match state {
        Some(state) if state.ready == Some(true) => Acceptance::Yes,
        Some(state) if state.ready == Some(false) => Acceptance::No(state.reason.clone()),
        _ => Acceptance::Unknown,
    }
}

/// Reads the conditions that controllers report. Returns whether a controller has accepted this `generation`
/// of the object.
fn acceptance<'a>(
    controllers: impl Iterator<Item = &'a Value>,
    generation: i64,
    needed: &[&str],
) -> Acceptance {
    let mut is_accepted = false;
    for conditions in controllers.filter_map(|controller| controller.get("conditions")?.as_array()) {
        let mut met = BTreeSet::new();
        for condition in conditions {
            let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
            let seen = condition.get("observedGeneration").and_then(Value::as_i64);
            // The condition belongs to the object before the last write.
            if seen.is_some_and(|seen| seen < generation) || !needed.contains(&text("type")) {
                continue;
            }
            match text("status") {
                "True" => drop(met.insert(text("type"))),
                "False" => {
                    let why: String = text("message").chars().take(300).collect();
                    return Acceptance::No(format!("{}: {why}", text("reason")));
                }
                _ => {}
            }
        }
        is_accepted |= met.len() == needed.len();
    }
    if is_accepted {
        Acceptance::Yes
    } else {
        Acceptance::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acceptance_of(conditions: &[(&str, &str, i64)]) -> Acceptance {
        let all = conditions.iter().map(|(kind, is, seen)| {
            json!({"type": kind, "status": is, "reason": "Invalid", "message": "why", "observedGeneration": seen})
        });
        let route = json!({
            "metadata": {"name": "a.example.com", "namespace": "home", "generation": 2},
            "status": {"parents": [
                {"parentRef": {"name": "other"}, "conditions": [{"type": "Accepted", "status": "False"}]},
                {"parentRef": {"name": "gate", "namespace": "gates"}, "conditions": all.collect::<Vec<_>>()},
            ]},
        });
        let mode = Mode::GatewayApi {
            name: "gate".to_owned(),
            namespace: "gates".to_owned(),
            provider: route::GatewayProvider::Nginx,
            buffer_size: String::new(),
        };
        let object = serde_json::from_value(route).unwrap();
        LiveObject::new(&object, ObjectKind::HttpRoute, &mode).accepted
    }

    #[test]
    fn route_is_accepted_when_all_conditions_of_this_generation_are_true() {
        let no = Acceptance::No("Invalid: why".to_owned());
        for (conditions, wanted) in [
            (
                &[("Accepted", "True", 2), ("ResolvedRefs", "True", 2)][..],
                Acceptance::Yes,
            ),
            (&[("Accepted", "True", 2)], Acceptance::Unknown),
            (
                &[("Accepted", "True", 2), ("Accepted", "True", 2)],
                Acceptance::Unknown,
            ),
            (
                &[("Accepted", "True", 1), ("ResolvedRefs", "True", 2)],
                Acceptance::Unknown,
            ),
            (
                &[("Accepted", "False", 1), ("ResolvedRefs", "False", 1)],
                Acceptance::Unknown,
            ),
            (
                &[("Accepted", "True", 2), ("ResolvedRefs", "Unknown", 2)],
                Acceptance::Unknown,
            ),
            (
                &[("Accepted", "True", 2), ("ResolvedRefs", "False", 2)],
                no.clone(),
            ),
            (&[("Accepted", "False", 2), ("ResolvedRefs", "True", 2)], no),
            (&[("Programmed", "False", 2)], Acceptance::Unknown),
        ] {
            assert_eq!(acceptance_of(conditions), wanted, "{conditions:?}");
        }
    }
}
