//! A load balancer as the cluster has it, and how it differs from the one that is wanted.

use super::balancer;
use crate::apply::subset::{self, Lists};
use crate::labels;
use crate::leased_ips::object_name;
use crate::operators::change::version_of;
use akash_provider_core::cluster::IpDeclaration;
use akash_provider_core::manifest::Proto;
use akash_provider_core::types::LeaseId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::{Map, Value, json};
use std::net::IpAddr;

/// More addresses of one load balancer are not read.
const ADDRESSES_MAX: usize = 16;

/// A Service as the cluster has it.
#[derive(Debug, Clone, PartialEq, Hash)]
pub struct Live {
    /// Identity of the object.
    pub uid: String,
    /// Its version; later is larger.
    pub version: u64,
    /// It is on its way out.
    pub is_going: bool,
    /// It is of type LoadBalancer.
    pub is_balancer: bool,
    /// It has the labels that the Services of leased addresses have.
    pub is_leased: bool,
    /// Lease its labels name.
    pub lease: Option<LeaseId>,
    /// What it leads to, as today's operator reads it; why not, where it makes no sense.
    pub ip: Result<IpDeclaration, String>,
    /// Class of the load balancer, which cannot change.
    pub class: Option<String>,
    /// What its controller gave it: addresses, and how many entries there are.
    pub given: Given,
    /// When it was seen to change last; at the start, when it was listed.
    pub changed: Timestamp,
    /// Since when it has what is given to it.
    pub since: Timestamp,
    /// Labels, annotations and spec.
    body: Value,
}

/// What the controller of load balancers gave to one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Given {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Entries in its status, those without an address too.
    pub entries: usize,
}

/// How a load balancer differs from the wanted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Path of the first field, or the annotation that is one too many.
    pub at: String,
    /// Something is there that only its maker can take off.
    pub is_surplus: bool,
}

impl Live {
    /// Of an object of the API server, which was seen at `now`.
    #[must_use]
    pub fn of(object: &DynamicObject, now: Timestamp) -> Self {
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        let given = given(&object.data);
        let live = Self::with(&object.metadata, spec, now);
        Self { given, ..live }
    }

    /// Of what was just written: the API server answered with its metadata.
    #[must_use]
    pub fn written(meta: &ObjectMeta, body: &Value, now: Timestamp) -> Self {
        let spec = body.get("spec").cloned().unwrap_or_default();
        Self::with(meta, spec, now)
    }

    fn with(meta: &ObjectMeta, spec: Value, now: Timestamp) -> Self {
        let has = |key: &str, value: &str| {
            let labels = meta.labels.as_ref();
            labels.and_then(|all| all.get(key)).is_some_and(|v| v == value)
        };
        let is_leased = has(labels::MANAGED, "true") && has(labels::SERVICE_TARGET, balancer::TARGET);
        let is_balancer = spec.get("type").and_then(Value::as_str) == Some("LoadBalancer");
        let class = spec.get("loadBalancerClass").and_then(Value::as_str);
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            version: version_of(meta),
            is_going: meta.deletion_timestamp.is_some(),
            is_balancer,
            is_leased,
            lease: meta.labels.as_ref().and_then(labels::lease_of),
            ip: leads_to(meta, &spec),
            class: class.map(str::to_owned),
            given: Given::default(),
            changed: now,
            since: created.unwrap_or(now),
            // Of what is not ours the addresses alone count.
            body: if is_leased {
                json!({"metadata": {"labels": meta.labels, "annotations": meta.annotations}, "spec": spec})
            } else {
                Value::Null
            },
        }
    }

    /// Name of the record that it is of; `None` where it says nothing that makes sense.
    #[must_use]
    pub fn seat(&self) -> Option<String> {
        let ip = self.ip.as_ref().ok()?;
        (!ip.sharing_key.is_empty()).then(|| object_name(ip))
    }

    /// What was known of it before goes on where it did not change.
    #[must_use]
    pub fn after(mut self, before: Option<&Self>) -> Self {
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

    /// `None` when it is as wanted.
    #[must_use]
    pub fn differs(&self, wanted: &Value) -> Option<Difference> {
        let mut spec = wanted.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            // Neither changes anything for a Service that is there: ports of the nodes stay, and a class cannot change.
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

    /// An annotation of MetalLB's that is not wanted.
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

/// The one port that it has, the service that it selects and the key of its address.
fn leads_to(meta: &ObjectMeta, spec: &Value) -> Result<IpDeclaration, String> {
    let ports = spec.get("ports").and_then(Value::as_array);
    let ports = ports.map_or(&[][..], Vec::as_slice);
    let [port] = ports else {
        return Err(format!("it has {} ports, and is to have one", ports.len()));
    };
    let number = |field: &str| {
        let number = port.get(field).and_then(Value::as_u64);
        number.and_then(|number| u16::try_from(number).ok())
    };
    let proto = match port.get("protocol").and_then(Value::as_str) {
        None | Some("TCP") => Proto::Tcp,
        Some("UDP") => Proto::Udp,
        Some(other) => return Err(format!("its protocol is `{other}`")),
    };
    let external_port = number("port").ok_or("its port makes no sense")?;
    let selector = spec.pointer("/selector").and_then(|all| all.get(labels::SERVICE));
    let annotations = meta.annotations.iter().flatten();
    let key = balancer::sharing_key(annotations).unwrap_or_default();
    Ok(IpDeclaration {
        service: selector.and_then(Value::as_str).unwrap_or_default().to_owned(),
        // Left out, it is the same.
        port: number("targetPort").unwrap_or(external_port),
        external_port,
        proto,
        sharing_key: key.to_owned(),
    })
}

fn given(data: &Value) -> Given {
    let entries = data.pointer("/status/loadBalancer/ingress");
    let entries = entries.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let address = |entry: &Value| entry.get("ip")?.as_str()?.parse().ok();
    Given {
        addresses: entries.iter().take(ADDRESSES_MAX).filter_map(address).collect(),
        entries: entries.len(),
    }
}
