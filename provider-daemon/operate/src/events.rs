//! `events`: prints the events of the Akash modules, block by block, as JSON lines.

use crate::args::EventsArgs;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::{Fault, NodeError};
use akash_provider_cli::node::{block_on, endpoints, failure};
use akash_provider_cli::output;
use akash_provider_core::types::Height;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;

/// Interval between queries for the next block.
const INTERVAL: Duration = Duration::from_secs(1);
/// Number of failed queries for one block after which the command fails.
const FAILURES_MAX: u32 = 30;

/// Results of a block. The list of a block without transactions or events is missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Results {
    txs_results: Option<Vec<TxEvents>>,
    finalize_block_events: Option<Vec<NodeEvent>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TxEvents {
    code: i64,
    events: Option<Vec<NodeEvent>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeEvent {
    #[serde(rename = "type")]
    kind: String,
    attributes: Option<Vec<Attribute>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Attribute {
    key: String,
    value: Option<String>,
}

/// Prints events until the limit of blocks is reached.
///
/// # Errors
/// Returns an error if no node returns the next block, or if standard output is closed.
pub fn run(args: &EventsArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        follow(&endpoints(&args.node).await?, args).await?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn follow(endpoints: &Endpoints, args: &EventsArgs) -> anyhow::Result<()> {
    let mut next = args.from_height;
    let mut left = args.blocks.unwrap_or(u64::MAX);
    let mut failures = 0;
    while left > 0 {
        match print_block(endpoints, next).await {
            Ok(Some(height)) => {
                (next, failures) = (Some(height + 1), 0);
                left -= 1;
            }
            Ok(None) => sleep(INTERVAL).await,
            Err(PrintError::Output(error)) => return Err(error.into()),
            Err(PrintError::Node(error)) if failures < FAILURES_MAX && !is_final(&error.fault) => {
                tracing::warn!(%error, "cannot read the next block, retrying");
                failures += 1;
                sleep(INTERVAL).await;
            }
            Err(PrintError::Node(error)) => return Err(failure(&error)),
        }
    }
    Ok(())
}

enum PrintError {
    Node(NodeError),
    Output(std::io::Error),
}

const fn is_final(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Pruned(_) | Fault::Refused { .. } | Fault::NotFound { .. }
    )
}

/// Prints the events of the block at the height `wanted`, or of the newest block. Returns the height of the
/// block, or `None` if the block does not exist yet.
async fn print_block(endpoints: &Endpoints, wanted: Option<Height>) -> Result<Option<Height>, PrintError> {
    let newest = endpoints.sync_info().await.map_err(PrintError::Node)?.height;
    let height = wanted.unwrap_or(newest);
    if height > newest {
        return Ok(None);
    }
    let params = json!({ "height": height.to_string() });
    let results: Results = match endpoints.call("block_results", params).await {
        // A node stores the results of a block after the block.
        Err(error) if height == newest && matches!(error.fault, Fault::Pruned(_)) => return Ok(None),
        results => results.map_err(PrintError::Node)?,
    };
    output::write(&lines(height, results)).map_err(PrintError::Output)?;
    Ok(Some(height))
}

/// Formats the events of a block. The events of failed transactions are omitted, because they had no effect.
fn lines(height: Height, results: Results) -> String {
    let txs = results.txs_results.unwrap_or_default().into_iter().enumerate();
    let of_txs = txs
        .filter(|(_, tx)| tx.code == 0)
        .map(|(at, tx)| (Some(at), tx.events));
    let groups = of_txs.chain([(None, results.finalize_block_events)]);
    let mut text = String::new();
    for (tx, events) in groups {
        let events = events.unwrap_or_default().into_iter();
        for event in events.filter(|event| event.kind.starts_with("akash.")) {
            let attributes: Map<String, Value> = event
                .attributes
                .unwrap_or_default()
                .into_iter()
                .map(field)
                .collect();
            let line = json!({ "height": height, "tx": tx, "type": event.kind, "attributes": attributes });
            text.push_str(&format!("{line}\n"));
        }
    }
    text
}

/// Returns the key and the value of an attribute. The values of typed events are JSON.
fn field(attribute: Attribute) -> (String, Value) {
    let text = attribute.value.unwrap_or_default();
    let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (attribute.key, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_the_events_of_akash_modules_with_all_fields() {
        let id = r#"{"owner":"o","dseq":"7","gseq":1,"oseq":1,"provider":"p","bseq":3}"#;
        let bid = json!({
            "type": "akash.market.v1.EventBidCreated",
            "attributes": [{"key": "id", "value": id, "index": true}, {"key": "mode", "value": "x"}],
        });
        let transfer = json!({ "type": "transfer", "attributes": [] });
        let results = json!({
            "height": "5",
            "txs_results": [{"code": 5, "events": [bid]}, {"code": 0, "events": [transfer, bid]}],
            "finalize_block_events": [{"type": "akash.market.v1.EventLeaseClosed", "attributes": null}],
        });
        let text = lines(5, serde_json::from_value(results).unwrap());
        let printed: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let id: Value = serde_json::from_str(id).unwrap();
        let expected = [
            json!({ "height": 5, "tx": 1, "type": bid["type"], "attributes": { "id": id, "mode": "x" } }),
            json!({ "height": 5, "tx": null, "type": "akash.market.v1.EventLeaseClosed", "attributes": {} }),
        ];
        assert_eq!(printed, expected);
        let empty = json!({ "txs_results": null, "finalize_block_events": null });
        assert_eq!(lines(5, serde_json::from_value(empty).unwrap()), "");
    }
}
