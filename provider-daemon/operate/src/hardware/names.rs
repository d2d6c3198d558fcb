//! Names of vendors, products and classes from the PCI ID database (`pci.ids`).
//!
//! ```text
//! 10de  NVIDIA Corporation
//! <tab>20b5  GA100 [A100 PCIe 80GB]
//! <tab><tab>10de 1533  A100 80GB PCIe
//! C 03  Display controller
//! <tab>02  3D controller
//! ```

use super::tree::KernelFiles;
use std::collections::BTreeMap;

/// Maximum size of the PCI ID database, in bytes.
pub(crate) const DATABASE_MAX: usize = 8 << 20;
/// Maximum number of entries in the PCI ID database.
const ENTRIES_MAX: usize = 200_000;
/// Maximum length of a name, in characters.
const NAME_MAX: usize = 256;
/// Paths of the PCI ID database in Linux distributions.
const PLACES: [&str; 3] = [
    "/usr/share/misc/pci.ids",
    "/usr/share/hwdata/pci.ids",
    "/usr/share/pci.ids",
];
const UNKNOWN: &str = "unknown";

/// Names of PCI devices and classes. A key is `v` and the numbers of vendor, product and subsystem, or `c`
/// and the numbers of class, subclass and interface.
#[derive(Debug, Default)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// Reads the PCI ID database of the machine. Returns an empty database if no file can be read.
    pub(super) fn from_tree(tree: &KernelFiles) -> Self {
        let texts = PLACES
            .iter()
            .filter_map(|place| tree.text(place, DATABASE_MAX as u64).ok());
        let mut all = texts.map(|text| Self::read(&text));
        all.find(|names| !names.is_empty()).unwrap_or_default()
    }

    /// Parses a database. Invalid lines are skipped.
    pub(crate) fn read(text: &str) -> Self {
        let mut names = BTreeMap::new();
        // Numbers of the parent entries.
        let mut above: [String; 2] = Default::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if names.len() >= ENTRIES_MAX {
                break;
            }
            let entry = line.trim_start_matches('\t');
            let depth = line.len() - entry.len();
            let Some((numbers, name)) = entry.split_once("  ") else {
                continue;
            };
            let key = match (depth, numbers.split_once(' ')) {
                (0, Some(("C", class))) => format!("c{class}"),
                (0, None) => format!("v{numbers}"),
                // Other kinds of lists, such as languages.
                (0, _) => String::new(),
                (1, None) if !above[0].is_empty() => format!("{}{numbers}", above[0]),
                (2, _) if !above[1].is_empty() => format!("{}{}", above[1], numbers.replace(' ', "")),
                _ => continue,
            };
            match depth {
                0 => above = [key.clone(), String::new()],
                1 => above[1].clone_from(&key),
                _ => {}
            }
            if !key.is_empty() {
                names.insert(key, name.trim().chars().take(NAME_MAX).collect());
            }
        }
        Self(names)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the name for `numbers`, which are lower-case hexadecimal.
    pub(super) fn name(&self, kind: char, numbers: &[&str]) -> String {
        let key = format!("{kind}{}", numbers.concat());
        self.0.get(&key).map_or(UNKNOWN, String::as_str).to_owned()
    }
}
