//! Decoding of ProviderLeasedIP and Manifest records, one by one: an invalid record results in an error and does not
//! affect other records.

use akash_provider_core::cluster::IpDeclaration;
use akash_provider_core::manifest::hosts::ips_wanted;
use akash_provider_core::manifest::is_service_name;
use akash_provider_core::types::{Address, LeaseId};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_model::crd::convert::{decode, from_manifest};
use akash_provider_kube_model::crd::{Manifest, ProviderLeasedIP};
use akash_provider_kube_model::leased_ips::{declaration, lease_of, object_name};
use akash_provider_kube_model::objects::leased_ip_service_name;
use akash_provider_kube_model::problem::cut;
use kube::core::DynamicObject;
use std::collections::BTreeSet;

const SERVICE_NAME_MAX: usize = 63;

/// Declaration of a port of a leased address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LeasedPort {
    /// Lease of the port.
    pub lease: LeaseId,
    /// Ports, service and sharing key.
    pub ip: IpDeclaration,
}

/// Error of an invalid record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InvalidRecord {
    /// Reason, in at most 300 characters.
    pub problem: String,
    /// Service of the invalid record, as `NAMESPACE/NAME`, if known.
    pub place: Option<String>,
}

/// Decoded record, or its error.
pub(crate) type DecodedRecord = Result<LeasedPort, InvalidRecord>;

impl LeasedPort {
    /// Returns the Service that this port needs, as `NAMESPACE/NAME`.
    pub(crate) fn place(&self) -> String {
        let name = leased_ip_service_name(&self.ip.service, self.ip.external_port, self.ip.proto);
        format!("{}/{name}", self.lease.namespace())
    }
}

/// Decodes a ProviderLeasedIP.
///
/// # Errors
/// Returns why the record is invalid.
pub(crate) fn leased(object: &DynamicObject) -> DecodedRecord {
    let bad = |problem: String| InvalidRecord {
        problem: cut(problem),
        place: None,
    };
    let value = serde_json::to_value(object).map_err(|error| bad(error.to_string()))?;
    let record: ProviderLeasedIP =
        decode("ProviderLeasedIP", &value).map_err(|error| bad(error.to_string()))?;
    let spec = &record.spec;
    let lease = lease_of(spec).ok_or_else(|| bad("invalid lease_id".to_owned()))?;
    let ip = declaration(spec).filter(|ip| ip.port > 0 && ip.external_port > 0);
    let ip = ip.ok_or_else(|| {
        let (port, external, protocol) = (spec.port, spec.external_port, &spec.protocol);
        bad(format!(
            "invalid port {port} to {external} over `{protocol}`: expected 1 to 65535, TCP or UDP"
        ))
    })?;
    let leased = LeasedPort { lease, ip };
    let name = object.metadata.name.as_deref().unwrap_or_default();
    match problem(&leased, name) {
        Some(problem) => Err(InvalidRecord {
            problem: cut(problem),
            place: Some(leased.place()),
        }),
        None => Ok(leased),
    }
}

fn problem(leased: &LeasedPort, name: &str) -> Option<String> {
    let LeasedPort { lease, ip } = leased;
    if !is_service_name(&ip.service) {
        return Some(format!("invalid service name `{}`", ip.service));
    }
    // The sharing key selects the shared address, so the key of another tenant would expose that tenant's address.
    let endpoint = ip.sharing_key.strip_prefix(lease.owner().as_str());
    let endpoint = endpoint.and_then(|rest| rest.strip_prefix("-ip-"));
    let is_plain = |text: &str| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !text.is_empty() && text.bytes().all(allowed)
    };
    if !endpoint.is_some_and(is_plain) {
        return Some(format!(
            "invalid sharing key `{}`: expected OWNER-ip-ENDPOINT of the tenant",
            ip.sharing_key
        ));
    }
    if object_name(ip) != name {
        return Some(format!(
            "the record declares `{}`; expected the name of the record",
            object_name(ip)
        ));
    }
    let service = leased_ip_service_name(&ip.service, ip.external_port, ip.proto);
    if service.len() > SERVICE_NAME_MAX {
        return Some(format!(
            "the Service name `{service}` is longer than {SERVICE_NAME_MAX} characters"
        ));
    }
    None
}

/// Leased addresses that a Manifest declares.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct DeclaredIps {
    /// Provider of the lease.
    pub provider: Address,
    /// Names of the declared ProviderLeasedIP records; `None` for an invalid Manifest.
    pub records: Option<BTreeSet<String>>,
}

/// Decodes a Manifest with the labels of a lease; returns `None` for any other object.
pub(crate) fn manifest(object: &DynamicObject) -> Option<DeclaredIps> {
    let lease = object.metadata.labels.as_ref().and_then(labels::lease_of)?;
    if object.metadata.name.as_deref() != Some(lease.namespace().as_str()) {
        return None;
    }
    let value = serde_json::to_value(object).ok();
    let manifest = value.and_then(|value| decode::<Manifest>("Manifest", &value).ok());
    let recorded = manifest.and_then(|manifest| from_manifest(&manifest).ok());
    let ips = recorded.map(|recorded| ips_wanted(&recorded.deployment.group, &lease));
    let records = ips.map(|ips| ips.iter().map(object_name).collect());
    Some(DeclaredIps {
        provider: lease.provider,
        records,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_kube_model::problem::PROBLEM_MAX;
    use serde_json::{Value, json};

    const OWNER: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
    const OTHER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";
    const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

    fn read(name: &str, change: impl FnOnce(&mut Value)) -> DecodedRecord {
        let mut spec = json!({
            "lease_id": {"owner": OWNER, "dseq": "7", "gseq": 1, "oseq": 1, "provider": PROVIDER},
            "service_name": "web", "port": 80, "external_port": 8080,
            "sharing_key": format!("{OWNER}-ip-front"), "protocol": "TCP",
        });
        change(&mut spec);
        let value = json!({"metadata": {"name": name}, "spec": spec});
        leased(&serde_json::from_value(value).unwrap())
    }

    fn name() -> String {
        format!("{OWNER}-ip-front-tcp-8080")
    }

    #[test]
    fn provider_leased_ip_is_decoded() {
        let leased = read(&name(), |_| {}).unwrap();
        assert_eq!((leased.ip.port, leased.ip.external_port), (80, 8080));
        let namespace = leased.lease.namespace();
        assert_eq!(leased.place(), format!("{namespace}/web-ip-8080-tcp"));
    }

    #[test]
    fn invalid_leased_ip_has_an_error() {
        for (field, value, why) in [
            ("/lease_id/owner", json!("akash1nobody"), "invalid lease_id"),
            ("/lease_id/dseq", json!("-7"), "invalid lease_id"),
            (
                "/lease_id/dseq",
                json!("99999999999999999999999"),
                "invalid lease_id",
            ),
            ("/lease_id/provider", json!(""), "invalid lease_id"),
            ("/lease_id/gseq", json!(-1), "gseq"),
            ("/lease_id", json!("garbage"), "lease_id"),
            ("/service_name", json!("web; rm"), "invalid service name"),
            ("/service_name", json!("../web"), "invalid service name"),
            ("/service_name", json!("a".repeat(60)), "longer than 63"),
            ("/port", json!(0), "invalid port"),
            ("/port", json!(-80), "port"),
            ("/external_port", json!(65_536), "invalid port"),
            ("/external_port", json!(u64::MAX), "external_port"),
            ("/external_port", json!(8081), "expected the name"),
            ("/protocol", json!("SCTP"), "invalid port"),
            (
                "/sharing_key",
                json!(format!("{OTHER}-ip-front")),
                "invalid sharing key",
            ),
            (
                "/sharing_key",
                json!(format!("{OWNER}-ip-")),
                "invalid sharing key",
            ),
            (
                "/sharing_key",
                json!(format!("{OWNER}-ip-A b")),
                "invalid sharing key",
            ),
            ("/sharing_key", json!("é".repeat(5_000)), "invalid sharing key"),
        ] {
            let text = value.to_string();
            let bad = read(&name(), |spec| *spec.pointer_mut(field).unwrap() = value).unwrap_err();
            assert!(bad.problem.contains(why), "{field} {text:.40}: {}", bad.problem);
            assert!(bad.problem.chars().count() <= PROBLEM_MAX + 1);
        }
        assert!(read(&name(), |spec| *spec = Value::Null).is_err());
        let bad = read("other", |_| {}).unwrap_err();
        assert!(bad.place.is_some(), "the declared Service is unchanged");
    }

    #[test]
    fn manifest_declares_only_in_the_namespace_of_its_lease() {
        let lease: LeaseId = format!("{OWNER}/7/1/1/{PROVIDER}").parse().unwrap();
        let object = |name: &str| {
            let value = json!({"metadata": {"name": name, "labels": labels::lease(&lease)}});
            serde_json::from_value::<DynamicObject>(value).unwrap()
        };
        let declares = manifest(&object(&lease.namespace())).unwrap();
        // Without a spec the addresses are unknown, not empty.
        assert_eq!(
            (declares.provider, declares.records),
            (lease.provider.clone(), None)
        );
        assert_eq!(manifest(&object("other")), None);
    }
}
