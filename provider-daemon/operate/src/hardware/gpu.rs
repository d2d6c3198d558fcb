//! Graphics cards and accelerators.

use super::pci::{self, Device, Pci, is_address};
use super::tree::KernelFiles;
use serde::Serialize;
use std::collections::BTreeSet;

/// Directory of cards with a display driver.
const CARDS: &str = "/sys/class/drm";
/// Value of `index` for a card that has no display driver.
const NO_NUMBER: i64 = -1;

#[derive(Debug, Serialize)]
pub(crate) struct GraphicsCards {
    cards: Vec<Card>,
}

#[derive(Debug, Serialize)]
struct Card {
    address: String,
    index: i64,
    pci: Option<Device>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NumaNode>,
}

/// NUMA node of a card.
#[derive(Debug, Serialize)]
struct NumaNode {
    id: u32,
}

/// Returns the display cards, then the other PCI devices of the display and accelerator classes. A device
/// with a compute-only driver is not a display card.
///
/// # Errors
/// Returns an error if existing cards cannot be read.
pub(super) fn gpu(tree: &KernelFiles, pci: Pci) -> Result<GraphicsCards, String> {
    let names = tree.names(CARDS)?;
    let numbered = names.iter().filter_map(|name| {
        // Names with a dash are connectors of the card.
        let number = name.strip_prefix("card").filter(|rest| !rest.contains('-'))?;
        let to = tree.link(&format!("{CARDS}/{name}"))?;
        let address = to.rsplit('/').find(|part| is_address(part))?;
        Some((number.parse().unwrap_or(NO_NUMBER), address.to_owned()))
    });
    let mut found: Vec<(i64, String)> = numbered.collect();
    found.sort_unstable();
    let addresses: BTreeSet<String> = found.iter().map(|(_, address)| address.clone()).collect();
    // Display controllers and accelerators. Virtual functions for virtual machines are not separate devices.
    let computes = |device: &&Device| ["03", "12"].contains(&device.class.id.as_str()) && !device.is_virtual;
    let others = pci.devices.iter().filter(computes);
    let others = others.filter(|device| !addresses.contains(&device.address));
    found.extend(others.map(|device| (NO_NUMBER, device.address.clone())));
    let cards = found.into_iter().map(|(index, address)| Card {
        index,
        pci: pci
            .devices
            .iter()
            .find(|device| device.address == address)
            .cloned(),
        node: pci::memory_node(tree, &address).map(|id| NumaNode { id }),
        address,
    });
    Ok(GraphicsCards {
        cards: cards.collect(),
    })
}
