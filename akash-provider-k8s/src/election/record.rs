//! The record of a leadership as a Lease, read and written as everybody else's elections do.

use super::contest::{Claim, Record, Stored};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn resource() -> ApiResource {
    ApiResource::erase::<Lease>(&())
}

/// What a Lease says; what it does not say counts as nothing.
pub(super) fn read(lease: &DynamicObject) -> Stored {
    let spec = &lease.data["spec"];
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let number = |field: &str| spec[field].as_u64().unwrap_or_default();
    let holder = text("holderIdentity");
    let record = Record {
        holder: (!holder.is_empty()).then_some(holder),
        lease: Duration::from_secs(number("leaseDurationSeconds")),
        term: number("leaseTransitions"),
        sign: text("renewTime"),
    };
    Stored {
        record,
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// A Lease that is not there yet.
pub(super) fn new(namespace: &str, name: &str, claim: &Claim, lease: Duration) -> DynamicObject {
    DynamicObject::new(name, &resource())
        .within(namespace)
        .data(json!({ "spec": spec(claim, lease) }))
}

/// The change of one that is, which fails where somebody else wrote since that version.
pub(super) fn patch(claim: &Claim, version: &str, lease: Duration) -> Value {
    json!({ "metadata": { "resourceVersion": version }, "spec": spec(claim, lease) })
}

fn spec(claim: &Claim, lease: Duration) -> Value {
    // The API server wants six digits behind the point, and 0 seconds is no duration to it.
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let lease = if claim.holder.is_some() {
        lease.as_secs().max(1)
    } else {
        1
    };
    let mut spec = json!({
        "holderIdentity": claim.holder.as_deref().unwrap_or_default(),
        "leaseDurationSeconds": lease,
        "leaseTransitions": i32::try_from(claim.term).unwrap_or(i32::MAX),
        "renewTime": now,
    });
    if claim.begins {
        spec["acquireTime"] = Value::from(now);
    }
    spec
}
