//! GPU list of the Akash network: maps PCI devices to GPU models.
//!
//! ```text
//! {"10de": {"name": "nvidia", "devices": {"20b5": {"name": "a100", "interface": "PCIe", "memory_size": "80Gi"}}}}
//! ```

use akash_provider_kube_model::inventory::Vendor;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Maximum size of the GPU list in bytes.
pub const BYTES_MAX: usize = 4 << 20;
/// Maximum number of devices in the GPU list, all vendors together.
const DEVICES_MAX: usize = 20_000;
/// Maximum length of a property of a device, in bytes.
const WORD_MAX: usize = 63;

/// GPU model with the names that orders use.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Model {
    /// Name, such as `a100`.
    pub name: String,
    /// Interface, such as `PCIe` or `SXM4`; empty if unknown.
    #[serde(default)]
    pub interface: String,
    /// Memory, such as `80Gi`; empty if unknown.
    #[serde(default)]
    pub memory_size: String,
}

#[derive(Deserialize)]
struct VendorDevices {
    #[serde(default)]
    devices: BTreeMap<String, Model>,
}

/// GPU models by PCI vendor and device ID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Database {
    devices: BTreeMap<(String, String), Model>,
    skipped: usize,
}

impl Database {
    /// Parses a JSON list of GPU devices. Skips devices with an invalid ID or with properties that cannot be part of a
    /// label.
    ///
    /// # Errors
    /// Returns an error if the list is too long, invalid JSON or empty.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("the list is longer than {BYTES_MAX} bytes"));
        }
        let makers: BTreeMap<String, VendorDevices> =
            serde_json::from_slice(text).map_err(|error| format!("invalid JSON: {error}"))?;
        let (mut devices, mut skipped) = (BTreeMap::new(), 0);
        for (maker, list) in makers {
            // Orders cannot request GPUs of other vendors.
            if number(&maker).as_deref().and_then(vendor_of).is_none() {
                continue;
            }
            for (device, model) in list.devices {
                match number(&device).filter(|_| model.is_sound()) {
                    Some(device) => drop(devices.insert((maker.to_ascii_lowercase(), device), model)),
                    None => skipped += 1,
                }
            }
        }
        // With an empty list every device would be unknown.
        if devices.is_empty() {
            return Err("the list has no device of nvidia or amd".to_owned());
        }
        if devices.len() > DEVICES_MAX {
            return Err(format!("the list has more than {DEVICES_MAX} devices"));
        }
        Ok(Self { devices, skipped })
    }

    /// Returns the number of invalid devices that [`Database::read`] skipped.
    #[must_use]
    pub const fn skipped(&self) -> usize {
        self.skipped
    }

    /// Returns the number of devices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Returns true for a list without devices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }

    /// Returns the GPU model of a device. `maker` and `device` are hexadecimal PCI IDs.
    #[must_use]
    pub fn model(&self, maker: &str, device: &str) -> Option<&Model> {
        self.devices.get(&(number(maker)?, number(device)?))
    }

    /// Returns the ID of the device that has the model `wanted`. Returns `None` if no device or several
    /// devices match.
    #[must_use]
    pub fn device(&self, vendor: &str, wanted: &Model) -> Option<&str> {
        let same = |model: &Model| {
            let or_any = |wanted: &str, has: &str| wanted.is_empty() || wanted == interface(has);
            model.name.eq_ignore_ascii_case(&wanted.name)
                && or_any(&interface(&wanted.interface), &model.interface)
                && (wanted.memory_size.is_empty() || wanted.memory_size == model.memory_size)
        };
        let mut found = self.devices.iter().filter(|((maker, _), model)| {
            vendor_of(maker).is_some_and(|kind| kind.name() == vendor) && same(model)
        });
        let ((_, device), _) = found.next()?;
        found.next().is_none().then_some(device.as_str())
    }
}

/// Returns the GPU vendor with this PCI vendor ID.
pub(super) fn vendor_of(maker: &str) -> Option<Vendor> {
    Vendor::ALL.into_iter().find(|vendor| vendor.pci_id() == maker)
}

/// Converts the name of an interface for use in labels: in lower case, and `sxm` for every version of SXM.
pub(super) fn interface(text: &str) -> String {
    let text = text.to_ascii_lowercase();
    if text.starts_with("sxm") {
        "sxm".to_owned()
    } else {
        text
    }
}

/// Parses a PCI ID: four hexadecimal digits, with or without `0x`.
pub(super) fn number(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    let is_number = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| digits.to_owned())
}

impl Model {
    /// Returns true if name, interface and memory size can be parts of a label name.
    fn is_sound(&self) -> bool {
        let is_word = |text: &String| {
            text.len() <= WORD_MAX
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        !self.name.is_empty()
            && [&self.name, &self.interface, &self.memory_size]
                .into_iter()
                .all(is_word)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in super::super) const LIST: &str = r#"{
        "10de": {"name": "nvidia", "devices": {
            "20b5": {"name": "a100", "interface": "PCIe", "memory_size": "80Gi"},
            "20b2": {"name": "a100", "interface": "SXM4", "memory_size": "80Gi"},
            "2684": {"name": "rtx4090", "interface": "PCIe", "memory_size": "24Gi"}}},
        "1002": {"name": "amd", "devices": {"740f": {"name": "mi210", "interface": "PCIe", "memory_size": "64Gi"}}},
        "8086": {"name": "intel", "devices": {"56c0": {"name": "flex 170"}}}
    }"#;

    #[test]
    fn devices_are_found_by_id_and_ids_by_model() {
        let list = Database::read(LIST.as_bytes()).unwrap();
        assert_eq!(list.len(), 4, "devices of Intel are skipped");
        assert_eq!(list.model("0x10DE", "20B5").unwrap().name, "a100");
        assert_eq!(list.model("10de", "ffff"), None);
        assert_eq!(list.model("", ""), None);
        let model = |name: &str, interface: &str, memory: &str| Model {
            name: name.to_owned(),
            interface: interface.to_owned(),
            memory_size: memory.to_owned(),
        };
        assert_eq!(
            list.device("nvidia", &model("a100", "pcie", "80Gi")),
            Some("20b5")
        );
        assert_eq!(list.device("nvidia", &model("a100", "sxm", "")), Some("20b2"));
        assert_eq!(
            list.device("nvidia", &model("a100", "", "")),
            None,
            "two devices match"
        );
        assert_eq!(list.device("amd", &model("a100", "pcie", "80Gi")), None);
    }

    #[test]
    fn invalid_list_is_rejected() {
        let refused = |text: &str| Database::read(text.as_bytes()).unwrap_err();
        for text in ["", "[]", "null", "<html>", r#"{"10de": 1}"#] {
            assert!(refused(text).starts_with("invalid JSON: "), "{text}");
        }
        assert!(refused("{}").contains("no device"));
        assert!(refused(r#"{"10de": {"name": "nvidia"}}"#).contains("no device"));
        let with = |device: &str, name: &str| {
            let odd = format!(r#""{device}": {{"name": "{name}"}}"#);
            let text = format!(r#"{{"10de": {{"devices": {{{odd}, "2684": {{"name": "rtx4090"}}}}}}}}"#);
            let list = Database::read(text.as_bytes()).unwrap();
            (list.len(), list.skipped())
        };
        assert_eq!(with("20b5", "a100"), (2, 0));
        for (device, name) in [
            ("20b", "a100"),
            ("20bg", "a100"),
            ("20b5", "a 100"),
            ("20b5", ""),
            ("20b5", "a/b"),
        ] {
            assert_eq!(with(device, name), (1, 1), "only {device} {name:?} is skipped");
        }
        let long = vec![b' '; BYTES_MAX + 1];
        assert!(Database::read(&long).unwrap_err().contains("longer"));
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Database::read(&bytes);
        }
    }
}
