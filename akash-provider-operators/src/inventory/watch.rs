//! Watches of nodes and storage classes.

use super::index::{InventoryEvent, LabelIndex};
use super::node::NodeView;
use super::shared::{CLASSES, NODES};
use crate::operator_state::OperatorState;
use crate::sink::{ObjectDecoder, WatchSpec, follow};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::watch::{Bookkeeping, ListerWatcher, ObjectParts, WatchConfig};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;

/// Fields of a node that are dropped because they affect no label.
#[derive(Debug, Clone, Copy)]
struct NodeLabelParts;

impl ObjectParts for NodeLabelParts {
    const PATHS: &'static [&'static [&'static str]] = &[
        &["metadata", "annotations"],
        &["status", "images"],
        &["status", "volumesAttached"],
        &["status", "volumesInUse"],
    ];
}

pub(super) fn start(
    client: &Client,
    state: &Arc<OperatorState<LabelIndex>>,
    config: WatchConfig,
) -> [AbortOnDropHandle<()>; 2] {
    let nodes: ObjectDecoder<String, NodeView> = Box::new(|object| {
        let view = NodeView::from_object(object);
        (view.name.clone(), view)
    });
    let classes: ObjectDecoder<String, bool> = Box::new(class);
    let all = |resource: ApiResource| Api::all_with(client.clone(), &resource);
    let nodes_api = all(ApiResource::erase::<Node>(&()));
    let classes_api = all(ApiResource::erase::<StorageClass>(&()));
    [
        follow(
            state,
            WatchSpec {
                // The field managers of labels are required.
                reading: ListerWatcher::new::<NodeLabelParts>(),
                ..watched(NODES)
            },
            nodes_api,
            nodes,
            InventoryEvent::Nodes,
            config,
        ),
        follow(
            state,
            watched(CLASSES),
            classes_api,
            classes,
            InventoryEvent::Classes,
            config,
        ),
    ]
}

fn class(object: &DynamicObject) -> (String, bool) {
    let labels = object.metadata.labels.as_ref();
    let offered = labels
        .and_then(|labels| labels.get(labels::MANAGED))
        .is_some_and(|value| value == "true");
    (object.metadata.name.clone().unwrap_or_default(), offered)
}

const fn watched(key: &'static str) -> WatchSpec {
    WatchSpec {
        key,
        name: key,
        labels: "",
        may_be_absent: false,
        reading: ListerWatcher::new::<Bookkeeping>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_dropped_paths_is_within_the_limit() {
        let paths = NodeLabelParts::PATHS;
        assert!(paths.len() <= 64 && paths.iter().all(|path| !path.is_empty()));
    }
}
