//! Tests that existing reservations with unplaced replicas have priority over new orders.

use super::*;

fn with_cards(nodes: &[(&str, &str)]) -> InventoryUpdate {
    let nodes = nodes.iter().map(|(name, model)| {
        NodeSpec::new(*name, 4000, 64 * GIB, 64 * GIB)
            .with_gpus(GpuSpec::new("nvidia", model, "80Gi", "PCIe", 1))
    });
    of_spec(&ClusterSpec::from_nodes(nodes))
}

#[test]
fn declines_gpu_orders_while_reserved_gpus_are_unplaced() {
    let card = |model: &str| {
        group(vec![with_gpu(
            unit(1, 100, 1),
            &[&format!("vendor/nvidia/model/{model}")],
        )])
    };
    let mut ledger = ledger(with_cards(&[("a", "a100"), ("b", "t4")]));
    ledger.reserve(&order(1), &card("a100")).unwrap();
    ledger.update(with_cards(&[("b", "t4")]));
    let declined = ledger.reserve(&order(2), &card("t4")).unwrap_err();
    assert!(
        declined.to_string().starts_with("GPUs are reserved for order "),
        "{declined}"
    );
    ledger.reserve(&order(3), &one(100)).unwrap();
    ledger.update(with_cards(&[("a", "a100"), ("b", "t4")]));
    ledger.reserve(&order(2), &card("t4")).unwrap();
}

#[test]
fn offer_includes_volumes() {
    let with_volume = |bytes| {
        let mut unit = unit(1, 10, 1);
        unit.resources.storage = vec![crate::types::Storage {
            bytes,
            ..Default::default()
        }];
        unit
    };
    let mut ledger = ledger(capacity(&[("a", 4000)]));
    let spec = group(vec![with_volume(1 << 20)]);
    ledger.reserve(&order(1), &spec).unwrap();
    // The bid was sent before a restart, with a smaller storage overcommit.
    ledger.apply_offer(&order(1), &[with_volume(2 << 20)]);
    assert_eq!(ledger.status().pending[0].storage_ephemeral, 2 << 20);
    assert!(ledger.recount_matches());
}
