//! Commands that read the order history: from the running provider, or from the file of a stopped one.

use super::connection::{RESPONSE_LIMIT, ask_if_running, granted, odd, print};
use crate::args::orders::{OrderArgs, OrdersArgs, SummaryArgs};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::plain;
use akash_provider_service::flight::wall_ms;
use akash_provider_service::history::{
    HistoryHealth, HistoryStore, INTERRUPTION_HELP, OrderFilter, OrderRecord, Summary, line_of, summary_text,
    timeline,
};
use akash_provider_service::operator::{ControlRequest, Response};
use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

pub(super) fn list(home: &Path, args: &OrdersArgs) -> anyhow::Result<ExitCode> {
    let filter = OrderFilter {
        declined: args.declined,
        code: args.code,
        since: start_of(args.since),
        limit: usize::try_from(args.limit)?,
    };
    let request = ControlRequest::Orders {
        filter: filter.clone(),
    };
    let (orders, health) = read(home, &request, |store| filter.read(store))?;
    let value = object("orders", json!(orders), &health);
    print(args.printed.output, &value, || {
        let mut text: String = orders.iter().map(line_of).collect();
        if orders.is_empty() {
            text.push_str("no recorded orders\n");
        }
        text + &health_text(&health)
    });
    Ok(ExitCode::SUCCESS)
}

/// Shows the timeline of an order, or of all orders of a deployment. The exit code is 1 if no order was
/// recorded.
pub(super) fn show(home: &Path, args: &OrderArgs) -> anyhow::Result<ExitCode> {
    let order = args.id.clone();
    let (orders, health) = read(home, &ControlRequest::Order { order }, |store| {
        args.id.read_with_accrued(store, None)
    })?;
    let is_found = !orders.is_empty();
    print(
        args.printed.output,
        &object("orders", json!(orders), &health),
        || {
            if !is_found {
                return "no record of this order; `orders --since 168h` lists the recorded orders\n"
                    .to_owned();
            }
            let texts: Vec<String> = orders.iter().map(timeline).collect();
            texts.join("\n") + &health_text(&health)
        },
    );
    Ok(if is_found {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

pub(super) fn summarize(home: &Path, args: &SummaryArgs) -> anyhow::Result<ExitCode> {
    let since = start_of(args.since);
    let (summary, health) = match ask_if_running(home, &ControlRequest::Summary { since }, RESPONSE_LIMIT)? {
        Some(response) => match granted(response)? {
            Response::Summary { summary, health } => (summary, health),
            _ => bail!(odd()),
        },
        None => (
            Summary::read(&stopped(home)?, since, None)?,
            HistoryHealth::default(),
        ),
    };
    print(
        args.printed.output,
        &object("summary", json!(summary), &health),
        || summary_text(&summary) + &health_text(&health),
    );
    Ok(ExitCode::SUCCESS)
}

fn read(
    home: &Path,
    request: &ControlRequest,
    read: impl FnOnce(&HistoryStore) -> Result<Vec<OrderRecord>, redb::Error>,
) -> anyhow::Result<(Vec<OrderRecord>, HistoryHealth)> {
    match ask_if_running(home, request, RESPONSE_LIMIT)? {
        Some(response) => match granted(response)? {
            Response::Orders { orders, health } => Ok((orders, health)),
            _ => bail!(odd()),
        },
        None => Ok((read(&stopped(home)?)?, HistoryHealth::default())),
    }
}

fn stopped(home: &Path) -> anyhow::Result<HistoryStore> {
    let store = HistoryStore::open_existing(home)?;
    store.with_context(|| {
        WithHelp::new(
            format!("no order history in {}", home.display()),
            "set --home to the directory of a provider that ran with --order-history",
        )
    })
}

/// Combines a result with the status of the order history.
fn object(name: &str, result: Value, health: &HistoryHealth) -> Value {
    let mut object = json!({ "dropped": health.dropped });
    object[name] = result;
    if let Some(problem) = &health.problem {
        object["problem"] = problem.as_str().into();
    }
    object
}

/// Returns a notice about missing records, or an empty text.
fn health_text(health: &HistoryHealth) -> String {
    let facts = plain::count(usize::try_from(health.dropped).unwrap_or(usize::MAX), "fact");
    match (&health.problem, health.dropped) {
        (Some(problem), _) => format!(
            "\nrecording is interrupted, {facts} missing: {}\nhelp: {INTERRUPTION_HELP}\n",
            plain::line(problem)
        ),
        (None, 0) => String::new(),
        (None, _) => format!("\nincomplete, {facts} missing: see the log of the provider for the reason\n"),
    }
}

fn start_of(age: Duration) -> u64 {
    wall_ms().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}
