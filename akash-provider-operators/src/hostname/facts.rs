//! Decoding of ProviderHost and Manifest records, one by one: an invalid record results in an error and does not affect
//! other records.

use akash_provider_core::manifest::hosts::custom_hosts;
use akash_provider_core::manifest::{
    Group, HttpOptions, MAX_BODY, MAX_PROXY_BUFFER, MAX_PROXY_TIMEOUT, Proto, check_hostname,
    is_service_name, without_star,
};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::labels;
use akash_provider_kube_model::crd::convert::{decode, from_manifest};
use akash_provider_kube_model::crd::lease_of_host;
use akash_provider_kube_model::crd::notes::Notes;
use akash_provider_kube_model::crd::{Manifest, ProviderHost};
use akash_provider_kube_model::problem::cut;
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of attempts per request, over all replicas of a service.
const MAX_TRIES: u32 = 100;

/// Decoded record, or the reason why the record is invalid.
pub type DecodedRecord<T> = Result<T, String>;

/// Content of a ProviderHost record. The record routes a hostname to a service of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// Lease of the hostname.
    pub lease: LeaseId,
    /// Namespace of the lease.
    pub namespace: String,
    /// Service of the lease.
    pub service: String,
    /// External port of the service, above 0.
    pub port: u16,
    /// Time of the declaration in the record; empty if missing.
    pub updated_at: String,
    /// UID of the record.
    pub uid: String,
    /// Notes that the hostname operator wrote on the record.
    pub notes: Notes,
}

/// Proxy options and hostnames of a lease, from its Manifest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Exposes {
    /// Lease of the Manifest.
    pub lease: LeaseId,
    /// Options of global TCP exposes, by service name and external port.
    pub options: BTreeMap<(String, u16), HttpOptions>,
    /// Hostnames that the tenant listed in the manifest, in lower case.
    pub hosts: BTreeSet<String>,
}

impl Exposes {
    /// Returns true if the Manifest lists `hostname`, or if the first label of `hostname` is the automatic
    /// label of a service.
    #[must_use]
    pub fn names(&self, hostname: &str) -> bool {
        let label = hostname.split('.').next().unwrap_or_default();
        let mut services = self.options.keys().map(|(service, _)| service);
        self.hosts.contains(hostname) || services.any(|service| self.lease.ingress_label(service) == label)
    }
}

/// Decodes a ProviderHost.
///
/// # Errors
/// Returns why the record is invalid, in at most 300 characters.
pub fn host(object: &DynamicObject) -> DecodedRecord<Host> {
    read_host(object).map_err(cut)
}

/// Decodes the proxy options and hostnames of a Manifest.
///
/// # Errors
/// Returns the reason why the Manifest is invalid.
pub fn manifest(object: &DynamicObject) -> DecodedRecord<Exposes> {
    read_manifest(object).map_err(cut)
}

fn read_host(object: &DynamicObject) -> DecodedRecord<Host> {
    let host: ProviderHost = typed("ProviderHost", object)?;
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let spec = &host.spec;
    let declared = spec.hostname.as_str();
    if without_star(declared) != name {
        return Err(format!(
            "the record declares `{declared}`; expected the name of the record"
        ));
    }
    if let Err(fault) = check_hostname(declared) {
        return Err(format!("`{declared}` {fault}; {}", fault.help()));
    }
    let Some(lease) = lease_of_host(spec) else {
        return Err("invalid address of the owner or the provider".to_owned());
    };
    if !is_service_name(&spec.service_name) {
        return Err(format!("invalid service name `{}`", spec.service_name));
    }
    let port = u16::try_from(spec.external_port).ok().filter(|port| *port > 0);
    let Some(port) = port else {
        return Err(format!("invalid port {}", spec.external_port));
    };
    let annotations = object.metadata.annotations.as_ref();
    let updated_at = annotations.and_then(|all| all.get(labels::UPDATED_AT)).cloned();
    Ok(Host {
        namespace: lease.namespace(),
        lease,
        service: spec.service_name.clone(),
        port,
        updated_at: updated_at.map(cut).unwrap_or_default(),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        notes: Notes::from_annotations(annotations),
    })
}

fn read_manifest(object: &DynamicObject) -> DecodedRecord<Exposes> {
    let manifest: Manifest = typed("Manifest", object)?;
    let recorded = from_manifest(&manifest).map_err(|bad| bad.to_string())?;
    Ok(Exposes {
        lease: recorded.deployment.lease.clone(),
        options: options_of(&recorded.deployment.group),
        hosts: custom_hosts(&recorded.deployment.group).into_iter().collect(),
    })
}

fn options_of(group: &Group) -> BTreeMap<(String, u16), HttpOptions> {
    let mut all = BTreeMap::new();
    for service in &group.services {
        let reached = |expose: &&akash_provider_core::manifest::ServiceExpose| {
            expose.global && expose.proto == Proto::Tcp
        };
        for expose in service.expose.iter().filter(reached) {
            let key = (service.name.clone(), expose.effective_external_port());
            // The first expose counts, as for the port of the Service.
            all.entry(key).or_insert_with(|| bounded(&expose.http_options));
        }
    }
    all
}

/// Limits the proxy options of a tenant to the ranges of the SDL, because all tenants share one proxy.
fn bounded(options: &HttpOptions) -> HttpOptions {
    HttpOptions {
        max_body_size: options.max_body_size.min(MAX_BODY),
        read_timeout: options.read_timeout.min(MAX_PROXY_TIMEOUT),
        send_timeout: options.send_timeout.min(MAX_PROXY_TIMEOUT),
        next_tries: options.next_tries.min(MAX_TRIES),
        next_timeout: options.next_timeout.min(MAX_PROXY_TIMEOUT),
        next_cases: options.next_cases.clone(),
        proxy_buffer_size: options.proxy_buffer_size.min(MAX_PROXY_BUFFER),
    }
}

fn typed<K: DeserializeOwned>(kind: &str, object: &DynamicObject) -> DecodedRecord<K> {
    let value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    decode(kind, &value).map_err(|bad| bad.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_kube_model::problem::PROBLEM_MAX;
    use serde_json::{Value, json};

    const OWNER: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
    const PROVIDER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

    fn object(name: &str, spec: Value) -> DynamicObject {
        let value = json!({"metadata": {"name": name}, "spec": spec});
        serde_json::from_value(value).unwrap()
    }

    fn spec(name: &str) -> Value {
        json!({
            "owner": OWNER, "provider": PROVIDER, "hostname": name, "dseq": 7, "gseq": 1, "oseq": 1,
            "service_name": "web", "external_port": 80,
        })
    }

    #[test]
    fn provider_host_is_decoded() {
        let host = host(&object("shop.example.com", spec("shop.example.com"))).unwrap();
        assert_eq!((host.service.as_str(), host.port), ("web", 80));
        assert_eq!(host.namespace, host.lease.namespace());
    }

    #[test]
    fn invalid_record_has_an_error() {
        let with = |field: &str, value: Value| {
            let mut spec = spec("shop.example.com");
            spec[field] = value;
            host(&object("shop.example.com", spec)).unwrap_err()
        };
        for (field, value, why) in [
            ("hostname", json!("bank.example.com"), "expected the name"),
            ("owner", json!("akash1nobody"), "invalid address"),
            ("provider", json!(""), "invalid address"),
            ("service_name", json!("web; return 301"), "invalid service name"),
            ("service_name", json!("../web"), "invalid service name"),
            ("external_port", json!(0), "invalid port"),
            ("external_port", json!(65_536), "invalid port"),
            ("external_port", json!("80"), "spec.external_port"),
            ("dseq", json!({}), "spec.dseq"),
        ] {
            let error = with(field, value.clone());
            assert!(error.contains(why), "{field} {value}: {error}");
        }
        assert!(host(&object("x.example.com", Value::Null)).is_err());
        let long = with("hostname", json!("é".repeat(5_000)));
        assert!(long.chars().count() <= PROBLEM_MAX + 1, "{long}");
    }

    #[test]
    fn invalid_hostnames_are_rejected() {
        let longest = format!("{}.example.com", vec!["a".repeat(47); 5].join("."));
        assert!(
            host(&object(&longest, spec(&longest))).is_ok(),
            "{}",
            longest.len()
        );
        let too_long = format!("{}.com", vec!["a".repeat(49); 5].join("."));
        assert_eq!(too_long.len(), 253);
        let too_long = format!("a{too_long}");
        for name in [
            too_long.as_str(),
            "shop.example.com.",
            ".example.com",
            "shop..example.com",
            "*.com",
            "*shop.example.com",
            "shop.*.example.com",
            "*.*.example.com",
            "*.10.0.0.1",
            "wc--any.example.com",
            "bücher.example",
            "Shop.example.com",
            "shop.example.com;",
            "shop example.com",
            "shop.example.com\n",
            "10.0.0.1",
            "127.1",
            "localhost",
            "kubernetes.default.svc",
            "web.cluster.local",
            "",
        ] {
            assert!(host(&object(name, spec(name))).is_err(), "{name:?}");
            assert!(
                host(&object(&without_star(name), spec(name))).is_err(),
                "{name:?}"
            );
        }
        // The object name has a label in place of the `*`.
        let wild = "*.example.com";
        assert!(host(&object("wc--any.example.com", spec(wild))).is_ok());
        for other in [wild, "example.com", "wc--any.example.org", "wildcard.example.com"] {
            assert!(host(&object(other, spec(wild))).is_err(), "{other}");
        }
        // Punycode names are valid.
        let name = "xn--bcher-kva.example";
        assert!(host(&object(name, spec(name))).is_ok());
    }

    #[test]
    fn options_are_limited_to_the_range_of_the_sdl() {
        let wild = HttpOptions {
            max_body_size: u32::MAX,
            read_timeout: u32::MAX,
            send_timeout: u32::MAX,
            next_tries: u32::MAX,
            next_timeout: u32::MAX,
            next_cases: None,
            proxy_buffer_size: u32::MAX,
        };
        let tame = bounded(&wild);
        assert_eq!(
            (tame.max_body_size, tame.proxy_buffer_size),
            (MAX_BODY, MAX_PROXY_BUFFER)
        );
        let timeouts = [tame.read_timeout, tame.send_timeout, tame.next_timeout];
        assert_eq!(timeouts, [MAX_PROXY_TIMEOUT; 3]);
        assert_eq!(tame.next_tries, MAX_TRIES);
        assert_eq!(bounded(&HttpOptions::default()), HttpOptions::default());
    }
}
