//! Conformance suite of inventory sources on the capacity from a file.

#![expect(clippy::unwrap_used, reason = "a failing test panics")]

use akash_provider_core::inventory::{ClusterSpec, InventorySource, InventoryUpdate, conformance};
use example_static_inventory::FileInventory;
use futures::StreamExt;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{name}-{}.json", std::process::id()))
}

fn list(update: &InventoryUpdate) -> String {
    let nodes = update.inventory.metrics().nodes;
    let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    serde_json::to_string(&ClusterSpec::null(&names)).unwrap()
}

#[tokio::test]
async fn conformance_of_the_file_inventory() {
    let path = path("conformance");
    let source = FileInventory::new(&path);
    let push = |_: &FileInventory, update: InventoryUpdate| {
        // A half-written file would be reported as an error, so the list is moved into place.
        let draft = path.with_extension("draft");
        std::fs::write(&draft, list(&update)).unwrap();
        std::fs::rename(&draft, &path).unwrap();
    };
    push(
        &source,
        InventoryUpdate {
            inventory: std::sync::Arc::new(akash_provider_core::inventory::NodeInventory::new(
                &ClusterSpec::null(&["a", "b"]),
            )),
            placements: Vec::new(),
            leased_ips: None,
        },
    );
    conformance::source_suite(source, push).await;
    std::fs::remove_file(&path).unwrap();
}

#[tokio::test]
async fn unreadable_list_is_unknown_capacity_until_it_is_readable() {
    let path = path("garbled");
    std::fs::write(&path, "{").unwrap();
    let mut watch = FileInventory::new(&path).watch();
    assert!(watch.next().await.unwrap().is_err());
    std::fs::remove_file(&path).unwrap();
    assert!(watch.next().await.unwrap().is_err());
    std::fs::write(&path, r#"{"nodes": [{"name": "attic"}]}"#).unwrap();
    // Written at once or in two parts: the final contents are the list.
    let next_update = async {
        loop {
            if let Ok(update) = watch.next().await.unwrap() {
                return update;
            }
        }
    };
    assert_eq!(next_update.await.inventory.metrics().nodes[0].name, "attic");
    std::fs::remove_file(&path).unwrap();
}
