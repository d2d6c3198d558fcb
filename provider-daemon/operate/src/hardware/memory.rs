//! Memory, and the sizes of its pages.

use super::tree::KernelFiles;
use serde::Serialize;
use std::collections::BTreeMap;

/// Directory in which the kernel lists memory blocks.
const BLOCKS: &str = "/sys/devices/system/memory";
const PAGES: &str = "/sys/kernel/mm/hugepages";
/// Maximum size of `/proc/meminfo`, in bytes.
const TEXT_MAX: u64 = 1 << 20;

/// Memory, with the JSON fields of the library ghw.
#[derive(Debug, Serialize)]
pub(crate) struct MachineMemory {
    total_physical_bytes: u64,
    total_usable_bytes: u64,
    supported_page_sizes: Vec<u64>,
    default_huge_page_size: u64,
    total_huge_page_bytes: u64,
    huge_page_amounts_by_size: BTreeMap<u64, Pages>,
    /// Memory modules; always `None`, because only root can read them.
    modules: Option<()>,
}

#[derive(Debug, Serialize)]
struct Pages {
    total: u64,
    free: u64,
    surplus: u64,
    reserved: u64,
}

/// Returns the physical and the usable memory.
///
/// # Errors
/// Returns an error if the usable memory is missing.
pub(super) fn memory(tree: &KernelFiles) -> Result<MachineMemory, String> {
    let text = tree.text("/proc/meminfo", TEXT_MAX);
    let text = text.map_err(|error| format!("/proc/meminfo: {error}"))?;
    let kilobytes = |wanted: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| *key == wanted)?;
        let number = value.trim().trim_end_matches("kB").trim().parse::<u64>().ok()?;
        number.checked_mul(1024)
    };
    let usable = kilobytes("MemTotal").ok_or("/proc/meminfo has no `MemTotal`")?;
    let mut amounts = BTreeMap::new();
    for name in tree.names(PAGES).unwrap_or_default() {
        let size = name
            .strip_prefix("hugepages-")
            .and_then(|rest| rest.strip_suffix("kB"));
        let size = size.and_then(|size| size.parse::<u64>().ok()?.checked_mul(1024));
        let amount = |file: &str| tree.number(&format!("{PAGES}/{name}/{file}")).unwrap_or(0);
        if let Some(size) = size {
            let pages = Pages {
                total: amount("nr_hugepages"),
                free: amount("free_hugepages"),
                surplus: amount("surplus_hugepages"),
                reserved: amount("resv_hugepages"),
            };
            amounts.insert(size, pages);
        }
    }
    Ok(MachineMemory {
        total_physical_bytes: physical(tree).unwrap_or(usable),
        total_usable_bytes: usable,
        supported_page_sizes: amounts.keys().copied().collect(),
        default_huge_page_size: kilobytes("Hugepagesize").unwrap_or(0),
        total_huge_page_bytes: kilobytes("Hugetlb").unwrap_or(0),
        huge_page_amounts_by_size: amounts,
        modules: None,
    })
}

/// Returns the size of the online memory blocks; `None` if the machine has no memory blocks.
fn physical(tree: &KernelFiles) -> Option<u64> {
    let size = tree.value(&format!("{BLOCKS}/block_size_bytes"))?;
    let size = u64::from_str_radix(&size, 16).ok()?;
    let names = tree.names(BLOCKS).ok()?;
    let is_on = |name: &&String| {
        let number = name.strip_prefix("memory").unwrap_or_default();
        let is_block = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_block && tree.value(&format!("{BLOCKS}/{name}/state")).as_deref() == Some("online")
    };
    let blocks = u64::try_from(names.iter().filter(is_on).count()).ok()?;
    blocks.checked_mul(size).filter(|bytes| *bytes > 0)
}
