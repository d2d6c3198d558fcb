//! Comparison of REST responses with the recorded responses.

use super::{Stage, exchanges};
use crate::tests::clients::Reply;
use akash_provider_core::chain::QueryOutage;
use akash_provider_core::cluster::Operation;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::market::TenantMsg;
use serde_json::Value;
use testbed::recordings;

/// Rule for the comparison of a response with the recorded response.
enum Same {
    /// The response must equal the recorded response.
    Whole,
    /// The status must be equal; the text may differ.
    Status,
    /// The status must be equal, and the text must start with the recorded text.
    Begins,
    /// The response must have this status, and a text with this prefix.
    Other(u16, &'static str),
    /// The JSON keys must be equal; amounts may differ.
    Keys,
}

/// Returns the comparison rule for a recording.
fn wanted(name: &str) -> Same {
    match name {
        // The Go provider distinguishes an expired token from an invalid one only by its text.
        "err-jwt-expired" => Same::Other(401, "{\"message\":\"JWT is expired\"}"),
        // The scope `status` covers services too; this token has `logs`.
        "jwt-scoped-service-status-no-scope" => Same::Other(401, "{\"message\":\"unauthorized access\"}"),
        // A missing deployment is not a failure of the provider.
        "err-other-owner-put" | "err-put-unknown-deployment" => Same::Other(404, "no lease for deployment"),
        // Accepted means durable, and an outage is reported as one.
        "apidown-put-manifest" | "rpcdown-put-manifest-known" | "rpcdown-put-manifest-new-lease" => {
            Same::Other(503, "")
        }
        // Texts name the place and the fix.
        "err-put-bad-json" => Same::Other(422, "invalid manifest: "),
        "err-put-bad-service-name" => Same::Other(422, "invalid manifest: "),
        "err-put-empty" | "err-put-null" => Same::Other(422, "invalid manifest: "),
        "err-put-count" | "err-put-group-name" | "err-put-wrong-hash" | "put-manifest-old-after-update" => {
            Same::Begins
        }
        name if name.starts_with("apidown-") && name != "apidown-status" => Same::Status,
        "status" | "apidown-status" | "rpcdown-status" | "version" => Same::Keys,
        // The in-memory cluster counts no unavailable replicas.
        "rpcback-lease-status-missed-lease" => Same::Keys,
        _ => Same::Whole,
    }
}

/// Removes values that depend on the recording machine, such as addresses.
fn without_place(body: &str) -> Value {
    let Ok(mut value) = serde_json::from_str::<Value>(body) else {
        return Value::String(body.to_owned());
    };
    forget(&mut value);
    value
}

fn forget(value: &mut Value) {
    match value {
        Value::Object(object) => {
            // Counted or assigned by Kubernetes, or not stored by the recorded provider.
            for key in [
                "observed_generation",
                "externalPort_assigned",
                "host",
                "endpoints",
            ] {
                object.remove(key);
            }
            // Ours alone: the version of the manifest.
            if object.contains_key("forwarded_ports") {
                object.remove("manifest");
            }
            let is_forwarded = object.contains_key("externalPort") && object.contains_key("name");
            if is_forwarded {
                object.remove("externalPort");
            }
            object.values_mut().for_each(forget);
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn keys(value: &Value) -> Vec<String> {
    let mut all = Vec::new();
    if let Value::Object(object) = value {
        for (key, value) in object {
            all.push(key.clone());
            all.extend(keys(value).into_iter().map(|k| format!("{key}.{k}")));
        }
    }
    all
}

fn compare(name: &str, recorded: &Value, reply: &Reply) -> Result<(), String> {
    let body = recorded["body"].as_str().unwrap_or_default();
    let status = recorded["status"].as_u64().unwrap();
    let same_status = u64::from(reply.status) == status;
    let headers = recorded["headers"].as_array().unwrap();
    let header = |name: &str| {
        let mut found = headers.iter().filter(|h| h[0].as_str() == Some(name));
        found.next().and_then(|h| h[1].as_str())
    };
    let same_type = header("Content-Type") == reply.header("content-type");
    let is_right = match wanted(name) {
        Same::Whole => {
            let sniff = header("X-Content-Type-Options") == reply.header("x-content-type-options");
            same_status && same_type && sniff && without_place(body) == without_place(&reply.body)
        }
        Same::Status => same_status && same_type,
        Same::Begins => same_status && reply.body.starts_with(body.trim_end()),
        Same::Other(status, begins) => {
            reply.status == status && reply.body.starts_with(begins) && reply.body != body
        }
        Same::Keys => {
            let theirs: Value = serde_json::from_str(body).unwrap();
            let ours = reply.json();
            let (theirs, ours) = (keys(&theirs), keys(&ours));
            same_status && same_type && theirs.iter().all(|k| ours.contains(k) || is_optional(k))
        }
    };
    if is_right {
        return Ok(());
    }
    let short_body: String = body.chars().take(600).collect();
    Err(format!(
        "{name}: recorded {status} {short_body:?}\n    got {reply:?}"
    ))
}

/// Returns true for a recorded JSON key that the response need not contain. `pending` can be empty, and only
/// a Kubernetes API server sets the keys below `kube`.
fn is_optional(key: &str) -> bool {
    key == "cluster.inventory.pending" || key.starts_with("kube.")
}

/// Simulates the outage that existed when the recording `name` was made.
async fn prepare(stage: &Stage, name: &str) {
    let cluster = &stage.world.cluster;
    let operations = [
        Operation::Status,
        Operation::Version,
        Operation::Deployments,
        Operation::Record,
    ];
    if name.starts_with("apidown-") {
        for operation in operations {
            cluster.fail_next(operation, u32::MAX, ErrorKind::Unavailable);
        }
    } else {
        for operation in operations {
            cluster.restore(operation);
        }
    }
    if name.starts_with("rpcdown-") {
        stage.world.chain.fail_queries(QueryOutage::UntilRestored);
    } else {
        stage.world.chain.restore_queries();
    }
    if name == "put-manifest-updated" {
        let id = stage.leases[&2194].deployment().clone();
        let hash = stage.sdls["web-updated"].hash;
        let update = TenantMsg::UpdateDeployment { id, hash };
        stage.world.chain.tenant(update).unwrap();
    }
    if name == "rpcback-lease-status-missed-lease" {
        // Recorded right after its deployment, before it was available.
        let lease = &stage.leases[&4_020_000];
        stage.world.runs(lease).await;
        let bad = akash_provider_core::cluster::Health::Bad;
        assert!(cluster.set_health(lease, bad));
    }
}

/// Returns the sort key of a recording. Recordings that precede the manifest update come first.
fn order(name: &str) -> u8 {
    match name {
        "put-manifest-updated" => 1,
        "put-manifest-old-after-update" => 2,
        "rpcback-put-manifest-missed-lease" => 3,
        "rpcback-lease-status-missed-lease" => 4,
        name if name.starts_with("rpcdown") => 2,
        _ => 0,
    }
}

#[tokio::test]
async fn recorded_requests_get_the_recorded_responses() {
    let folder = recordings::folder("peer");
    let stage = Stage::set(&folder).await;
    let certificate = akash_provider_chain::cert::OwnCertificate::make(
        &stage.tenant,
        &akash_provider_chain::cert::CertUsage::Client,
        std::time::Duration::from_secs(super::super::world::NOW - 3600),
    )
    .unwrap();
    stage.world.publish(&certificate.publish());
    let mut all = exchanges(&folder, "rest");
    all.sort_by_key(|(name, _)| order(name));
    let (mut wrong, mut skipped) = (Vec::new(), 0);
    for (name, recording) in &all {
        let issuer = recording["jwt"]["claims"]["iss"].as_str();
        if issuer.is_some_and(|i| i != super::TENANT) && name.contains("other-owner") {
            // Its key is not among the recordings, so its signature cannot be verified.
            println!("skipped: {name}: the key of {} was not recorded", issuer.unwrap());
            skipped += 1;
            continue;
        }
        stage.turn_back_clock(recording);
        prepare(&stage, name).await;
        let raw = recording["request"]["raw"].as_str().unwrap();
        let mut client = stage.world.client();
        if recording["request"]["auth"] == "mtls" {
            client = client.certificate(&certificate);
        }
        let reply = client.try_raw(raw.as_bytes()).await;
        let reply = reply.unwrap_or_else(|e| panic!("{name}: {e}"));
        wrong.extend(compare(name, &recording["response"], &reply).err());
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
    assert!(
        all.len() - skipped > 90,
        "{} played, {skipped} skipped",
        all.len()
    );
    stage.world.stop().await;
}
