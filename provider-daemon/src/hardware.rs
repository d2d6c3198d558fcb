//! What a machine has: processors, memory, devices on its bus and cards, as the kernel tells anybody.
//!
//! It is said in the JSON of the library ghw, which today's provider asks. Everything is read below a folder, `/` or
//! another one, and no file is read to an end that it does not have. What is not there is none; what is there and cannot
//! be read is an error, since none would be believed.

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
use tree::Tree;

/// A part of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Cpu,
    Gpu,
    Memory,
    Pci,
}

impl Part {
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

/// A machine, and names for what it has.
#[derive(Debug)]
pub(crate) struct Machine {
    tree: Tree,
    names: Mutex<Arc<Names>>,
}

impl Machine {
    pub(crate) fn new(root: &Path) -> Self {
        let tree = Tree::new(root);
        let names = Names::of(&tree);
        Self {
            tree,
            names: Mutex::new(Arc::new(names)),
        }
    }

    /// True where it has a database of names.
    pub(crate) fn has_names(&self) -> bool {
        !self.names().is_empty()
    }

    /// Other names from here on.
    pub(crate) fn set_names(&self, names: Names) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
    }

    fn names(&self) -> Arc<Names> {
        Arc::clone(&self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A part of it.
    ///
    /// # Errors
    /// What of it cannot be read, and why.
    pub(crate) fn part(&self, part: Part) -> Result<Value, String> {
        let tree = &self.tree;
        let pci = || pci::pci(tree, &self.names());
        match part {
            Part::Cpu => value(&cpu::cpu(tree)?),
            Part::Gpu => value(&gpu::gpu(tree, pci()?)?),
            Part::Memory => value(&memory::memory(tree)?),
            Part::Pci => value(&pci()?),
        }
    }

    /// All of it; what cannot be read is among its errors.
    pub(crate) fn all(&self) -> Value {
        let (mut all, mut errors) = (serde_json::Map::new(), Vec::new());
        for part in Part::ALL {
            match self.part(part) {
                Ok(found) => drop(all.insert(part.name().to_owned(), found)),
                Err(why) => errors.push(why),
            }
        }
        // Where there are none it is `null` with today's.
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
