//! Watches of nodes and storage classes.

use super::index::{InventoryEvent, LabelIndex};
use super::node::NodeView;
use super::shared::{CLASSES, NODES};
use crate::operator_state::OperatorState;
use crate::sink::{WatchSpec, follow, named};
use akash_provider_kube_kernel::labels;
use akash_provider_kube_kernel::watch::{ListerWatcher, ObjectParts, WatchConfig};
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
    let all = |resource: ApiResource| Api::all_with(client.clone(), &resource);
    [
        follow(
            state,
            WatchSpec {
                // The field managers of labels are required.
                reading: ListerWatcher::new::<NodeLabelParts>(),
                ..WatchSpec::new(NODES, NODES)
            },
            all(ApiResource::erase::<Node>(&())),
            |object| (named(object), NodeView::from_object(object)),
            InventoryEvent::Nodes,
            config,
        ),
        follow(
            state,
            WatchSpec::new(CLASSES, CLASSES),
            all(ApiResource::erase::<StorageClass>(&())),
            |object| (named(object), is_offered(object)),
            InventoryEvent::Classes,
            config,
        ),
    ]
}

fn is_offered(class: &DynamicObject) -> bool {
    let labels = class.metadata.labels.as_ref();
    let offered = labels.and_then(|labels| labels.get(labels::MANAGED));
    offered.is_some_and(|value| value == "true")
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
