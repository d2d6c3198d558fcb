//! Periodic summary in one line: `3 leases, 2 bids, 41 declined: attributes 30, gpu 11`.

use crate::flight::RecordingStatus;
use crate::history::HistoryHealth;
use crate::printer::Printer;
use akash_provider_cli::plain::count;
use akash_provider_core::engine::{OrderPhase, Status};
use akash_provider_core::inventory::IgnoredResource;
use akash_provider_core::types::{DeclineCode, LeaseId, OrderId};
use serde_json::json;
use std::collections::BTreeMap;
use tokio::runtime::Handle;

/// Maximum number of decline codes in the text summary; JSON contains all.
const REASONS_MAX: usize = 5;
/// Maximum number of items in each list of orders or leases in the text summary.
const NAMES_MAX: usize = 3;

/// Prints the summary as text, or as JSON with all decline codes.
pub(super) fn print(
    printer: &Printer,
    status: &Status,
    recording: Option<&RecordingStatus>,
    history: Option<&HistoryHealth>,
) {
    let (leases, bids) = (status.leases.len(), open_bids(status));
    let declined: u64 = status.declines.values().sum();
    if printer.is_text() {
        printer.note(&line(status));
    }
    printer.object(json!({
        "event": "summary", "leases": leases, "bids": bids, "declined": declined, "declines": status.declines,
        "unfunded": unfunded(status), "failed_payouts": failed_payouts(status),
        "tasks": Handle::try_current().map(|runtime| runtime.metrics().num_alive_tasks()).ok(),
        "recording": recording, "history": history, "not_offered": not_offered(status),
    }));
}

fn open_bids(status: &Status) -> usize {
    status
        .orders
        .iter()
        .filter(|order| order.phase == OrderPhase::Open)
        .count()
}

/// Returns the orders with a bid deposit that the account cannot pay.
fn unfunded(status: &Status) -> Vec<&OrderId> {
    let orders = status.orders.iter();
    let unfunded = orders.filter(|order| order.phase == OrderPhase::Unfunded);
    unfunded.map(|order| &order.order).collect()
}

fn failed_payouts(status: &Status) -> Vec<&LeaseId> {
    let leases = status.leases.iter();
    leases
        .filter(|lease| lease.payout_error.is_some())
        .map(|lease| &lease.lease)
        .collect()
}

fn not_offered(status: &Status) -> &[IgnoredResource] {
    &status.inventory.available.ignored
}

/// Formats the first `NAMES_MAX` items after the label `what`, and the number of further items.
fn named<T: ToString>(what: &str, all: &[T]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut names: Vec<String> = all.iter().take(NAMES_MAX).map(ToString::to_string).collect();
    let more = all.len() - names.len();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    format!("; {what}: {}", names.join(", "))
}

/// Formats up to `max` of the most frequent decline codes, with their counts.
pub(crate) fn declines_text(declines: &BTreeMap<DeclineCode, u64>, max: usize) -> String {
    let mut reasons: Vec<(&DeclineCode, &u64)> = declines.iter().collect();
    reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
    let more = reasons.len().saturating_sub(max);
    let mut texts: Vec<String> = reasons
        .iter()
        .take(max)
        .map(|(reason, count)| format!("{} {count}", reason.as_str().replace('_', " ")))
        .collect();
    if more > 0 {
        texts.push(format!("{more} more"));
    }
    texts.join(", ")
}

fn line(status: &Status) -> String {
    let declined: u64 = status.declines.values().sum();
    let why = match declines_text(&status.declines, REASONS_MAX) {
        text if text.is_empty() => text,
        text => format!(": {text}"),
    };
    let (leases, bids) = (
        count(status.leases.len(), "lease"),
        count(open_bids(status), "bid"),
    );
    let orders = named("orders waiting for money", &unfunded(status));
    let payouts = named("leases with a failed payout", &failed_payouts(status));
    let ignored = match not_offered(status).len() {
        0 => String::new(),
        number => format!(
            "; {} not offered, listed by `capacity`",
            count(number, "resource")
        ),
    };
    format!("{leases}, {bids}, {declined} declined{why}{orders}{payouts}{ignored}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::Config;
    use akash_provider_core::engine::Engine;
    use akash_provider_core::inventory::IgnoredKind;
    use akash_provider_core::types::{Address, Now};

    #[test]
    fn lists_unfunded_orders_and_failed_payouts() {
        let names: Vec<String> = (1..=5).map(|dseq| format!("tenant/{dseq}/1/1")).collect();
        assert_eq!(named("orders waiting for money", &names[..0]), "");
        assert_eq!(
            named("orders waiting for money", &names[..1]),
            "; orders waiting for money: tenant/1/1/1"
        );
        assert_eq!(
            named("leases with a failed payout", &names),
            "; leases with a failed payout: tenant/1/1/1, tenant/2/1/1, tenant/3/1/1, 2 more"
        );
    }

    #[test]
    fn prints_the_most_frequent_reasons() {
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        let engine = Engine::new(Config::new(owner, "test")).unwrap();
        let mut status = engine.status(Now::default());
        assert_eq!(line(&status), "0 leases, 0 bids, 0 declined");
        for (reason, count) in [
            (DeclineCode::Gpu, 11),
            (DeclineCode::Attributes, 30),
            (DeclineCode::Price, 1),
        ] {
            status.declines.insert(reason, count);
        }
        assert_eq!(
            line(&status),
            "0 leases, 0 bids, 42 declined: attributes 30, gpu 11, price 1"
        );
        let reason = "node `n1`: missing label akash.network=true";
        status.inventory.available.ignored = vec![IgnoredResource::new(IgnoredKind::Node, reason, "")];
        assert!(
            line(&status).ends_with("price 1; 1 resource not offered, listed by `capacity`"),
            "{}",
            line(&status)
        );
        status.inventory.available.ignored.clear();
        for word in [DeclineCode::NotForUs, DeclineCode::Refused, DeclineCode::Storage] {
            status.declines.insert(word, 2);
        }
        assert_eq!(
            line(&status),
            "0 leases, 0 bids, 48 declined: attributes 30, gpu 11, not for us 2, refused 2, storage 2, 1 more"
        );
    }
}
