//! Conversion of an election record to a Lease object, in the format of other Kubernetes leader elections.

use crate::labels;
use akash_provider_core::election::{Claim, ElectionRecord, RecordPayload, Stored};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn resource() -> ApiResource {
    ApiResource::erase::<Lease>(&())
}

/// Decodes a Lease object. Missing fields become empty values.
pub(super) fn read(lease: &DynamicObject) -> Stored {
    let spec = &lease.data["spec"];
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let number = |field: &str| spec[field].as_u64().unwrap_or_default();
    let holder = text("holderIdentity");
    let annotations = lease.metadata.annotations.as_ref();
    let annotation = annotations.and_then(|all| all.get(labels::BESIDE_LEADERSHIP));
    let record = ElectionRecord {
        holder: (!holder.is_empty()).then_some(holder),
        lease: Duration::from_secs(number("leaseDurationSeconds")),
        term: number("leaseTransitions"),
        sign: text("renewTime"),
        payload: annotation.map_or_else(RecordPayload::default, |text| RecordPayload::from_json(text)),
    };
    Stored {
        record,
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

pub(super) fn new(namespace: &str, name: &str, claim: &Claim) -> DynamicObject {
    let mut lease = DynamicObject::new(name, &resource())
        .within(namespace)
        .data(json!({ "spec": spec(claim) }));
    if let Some(text) = beside(claim) {
        let annotation = (labels::BESIDE_LEADERSHIP.to_owned(), text);
        lease.metadata.annotations = Some([annotation].into());
    }
    lease
}

/// Returns the patch of an existing Lease. The patch fails if another client wrote the Lease after `version`.
pub(super) fn patch(claim: &Claim, version: &str) -> Value {
    let annotations = json!({ labels::BESIDE_LEADERSHIP: beside(claim) });
    json!({
        "metadata": { "resourceVersion": version, "annotations": annotations },
        "spec": spec(claim),
    })
}

/// Returns the additional state of the leader as the value of an annotation. Returns `None` if there is no
/// such state.
fn beside(claim: &Claim) -> Option<String> {
    (claim.payload != RecordPayload::default()).then(|| claim.payload.to_json())
}

fn spec(claim: &Claim) -> Value {
    // The API server requires six fractional digits, and rejects a duration of 0 seconds.
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    let lease = if claim.holder.is_some() {
        claim.lease.as_secs().max(1)
    } else {
        1
    };
    let mut spec = json!({
        "holderIdentity": claim.holder.as_deref().unwrap_or_default(),
        "leaseDurationSeconds": lease,
        "leaseTransitions": i32::try_from(claim.term).unwrap_or(i32::MAX),
        "renewTime": now,
    });
    if claim.is_new_term {
        spec["acquireTime"] = Value::from(now);
    }
    spec
}
