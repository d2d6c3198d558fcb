//! A turn of the engine for people: what came, and what was decided and why.

use crate::dev::output::words_of;
use akash_provider_core::engine::{Call, Completion, Effect, Input, Request};
use akash_provider_core::types::{ChainEvent, Msg};
use serde::Serialize;
use serde_json::Value;

/// What came.
pub(super) fn input(input: Option<&Input>) -> String {
    match input {
        None => "a deadline came".to_owned(),
        Some(Input::Chain(ChainEvent::Resync(snapshot))) => {
            format!("the chain was read as a whole, at height {}", snapshot.height)
        }
        Some(Input::Chain(ChainEvent::Block { height, .. })) => format!("block {height}"),
        Some(Input::Chain(event)) => format!("the chain told: {}", tag(event, "event")),
        Some(Input::Cluster(change)) => format!("the cluster told: {}", tag(change, "change")),
        Some(Input::Inventory(update)) => {
            format!("capacity of {} nodes", update.inventory.metrics().nodes.len())
        }
        Some(Input::Completed(id, completion)) => {
            format!("call {} answered: {}", id.0, completed(completion))
        }
        Some(Input::Request(id, request)) => format!("request {}: {}", id.0, asked(request)),
        Some(Input::Leadership(leadership)) => format!("leadership: {leadership:?}"),
        Some(Input::HoldBids(Some(why))) => format!("bids are held back: {why}"),
        Some(Input::HoldBids(None)) => "bids go again".to_owned(),
        Some(Input::PricesChanged) => "the prices changed".to_owned(),
        Some(Input::Shutdown) => "it was told to stop".to_owned(),
        // What a newer version may be given has no words here yet.
        Some(other) => format!("{other:?}"),
    }
}

/// What was decided; nothing of facts that are only for machines.
pub(super) fn effect(effect: &Effect) -> Option<String> {
    match effect {
        Effect::Call(id, call) => Some(format!("call {}: {}", id.0, called(call))),
        Effect::Publish(event) => words_of(event),
        Effect::Reply(id, Ok(_)) => Some(format!("request {} is granted", id.0)),
        Effect::Reply(id, Err(refusal)) => Some(format!("request {} is refused: {refusal}", id.0)),
    }
}

fn called(call: &Call) -> String {
    match call {
        Call::FetchOrder(_) => "look at the order".to_owned(),
        Call::CountBids(_) => "count the bids of the order".to_owned(),
        Call::FetchProvider => "look at our own record".to_owned(),
        Call::FetchBalances(denoms) => format!("look at our account's {}", denoms.join(", ")),
        Call::FetchAudit(auditor) => format!("look at what auditor {auditor} signed"),
        Call::FetchBid(_) => "look at our bid".to_owned(),
        Call::FetchLease(_) => "look at the lease".to_owned(),
        Call::FetchDeployment(_) => "look at the deployment and its money".to_owned(),
        Call::FetchSnapshot => "read the chain as a whole".to_owned(),
        Call::CalculatePrice(_) => "calculate the price".to_owned(),
        Call::Broadcast(msg) => format!("send a transaction: {}", message(msg)),
        Call::Record(_) => "keep the manifest in the cluster".to_owned(),
        Call::Deploy { .. } => "deploy".to_owned(),
        Call::Teardown(_) => "tear the workload down".to_owned(),
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
        Completion::Price(Ok(price)) => format!("the price is {price}"),
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

fn asked(request: &Request) -> String {
    match request {
        Request::SubmitManifest { deployment, .. } => format!("a manifest for {deployment}"),
        Request::EndLease { lease, reason } => format!("end lease {lease}, {reason:?}"),
        Request::TransferHostnames { lease, hostnames } => {
            format!("hostnames {} are to move to {lease}", hostnames.join(", "))
        }
        Request::Scan { dry_run } => format!("compare chain, cluster and ledger (dry run: {dry_run})"),
        Request::ReleaseBreaker => "release the circuit breaker".to_owned(),
        Request::ReleaseBreakerFor { owner } => format!("release the circuit breaker for {owner}"),
        other => format!("{other:?}"),
    }
}

/// The name of a variant as it is in data, with its fields.
fn tag(of: &impl Serialize, field: &str) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(of) else {
        return "something without words".to_owned();
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
