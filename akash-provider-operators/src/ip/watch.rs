//! Watches of records, Services and pools.

use super::facts;
use super::index::{IpEvent, IpIndex, POOLS};
use super::live::LiveService;
use super::shared::{MANIFESTS, RECORDS, SERVICES};
use crate::operator_state::OperatorState;
use crate::sink::{WatchSpec, follow, named};
use akash_provider_kube_kernel::watch::WatchConfig;
use akash_provider_kube_model::crd::{Manifest, ProviderLeasedIP};
use akash_provider_kube_model::leased_ips::pool::pool;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

pub(super) fn start(
    client: &Client,
    namespace: &str,
    metallb: &str,
    state: &Arc<OperatorState<IpIndex>>,
    config: WatchConfig,
) -> [AbortOnDropHandle<()>; 4] {
    let records = |resource: ApiResource| Api::namespaced_with(client.clone(), namespace, &resource);
    // No selector: records without labels can declare addresses, and any Service can use an address. An own
    // Service may have lost the type LoadBalancer, and is repaired.
    let services = Api::all_with(client.clone(), &ApiResource::erase::<Service>(&()));
    let pool_kind = GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool");
    let pools = Api::namespaced_with(client.clone(), metallb, &ApiResource::from_gvk(&pool_kind));
    let of_pools = WatchSpec {
        may_be_absent: true,
        ..WatchSpec::new(POOLS, "ipaddresspools.metallb.io")
    };
    [
        follow(
            state,
            WatchSpec::new(RECORDS, "providerleasedips.akash.network"),
            records(ApiResource::erase::<ProviderLeasedIP>(&())),
            |object| (named(object), facts::leased(object)),
            IpEvent::Records,
            config,
        ),
        follow(
            state,
            WatchSpec::new(MANIFESTS, "manifests.akash.network"),
            records(ApiResource::erase::<Manifest>(&())),
            |object| (named(object), facts::manifest(object)),
            IpEvent::Manifests,
            config,
        ),
        follow(
            state,
            WatchSpec::new(SERVICES, "services"),
            services,
            service,
            IpEvent::Services,
            config,
        ),
        follow(
            state,
            of_pools,
            pools,
            |object| (named(object), pool(object)),
            IpEvent::Pools,
            config,
        ),
    ]
}

fn service(object: &DynamicObject) -> (String, LiveService) {
    let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
    let place = format!("{namespace}/{}", named(object));
    (place, LiveService::new(object, Timestamp::now()))
}
