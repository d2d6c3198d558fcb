//! Records and routes into the index.

use super::facts::{self, Exposes, Fact, Host};
use super::index::{Event, Index, Place};
use super::live::Live;
use super::route::Mode;
use super::shared::{HOSTS, MANIFESTS, ROUTES};
use crate::crd::{Manifest, ProviderHost};
use crate::labels;
use crate::operators::board::Board;
use crate::operators::intake::{Read, Watched, follow};
use crate::state::WatchConfig;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// Begins to watch hosts, manifests and routes, with a task for each.
pub(super) fn start(
    client: &Client,
    namespace: &str,
    mode: &Mode,
    board: &Arc<Board<Index>>,
    config: WatchConfig,
) -> [AbortOnDropHandle<()>; 3] {
    let records = |resource: ApiResource| Api::namespaced_with(client.clone(), namespace, &resource);
    let named = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
    let hosts: Read<String, Fact<Host>> = Box::new(move |object| (named(object), facts::host(object)));
    let manifests: Read<String, Fact<Exposes>> =
        Box::new(move |object| (named(object), facts::manifest(object)));
    let rendered = mode.clone();
    let routes: Read<Place, Live> = Box::new(move |object| {
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        ((namespace, named(object)), Live::of(object, &rendered))
    });
    let watched = |key, name, labels| Watched {
        key,
        name,
        labels,
        may_be_absent: false,
    };
    // No selector: a record without its labels declares a name all the same.
    let of_hosts = watched(HOSTS, "providerhosts.akash.network", "");
    let of_manifests = watched(MANIFESTS, "manifests.akash.network", "");
    // Routes without the label are of no lease.
    let of_routes = watched(ROUTES, "routes", labels::SELECTOR);
    let hosts_api = records(ApiResource::erase::<ProviderHost>(&()));
    let manifests_api = records(ApiResource::erase::<Manifest>(&()));
    let routes_api = Api::all_with(client.clone(), &mode.resource());
    [
        follow(board, of_hosts, hosts_api, hosts, Event::Hosts, config),
        follow(
            board,
            of_manifests,
            manifests_api,
            manifests,
            Event::Manifests,
            config,
        ),
        follow(board, of_routes, routes_api, routes, Event::Routes, config),
    ]
}
