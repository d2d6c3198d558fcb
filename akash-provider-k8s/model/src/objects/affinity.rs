//! Node affinity of a service.

use super::context::RenderContext;
use super::{RenderError, resources, text, volumes};
use akash_provider_core::manifest::Service;
use akash_provider_kube_kernel::labels;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
};

/// Prefix of the capability labels of nodes, after `akash.network/`.
const CAPABILITIES: &str = "capabilities";

/// Selects nodes with the label `akash.network=true`, the promised GPU and the requested storage classes.
pub(super) fn render(cx: &RenderContext<'_>, service: &Service) -> Result<Affinity, RenderError> {
    // Nodes without the label are not offered, whatever their free capacity.
    let mut terms = vec![requirement(labels::MANAGED.to_owned(), "In", "true")];
    for (field, key) in gpu(cx, service)?.into_iter().chain(classes(service)) {
        if !text::is_label_key(&key) {
            let problem = format!(
                "no node can have it: `{}` is not a valid label",
                text::shortened(&key)
            );
            return Err(RenderError::new(&service.name, field, problem));
        }
        // The value of the label is the number of units.
        terms.push(requirement(format!("{}/{key}", labels::MANAGED), "Gt", "0"));
    }
    let term = NodeSelectorTerm {
        match_expressions: Some(terms),
        ..NodeSelectorTerm::default()
    };
    Ok(Affinity {
        node_affinity: Some(NodeAffinity {
            required_during_scheduling_ignored_during_execution: Some(NodeSelector {
                node_selector_terms: vec![term],
            }),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    })
}

/// Returns the node labels of the promised GPU. Each pair contains a manifest field, for error messages, and
/// a label.
fn gpu(cx: &RenderContext<'_>, service: &Service) -> Result<Vec<(String, String)>, RenderError> {
    let field = || "resources.gpu".to_owned();
    if service.resources.gpu.units == 0 {
        return Ok(Vec::new());
    }
    let vendor = resources::gpu_vendor(cx, service)?;
    let promised = cx.params(service).and_then(|params| params.resources.as_ref());
    let Some(gpu) = promised.and_then(|resources| resources.gpu.as_ref()) else {
        return Ok(Vec::new());
    };
    // A GPU of any model needs no label.
    if gpu.model.is_empty() || gpu.model == "*" {
        return Ok(Vec::new());
    }
    let base = format!("{CAPABILITIES}.gpu.vendor.{vendor}.model.{}", gpu.model);
    let parts = [("ram", &gpu.memory_size), ("interface", &gpu.interface)];
    let given = parts.into_iter().filter(|(_, value)| !value.is_empty());
    let further = given.map(|(name, value)| (field(), format!("{base}.{name}.{value}")));
    Ok([(field(), base.clone())].into_iter().chain(further).collect())
}

fn classes(service: &Service) -> impl Iterator<Item = (String, String)> {
    let indexed = service.resources.storage.iter().enumerate();
    let persistent = indexed.filter(|(_, volume)| volume.is_persistent());
    persistent.map(|(n, volume)| {
        let class = volumes::class(volume);
        (
            format!("resources.storage[{n}].class"),
            format!("{CAPABILITIES}.storage.class.{class}"),
        )
    })
}

fn requirement(key: String, operator: &str, value: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key,
        operator: operator.to_owned(),
        values: Some(vec![value.to_owned()]),
    }
}
