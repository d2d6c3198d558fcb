//! Metrics of the watches that count the capacity of a Kubernetes cluster.

use super::Measure;
use super::convert::{flag, number};
use akash_provider_k8s::inventory::InventoryWatch;
use std::collections::BTreeMap;

/// States of the inventory watches, by kind of object.
pub(crate) type InventoryWatches = BTreeMap<&'static str, InventoryWatch>;

pub(super) fn measures(watches: &InventoryWatches) -> [Measure; 4] {
    let mut up = Measure::gauge(
        "akash_provider_inventory_watch_up",
        "1 if the watch of the inventory works and has listed all objects",
    );
    let mut starts = Measure::counter(
        "akash_provider_inventory_watch_starts",
        "Started watches of the inventory",
    );
    let mut failures = Measure::counter(
        "akash_provider_inventory_watch_failures",
        "Failures of watches of the inventory",
    );
    let mut age = Measure::gauge(
        "akash_provider_inventory_watch_last_event_age_seconds",
        "Time since the last list or event; absent before the first list",
    );
    for (kind, watch) in watches {
        let labels = [("kind", *kind)];
        up = up.with(labels, flag(watch.is_connected));
        starts = starts.with(labels, number(watch.starts));
        failures = failures.with(labels, number(watch.failures));
        if let Some(since) = watch.last_event {
            age = age.with(labels, since.as_secs_f64());
        }
    }
    [up, starts, failures, age]
}
