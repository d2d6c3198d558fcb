//! Events of the bus during fail-overs: each event id occurs once.

use super::crowd::Deployment;
use crate::stage::{Running, until};
use serde_json::Value;
use std::collections::BTreeMap;

/// Kinds of the events that every order with a bid causes.
const OF_EACH_ORDER: [&str; 2] = ["order_seen", "bid_placed"];

/// Returns the number of occurrences of each event id on the bus.
fn by_id(facts: &Running) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let output = facts.output();
    let objects = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    for object in objects {
        if let Some(id) = object["event"]["id"].as_str() {
            *counts.entry(id.to_owned()).or_default() += 1;
        }
    }
    counts
}

/// Returns the events of the kinds `OF_EACH_ORDER` that are missing on the bus.
fn missing(counts: &BTreeMap<String, usize>, all: &[Deployment]) -> Vec<String> {
    let of_order = |one: &Deployment| {
        let order = format!("{}/{}/1/1", one.id.owner, one.id.dseq);
        OF_EACH_ORDER.map(|event| format!("{event}/{order}"))
    };
    let wanted = all.iter().flat_map(of_order);
    wanted
        .filter(|wanted| {
            !counts
                .keys()
                .any(|id| id == wanted || id.starts_with(&format!("{wanted}/")))
        })
        .collect()
}

/// Asserts that the bus has the events of every order, without duplicates and gaps.
pub(super) fn judge(facts: &Running, all: &[Deployment]) {
    let dump = || format!("{:?}", missing(&by_id(facts), all));
    until("the events of every order are on the bus", dump, || {
        missing(&by_id(facts), all).is_empty()
    });
    let counts = by_id(facts);
    let again: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    let lost = facts.output().matches("\"lost\"").count();
    println!(
        "{} event ids on the bus, {} of them more than once, {lost} reported gaps",
        counts.len(),
        again.len()
    );
    assert!(again.is_empty() && lost == 0, "{again:?}");
}
