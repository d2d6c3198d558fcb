//! Free capacity of the running provider, and the resources that the provider does not offer.

use super::connection::{ask, granted, odd, print};
use akash_provider_cli::flags::Output;
use akash_provider_cli::plain;
use akash_provider_core::inventory::{GpuMetrics, Metrics, NodeMetrics, Pair};
use akash_provider_core::types::quantity::{cores, rounded_bytes};
use akash_provider_service::operator::{ControlRequest, Response};
use anyhow::bail;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Prints the free capacity, and the resources that are not offered, with remedies.
pub(super) fn show(home: &Path, output: Output) -> anyhow::Result<ExitCode> {
    let Response::Capacity { is_known, capacity } = granted(ask(home, &ControlRequest::Capacity)?)? else {
        bail!(odd());
    };
    let gpu = |((vendor, model), gpus): ((&str, &str), Pair)| {
        json!({
            "vendor": vendor, "model": model, "allocatable": gpus.allocatable, "available": gpus.available,
        })
    };
    let gpus: Vec<_> = capacity.gpus_by_model().into_iter().map(gpu).collect();
    let value = json!({
        "known": is_known, "nodes": capacity.nodes, "gpus": gpus, "storage": capacity.storage,
        "overcommitted_replicas": capacity.overcommitted_replicas, "ignored": capacity.ignored,
    });
    print(output, &value, || text(is_known, &capacity));
    Ok(ExitCode::SUCCESS)
}

fn text(is_known: bool, capacity: &Metrics) -> String {
    if !is_known {
        return "the capacity is not known yet; `doctor` checks the access to the cluster\n".to_owned();
    }
    let mut text = String::new();
    if capacity.nodes.is_empty() {
        text.push_str("no node is offered to tenants\n");
    }
    text.extend(capacity.nodes.iter().map(node));
    for ((vendor, model), gpus) in capacity.gpus_by_model() {
        let amount = free(gpus, |devices| devices.to_string());
        let model = format!("{vendor}/{model}");
        text.push_str(&format!("GPU model {}: {amount}\n", plain::line(&model)));
    }
    for (class, bytes) in &capacity.storage {
        let amount = free(*bytes, rounded_bytes);
        text.push_str(&format!("storage class {}: {amount}\n", plain::line(class)));
    }
    if capacity.overcommitted_replicas > 0 {
        let replicas = capacity.overcommitted_replicas;
        text.push_str(&format!("replicas without capacity: {replicas}\n"));
    }
    for ignored in &capacity.ignored {
        text.push_str(&format!("not offered: {}\n", plain::line(ignored.reason())));
        if !ignored.help().is_empty() {
            text.push_str(&format!("  help: {}\n", plain::line(ignored.help())));
        }
    }
    text
}

fn node(node: &NodeMetrics) -> String {
    let mut parts = vec![
        format!("CPU {}", free(node.cpu, cores)),
        format!("memory {}", free(node.memory, rounded_bytes)),
        format!(
            "ephemeral storage {}",
            free(node.storage_ephemeral, rounded_bytes)
        ),
    ];
    if node.gpu.allocatable > 0 {
        let models: Vec<String> = node.gpus.iter().map(gpu).collect();
        let number = free(node.gpu, |devices| devices.to_string());
        parts.push(format!("GPU {number} ({})", models.join(", ")));
    }
    if !node.storage_classes.is_empty() {
        parts.push(format!("storage classes {}", node.storage_classes.join(", ")));
    }
    format!(
        "node {}: {}\n",
        plain::line(&node.name),
        plain::line(&parts.join("; "))
    )
}

/// Formats the number and the kind of equal devices: `2 × nvidia/a100 80Gi sxm`.
fn gpu(gpu: &GpuMetrics) -> String {
    let mut text = format!("{} × {}/{}", gpu.count, gpu.vendor, gpu.model);
    for part in [&gpu.memory_size, &gpu.interface]
        .into_iter()
        .filter(|part| !part.is_empty())
    {
        text.push(' ');
        text.push_str(part);
    }
    text
}

/// Formats the free part of an amount: `1.5 of 4 free`.
fn free(pair: Pair, format: impl Fn(u128) -> String) -> String {
    if pair.allocatable == Pair::UNLIMITED {
        return "unlimited".to_owned();
    }
    let amount = |value: u64| format(u128::from(value));
    format!("{} of {} free", amount(pair.available), amount(pair.allocatable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::inventory::{IgnoredKind, IgnoredResource};

    const fn pair(available: u64, allocatable: u64) -> Pair {
        Pair {
            allocatable,
            available,
        }
    }

    #[test]
    fn free_capacity_and_resources_that_are_not_offered_are_printed() {
        let gpus = GpuMetrics {
            vendor: "nvidia".into(),
            model: "a100".into(),
            memory_size: "80Gi".into(),
            count: 2,
            available: 1,
            ..GpuMetrics::default()
        };
        let node = NodeMetrics {
            name: "n1".to_owned(),
            cpu: pair(1_500, 4_000),
            memory: pair(1 << 30, 2 << 30),
            storage_ephemeral: pair(Pair::UNLIMITED, Pair::UNLIMITED),
            gpu: pair(1, 2),
            gpus: vec![gpus],
            storage_classes: vec!["beta2".to_owned()],
            ..NodeMetrics::default()
        };
        let kinds = [
            IgnoredKind::ObjectKind,
            IgnoredKind::StorageClass,
            IgnoredKind::Record,
            IgnoredKind::Node,
            IgnoredKind::ClosedNode,
            IgnoredKind::Gpu,
            IgnoredKind::Other,
        ];
        let ignored = |kind: IgnoredKind| {
            IgnoredResource::new(kind, format!("{kind:?} `x`\u{1b}"), format!("label the {kind:?}"))
        };
        let metrics = Metrics {
            nodes: vec![node.clone(), node],
            storage: [("beta2".to_owned(), pair(10, 1 << 20))].into(),
            overcommitted_replicas: 1,
            ignored: kinds.map(ignored).into(),
        };
        let printed = text(true, &metrics);
        let line = "node n1: CPU 1.5 of 4 free; memory 1Gi of 2Gi free; ephemeral storage unlimited; GPU 1 of 2 \
                    free (2 × nvidia/a100 80Gi); storage classes beta2\n";
        let mut expected = line.repeat(2)
            + "GPU model nvidia/a100: 2 of 4 free\n\
                            storage class beta2: 10 of 1Mi free\n\
                            replicas without capacity: 1\n";
        for kind in [
            "ObjectKind",
            "StorageClass",
            "Record",
            "Node",
            "ClosedNode",
            "Gpu",
            "Other",
        ] {
            expected += &format!("not offered: {kind} `x`\\u001b\n  help: label the {kind}\n");
        }
        assert_eq!(printed, expected);
    }

    #[test]
    fn unknown_and_empty_capacity_differ() {
        assert!(text(false, &Metrics::default()).contains("not known yet"));
        assert_eq!(text(true, &Metrics::default()), "no node is offered to tenants\n");
    }
}
