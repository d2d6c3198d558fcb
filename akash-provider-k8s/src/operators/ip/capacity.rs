//! Number of addresses for leases, which limits the bids of the provider. The addresses are counted as in the
//! IP operator. This module writes nothing.

use super::balancer::Mode;
use super::index::IpIndex;
use super::shared::{POOLS, SERVICES};
use super::usage::AddressUsage;
use super::watch;
use crate::operators::operator_state::OperatorState;
use crate::operators::queue::RetryPolicy;
use akash_provider_core::types::Address;
use akash_provider_kube_kernel::watch::{Definitions, WatchConfig};
use kube::Client;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// Watch of pools and load balancers. The watch stops when `Capacity` is dropped.
#[derive(Debug)]
pub(crate) struct Capacity {
    state: Arc<OperatorState<IpIndex>>,
    #[expect(dead_code, reason = "dropping them ends the watches")]
    watches: [AbortOnDropHandle<()>; 2],
}

impl Capacity {
    /// Starts the watches; `pool` is the MetalLB pool of the leased addresses.
    pub(crate) fn start(
        client: &Client,
        provider: &Address,
        pool: &str,
        namespace: &str,
        (config, definitions): (WatchConfig, Definitions),
    ) -> Self {
        let mode = Mode {
            pool: pool.to_owned(),
            ..Mode::default()
        };
        let index = IpIndex::new(provider.clone(), mode);
        // Records are never listed, so there is no work.
        let state = Arc::new(OperatorState::new(
            index,
            RetryPolicy::default(),
            [SERVICES, POOLS],
            definitions,
        ));
        let watches = watch::capacity(client, namespace, &state, config);
        Self { state, watches }
    }

    /// Waits for a change of the pools or the load balancers.
    pub(crate) async fn changed(&self) {
        self.state.wake.notified().await;
    }

    /// Returns the total number of addresses in the pools, and the number of addresses in use. Addresses of
    /// this provider's leases are not counted as in use. Returns `None` before pools and Services were
    /// listed.
    pub(crate) fn count(&self) -> Option<(u32, u32)> {
        others(&self.state.inner().index)
    }
}

/// Returns the total number of addresses, and the number of addresses in use. Addresses of this provider's
/// leases are not counted as in use, because they already count as reservations.
fn others(index: &IpIndex) -> Option<(u32, u32)> {
    let balancers = index.services().filter(|(_, live)| live.is_balancer);
    let is_ours = |lease: &akash_provider_core::types::LeaseId| lease.provider == *index.provider();
    let of_others =
        balancers.filter(|(_, live)| !(live.is_leased && live.lease.as_ref().is_some_and(is_ours)));
    let addresses: BTreeSet<IpAddr> = of_others
        .flat_map(|(_, live)| live.given.addresses.iter().copied())
        .collect();
    let usage = AddressUsage::with(index.pools(), index.mode(), &addresses);
    usage.known().filter(|_| index.has_services())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::ObjectChange;
    use crate::operators::ip::index::IpEvent;
    use crate::operators::ip::live::LiveService;
    use crate::operators::ip::pool::pool;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    const PROVIDER: &str = "akash1nxq8gmsw2vlz3m68qvyvcf3kh6q269ajvqw6y0";
    const OTHER: &str = "akash1qufa3xzrf34qvwyejkhvnc4psf49fftaw0asmh";

    fn live(provider: Option<&str>, ip: &str) -> LiveService {
        let labels = provider.map(|provider| {
            json!({
                "akash.network": "true", "akash.network/service-target": "metal-lb",
                "akash.network/lease.id.owner": OTHER, "akash.network/lease.id.dseq": "7",
                "akash.network/lease.id.gseq": "1", "akash.network/lease.id.oseq": "1",
                "akash.network/lease.id.provider": provider,
            })
        });
        let object = json!({
            "metadata": {"name": "x", "uid": "u", "resourceVersion": "1", "labels": labels},
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": ip}]}},
        });
        LiveService::new(&serde_json::from_value(object).unwrap(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn only_addresses_of_other_users_count_as_taken() {
        let mut index = IpIndex::new(PROVIDER.parse().unwrap(), Mode::default());
        let spec: Value = json!({"metadata": {"name": "p"}, "spec": {"addresses": ["203.0.113.0/28"]}});
        let pools = BTreeMap::from([("p".to_owned(), pool(&serde_json::from_value(spec).unwrap()))]);
        index.apply(IpEvent::Pools(ObjectChange::Listed(pools)));
        assert_eq!(others(&index), None, "a missing list is not an empty list");
        let services = [
            ("a/ours", live(Some(PROVIDER), "203.0.113.1")),
            ("a/theirs", live(Some(OTHER), "203.0.113.2")),
            ("a/ingress", live(None, "203.0.113.3")),
            ("a/remote", live(None, "192.0.2.1")),
        ];
        let services = services.map(|(name, live)| (name.to_owned(), live));
        index.apply(IpEvent::Services(ObjectChange::Listed(services.into())));
        assert_eq!(others(&index), Some((16, 2)));
    }
}
