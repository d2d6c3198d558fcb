//! Certificate of cert-manager for a hostname, and its reported status.

use super::facts::Host;
use super::object_kind::ObjectKind;
use akash_provider_core::manifest::{MAX_HOSTNAME, without_star};
use akash_provider_kube_kernel::hash;
use akash_provider_kube_kernel::labels;
use serde::Serialize;
use serde_json::{Value, json};

/// Issuer of certificates (`--tls-issuer`, `--tls-issuer-kind`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Name of the issuer.
    pub name: String,
    /// Kind of the issuer. An `Issuer` must exist in the namespace of every lease.
    pub kind: IssuerKind,
}

/// Kind of an issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum IssuerKind {
    /// One issuer for the whole cluster.
    ClusterIssuer,
    /// One issuer with this name in each namespace.
    Issuer,
}

/// Status of a certificate, as reported by cert-manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
#[non_exhaustive]
pub struct CertificateState {
    /// Whether the certificate is valid; `None` without a status for the current generation.
    pub ready: Option<bool>,
    /// Reason and message, of at most 300 characters.
    pub reason: String,
    /// End of the validity, RFC 3339.
    pub not_after: Option<String>,
}

/// Renders the Certificate of a hostname. The Certificate has the same name as the route.
#[must_use]
pub fn render(name: &str, host: &Host, issuer: &Issuer) -> Value {
    let resource = ObjectKind::Certificate.resource();
    let mut all = labels::lease(&host.lease);
    all.insert(labels::MANAGED.to_owned(), "true".to_owned());
    json!({
        "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": {"name": without_star(name), "namespace": host.namespace, "labels": all},
        "spec": {
            "secretName": secret(name),
            "dnsNames": [name],
            "issuerRef": {"group": resource.group, "kind": issuer.kind, "name": issuer.name},
        },
    })
}

/// Returns the name of the Secret with the certificate and its key. Only the names of certificate Secrets
/// contain a dot.
#[must_use]
pub fn secret(name: &str) -> String {
    const PREFIX: &str = "tls.";
    let object = without_star(name);
    if PREFIX.len() + object.len() <= MAX_HOSTNAME {
        return format!("{PREFIX}{object}");
    }
    format!("{PREFIX}{}", hash::hash_value(&json!(object)))
}

/// Returns the status that cert-manager reported for `generation` of the Certificate object.
pub(super) fn state(status: Option<&Value>, generation: i64) -> CertificateState {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let conditions = status.and_then(|status| status.get("conditions")?.as_array());
    let is_current = |condition: &&Value| {
        let seen = condition.get("observedGeneration").and_then(Value::as_i64);
        text(condition, "type").as_deref() == Some("Ready") && seen.is_none_or(|seen| seen >= generation)
    };
    let Some(ready) = conditions.and_then(|all| all.iter().find(is_current)) else {
        return CertificateState::default();
    };
    let why: String = text(ready, "message")
        .unwrap_or_default()
        .chars()
        .take(300)
        .collect();
    CertificateState {
        ready: Some(text(ready, "status").as_deref() == Some("True")),
        reason: format!("{}: {why}", text(ready, "reason").unwrap_or_default()),
        not_after: status.and_then(|status| text(status, "notAfter")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_conditions_of_this_generation_count() {
        let status = |ready: &str, seen: i64| {
            json!({"notAfter": "2030-01-01T00:00:00Z", "conditions": [
                {"type": "Issuing", "status": "True"},
                {"type": "Ready", "status": ready, "reason": "Ready", "message": "x".repeat(999), "observedGeneration": seen},
            ]})
        };
        let good = state(Some(&status("True", 2)), 2);
        assert_eq!(
            (good.ready, good.not_after.as_deref()),
            (Some(true), Some("2030-01-01T00:00:00Z"))
        );
        assert!(good.reason.len() < 320, "{}", good.reason);
        assert_eq!(state(Some(&status("False", 2)), 2).ready, Some(false));
        assert_eq!(state(Some(&status("True", 1)), 2), CertificateState::default());
        assert_eq!(state(None, 2), CertificateState::default());
        assert_eq!(
            state(Some(&json!({"conditions": 7})), 2),
            CertificateState::default()
        );
    }

    #[test]
    fn secret_names_are_unique_for_long_hostnames() {
        assert_eq!(secret("*.example.com"), "tls.wc--any.example.com");
        let long = format!("a.{}.com", "b".repeat(244));
        assert!(secret(&long).len() <= 253 && secret(&long) != secret(&long.replace("a.", "c.")));
    }
}
