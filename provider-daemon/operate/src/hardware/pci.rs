//! Devices on the PCI bus.

use super::names::Names;
use super::tree::KernelFiles;
use serde::Serialize;

const DEVICES: &str = "/sys/bus/pci/devices";
const DEVICES_MAX: usize = 4096;

/// PCI devices. The JSON field has the same name as in the library ghw.
#[derive(Debug, Serialize)]
pub(crate) struct Pci {
    #[serde(rename = "Devices")]
    pub(super) devices: Vec<Device>,
}

/// ID of a vendor, product or class, with its name.
#[derive(Debug, Clone, Serialize)]
pub(super) struct NamedId {
    pub(super) id: String,
    name: String,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Device {
    driver: String,
    pub(super) address: String,
    parent_address: String,
    pub(super) vendor: NamedId,
    pub(super) product: NamedId,
    revision: String,
    subsystem: NamedId,
    pub(super) class: NamedId,
    subclass: NamedId,
    programming_interface: NamedId,
    iommu_group: String,
    /// True for a virtual function of another device.
    #[serde(skip)]
    pub(super) is_virtual: bool,
}

/// Returns all readable devices, by address.
///
/// # Errors
/// Returns an error if the bus cannot be read, or if it has too many devices.
pub(super) fn pci(tree: &KernelFiles, names: &Names) -> Result<Pci, String> {
    let addresses = tree.names(DEVICES)?;
    if addresses.len() > DEVICES_MAX {
        return Err(format!("{DEVICES} has more than {DEVICES_MAX} devices"));
    }
    let addresses = addresses.iter().filter(|address| is_address(address));
    let devices = addresses.filter_map(|address| device(tree, names, address));
    Ok(Pci {
        devices: devices.collect(),
    })
}

/// Reads a device; `None` if its vendor or product number is missing or invalid.
fn device(tree: &KernelFiles, names: &Names, address: &str) -> Option<Device> {
    let place = format!("{DEVICES}/{address}");
    let number = |file: &str, digits: usize| hexadecimal(&tree.value(&format!("{place}/{file}"))?, digits);
    let (vendor, product) = (number("vendor", 4)?, number("device", 4)?);
    let class = number("class", 6).unwrap_or_else(|| "000000".to_owned());
    let (class, rest) = class.split_at(2);
    let (subclass, interface) = rest.split_at(2);
    let subsystem_vendor = number("subsystem_vendor", 4).unwrap_or_default();
    let subsystem = number("subsystem_device", 4).unwrap_or_default();
    let by = |id: &str, kind, numbers: &[&str]| NamedId {
        id: id.to_owned(),
        name: names.name(kind, numbers),
    };
    let parents = tree.link(&place).unwrap_or_default();
    let parent = parents.rsplit('/').nth(1).filter(|parent| is_address(parent));
    let named = |file: &str| tree.link_name(&format!("{place}/{file}")).unwrap_or_default();
    Some(Device {
        driver: named("driver"),
        address: address.to_owned(),
        parent_address: parent.unwrap_or_default().to_owned(),
        revision: tree.value(&format!("{place}/revision")).unwrap_or_default(),
        subsystem: by(
            &subsystem,
            'v',
            &[&vendor, &product, &subsystem_vendor, &subsystem],
        ),
        product: by(&product, 'v', &[&vendor, &product]),
        vendor: by(&vendor, 'v', &[&vendor]),
        class: by(class, 'c', &[class]),
        subclass: by(subclass, 'c', &[class, subclass]),
        programming_interface: by(interface, 'c', &[class, subclass, interface]),
        iommu_group: named("iommu_group"),
        is_virtual: tree.link(&format!("{place}/physfn")).is_some(),
    })
}

/// Returns the NUMA node of a device, if any.
pub(super) fn memory_node(tree: &KernelFiles, address: &str) -> Option<u32> {
    tree.number(&format!("{DEVICES}/{address}/numa_node"))
}

/// Returns a hexadecimal number without its prefix `0x`.
fn hexadecimal(text: &str, digits: usize) -> Option<String> {
    let number = text.strip_prefix("0x")?;
    let is_number = number.len() == digits && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_number.then(|| number.to_ascii_lowercase())
}

/// Returns true for a PCI address such as `0000:3b:00.0`.
pub(super) fn is_address(text: &str) -> bool {
    let is_hexadecimal = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let mut parts = text.split(':');
    let (Some(domain), Some(bus), Some(rest), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let Some((slot, function)) = rest.split_once('.') else {
        return false;
    };
    is_hexadecimal(domain, 4..=8)
        && is_hexadecimal(bus, 2..=2)
        && is_hexadecimal(slot, 2..=2)
        && is_hexadecimal(function, 1..=1)
}
