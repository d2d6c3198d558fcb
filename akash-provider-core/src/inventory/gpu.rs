//! GPU attributes: the GPUs that an order accepts, the kind of a device, and the attribute of a reservation
//! that matches both.

use super::spec::GpuSpec;
use crate::manifest::{SchedulerGpu, SchedulerParams, SchedulerResources};
use crate::types::Attribute;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Interfaces that orders can request.
const INTERFACES: [&str; 2] = ["pcie", "sxm"];
/// Vendors that the Akash network supports.
const VENDORS: [&str; 2] = ["nvidia", "amd"];
const GIB: u128 = 1 << 30;

/// Kind of a GPU device, normalized for comparison.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct GpuKind {
    pub(crate) vendor: Arc<str>,
    pub(crate) model: Arc<str>,
    pub(crate) memory: Arc<str>,
    pub(crate) interface: Arc<str>,
}

/// One acceptable GPU, parsed from an attribute of an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GpuRequest {
    pub(crate) vendor: String,
    /// Requested model; `None` if any model is acceptable (`*`).
    pub(crate) model: Option<String>,
    pub(crate) memory: Option<String>,
    pub(crate) interface: Option<String>,
}

impl GpuKind {
    /// Parses the kind of a device, or returns the reason why such a device cannot be offered.
    pub(crate) fn parse(spec: &GpuSpec) -> Result<Self, &'static str> {
        let vendor = spec.vendor.to_ascii_lowercase();
        if !VENDORS.contains(&vendor.as_str()) {
            return Err("the vendor must be nvidia or amd");
        }
        if spec.model.is_empty() || spec.model.contains(['/', '*']) {
            return Err("the model must have a name without `/` and `*`");
        }
        // An unreadable size stays as text and thus matches no order that requests memory.
        Ok(Self {
            vendor: vendor.into(),
            model: spec.model.as_str().into(),
            memory: whole_gib(&spec.memory_size).map_or_else(|| spec.memory_size.as_str().into(), Arc::from),
            interface: interface_family(&spec.interface).into(),
        })
    }

    /// Formats the known properties in one line.
    pub(crate) fn describe(&self) -> String {
        let parts = [&*self.vendor, &self.model, &self.memory, &self.interface];
        let given: Vec<_> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        given.join(" ")
    }
}

impl GpuRequest {
    /// Parses a GPU attribute key with the rules of the Akash network. The key is `vendor/<v>/model/<m>`,
    /// followed by pairs of a name and a value. Pairs other than `ram` and `interface` are ignored. Returns
    /// `None` if no device can match the key.
    pub(crate) fn parse(key: &str) -> Option<Self> {
        let mut parts = key.split('/');
        let (Some("vendor"), Some(vendor), Some("model"), Some(model)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let vendor = vendor.to_ascii_lowercase();
        if !VENDORS.contains(&vendor.as_str()) || model.is_empty() {
            return None;
        }
        let mut want = Self {
            vendor,
            model: (model != "*").then(|| model.to_owned()),
            memory: None,
            interface: None,
        };
        while let Some(name) = parts.next() {
            // A name without a value cannot be checked.
            let value = parts.next()?;
            match name {
                "ram" => want.memory = Some(whole_gib(value)?),
                "interface" if INTERFACES.contains(&value) => want.interface = Some(value.to_owned()),
                "interface" => return None,
                _ => {}
            }
        }
        Some(want)
    }

    pub(crate) fn accepts(&self, kind: &GpuKind) -> bool {
        *self.vendor == *kind.vendor
            && self.model.as_deref().is_none_or(|m| *m == *kind.model)
            && self.memory.as_deref().is_none_or(|m| *m == *kind.memory)
            && self.interface.as_deref().is_none_or(|i| *i == *kind.interface)
    }

    /// Restricts the request to the model of `kind`. The caller ensures that the request accepts `kind`.
    pub(crate) fn narrowed(&self, kind: &GpuKind) -> Self {
        Self {
            model: Some(kind.model.to_string()),
            ..self.clone()
        }
    }

    pub(crate) fn to_attribute(&self) -> Attribute {
        let mut key = format!(
            "vendor/{}/model/{}",
            self.vendor,
            self.model.as_deref().unwrap_or("*")
        );
        for (name, value) in [("ram", &self.memory), ("interface", &self.interface)] {
            if let Some(value) = value {
                key.push_str(&format!("/{name}/{value}"));
            }
        }
        Attribute::new(key, "true")
    }

    /// Returns the scheduler parameters, or `None` if any model is acceptable.
    pub(crate) fn to_params(&self) -> Option<SchedulerParams> {
        let model = self.model.clone()?;
        // Only NVIDIA devices need a runtime class.
        let runtime_class = if self.vendor == "nvidia" { "nvidia" } else { "" };
        Some(SchedulerParams {
            runtime_class: runtime_class.to_owned(),
            resources: Some(SchedulerResources {
                gpu: Some(SchedulerGpu {
                    vendor: self.vendor.clone(),
                    model,
                    memory_size: self.memory.clone().unwrap_or_default(),
                    interface: self.interface.clone().unwrap_or_default(),
                }),
            }),
        })
    }

    pub(crate) fn from_params(params: &SchedulerParams) -> Option<Self> {
        let gpu = params.resources.as_ref()?.gpu.as_ref()?;
        // Parsed as text, so that stored parameters follow the same rules as an order.
        let given = |text: &String| (!text.is_empty()).then(|| text.clone());
        let attribute = Self {
            vendor: gpu.vendor.to_ascii_lowercase(),
            model: given(&gpu.model),
            memory: given(&gpu.memory_size),
            interface: given(&gpu.interface),
        }
        .to_attribute();
        Self::parse(&attribute.key).filter(|w| w.model.is_some())
    }
}

/// Parses the acceptable GPUs from attributes. Invalid attributes are skipped.
pub(crate) fn wants(attributes: &[Attribute]) -> Vec<GpuRequest> {
    // Duplicates would only be tried twice.
    let mut seen = BTreeSet::new();
    let wants = attributes.iter().filter_map(|a| GpuRequest::parse(&a.key));
    wants.filter(|want| seen.insert(want.clone())).collect()
}

/// Converts a size with a binary suffix to whole gibibytes (`81920Mi` is `80Gi`).
fn whole_gib(size: &str) -> Option<String> {
    let at = size.find(|c: char| !c.is_ascii_digit())?;
    let (digits, suffix) = size.split_at(at);
    let shift = match suffix {
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        "Pi" => 50,
        _ => return None,
    };
    let value: u64 = digits.parse().ok()?;
    // In 128 bits, because a 64-bit number of pebibytes overflows 64 bits in bytes.
    let gib = (u128::from(value) << shift) / GIB;
    (gib > 0).then(|| format!("{gib}Gi"))
}

/// Converts the name of an interface to lower case, and maps every generation of SXM to `sxm`.
fn interface_family(interface: &str) -> String {
    let lower = interface.to_ascii_lowercase();
    if lower.starts_with("sxm") {
        "sxm".to_owned()
    } else {
        lower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(memory: &str, interface: &str) -> GpuKind {
        GpuKind::parse(&GpuSpec::new("NVIDIA", "a100", memory, interface, 1)).unwrap()
    }

    #[test]
    fn keys_are_read_as_pairs() {
        let want = GpuRequest::parse("vendor/nvidia/model/a100/ram/81920Mi/interface/sxm/color/red").unwrap();
        assert_eq!(want.memory.as_deref(), Some("80Gi"));
        assert_eq!(want.interface.as_deref(), Some("sxm"));
        assert_eq!(
            want.to_attribute().key,
            "vendor/nvidia/model/a100/ram/80Gi/interface/sxm"
        );
        for bad in [
            "",
            "vendor/nvidia",
            "vendor/intel/model/max",
            "vendor/nvidia/model/a100/ram",
            "vendor/nvidia/model/a100/ram/80G",
            "vendor/nvidia/model/a100/ram/80",
            "vendor/nvidia/model/a100/ram/99999999999999999999Gi",
            "vendor/nvidia/model/a100/interface/SXM4",
            "model/a100/vendor/nvidia",
        ] {
            assert_eq!(GpuRequest::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_device_is_accepted_by_family_and_whole_gib() {
        let accepts = |key: &str, kind: &GpuKind| GpuRequest::parse(key).unwrap().accepts(kind);
        assert!(accepts("vendor/nvidia/model/*", &kind("80Gi", "PCIe")));
        assert!(accepts(
            "vendor/nvidia/model/a100/ram/80Gi",
            &kind("81920Mi", "PCIe")
        ));
        assert!(accepts(
            "vendor/nvidia/model/a100/interface/sxm",
            &kind("80Gi", "SXM4")
        ));
        assert!(!accepts(
            "vendor/nvidia/model/a100/interface/sxm",
            &kind("80Gi", "PCIe")
        ));
        assert!(!accepts(
            "vendor/nvidia/model/a100/ram/40Gi",
            &kind("80Gi", "PCIe")
        ));
        assert!(!accepts("vendor/amd/model/*", &kind("80Gi", "PCIe")));
    }

    #[test]
    fn scheduler_params_and_requests_convert_both_ways() {
        let want = GpuRequest::parse("vendor/nvidia/model/a100/ram/80Gi").unwrap();
        let params = want.to_params().unwrap();
        assert_eq!(params.runtime_class, "nvidia");
        assert_eq!(GpuRequest::from_params(&params), Some(want));
        assert_eq!(
            GpuRequest::parse("vendor/amd/model/mi300")
                .unwrap()
                .to_params()
                .unwrap()
                .runtime_class,
            ""
        );
        assert_eq!(
            GpuRequest::parse("vendor/nvidia/model/*").unwrap().to_params(),
            None
        );
    }

    #[test]
    fn unsupported_devices_are_refused() {
        for (vendor, model) in [
            ("intel", "max"),
            ("nvidia", ""),
            ("nvidia", "a/b"),
            ("nvidia", "*"),
        ] {
            assert!(
                GpuKind::parse(&GpuSpec::new(vendor, model, "", "", 1)).is_err(),
                "{vendor} {model}"
            );
        }
    }
}
