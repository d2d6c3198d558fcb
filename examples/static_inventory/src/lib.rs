//! Custom inventory source that reads the capacity from a file.
//!
//! The file lists fixed machines in the JSON format of [`ClusterSpec`]. Editing the file changes the capacity
//! while the provider runs. The provider subtracts its own reservations, so the file must not subtract them.

use akash_provider_core::inventory::{ClusterSpec, InventorySource, InventoryUpdate, NodeInventory};
use akash_provider_core::{Error, ErrorKind};
use futures::stream::{self, BoxStream, StreamExt};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the source checks whether the file changed.
const POLL: Duration = Duration::from_millis(100);
/// Maximum size of the file, in bytes. A node takes a few hundred bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Inventory source that reads the capacity from a file.
#[derive(Debug, Clone)]
pub struct FileInventory {
    path: PathBuf,
}

impl FileInventory {
    /// Creates a source that reads the capacity from the file at `path`.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl InventorySource for FileInventory {
    fn watch(&self) -> BoxStream<'static, Result<InventoryUpdate, Error>> {
        let (path, last) = (self.path.clone(), None);
        stream::unfold((path, last), |(path, last)| async move {
            loop {
                let file = path.clone();
                // Reading may wait for a disk, so it runs on a blocking thread.
                let text = tokio::task::spawn_blocking(move || read(&file)).await.ok()?;
                // The same text, or the same error, is not an update.
                let content = text.map_err(|e| e.to_string());
                if last.as_ref() != Some(&content) {
                    let item = content.clone().map_err(unknown).and_then(|t| update(&t));
                    return Some((item, (path, Some(content))));
                }
                tokio::time::sleep(POLL).await;
            }
        })
        .boxed()
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn update(text: &str) -> Result<InventoryUpdate, Error> {
    let spec: ClusterSpec = serde_json::from_str(text).map_err(|e| unknown(e.to_string()))?;
    Ok(InventoryUpdate {
        inventory: Arc::new(NodeInventory::new(&spec)),
        placements: Vec::new(),
        leased_ips: None,
    })
}

/// Returns the error for a file that cannot be read or parsed. The provider continues with the previous
/// capacity.
fn unknown(why: String) -> Error {
    Error::new(ErrorKind::Unavailable, "read the list of nodes", why)
}

/// Doc tests of the page `docs/writing-an-inventory.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-an-inventory.md")]
pub struct Guide;
