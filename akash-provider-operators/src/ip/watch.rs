//! Watches of records, Services and pools.

use super::facts::{self, DeclaredIps, DecodedRecord};
use super::index::{IpEvent, IpIndex};
use super::live::LiveService;
use super::shared::{MANIFESTS, POOLS, RECORDS, SERVICES};
use crate::operator_state::OperatorState;
use crate::sink::{ObjectDecoder, WatchSpec, follow};
use akash_provider_kube_kernel::watch::{Bookkeeping, ListerWatcher, WatchConfig};
use akash_provider_kube_model::crd::{Manifest, ProviderLeasedIP};
use akash_provider_kube_model::leased_ips::pool::{Pool, pool};
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
    let records: ObjectDecoder<String, DecodedRecord> =
        Box::new(move |object| (named(object), facts::leased(object)));
    let manifests: ObjectDecoder<String, Option<DeclaredIps>> =
        Box::new(move |object| (named(object), facts::manifest(object)));
    let of_records = watched(RECORDS, "providerleasedips.akash.network");
    let of_manifests = watched(MANIFESTS, "manifests.akash.network");
    let within = |resource: ApiResource| Api::namespaced_with(client.clone(), namespace, &resource);
    let records_api = within(ApiResource::erase::<ProviderLeasedIP>(&()));
    let manifests_api = within(ApiResource::erase::<Manifest>(&()));
    // All Services: an own Service may have lost the type LoadBalancer, and is repaired.
    let services = follow_services(client, state, config);
    let pools = follow_pools(client, metallb, state, config);
    [
        follow(state, of_records, records_api, records, IpEvent::Records, config),
        follow(
            state,
            of_manifests,
            manifests_api,
            manifests,
            IpEvent::Manifests,
            config,
        ),
        services,
        pools,
    ]
}

fn follow_services(
    client: &Client,
    state: &Arc<OperatorState<IpIndex>>,
    config: WatchConfig,
) -> AbortOnDropHandle<()> {
    let services: ObjectDecoder<String, LiveService> = Box::new(move |object| {
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let place = format!("{namespace}/{}", named(object));
        (place, LiveService::new(object, Timestamp::now()))
    });
    let services_api = Api::all_with(client.clone(), &ApiResource::erase::<Service>(&()));
    follow(
        state,
        watched(SERVICES, "services"),
        services_api,
        services,
        IpEvent::Services,
        config,
    )
}

fn follow_pools(
    client: &Client,
    metallb: &str,
    state: &Arc<OperatorState<IpIndex>>,
    config: WatchConfig,
) -> AbortOnDropHandle<()> {
    let pools: ObjectDecoder<String, Pool> = Box::new(move |object| (named(object), pool(object)));
    let of_pools = watched(POOLS, "ipaddresspools.metallb.io");
    let kind = GroupVersionKind::gvk("metallb.io", "v1beta1", "IPAddressPool");
    let pools_api = Api::namespaced_with(client.clone(), metallb, &ApiResource::from_gvk(&kind));
    follow(state, of_pools, pools_api, pools, IpEvent::Pools, config)
}

fn named(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

/// Returns a watch without selectors. Records without labels can declare addresses, and any Service can use
/// an address.
fn watched(key: &'static str, name: &'static str) -> WatchSpec {
    WatchSpec {
        key,
        name,
        labels: "",
        may_be_absent: key == POOLS,
        reading: ListerWatcher::new::<Bookkeeping>(),
    }
}
