//! A Certificate of cert-manager for a hostname, and what cert-manager says of it.

use super::facts::Host;
use super::sort::Sort;
use crate::apply::hash;
use crate::labels;
use akash_provider_core::manifest::{MAX_HOSTNAME, without_star};
use serde::Serialize;
use serde_json::{Value, json};

/// Who signs certificates (`--tls-issuer`, `--tls-issuer-kind`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Its name.
    pub name: String,
    /// `ClusterIssuer`, or `Issuer`, of which each lease's namespace needs one.
    pub kind: IssuerKind,
}

/// Where an issuer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum IssuerKind {
    /// One for the whole cluster.
    ClusterIssuer,
    /// One of that name in each namespace.
    Issuer,
}

/// What cert-manager says of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize)]
pub struct CertificateState {
    /// There is one, and it is valid; `None` where nothing is said of it as it is now.
    pub ready: Option<bool>,
    /// Why it is, or is not: a word, and a text of at most 300 characters.
    pub reason: String,
    /// Until when it is valid, RFC 3339.
    pub not_after: Option<String>,
}

/// The Certificate of a hostname, named as its route is.
#[must_use]
pub fn render(name: &str, host: &Host, issuer: &Issuer) -> Value {
    let resource = Sort::Certificate.resource();
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

/// Name of the Secret with the certificate and its key. It has a dot, which no Secret of a lease has.
#[must_use]
pub fn secret(name: &str) -> String {
    const PREFIX: &str = "tls.";
    let object = without_star(name);
    if PREFIX.len() + object.len() <= MAX_HOSTNAME {
        return format!("{PREFIX}{object}");
    }
    format!("{PREFIX}{}", hash::of(&json!(object)))
}

/// What cert-manager says of this generation of an object.
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
    fn what_is_said_of_this_generation_counts() {
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
    fn a_secret_has_a_name_of_its_own_however_long_the_hostname() {
        assert_eq!(secret("*.example.com"), "tls.wc--any.example.com");
        let long = format!("a.{}.com", "b".repeat(244));
        assert!(secret(&long).len() <= 253 && secret(&long) != secret(&long.replace("a.", "c.")));
    }
}
