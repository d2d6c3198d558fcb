//! Text output of records and summaries.

use super::changes::size;
use super::fact::reason_text;
use super::record::{HistoryOutcome, Moment, OrderRecord, Requested};
use super::summary::Summary;
use crate::flight::format_time;
use crate::run::declines_text;
use akash_provider_cli::plain;
use akash_provider_core::types::quantity::cores;

/// Formats a record as one line.
#[must_use]
pub fn line_of(record: &OrderRecord) -> String {
    let mut parts = vec![record.outcome.name().to_owned()];
    if let Some(price) = &record.price {
        parts.push(format!("price {price}"));
    }
    if let Some(winner) = &record.winner {
        parts.push(format!("winner {}", winner.price));
    }
    if let Some(end) = &record.end {
        let reason = end.reason.map(reason_text).unwrap_or_default();
        parts.push(format!("lease closed {reason}"));
    }
    if let (HistoryOutcome::Declined, Some(decline)) = (record.outcome, &record.decline) {
        parts.push(format!("{}: {}", decline.code, decline.message));
    }
    let (time, parts) = (format_time(record.seen.time), parts.join(", "));
    format!("{time} {} {}\n", record.order, plain::line(&parts))
}

/// Formats a record with its timeline.
#[must_use]
pub fn timeline(record: &OrderRecord) -> String {
    let mut text = format!("order {}: {}\n", record.order, record.outcome.name());
    if let Some(requested) = &record.requested {
        text.push_str(&format!(
            "requested: {}\n",
            plain::line(&requested_text(requested))
        ));
        if let Some(maximum) = &requested.maximum {
            text.push_str(&format!("maximum:   {maximum} per block\n"));
        }
    }
    if let Some(price) = &record.price {
        text.push_str(&format!("price:     {price} per block\n"));
    }
    if let (Some(accrued), Some(won)) = (&record.accrued, record.won) {
        let end = record.end.as_ref();
        let end = end.map_or_else(String::new, |end| format!(" to {}", end.at.height));
        let blocks = format!("at the lease price from block {}{end}", won.height);
        text.push_str(&format!("accrued:   {accrued} {blocks}\n"));
    }
    for line in &record.price_lines {
        text.push_str(&format!(
            "  {:<40} {}\n",
            plain::line(&line.what),
            line.amount.to_plain()
        ));
    }
    if let Some(winner) = &record.winner {
        text.push_str(&format!(
            "winner:    {} per block, {}\n",
            winner.price, winner.provider
        ));
    }
    if let Some(decline) = &record.decline {
        text.push_str(&format!(
            "declined:  {}: {}\n",
            decline.code,
            plain::line(&decline.message)
        ));
    }
    text.push_str("timeline:\n");
    let half = record.steps.len() / 2;
    for (at, step) in record.steps.iter().enumerate() {
        if record.omitted > 0 && at == half {
            text.push_str(&format!(
                "  … {} omitted\n",
                plain::count(record.omitted as usize, "step")
            ));
        }
        let name = step.step.replace('_', " ");
        let after = since(record.seen, step.at);
        let line = format!("{name:<26} {}", plain::line(&step.detail));
        let moment = format!(
            "{}  {after:>8}  block {:<9}",
            format_time(step.at.time),
            step.at.height
        );
        text.push_str(&format!("  {moment} {}\n", line.trim_end()));
    }
    text
}

/// Formats the time since the first step, in seconds.
fn since(first: Moment, at: Moment) -> String {
    let ms = at.time.saturating_sub(first.time);
    format!("+{}.{}s", ms / 1000, ms % 1000 / 100)
}

fn requested_text(requested: &Requested) -> String {
    let mut parts = vec![
        format!("{} CPU", cores(u128::from(requested.cpu))),
        format!("{} memory", size(requested.memory)),
    ];
    for (class, bytes) in &requested.storage {
        parts.push(format!("{} storage of class {class}", size(*bytes)));
    }
    if requested.gpus > 0 {
        let models = requested.gpu_models.join(" or ");
        parts.push(format!(
            "{} {models}",
            plain::count(requested.gpus as usize, "GPU")
        ));
    }
    if requested.ips > 0 {
        parts.push(plain::count(requested.ips as usize, "leased IP"));
    }
    if requested.ports > 0 {
        parts.push(plain::count(requested.ports as usize, "external port"));
    }
    parts.join(", ")
}

/// Formats a summary.
#[must_use]
pub fn summary_text(summary: &Summary) -> String {
    let all: usize = summary.outcomes.values().sum();
    let mut text = format!(
        "{} since {}\n",
        plain::count(all, "order"),
        format_time(summary.since)
    );
    let outcomes = [
        HistoryOutcome::Won,
        HistoryOutcome::Lost,
        HistoryOutcome::Declined,
        HistoryOutcome::TimedOut,
        HistoryOutcome::Closed,
        HistoryOutcome::Waiting,
    ];
    for outcome in outcomes {
        let count = summary.count(outcome);
        let detail = match outcome {
            _ if count == 0 => String::new(),
            HistoryOutcome::Lost => format!("  {} to a lower price", summary.lost_by_price),
            HistoryOutcome::Declined => format!("  {}", declines_text(&summary.declines, usize::MAX)),
            HistoryOutcome::Won if !summary.accrued.is_empty() => {
                let amounts: Vec<String> = summary.accrued.iter().map(ToString::to_string).collect();
                format!("  {} accrued at the lease prices", amounts.join(", "))
            }
            _ => String::new(),
        };
        text.push_str(&format!("  {:<10} {count:>6}{detail}\n", outcome.name()));
    }
    if !summary.changes.is_empty() {
        text.push_str("price or capacity changes that would have won or admitted the most orders:\n");
    }
    for (number, change) in (1..).zip(&summary.changes) {
        text.push_str(&format!("  {number}. {}\n", plain::line(&change.text)));
    }
    text
}
