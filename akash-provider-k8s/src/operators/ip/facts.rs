//! What the records say, each read by itself: one that makes no sense says why, and stops no other.

use crate::crd::convert::{decode, from_manifest};
use crate::crd::{Manifest, ProviderLeasedIP};
use crate::labels;
use crate::leased_ips::{declaration, lease_of, object_name};
use crate::objects::leased_ip_service_name;
use crate::operators::said::cut;
use akash_provider_core::cluster::IpDeclaration;
use akash_provider_core::manifest::hosts::ips_wanted;
use akash_provider_core::manifest::is_service_name;
use akash_provider_core::types::{Address, LeaseId};
use kube::core::DynamicObject;
use std::collections::BTreeSet;

/// Longest name of a Service.
const SERVICE_NAME_MAX: usize = 63;

/// What a record declares: a port of a tenant's address, and where it leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Leased {
    /// Lease that the port leads to.
    pub lease: LeaseId,
    /// Its ports, its service and the key of its address.
    pub ip: IpDeclaration,
}

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bad {
    /// In at most 300 characters.
    pub problem: String,
    /// The Service that it may speak of, where that can be told.
    pub place: Option<String>,
}

/// A record, or what is wrong with it.
pub type Fact = Result<Leased, Bad>;

impl Leased {
    /// Its Service, as `NAMESPACE/NAME`.
    #[must_use]
    pub fn place(&self) -> String {
        let name = leased_ip_service_name(&self.ip.service, self.ip.external_port, self.ip.proto);
        format!("{}/{name}", self.lease.namespace())
    }
}

/// What a ProviderLeasedIP declares.
///
/// # Errors
/// What is wrong with it.
pub fn leased(object: &DynamicObject) -> Fact {
    let bad = |problem: String| Bad {
        problem: cut(problem),
        place: None,
    };
    let value = serde_json::to_value(object).map_err(|error| bad(error.to_string()))?;
    let record: ProviderLeasedIP =
        decode("ProviderLeasedIP", &value).map_err(|error| bad(error.to_string()))?;
    let spec = &record.spec;
    let lease = lease_of(spec).ok_or_else(|| bad("its lease_id names no lease".to_owned()))?;
    let ip = declaration(spec).filter(|ip| ip.port > 0 && ip.external_port > 0);
    let ip = ip.ok_or_else(|| {
        let (port, external, protocol) = (spec.port, spec.external_port, &spec.protocol);
        bad(format!(
            "port {port} to {external} over `{protocol}` makes no sense; ports are 1 to 65535, over TCP or UDP"
        ))
    })?;
    let leased = Leased { lease, ip };
    let name = object.metadata.name.as_deref().unwrap_or_default();
    match problem(&leased, name) {
        Some(problem) => Err(Bad {
            problem: cut(problem),
            place: Some(leased.place()),
        }),
        None => Ok(leased),
    }
}

fn problem(leased: &Leased, name: &str) -> Option<String> {
    let Leased { lease, ip } = leased;
    if !is_service_name(&ip.service) {
        return Some(format!("`{}` is no name of a service", ip.service));
    }
    // By its key an address is shared, so that a key of somebody else's would lead into their address.
    let endpoint = ip.sharing_key.strip_prefix(lease.owner().as_str());
    let endpoint = endpoint.and_then(|rest| rest.strip_prefix("-ip-"));
    let is_plain = |text: &str| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !text.is_empty() && text.bytes().all(allowed)
    };
    if !endpoint.is_some_and(is_plain) {
        return Some(format!(
            "its sharing key is none of its tenant, which are OWNER-ip-ENDPOINT: `{}`",
            ip.sharing_key
        ));
    }
    if object_name(ip) != name {
        return Some(format!(
            "it declares `{}`; a record is named after that",
            object_name(ip)
        ));
    }
    let service = leased_ip_service_name(&ip.service, ip.external_port, ip.proto);
    if service.len() > SERVICE_NAME_MAX {
        return Some(format!(
            "its Service would be named `{service}`, which is longer than {SERVICE_NAME_MAX} characters"
        ));
    }
    None
}

/// What a Manifest declares of leased addresses.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Declares {
    /// Provider of the lease.
    pub provider: Address,
    /// Names of the records of its addresses; `None` if the Manifest cannot be read.
    pub records: Option<BTreeSet<String>>,
}

/// Returns what a Manifest declares, if its labels name the lease that it is named after.
#[must_use]
pub fn manifest(object: &DynamicObject) -> Option<Declares> {
    let lease = object.metadata.labels.as_ref().and_then(labels::lease_of)?;
    if object.metadata.name.as_deref() != Some(lease.namespace().as_str()) {
        return None;
    }
    let value = serde_json::to_value(object).ok();
    let manifest = value.and_then(|value| decode::<Manifest>("Manifest", &value).ok());
    let recorded = manifest.and_then(|manifest| from_manifest(&manifest).ok());
    let ips = recorded.map(|recorded| ips_wanted(&recorded.deployment.group, &lease));
    let records = ips.map(|ips| ips.iter().map(object_name).collect());
    Some(Declares {
        provider: lease.provider,
        records,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::said::PROBLEM_MAX;
    use serde_json::{Value, json};

    const OWNER: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
    const OTHER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";
    const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

    fn read(name: &str, change: impl FnOnce(&mut Value)) -> Fact {
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
    fn a_declaration_is_read() {
        let leased = read(&name(), |_| {}).unwrap();
        assert_eq!((leased.ip.port, leased.ip.external_port), (80, 8080));
        let namespace = leased.lease.namespace();
        assert_eq!(leased.place(), format!("{namespace}/web-ip-8080-tcp"));
    }

    #[test]
    fn what_makes_no_sense_says_why() {
        for (field, value, why) in [
            ("/lease_id/owner", json!("akash1nobody"), "no lease"),
            ("/lease_id/dseq", json!("-7"), "no lease"),
            ("/lease_id/dseq", json!("99999999999999999999999"), "no lease"),
            ("/lease_id/provider", json!(""), "no lease"),
            ("/lease_id/gseq", json!(-1), "gseq"),
            ("/lease_id", json!("garbage"), "lease_id"),
            ("/service_name", json!("web; rm"), "no name of a service"),
            ("/service_name", json!("../web"), "no name of a service"),
            ("/service_name", json!("a".repeat(60)), "longer than 63"),
            ("/port", json!(0), "makes no sense"),
            ("/port", json!(-80), "port"),
            ("/external_port", json!(65_536), "makes no sense"),
            ("/external_port", json!(u64::MAX), "external_port"),
            ("/external_port", json!(8081), "named after"),
            ("/protocol", json!("SCTP"), "makes no sense"),
            (
                "/sharing_key",
                json!(format!("{OTHER}-ip-front")),
                "none of its tenant",
            ),
            (
                "/sharing_key",
                json!(format!("{OWNER}-ip-")),
                "none of its tenant",
            ),
            (
                "/sharing_key",
                json!(format!("{OWNER}-ip-A b")),
                "none of its tenant",
            ),
            ("/sharing_key", json!("é".repeat(5_000)), "none of its tenant"),
        ] {
            let shown = value.to_string();
            let bad = read(&name(), |spec| *spec.pointer_mut(field).unwrap() = value).unwrap_err();
            assert!(bad.problem.contains(why), "{field} {shown:.40}: {}", bad.problem);
            assert!(bad.problem.chars().count() <= PROBLEM_MAX + 1);
        }
        assert!(read(&name(), |spec| *spec = Value::Null).is_err());
        let bad = read("other", |_| {}).unwrap_err();
        assert!(bad.place.is_some(), "what it may speak of is not touched");
    }

    #[test]
    fn a_manifest_says_whose_it_is_when_it_lies_where_its_lease_does() {
        let lease: LeaseId = format!("{OWNER}/7/1/1/{PROVIDER}").parse().unwrap();
        let object = |name: &str| {
            let value = json!({"metadata": {"name": name, "labels": labels::lease(&lease)}});
            serde_json::from_value::<DynamicObject>(value).unwrap()
        };
        let declares = manifest(&object(&lease.namespace())).unwrap();
        // Without a spec its addresses are unknown, not none.
        assert_eq!(
            (declares.provider, declares.records),
            (lease.provider.clone(), None)
        );
        assert_eq!(manifest(&object("elsewhere")), None);
    }
}
