//! Watches of records and routes.

use super::facts;
use super::index::HostnameEvent;
use super::live::LiveObject;
use super::object_kind::ObjectKind;
use super::route::Mode;
use super::shared::{HOSTS, Hostnames, MANIFESTS};
use crate::operator_state::OperatorState;
use crate::sink::{WatchSpec, follow, named};
use akash_provider_core::manifest::with_star;
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::watch::WatchConfig;
use akash_provider_kube_model::crd::{Manifest, ProviderHost};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// Starts the watch tasks: ProviderHosts, Manifests and each [`ObjectKind`].
pub(super) fn start(
    client: &Client,
    namespace: &str,
    mode: &Mode,
    state: &Arc<OperatorState<Hostnames>>,
    config: WatchConfig,
) -> Vec<AbortOnDropHandle<()>> {
    let records = |resource: ApiResource| Api::namespaced_with(client.clone(), namespace, &resource);
    let mut tasks = vec![
        // No selector: a record without labels declares a hostname too.
        follow(
            state,
            WatchSpec::new(HOSTS, "providerhosts.akash.network"),
            records(ApiResource::erase::<ProviderHost>(&())),
            // Keys are hostnames, also for objects with another name.
            |object| (with_star(&named(object)), facts::host(object)),
            HostnameEvent::Hosts,
            config,
        ),
        follow(
            state,
            WatchSpec::new(MANIFESTS, "manifests.akash.network"),
            records(ApiResource::erase::<Manifest>(&())),
            |object| (named(object), facts::manifest(object)),
            HostnameEvent::Manifests,
            config,
        ),
    ];
    tasks.extend(ObjectKind::ALL.map(|sort| {
        let of_objects = WatchSpec {
            // Objects without the label belong to no lease.
            labels: labels::SELECTOR,
            may_be_absent: sort != mode.sort(),
            ..WatchSpec::new(sort.plural(), sort.plural())
        };
        let mode = mode.clone();
        let read = move |object: &DynamicObject| {
            let namespace = object.metadata.namespace.clone().unwrap_or_default();
            let place = (namespace, with_star(&named(object)));
            (place, LiveObject::new(object, sort, &mode))
        };
        let api = Api::all_with(client.clone(), &sort.resource());
        let event = move |change| HostnameEvent::Objects(sort, change);
        follow(state, of_objects, api, read, event, config)
    }));
    tasks
}
