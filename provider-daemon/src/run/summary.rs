//! What there is, in one line: `3 leases, 2 bids, 41 declined: attributes 30, gpu 11`.

use crate::dev::Printer;
use crate::flight::RecordingStatus;
use akash_provider_core::engine::{OrderPhase, Status};
use akash_provider_core::types::DeclineCode;
use serde_json::json;
use tokio::runtime::Handle;

/// Reasons that are told to people; a machine gets all of them.
const REASONS_MAX: usize = 5;

/// Prints the line for people, and the object with all reasons for programs.
pub(super) fn tell(printer: &Printer, status: &Status, recording: Option<&RecordingStatus>) {
    let (leases, bids) = (status.leases.len(), open_bids(status));
    let declined: u64 = status.declines.values().sum();
    if printer.is_text() {
        printer.note(&line(status));
    }
    printer.object(json!({
        "event": "summary", "leases": leases, "bids": bids, "declined": declined, "declines": status.declines,
        "tasks": Handle::try_current().map(|runtime| runtime.metrics().num_alive_tasks()).ok(),
        "recording": recording,
    }));
}

fn open_bids(status: &Status) -> usize {
    status
        .orders
        .iter()
        .filter(|order| order.phase == OrderPhase::Open)
        .count()
}

fn line(status: &Status) -> String {
    let many = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let mut reasons: Vec<(&DeclineCode, &u64)> = status.declines.iter().collect();
    reasons.sort_by_key(|(word, count)| (std::cmp::Reverse(**count), *word));
    let declined: u64 = reasons.iter().map(|(_, count)| **count).sum();
    let more = reasons.len().saturating_sub(REASONS_MAX);
    let mut told: Vec<String> = reasons
        .iter()
        .take(REASONS_MAX)
        .map(|(word, count)| format!("{} {count}", word.as_str().replace('_', " ")))
        .collect();
    if more > 0 {
        told.push(format!("{more} more"));
    }
    let why = if told.is_empty() {
        String::new()
    } else {
        format!(": {}", told.join(", "))
    };
    let (leases, bids) = (many(status.leases.len(), "lease"), many(open_bids(status), "bid"));
    format!("{leases}, {bids}, {declined} declined{why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::Config;
    use akash_provider_core::engine::Engine;
    use akash_provider_core::types::{Address, Now};

    #[test]
    fn the_most_frequent_reasons_come_first_and_few_of_them() {
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        let engine = Engine::new(Config::new(owner, "test")).unwrap();
        let mut status = engine.status(Now::default());
        assert_eq!(line(&status), "0 leases, 0 bids, 0 declined");
        for (word, count) in [
            (DeclineCode::Gpu, 11),
            (DeclineCode::Attributes, 30),
            (DeclineCode::Price, 1),
        ] {
            status.declines.insert(word, count);
        }
        assert_eq!(
            line(&status),
            "0 leases, 0 bids, 42 declined: attributes 30, gpu 11, price 1"
        );
        for word in [DeclineCode::NotForUs, DeclineCode::Refused, DeclineCode::Storage] {
            status.declines.insert(word, 2);
        }
        assert_eq!(
            line(&status),
            "0 leases, 0 bids, 48 declined: attributes 30, gpu 11, not for us 2, refused 2, storage 2, 1 more"
        );
    }
}
