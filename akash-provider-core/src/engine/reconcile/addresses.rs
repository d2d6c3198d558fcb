//! Comparison of declared IP addresses with the addresses that leases were deployed with.

use crate::cluster::{IpDeclaration, WorkloadSpec};
use crate::types::LeaseId;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// IP addresses that the records in the cluster declare.
#[derive(Debug)]
pub(in crate::engine) struct DeclaredAddresses<'a> {
    of_lease: FxHashMap<&'a LeaseId, BTreeSet<&'a IpDeclaration>>,
    /// Lease of each address.
    holders: FxHashMap<&'a str, &'a LeaseId>,
}

impl<'a> DeclaredAddresses<'a> {
    pub(in crate::engine) fn new(declared: &'a [(LeaseId, Vec<IpDeclaration>)]) -> Self {
        let keys = |(lease, ips): &'a (LeaseId, Vec<IpDeclaration>)| {
            ips.iter().map(move |ip| (ip.sharing_key.as_str(), lease))
        };
        Self {
            of_lease: declared
                .iter()
                .map(|(l, ips)| (l, ips.iter().collect()))
                .collect(),
            holders: declared.iter().flat_map(keys).collect(),
        }
    }

    /// Returns a difference between the deployed and the declared IP addresses of a lease. A deployed address
    /// that another lease holds is not a difference.
    pub(in crate::engine) fn difference(&self, deployment: &WorkloadSpec) -> Option<String> {
        let nothing = BTreeSet::new();
        let declared = self.of_lease.get(&deployment.lease).unwrap_or(&nothing);
        let wanted: BTreeSet<&IpDeclaration> = deployment.ips.iter().collect();
        let is_on_another_lease = |ip: &&&IpDeclaration| {
            let holder = self.holders.get(ip.sharing_key.as_str());
            holder.is_some_and(|holder| **holder != deployment.lease)
        };
        let missing = wanted.difference(declared).find(|ip| !is_on_another_lease(ip));
        let differs = missing.or_else(|| declared.difference(&wanted).next());
        differs.map(|ip| {
            let (service, port) = (&ip.service, ip.external_port);
            format!("leased address of service {service}, port {port} {:?}", ip.proto)
        })
    }
}
