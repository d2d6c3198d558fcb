//! GPU vendors and the node labels that count their devices.

/// Prefix of the node labels that count GPUs.
pub const PREFIX: &str = "akash.network/capabilities.gpu.vendor.";
/// Maximum number of device kinds (model, size and interface) of one vendor on a node, as in
/// [`NodeInventory`](akash_provider_core::inventory::NodeInventory).
pub(super) const KINDS: usize = 8;

/// GPU vendor that orders can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vendor {
    /// Devices of the resource `nvidia.com/gpu`.
    Nvidia,
    /// Devices of the resource `amd.com/gpu`.
    Amd,
}

impl Vendor {
    /// All vendors, in the order of `Requests::gpus`.
    pub const ALL: [Self; 2] = [Self::Nvidia, Self::Amd];

    /// Returns the name of the vendor in orders and labels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
        }
    }

    /// Returns the name of the extended resource that counts the devices.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia.com/gpu",
            Self::Amd => "amd.com/gpu",
        }
    }

    /// Returns the PCI vendor ID.
    #[must_use]
    pub const fn pci_id(self) -> &'static str {
        match self {
            Self::Nvidia => "10de",
            Self::Amd => "1002",
        }
    }

    /// Returns the label in which the vendor's tools write the name of the product.
    #[must_use]
    pub const fn product_label(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia.com/gpu.product",
            Self::Amd => "amd.com/gpu.product-name",
        }
    }

    /// Returns the prefix of the node labels that count the devices.
    #[must_use]
    pub fn label_prefix(self) -> String {
        format!("{PREFIX}{}.", self.name())
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

pub(super) fn model_label(vendor: Vendor, model: &str) -> String {
    format!("{}model.{model}", vendor.label_prefix())
}
