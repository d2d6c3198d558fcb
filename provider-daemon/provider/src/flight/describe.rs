//! Descriptions of a step of the engine: its input, and the decisions with their reasons.

use crate::printer::text_of;
use akash_provider_core::engine::{Call, Completion, Effect, Input, Request};
use akash_provider_core::types::{ChainEvent, Msg};
use serde::Serialize;
use serde_json::Value;

pub(super) fn input(input: Option<&Input>) -> String {
    match input {
        None => "timeout".to_owned(),
        Some(Input::Chain(ChainEvent::Resync(snapshot))) => {
            format!("chain snapshot at height {}", snapshot.height)
        }
        Some(Input::Chain(ChainEvent::Block { height, .. })) => format!("block {height}"),
        Some(Input::Chain(event)) => format!("chain event: {}", tag(event, "event")),
        Some(Input::Cluster(change)) => format!("cluster change: {}", tag(change, "change")),
        Some(Input::Inventory(update)) => {
            format!("capacity of {} nodes", update.inventory.metrics().nodes.len())
        }
        Some(Input::Completed(id, completion)) => {
            format!("call {} completed: {}", id.0, completed(completion))
        }
        Some(Input::Request(id, request)) => format!("request {}: {}", id.0, describe_request(request)),
        Some(Input::Leadership(leadership)) => format!("leadership: {leadership:?}"),
        Some(Input::HoldBids(Some(why))) => format!("bids paused: {why}"),
        Some(Input::HoldBids(None)) => "bids resumed".to_owned(),
        Some(Input::PricesChanged) => "prices changed".to_owned(),
        Some(Input::Shutdown) => "shutdown".to_owned(),
        // Inputs of newer versions have no description yet.
        Some(other) => format!("{other:?}"),
    }
}

/// Describes an effect; returns `None` for events without a text.
pub(super) fn effect(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Call(id, call) => Some(format!("call {}: {}", id.0, describe_call(call))),
        Effect::Publish(event) => text_of(event),
        Effect::Reply(id, Ok(_)) => Some(format!("request {} granted", id.0)),
        Effect::Reply(id, Err(refusal)) => Some(format!("request {} refused: {refusal}", id.0)),
    }
}

fn describe_call(call: &Call) -> String {
    match call {
        Call::FetchOrder(_) => "query the order".to_owned(),
        Call::CountBids(_) => "count the bids of the order".to_owned(),
        Call::FetchProvider => "query the provider's record".to_owned(),
        Call::FetchBalances(denoms) => format!("query the account's {}", denoms.join(", ")),
        Call::FetchAudit(auditor) => format!("query the attributes signed by auditor {auditor}"),
        Call::FetchBid(_) => "query the bid".to_owned(),
        Call::FetchLease(_) => "query the lease".to_owned(),
        Call::FetchDeployment(_) => "query the deployment and its balance".to_owned(),
        Call::FetchSnapshot => "query a snapshot of the chain".to_owned(),
        Call::CalculatePrice(_) => "calculate the price".to_owned(),
        Call::Broadcast(msg) => format!("send a transaction: {}", message(msg)),
        Call::Record(_) => "store the manifest in the cluster".to_owned(),
        Call::Deploy { .. } => "deploy".to_owned(),
        Call::Teardown(_) => "remove the workload".to_owned(),
        Call::ListWorkloads => "list the workloads of the cluster".to_owned(),
    }
}

fn message(msg: &Msg) -> String {
    match msg {
        Msg::CreateBid { price, .. } => format!("bid {price} per block"),
        Msg::CloseBid { reason, .. } => format!("close the bid or lease, {reason:?}"),
        other => tag(other, "msg"),
    }
}

fn completed(completion: &Completion) -> String {
    match completion {
        Completion::Price(Ok(price)) => format!("price {price}"),
        Completion::Tx(Ok(outcome)) => format!("transaction: {}", tag(outcome, "outcome")),
        Completion::BidCount(Ok(count)) => format!("{count} bids"),
        other => match serde_json::to_value(other) {
            Ok(Value::Object(kind)) => kind
                .into_iter()
                .next()
                .map_or_else(String::new, |(kind, result)| {
                    match result.get("Err").and_then(|failure| failure.get("message")) {
                        Some(message) => format!("{kind} failed, {message}"),
                        None => kind,
                    }
                }),
            _ => format!("{other:?}"),
        },
    }
}

fn describe_request(request: &Request) -> String {
    match request {
        Request::SubmitManifest { deployment, .. } => format!("a manifest for {deployment}"),
        Request::EndLease { lease, reason } => format!("end lease {lease}, {reason:?}"),
        Request::TransferHostnames { lease, hostnames } => {
            format!("move hostnames {} to {lease}", hostnames.join(", "))
        }
        Request::Scan { dry_run } => {
            format!("compare the chain, the cluster and the state of the provider (dry run: {dry_run})")
        }
        Request::ReleaseBreaker => "release the circuit breaker".to_owned(),
        Request::ReleaseBreakerFor { owner } => format!("release the circuit breaker for {owner}"),
        other => format!("{other:?}"),
    }
}

/// Formats an enum value: its variant (in the field `field`) and its scalar fields.
fn tag(of: &impl Serialize, field: &str) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(of) else {
        return "value without a description".to_owned();
    };
    let name = fields.remove(field);
    let name = name
        .as_ref()
        .and_then(Value::as_str)
        .unwrap_or_default()
        .replace('_', " ");
    let simple = fields
        .iter()
        .filter(|(_, value)| !value.is_array() && !value.is_object());
    let rest: Vec<String> = simple
        .map(|(key, value)| match value {
            Value::String(text) => format!("{key} {text}"),
            other => format!("{key} {other}"),
        })
        .collect();
    match rest.is_empty() {
        true => name,
        false => format!("{name}, {}", rest.join(", ")),
    }
}
