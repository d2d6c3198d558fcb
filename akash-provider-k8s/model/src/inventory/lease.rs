//! Leases of this provider: namespace of the pods, and resource unit of each service.

use crate::crd::{ManifestService, ManifestSpec, convert};
use crate::objects::leased_ip_name;
use crate::settings::KubeSettings;
use akash_provider_core::types::{LeaseId, OrderId};
use akash_provider_kube_kernel::labels;
use kube::core::DynamicObject;
use std::collections::{BTreeMap, BTreeSet};

/// Fields of a Manifest that the inventory uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseFacts {
    pub(crate) lease: LeaseId,
    /// Resource unit ID, by service.
    pub(crate) units: BTreeMap<Box<str>, u32>,
    /// Names of the load balancers for leased addresses.
    pub(crate) balancers: BTreeSet<Box<str>>,
}

impl LeaseFacts {
    /// Decodes a Manifest. Returns `Ok(None)` if the Manifest belongs to another provider or chain.
    ///
    /// # Errors
    /// Returns why the Manifest is invalid. The pods of the lease namespace then count as pods without a
    /// lease.
    pub fn from_object(manifest: &DynamicObject, settings: &KubeSettings) -> Result<Option<Self>, String> {
        let name = manifest.metadata.name.as_deref().unwrap_or_default();
        let wrong =
            |what: String| format!("Manifest `{name}`: {what}; its pods count as pods without a lease");
        let annotations = manifest.metadata.annotations.as_ref();
        let chain = annotations.and_then(|a| a.get(labels::CHAIN_ID));
        // Checked first, because Manifests of another chain or provider may be invalid here.
        if chain.is_some_and(|c| *c != settings.chain_id && !settings.chain_id.is_empty()) {
            return Ok(None);
        }
        let Some(spec) = manifest.data.get("spec") else {
            return Err(wrong("the object has no spec".to_owned()));
        };
        let provider = spec.pointer("/lease_id/provider").and_then(|p| p.as_str());
        if provider != Some(&settings.provider.to_string()) {
            return Ok(None);
        }
        let spec = <ManifestSpec as serde::Deserialize>::deserialize(spec);
        let spec = spec.map_err(|e| wrong(format!("invalid spec: {e}")))?;
        let lease = lease(&spec, settings).ok_or_else(|| wrong("invalid lease_id".to_owned()))?;
        // With another name, pods of another lease would count as pods of this lease.
        if lease.namespace() != name {
            return Err(wrong(format!("expected the name of lease {lease}")));
        }
        let balancers = spec.group.services.iter().flat_map(balancers).collect();
        let services = spec.group.services.into_iter();
        let units = services.map(|s| (s.name.into(), s.resources.id)).collect();
        Ok(Some(Self {
            lease,
            units,
            balancers,
        }))
    }
}

/// Returns the names of the Services for the leased addresses of a service. The IP operator creates these Services.
fn balancers(service: &ManifestService) -> Vec<Box<str>> {
    // A port that cannot be decoded gets no Service.
    let ports = service.expose.iter().flatten();
    let ports = ports.filter_map(|port| convert::expose("expose", port).ok());
    let names = ports.filter_map(|port| leased_ip_name(&service.name, &port));
    names.map(Into::into).collect()
}

fn lease(spec: &ManifestSpec, settings: &KubeSettings) -> Option<LeaseId> {
    let id = &spec.lease_id;
    let text = format!("{}/{}/{}/{}", id.owner, id.dseq, id.gseq, id.oseq);
    let order: OrderId = text.parse().ok()?;
    Some(order.bid(settings.provider.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const OWNER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";
    const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";

    fn read(change: impl FnOnce(&mut Value)) -> Result<Option<LeaseFacts>, String> {
        let mut object = json!({
            "apiVersion": "akash.network/v2beta2", "kind": "Manifest",
            "metadata": {"name": "20i72s36oqihvq2hqtlkr6j25rr9mnq3krkg39entrr88", "annotations": {}},
            "spec": {
                "lease_id": {"owner": OWNER, "dseq": "3944427", "gseq": 1, "oseq": 1, "provider": PROVIDER},
                "group": {"name": "g", "services": [{
                    "name": "web", "image": "i", "count": 2, "unknown": {},
                    "resources": {"id": 7, "cpu": {"units": 1}, "gpu": {"units": 0}, "memory": {"size": "1"}},
                }]},
            },
        });
        change(&mut object);
        let mut settings = KubeSettings::new(PROVIDER.parse().unwrap());
        settings.chain_id = "akashnet-2".to_owned();
        LeaseFacts::from_object(&serde_json::from_value(object).unwrap(), &settings)
    }

    #[test]
    fn manifest_has_the_lease_and_the_unit_of_each_service() {
        let facts = read(|_| ()).unwrap().unwrap();
        assert_eq!(facts.lease.to_string(), format!("{OWNER}/3944427/1/1/{PROVIDER}"));
        assert_eq!(facts.units.get("web"), Some(&7));
    }

    #[test]
    fn manifests_of_other_providers_and_chains_are_ignored() {
        assert_eq!(
            read(|m| m["spec"]["lease_id"]["provider"] = json!(OWNER)),
            Ok(None)
        );
        let chain =
            |id: &'static str| read(move |m| m["metadata"]["annotations"][labels::CHAIN_ID] = json!(id));
        assert_eq!(chain("sandbox"), Ok(None));
        assert!(chain("akashnet-2").unwrap().is_some());
    }

    #[test]
    fn invalid_manifest_is_reported_and_not_counted_as_own() {
        for change in [
            (|m: &mut Value| m["spec"]["lease_id"]["dseq"] = json!("x")) as fn(&mut Value),
            |m| m["spec"]["lease_id"]["gseq"] = json!("x"),
            |m| m["spec"]["group"] = json!([]),
            |m| m["metadata"]["name"] = json!("another"),
            |m| m["spec"] = json!(null),
        ] {
            let result = read(change);
            assert!(
                result
                    .as_ref()
                    .is_err_and(|e| e.contains("count as pods without a lease"))
                    || result == Ok(None),
                "{result:?}"
            );
        }
    }
}
