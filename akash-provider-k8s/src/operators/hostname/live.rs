//! A route as the cluster has it, and how it differs from the one that is wanted.

use super::route::{self, Mode};
use crate::apply::subset::{self, Lists};
use crate::labels;
use crate::operators::change::version_of;
use akash_provider_core::types::LeaseId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde::Serialize;
use serde_json::{Value, json};

/// A route as the cluster has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// Identity of the object.
    pub uid: String,
    /// Its version; later is larger.
    pub version: u64,
    /// Lease its labels name.
    pub lease: Option<LeaseId>,
    /// It is on its way out.
    pub is_going: bool,
    /// What its proxy says.
    pub accepted: Accepted,
    /// Labels, annotations and spec.
    body: Value,
}

/// What a proxy says of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Accepted {
    /// It takes it: the gateway says so, or the Ingress has an address.
    Yes,
    /// It does not, and why.
    No(String),
    /// Nothing yet. Not every controller of Ingresses ever says something.
    Unsaid,
}

/// How a route differs from the wanted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Path of the first field, or the annotation that is one too many.
    pub at: String,
    /// Something is there that only its maker can take off.
    pub is_surplus: bool,
}

impl Live {
    /// Of an object of the API server.
    #[must_use]
    pub fn of(object: &DynamicObject, mode: &Mode) -> Self {
        let spec = object.data.get("spec").cloned().unwrap_or_default();
        Self {
            accepted: accepted(object, mode),
            ..Self::with(&object.metadata, spec)
        }
    }

    /// Of what was just written: the API server answered with its metadata.
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
            // What a proxy said was of the route before this write.
            accepted: Accepted::Unsaid,
            body: json!({
                "metadata": {"labels": meta.labels, "annotations": meta.annotations},
                "spec": spec,
            }),
        }
    }

    /// `None` when it is as wanted.
    #[must_use]
    pub fn differs(&self, wanted: &Value) -> Option<Difference> {
        let relevant = json!({
            "metadata": {
                "labels": wanted.pointer("/metadata/labels"),
                "annotations": wanted.pointer("/metadata/annotations"),
            },
            "spec": wanted.get("spec"),
        });
        // In any case: it decides how the route is written, not only whether.
        let surplus = self.surplus(&relevant);
        let at = subset::missing(&relevant, &self.body, Lists::Closed).or_else(|| surplus.clone())?;
        let is_surplus = surplus.is_some();
        Some(Difference { at, is_surplus })
    }

    /// An annotation of a proxy, or a limit of time, that is not wanted.
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
        (has(&self.body) && !has(wanted)).then(|| "spec.rules.0.timeouts".to_owned())
    }
}

fn accepted(object: &DynamicObject, mode: &Mode) -> Accepted {
    let status = object.data.get("status");
    match mode {
        Mode::Ingress { .. } => {
            let addresses = status.and_then(|status| status.pointer("/loadBalancer/ingress")?.as_array());
            match addresses {
                Some(list) if !list.is_empty() => Accepted::Yes,
                _ => Accepted::Unsaid,
            }
        }
        Mode::GatewayApi { name, namespace, .. } => {
            let parents = status.and_then(|status| status.get("parents")?.as_array());
            let own = object.metadata.namespace.as_deref();
            let is_ours = |parent: &&Value| {
                let text = |path: &str| parent.pointer(path).and_then(Value::as_str);
                text("/parentRef/name") == Some(name)
                    // Left out, it is the route's own namespace.
                    && text("/parentRef/namespace").or(own) == Some(namespace)
            };
            let ours = parents.into_iter().flatten().filter(is_ours);
            said(ours, object.metadata.generation.unwrap_or(0))
        }
    }
}

/// What the controllers of a gateway say of this generation: no counts before yes.
fn said<'a>(parents: impl Iterator<Item = &'a Value>, generation: i64) -> Accepted {
    let mut is_accepted = false;
    let conditions = parents.filter_map(|parent| parent.get("conditions")?.as_array());
    for condition in conditions.flatten() {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let seen = condition.get("observedGeneration").and_then(Value::as_i64);
        // Said of the route as it was before the last write.
        if seen.is_some_and(|seen| seen < generation) {
            continue;
        }
        match (text("type"), text("status")) {
            ("Accepted", "True") => is_accepted = true,
            ("Accepted" | "ResolvedRefs", "False") => {
                let why: String = text("message").chars().take(300).collect();
                return Accepted::No(format!("{}: {why}", text("reason")));
            }
            _ => {}
        }
    }
    if is_accepted {
        Accepted::Yes
    } else {
        Accepted::Unsaid
    }
}
