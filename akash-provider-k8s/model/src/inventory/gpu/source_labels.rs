//! Labels from which the inventory operator reads GPU models: PCI devices of Node Feature Discovery, and the labels of
//! the vendors' tools.

use super::vendor_labels::gpu_of_vendor;
use crate::inventory::vendor::Vendor;
use std::collections::BTreeMap;
use std::fmt;

/// Prefix of the labels with which Node Feature Discovery reports PCI devices.
pub const PCI_PREFIX: &str = "feature.node.kubernetes.io/pci-";

/// Label in which the node labeller of AMD writes the PCI device ID.
pub const AMD_DEVICE_ID: &str = "amd.com/gpu.device-id";

/// GPU or accelerator in a label of Node Feature Discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciGpu<'a> {
    /// Key of the label.
    pub label: &'a str,
    /// PCI vendor ID.
    pub maker: &'a str,
    /// PCI device ID, if the label contains a device ID.
    pub device: Option<&'a str>,
}

/// Returns the GPUs and accelerators in the labels of a node.
pub fn pci_gpus(labels: &BTreeMap<String, String>) -> impl Iterator<Item = PciGpu<'_>> {
    let named = labels.range(PCI_PREFIX.to_owned()..);
    let named = named.take_while(|(key, _)| key.starts_with(PCI_PREFIX));
    named.filter_map(|(label, value)| {
        let mut words = label[PCI_PREFIX.len()..].strip_suffix(".present")?.split('_');
        let (class, maker) = (words.next()?, words.next()?);
        // Class 03 has displays and class 12 accelerators; a GPU also has an audio function.
        let computes = class.starts_with("03") || class.starts_with("12");
        let device = words.next();
        (value == "true" && computes).then_some(PciGpu { label, maker, device })
    })
}

/// Reason why the labels of a node do not name the model of its GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnnamedGpu {
    /// The product label of the vendor reports shared or partitioned GPUs.
    Shared(Vendor),
    /// Node Feature Discovery reports the device ID of the GPU in this label. Only the list of GPUs maps device IDs to
    /// models.
    DeviceId(String),
    /// Node Feature Discovery reports the GPU in this label without a device ID.
    NoDeviceId(String),
    /// No label describes the GPU.
    NoLabel(Vendor),
}

impl UnnamedGpu {
    /// Returns the reason for GPUs of `vendor` on a node with these labels. The caller has found no model.
    #[must_use]
    pub fn new(labels: &BTreeMap<String, String>, vendor: Vendor) -> Self {
        if labels.contains_key(vendor.product_label()) && gpu_of_vendor(labels, vendor).is_none() {
            return Self::Shared(vendor);
        }
        let on_bus = || pci_gpus(labels).filter(|gpu| gpu.maker == vendor.pci_id());
        let with_id = on_bus().find(|gpu| gpu.device.is_some());
        let by_tools = || labels.contains_key(AMD_DEVICE_ID) && vendor == Vendor::Amd;
        match (with_id, on_bus().next()) {
            (Some(gpu), _) => Self::DeviceId(gpu.label.to_owned()),
            (None, _) if by_tools() => Self::DeviceId(AMD_DEVICE_ID.to_owned()),
            (None, Some(gpu)) => Self::NoDeviceId(gpu.label.to_owned()),
            (None, None) => Self::NoLabel(vendor),
        }
    }

    /// Returns the remedy, as an imperative.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self {
            Self::Shared(_) => "configure the device plugin without time-slicing and partitions",
            Self::DeviceId(_) => "add the device to the list of GPUs",
            Self::NoDeviceId(_) => {
                "set `deviceLabelFields: [class, vendor, device]` of the source `pci` of Node Feature Discovery"
            }
            Self::NoLabel(Vendor::Nvidia) => {
                "install Node Feature Discovery or the GPU Feature Discovery of NVIDIA"
            }
            Self::NoLabel(Vendor::Amd) => "install Node Feature Discovery or the node labeller of AMD",
        }
    }
}

impl fmt::Display for UnnamedGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared(vendor) => {
                let label = vendor.product_label();
                write!(
                    f,
                    "label {label} reports shared or partitioned GPUs, no whole GPU is available"
                )
            }
            Self::DeviceId(label) => write!(f, "only label {label} describes the GPUs"),
            Self::NoDeviceId(label) => write!(f, "label {label} has no device ID"),
            Self::NoLabel(vendor) => write!(
                f,
                "missing label {PCI_PREFIX}CLASS_{}_DEVICE.present or {}",
                vendor.pci_id(),
                vendor.product_label()
            ),
        }
    }
}
