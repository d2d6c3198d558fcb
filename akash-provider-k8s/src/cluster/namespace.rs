//! Annotations of the namespace of a lease, and the serialized form of its objects.

use crate::labels;
use crate::settings::Isolation;
use k8s_openapi::api::core::v1::Namespace;
use serde::Serialize;
use serde_json::Value;

pub(super) fn annotation<'a>(namespace: &'a Namespace, key: &str) -> Option<&'a String> {
    namespace.metadata.annotations.as_ref()?.get(key)
}

/// Returns the isolation level of an existing lease, or the level `new` for a new lease.
pub(super) fn isolation_of(namespace: Option<&Namespace>, new: Isolation) -> Isolation {
    namespace.map_or(new, |ns| {
        Isolation::from_annotation(annotation(ns, labels::ISOLATION).map(String::as_str))
    })
}

/// Serializes an object with its kind and version.
pub(super) fn with_type(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
