//! Hardware of a machine: processors, memory, PCI devices and graphics cards, as reported by the kernel.
//!
//! The JSON has the form of the library ghw, which the Go provider uses. All files are read below a root directory,
//! with a size limit. Missing hardware results in an empty list. Unreadable hardware is an error, so that it does not
//! look like missing hardware.

mod cpu;
mod gpu;
mod memory;
mod names;
mod pci;
mod tree;

pub(crate) use names::{DATABASE_MAX, Names};

use serde::Serialize;
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tree::KernelFiles;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HardwarePart {
    Cpu,
    Gpu,
    Memory,
    Pci,
}

impl HardwarePart {
    pub(crate) const ALL: [Self; 4] = [Self::Cpu, Self::Gpu, Self::Memory, Self::Pci];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Memory => "memory",
            Self::Pci => "pci",
        }
    }
}

/// Machine, with the database of device names.
#[derive(Debug)]
pub(crate) struct HostHardware {
    tree: KernelFiles,
    names: Mutex<Arc<Names>>,
}

impl HostHardware {
    pub(crate) fn new(root: &Path) -> Self {
        let tree = KernelFiles::new(root);
        let names = Names::from_tree(&tree);
        Self {
            tree,
            names: Mutex::new(Arc::new(names)),
        }
    }

    pub(crate) fn has_names(&self) -> bool {
        !self.names().is_empty()
    }

    pub(crate) fn set_names(&self, names: Names) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
    }

    fn names(&self) -> Arc<Names> {
        Arc::clone(&self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns one part of the hardware.
    ///
    /// # Errors
    /// Returns the unreadable file and the cause.
    pub(crate) fn part(&self, part: HardwarePart) -> Result<Value, String> {
        let tree = &self.tree;
        let pci = || pci::pci(tree, &self.names());
        match part {
            HardwarePart::Cpu => value(&cpu::cpu(tree)?),
            HardwarePart::Gpu => value(&gpu::gpu(tree, pci()?)?),
            HardwarePart::Memory => value(&memory::memory(tree)?),
            HardwarePart::Pci => value(&pci()?),
        }
    }

    /// Returns all parts; unreadable parts are listed as errors.
    pub(crate) fn all(&self) -> Value {
        let (mut all, mut errors) = (serde_json::Map::new(), Vec::new());
        for part in HardwarePart::ALL {
            match self.part(part) {
                Ok(found) => drop(all.insert(part.name().to_owned(), found)),
                Err(why) => errors.push(why),
            }
        }
        // The Go provider encodes an empty list as `null`.
        let errors = Some(errors).filter(|errors| !errors.is_empty());
        all.insert("errors".to_owned(), errors.into());
        Value::Object(all)
    }
}

fn value(part: &impl Serialize) -> Result<Value, String> {
    serde_json::to_value(part).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
