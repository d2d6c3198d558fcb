//! Existing Services, and their differences from the desired Services.

use super::balancer;
use crate::change::version_of;
use akash_provider_core::cluster::IpDeclaration;
use akash_provider_core::manifest::Proto;
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::subset::{self, Lists};
use akash_provider_kube_model::leased_ips::{Assignment, is_balancer, is_leased, object_name};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};

/// Existing Service.
#[derive(Debug, Clone, PartialEq, Hash)]
pub(crate) struct LiveService {
    /// UID of the object.
    pub uid: String,
    /// Resource version of the object.
    pub version: u64,
    /// The object is being deleted.
    pub is_going: bool,
    /// The Service has the type LoadBalancer.
    pub is_balancer: bool,
    /// The Service has the labels of a leased address.
    pub is_leased: bool,
    /// Lease in the labels.
    pub lease: Option<LeaseId>,
    /// Declaration of the Service, or the reason why the Service is invalid.
    pub ip: Result<IpDeclaration, String>,
    /// Immutable load balancer class of the Service.
    pub class: Option<String>,
    /// Addresses that the load balancer controller assigned.
    pub given: Assignment,
    /// Time of the last observed change, or of the initial list.
    pub changed: Timestamp,
    /// Time of the last observed change of the assigned addresses. Before such a change, the creation time of
    /// the Service.
    pub since: Timestamp,
    /// Labels, annotations and spec.
    body: Value,
}

/// Difference between an existing and a desired Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Path of the first field that differs, or of an annotation that the desired Service lacks.
    pub at: String,
    /// True for an annotation that must be removed. Before the removal, the operator takes over the ownership
    /// of the annotation.
    pub is_surplus: bool,
}

impl LiveService {
    /// Decodes an object of the API server. `now` is the time of the observation.
    pub(crate) fn new(object: &DynamicObject, now: Timestamp) -> Self {
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let given = Assignment::from_status(&object.data);
        let live = Self::with(&object.metadata, spec, now);
        Self { given, ..live }
    }

    /// Creates the live Service from the body of a write and the metadata of the response.
    pub(crate) fn written(meta: &ObjectMeta, body: &Value, now: Timestamp) -> Self {
        let spec = body.get("spec").cloned().unwrap_or_default();
        Self::with(meta, spec, now)
    }

    fn with(meta: &ObjectMeta, spec: Value, now: Timestamp) -> Self {
        let is_leased = is_leased(meta.labels.as_ref());
        let class = spec.get("loadBalancerClass").and_then(Value::as_str);
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: version_of(meta),
            is_going: meta.deletion_timestamp.is_some(),
            is_balancer: is_balancer(&spec),
            is_leased,
            lease: meta.labels.as_ref().and_then(labels::lease_of),
            ip: leads_to(meta, &spec),
            class: class.map(str::to_owned),
            given: Assignment::default(),
            changed: now,
            since: created.unwrap_or(now),
            // Of other Services, only the addresses are used.
            body: if is_leased {
                json!({"metadata": {"labels": meta.labels, "annotations": meta.annotations}, "spec": spec})
            } else {
                Value::Null
            },
        }
    }

    /// Returns the name of the ProviderLeasedIP record of this Service, or `None` if the Service is invalid
    /// or has no sharing key.
    pub(crate) fn seat(&self) -> Option<String> {
        let ip = self.ip.as_ref().ok()?;
        (!ip.sharing_key.is_empty()).then(|| object_name(ip))
    }

    /// Updates the times. `before` is the previous version of the Service. `changed` stays the same if the
    /// version is unchanged. `since` stays the same if the addresses are unchanged.
    pub(crate) fn after(mut self, before: Option<&Self>) -> Self {
        let Some(before) = before.filter(|before| before.uid == self.uid) else {
            return self;
        };
        if before.version == self.version {
            self.changed = before.changed;
        }
        self.since = if before.given.addresses == self.given.addresses {
            before.since
        } else {
            self.changed
        };
        self
    }

    /// Returns the first difference between this Service and the desired Service, or `None` if the Services
    /// agree.
    pub(crate) fn differs(&self, wanted: &Value) -> Option<Difference> {
        let mut spec = wanted.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            // Existing node ports are unaffected by this field, and the class is immutable.
            spec.remove("allocateLoadBalancerNodePorts");
            spec.remove("loadBalancerClass");
        }
        let relevant = json!({
            "metadata": {
                "labels": wanted.pointer("/metadata/labels"),
                "annotations": wanted.pointer("/metadata/annotations"),
            },
            "spec": spec,
        });
        let surplus = self.surplus(&relevant);
        let at = subset::missing(&relevant, &self.body, Lists::Closed).or_else(|| surplus.clone())?;
        let is_surplus = surplus.is_some();
        Some(Difference { at, is_surplus })
    }

    /// Returns the path of a MetalLB annotation that `wanted` does not contain.
    fn surplus(&self, wanted: &Value) -> Option<String> {
        let annotations = |value: &Value| -> Map<String, Value> {
            let all = value.pointer("/metadata/annotations");
            all.and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let asked = annotations(wanted);
        let mut extra = annotations(&self.body)
            .into_iter()
            .map(|(key, _)| key)
            .filter(|key| balancer::is_ours(key) && !asked.contains_key(key));
        extra.next().map(|key| format!("metadata.annotations.{key}"))
    }
}

/// Decodes the port, the service and the sharing key of a Service.
fn leads_to(meta: &ObjectMeta, spec: &Value) -> Result<IpDeclaration, String> {
    let ports = spec.get("ports").and_then(Value::as_array);
    let ports = ports.map_or(&[][..], Vec::as_slice);
    let [port] = ports else {
        return Err(format!("the Service has {} ports; expected one", ports.len()));
    };
    let number = |field: &str| {
        let number = port.get(field).and_then(Value::as_u64);
        number.and_then(|number| u16::try_from(number).ok())
    };
    let proto = match port.get("protocol").and_then(Value::as_str) {
        None | Some("TCP") => Proto::Tcp,
        Some("UDP") => Proto::Udp,
        Some(other) => return Err(format!("invalid protocol `{other}`")),
    };
    let external_port = number("port").ok_or("invalid port")?;
    let selector = spec.pointer("/selector").and_then(|all| all.get(labels::SERVICE));
    let annotations = meta.annotations.iter().flatten();
    let key = balancer::sharing_key(annotations).unwrap_or_default();
    Ok(IpDeclaration {
        service: selector.and_then(Value::as_str).unwrap_or_default().to_owned(),
        // The default of `targetPort` is `port`.
        port: number("targetPort").unwrap_or(external_port),
        external_port,
        proto,
        sharing_key: key.to_owned(),
    })
}
