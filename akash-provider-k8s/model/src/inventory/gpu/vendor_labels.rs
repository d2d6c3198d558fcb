//! GPU models by the labels of vendor tools: GPU Feature Discovery of NVIDIA and the node labeller of AMD.

use super::source_labels::UnnamedGpu;
use crate::inventory::reason::GpuProblem;
use crate::inventory::vendor::Vendor;
use akash_provider_core::inventory::GpuSpec;
use std::collections::BTreeMap;

/// Vendor and product-line terms that are not part of a GPU model.
const NOISE: [&str; 9] = [
    "nvidia", "amd", "tesla", "geforce", "quadro", "instinct", "radeon", "hbm3", "oam",
];

/// Calls `note` for devices without `akash.network` labels. Such devices are not offered.
pub(super) fn report(
    labels: &BTreeMap<String, String>,
    vendor: Vendor,
    capacity: i64,
    note: &mut impl FnMut(GpuProblem),
) {
    note(match gpu_of_vendor(labels, vendor) {
        None => GpuProblem::UnknownModel {
            vendor,
            capacity,
            cause: UnnamedGpu::new(labels, vendor),
        },
        Some((source, GpuSpec { model, .. })) => GpuProblem::VendorLabelOnly {
            vendor,
            capacity,
            model,
            source,
        },
    });
}

/// Returns the GPU model from the labels of a vendor, and the label that contains the model. The model has a
/// count of 0.
#[must_use]
pub fn gpu_of_vendor(labels: &BTreeMap<String, String>, vendor: Vendor) -> Option<(&'static str, GpuSpec)> {
    match vendor {
        Vendor::Nvidia => nvidia(labels),
        Vendor::Amd => amd(labels),
    }
}

fn nvidia(labels: &BTreeMap<String, String>) -> Option<(&'static str, GpuSpec)> {
    let source = Vendor::Nvidia.product_label();
    let product = labels.get(source)?;
    let mebibytes = labels
        .get("nvidia.com/gpu.memory")
        .and_then(|m| m.parse::<u64>().ok());
    let parts = parts(product)?;
    // The driver reserves a part of the memory, so the size is rounded up.
    let memory = parts.gigabytes.or_else(|| mebibytes.map(|m| (m + 512) / 1024));
    Some((source, spec(Vendor::Nvidia, &parts, memory)))
}

fn amd(labels: &BTreeMap<String, String>) -> Option<(&'static str, GpuSpec)> {
    let source = Vendor::Amd.product_label();
    let product = labels.get(source)?;
    let gigabytes = labels.get("amd.com/gpu.vram");
    let gigabytes = gigabytes.and_then(|g| g.trim_end_matches(['G', 'g']).parse::<u64>().ok());
    let parts = parts(product)?;
    let memory = parts.gigabytes.or(gigabytes);
    Some((source, spec(Vendor::Amd, &parts, memory)))
}

fn spec(vendor: Vendor, parts: &ProductParts, gigabytes: Option<u64>) -> GpuSpec {
    let memory = gigabytes.map(|g| format!("{g}Gi")).unwrap_or_default();
    GpuSpec::new(vendor.name(), &parts.model, &memory, &parts.interface, 0)
}

#[derive(Debug, PartialEq, Eq)]
struct ProductParts {
    model: String,
    interface: String,
    gigabytes: Option<u64>,
}

/// Parses product names such as `NVIDIA-A100-SXM4-80GB`. Returns `None` for shared or partitioned devices.
fn parts(product: &str) -> Option<ProductParts> {
    let mut parts = ProductParts {
        model: String::new(),
        interface: String::new(),
        gigabytes: None,
    };
    for word in product.to_ascii_lowercase().split(['-', ' ', '_']) {
        let size = word.strip_suffix("gb").and_then(|digits| digits.parse().ok());
        // Orders request whole devices.
        if word == "shared" || word == "mig" {
            return None;
        } else if word.starts_with("sxm") || word == "pcie" {
            word.clone_into(&mut parts.interface);
        } else if size.is_some() {
            parts.gigabytes = size;
        } else if !NOISE.contains(&word) {
            parts.model.push_str(word);
        }
    }
    (!parts.model.is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn product_names_become_model_names_of_the_network() {
        for (product, model, interface, gigabytes) in [
            ("NVIDIA-A100-SXM4-80GB", "a100", "sxm4", Some(80)),
            ("NVIDIA-A100-PCIE-40GB", "a100", "pcie", Some(40)),
            ("NVIDIA-H100-80GB-HBM3", "h100", "", Some(80)),
            ("NVIDIA-GeForce-RTX-4090", "rtx4090", "", None),
            ("NVIDIA-GeForce-RTX-3060-Ti", "rtx3060ti", "", None),
            ("NVIDIA-RTX-A6000", "rtxa6000", "", None),
            ("Tesla-T4", "t4", "", None),
            ("NVIDIA-L40S", "l40s", "", None),
            ("AMD_Instinct_MI300X_OAM", "mi300x", "", None),
        ] {
            let expected = ProductParts {
                model: model.to_owned(),
                interface: interface.to_owned(),
                gigabytes,
            };
            assert_eq!(parts(product), Some(expected), "{product}");
        }
        for shared in [
            "NVIDIA-A100-SXM4-80GB-SHARED",
            "NVIDIA-A100-MIG-1g.5gb",
            "",
            "NVIDIA",
        ] {
            assert_eq!(parts(shared), None, "{shared}");
        }
    }
}
