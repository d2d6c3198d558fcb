//! Commands that read the order history: from the running provider, or from the file of a stopped one.

use super::client::{RESPONSE_LIMIT, ask_if_running, granted, odd, print};
use super::{Request, Response};
use crate::args::orders::{OrderArgs, OrdersArgs, SummaryArgs};
use crate::error::WithHelp;
use crate::flight::wall_ms;
use crate::history::{HistoryStore, OrderFilter, OrderRecord, Summary, line_of, summary_text, timeline};
use anyhow::{Context, bail};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Lists recorded orders.
pub(super) fn list(home: &Path, args: &OrdersArgs) -> anyhow::Result<ExitCode> {
    let filter = OrderFilter {
        declined: args.declined,
        code: args.code,
        since: start_of(args.since),
        limit: usize::try_from(args.limit)?,
    };
    let request = Request::Orders {
        filter: filter.clone(),
    };
    let (orders, dropped) = read(home, &request, |store| filter.read(store))?;
    let value = json!({ "orders": orders, "dropped": dropped });
    print(args.printed.output, &value, || {
        let mut text: String = orders.iter().map(line_of).collect();
        if orders.is_empty() {
            text.push_str("no recorded orders\n");
        }
        text + &dropped_text(dropped)
    });
    Ok(ExitCode::SUCCESS)
}

/// Shows the timeline of an order, or of all orders of a deployment. The exit code is 1 if there is no record.
pub(super) fn show(home: &Path, args: &OrderArgs) -> anyhow::Result<ExitCode> {
    let order = args.id.clone();
    let (orders, dropped) = read(home, &Request::Order { order }, |store| args.id.read(store))?;
    let is_found = !orders.is_empty();
    print(
        args.printed.output,
        &json!({ "orders": orders, "dropped": dropped }),
        || {
            if !is_found {
                return "no record of this order; `orders --since 168h` lists the recorded orders\n"
                    .to_owned();
            }
            let texts: Vec<String> = orders.iter().map(timeline).collect();
            texts.join("\n") + &dropped_text(dropped)
        },
    );
    Ok(if is_found {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Prints the summary.
pub(super) fn summarize(home: &Path, args: &SummaryArgs) -> anyhow::Result<ExitCode> {
    let since = start_of(args.since);
    let (summary, dropped) = match ask_if_running(home, &Request::Summary { since }, RESPONSE_LIMIT)? {
        Some(response) => match granted(response)? {
            Response::Summary { summary, dropped } => (summary, dropped),
            _ => bail!(odd()),
        },
        None => (Summary::read(&stopped(home)?, since, None)?, 0),
    };
    print(
        args.printed.output,
        &json!({ "summary": summary, "dropped": dropped }),
        || summary_text(&summary) + &dropped_text(dropped),
    );
    Ok(ExitCode::SUCCESS)
}

fn read(
    home: &Path,
    request: &Request,
    read: impl FnOnce(&HistoryStore) -> Result<Vec<OrderRecord>, redb::Error>,
) -> anyhow::Result<(Vec<OrderRecord>, u64)> {
    match ask_if_running(home, request, RESPONSE_LIMIT)? {
        Some(response) => match granted(response)? {
            Response::Orders { orders, dropped } => Ok((orders, dropped)),
            _ => bail!(odd()),
        },
        None => Ok((read(&stopped(home)?)?, 0)),
    }
}

/// Opens the history of a stopped provider.
fn stopped(home: &Path) -> anyhow::Result<HistoryStore> {
    let store = HistoryStore::open_existing(home)?;
    store.with_context(|| {
        WithHelp::new(
            format!("no order history in {}", home.display()),
            "set --home to the directory of a provider that ran with --order-history",
        )
    })
}

fn dropped_text(dropped: u64) -> String {
    match dropped {
        0 => String::new(),
        dropped => format!("incomplete: {dropped} facts were not recorded; the log has the reason\n"),
    }
}

/// Returns the time `age` ago, in milliseconds since the Unix epoch.
fn start_of(age: Duration) -> u64 {
    wall_ms().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}
