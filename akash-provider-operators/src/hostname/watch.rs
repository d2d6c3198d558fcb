//! Watches of records and routes.

use super::facts::{self, DecodedRecord, Exposes, Host};
use super::index::{HostnameEvent, ObjectKey};
use super::live::LiveObject;
use super::object_kind::ObjectKind;
use super::route::Mode;
use super::shared::{HOSTS, Hostnames, MANIFESTS};
use crate::operator_state::OperatorState;
use crate::sink::{ObjectDecoder, WatchSpec, follow};
use akash_provider_core::manifest::with_star;
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::watch::{Bookkeeping, ListerWatcher, WatchConfig};
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
    // Keys are hostnames, also for objects with another name.
    let hosts: ObjectDecoder<String, DecodedRecord<Host>> =
        Box::new(move |object| (with_star(&named(object)), facts::host(object)));
    let manifests: ObjectDecoder<String, DecodedRecord<Exposes>> =
        Box::new(move |object| (named(object), facts::manifest(object)));
    let watched = |key, name| WatchSpec {
        key,
        name,
        // No selector: a record without labels declares a hostname too.
        labels: "",
        may_be_absent: false,
        reading: ListerWatcher::new::<Bookkeeping>(),
    };
    let of_hosts = watched(HOSTS, "providerhosts.akash.network");
    let of_manifests = watched(MANIFESTS, "manifests.akash.network");
    let hosts_api = records(ApiResource::erase::<ProviderHost>(&()));
    let manifests_api = records(ApiResource::erase::<Manifest>(&()));
    let mut tasks = vec![
        follow(state, of_hosts, hosts_api, hosts, HostnameEvent::Hosts, config),
        follow(
            state,
            of_manifests,
            manifests_api,
            manifests,
            HostnameEvent::Manifests,
            config,
        ),
    ];
    tasks.extend(ObjectKind::ALL.map(|sort| {
        let of_objects = WatchSpec {
            key: sort.plural(),
            name: sort.plural(),
            // Objects without the label belong to no lease.
            labels: labels::SELECTOR,
            may_be_absent: sort != mode.sort(),
            reading: ListerWatcher::new::<Bookkeeping>(),
        };
        let mode = mode.clone();
        let read: ObjectDecoder<ObjectKey, LiveObject> = Box::new(move |object| {
            let namespace = object.metadata.namespace.clone().unwrap_or_default();
            let place = (namespace, with_star(&named(object)));
            (place, LiveObject::new(object, sort, &mode))
        });
        let api = Api::all_with(client.clone(), &sort.resource());
        let event = move |change| HostnameEvent::Objects(sort, change);
        follow(state, of_objects, api, read, event, config)
    }));
    tasks
}

fn named(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}
