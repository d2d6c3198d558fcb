//! Parser of GPU attributes for pricing: `vendor/<vendor>/model/<model>`, then pairs of a name and a value.

/// GPU model in the key of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GpuModel<'a> {
    pub(super) vendor: &'a str,
    pub(super) model: &'a str,
    pub(super) ram: Option<&'a str>,
    pub(super) interface: Option<&'a str>,
}

impl<'a> GpuModel<'a> {
    /// Parses an attribute key: `vendor/<vendor>/model/<model>`, followed by pairs of a name and a value. Pairs other
    /// than `ram` and `interface` are ignored. Returns `None` if the key does not have this form.
    pub(super) fn parse(key: &'a str) -> Option<Self> {
        let rest = key.strip_prefix("vendor/")?;
        let (vendor, rest) = rest.split_once("/model/")?;
        let mut parts = rest.split('/');
        let model = parts.next()?;
        if vendor.is_empty() || vendor.contains('/') || model.is_empty() {
            return None;
        }
        let mut gpu = Self {
            vendor,
            model,
            ram: None,
            interface: None,
        };
        while let Some(name) = parts.next() {
            let value = parts.next().filter(|v| !v.is_empty())?;
            match name {
                "ram" => gpu.ram = Some(value),
                "interface" => gpu.interface = Some(value),
                _ => {}
            }
        }
        Some(gpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read() {
        let gpu = GpuModel::parse("vendor/nvidia/model/a100/ram/80Gi/interface/sxm").unwrap();
        assert_eq!(
            (gpu.vendor, gpu.model, gpu.ram, gpu.interface),
            ("nvidia", "a100", Some("80Gi"), Some("sxm"))
        );
        let other_order = GpuModel::parse("vendor/nvidia/model/*/interface/pcie/color/red/ram/40Gi").unwrap();
        assert_eq!(
            (other_order.model, other_order.ram, other_order.interface),
            ("*", Some("40Gi"), Some("pcie"))
        );
    }

    #[test]
    fn w29_malformed_keys_are_no_gpu() {
        for bad in [
            "",
            "/",
            "vendor",
            "vendor/",
            "vendor/nvidia",
            "vendor/nvidia/model",
            "vendor/nvidia/model/",
            "vendor//model/a100",
            "model/a100/vendor/nvidia",
            "vendor/nvidia/model/a100/ram",
            "vendor/nvidia/model/a100/ram/",
            "vendor/nvidia/model/a100/",
            "vendor/a/b/model/a100",
        ] {
            assert_eq!(GpuModel::parse(bad), None, "{bad}");
        }
    }
}
