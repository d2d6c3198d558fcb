//! Graphics cards and accelerators.

use super::pci::{self, Device, Pci, is_address};
use super::tree::Tree;
use serde::Serialize;
use std::collections::BTreeSet;

/// Where the kernel lists cards that have a driver for displays.
const CARDS: &str = "/sys/class/drm";
/// The number of a card that has none there.
const NO_NUMBER: i64 = -1;

/// All cards.
#[derive(Debug, Serialize)]
pub(crate) struct Gpu {
    cards: Vec<Card>,
}

#[derive(Debug, Serialize)]
struct Card {
    address: String,
    index: i64,
    pci: Option<Device>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Node>,
}

/// The memory that a card is next to.
#[derive(Debug, Serialize)]
struct Node {
    id: u32,
}

/// The cards of displays, and the other devices on the bus that draw or compute: a maker's driver for computing alone has
/// no card there.
///
/// # Errors
/// They are there and cannot be looked at.
pub(super) fn gpu(tree: &Tree, pci: Pci) -> Result<Gpu, String> {
    let names = tree.names(CARDS)?;
    let numbered = names.iter().filter_map(|name| {
        // Behind a dash stand the card's sockets.
        let number = name.strip_prefix("card").filter(|rest| !rest.contains('-'))?;
        let to = tree.link(&format!("{CARDS}/{name}"))?;
        let address = to.rsplit('/').find(|part| is_address(part))?;
        Some((number.parse().unwrap_or(NO_NUMBER), address.to_owned()))
    });
    let mut found: Vec<(i64, String)> = numbered.collect();
    found.sort_unstable();
    let known: BTreeSet<String> = found.iter().map(|(_, address)| address.clone()).collect();
    // Displays and accelerators. Parts of a device that are lent to virtual machines are no more devices.
    let computes = |device: &&Device| ["03", "12"].contains(&device.class.id.as_str()) && !device.is_virtual;
    let others = pci.devices.iter().filter(computes);
    let others = others.filter(|device| !known.contains(&device.address));
    found.extend(others.map(|device| (NO_NUMBER, device.address.clone())));
    let cards = found.into_iter().map(|(index, address)| Card {
        index,
        pci: pci
            .devices
            .iter()
            .find(|device| device.address == address)
            .cloned(),
        node: pci::memory_node(tree, &address).map(|id| Node { id }),
        address,
    });
    Ok(Gpu {
        cards: cards.collect(),
    })
}
