//! Encoding of chain events as the events of a node.

use akash_provider_core::types::{BidId, ChainEvent, DecCoin, DeploymentId, GroupId, OrderId};
use serde_json::{Value, json};
use std::fmt::Display;

/// Returns the result of a successful transaction. The result contains one event for each fact.
pub(super) fn tx_result(facts: &[ChainEvent]) -> Value {
    json!({"code": 0, "events": facts.iter().map(event).collect::<Vec<_>>()})
}

#[expect(clippy::too_many_lines, reason = "a table with one arm per event")]
fn event(fact: &ChainEvent) -> Value {
    let quoted = |text: &dyn Display| format!("\"{text}\"");
    let deployment = |id: &DeploymentId| json!({"owner": id.owner.as_str(), "dseq": id.dseq.to_string()});
    let group = |id: &GroupId| {
        let mut json = deployment(&id.deployment);
        json["gseq"] = id.gseq.into();
        json
    };
    let order = |id: &OrderId| {
        let mut json = group(&id.group);
        json["oseq"] = id.oseq.into();
        json
    };
    let bid = |id: &BidId| {
        let mut json = order(&id.order);
        json["provider"] = id.provider.as_str().into();
        json["bseq"] = 0.into();
        json.to_string()
    };
    let price =
        |price: &DecCoin| json!({"denom": &*price.denom, "amount": price.amount.to_string()}).to_string();
    let reason = |reason: &akash_provider_core::types::CloseReason| {
        let number = i32::try_from(reason.code()).unwrap();
        let name = crate::proto::akash::market::v1::LeaseClosedReason::try_from(number).unwrap();
        format!("\"{}\"", name.as_str_name())
    };
    let (kind, attributes): (&str, Vec<(&str, String)>) = match fact {
        ChainEvent::DeploymentCreated { id } => (
            "deployment.v1.EventDeploymentCreated",
            vec![("id", deployment(id).to_string())],
        ),
        ChainEvent::DeploymentUpdated { id, hash } => {
            let hash = quoted(&data_encoding::BASE64.encode(hash));
            (
                "deployment.v1.EventDeploymentUpdated",
                vec![("hash", hash), ("id", deployment(id).to_string())],
            )
        }
        ChainEvent::DeploymentClosed { id } => (
            "deployment.v1.EventDeploymentClosed",
            vec![("id", deployment(id).to_string())],
        ),
        ChainEvent::GroupStarted { id } => (
            "deployment.v1.EventGroupStarted",
            vec![("id", group(id).to_string())],
        ),
        ChainEvent::GroupPaused { id } => (
            "deployment.v1.EventGroupPaused",
            vec![("id", group(id).to_string())],
        ),
        ChainEvent::GroupClosed { id } => (
            "deployment.v1.EventGroupClosed",
            vec![("id", group(id).to_string())],
        ),
        ChainEvent::OrderCreated { id } => {
            ("market.v1.EventOrderCreated", vec![("id", order(id).to_string())])
        }
        ChainEvent::OrderClosed { id } => ("market.v1.EventOrderClosed", vec![("id", order(id).to_string())]),
        ChainEvent::BidCreated { id, price: p } => (
            "market.v1.EventBidCreated",
            vec![("id", bid(id)), ("price", price(p))],
        ),
        ChainEvent::BidClosed { id } => ("market.v1.EventBidClosed", vec![("id", bid(id))]),
        ChainEvent::LeaseCreated { id, price: p } => (
            "market.v1.EventLeaseCreated",
            vec![("id", bid(id)), ("price", price(p))],
        ),
        ChainEvent::LeaseClosed { id, reason: r } => (
            "market.v1.EventLeaseClosed",
            vec![("id", bid(id)), ("reason", reason(r))],
        ),
        ChainEvent::LeaseReclaimStarted {
            id,
            reason: r,
            deadline,
        } => (
            "market.v1.EventLeaseReclaimStarted",
            vec![
                ("deadline", quoted(&(deadline.0 / 1000))),
                ("id", bid(id)),
                ("reason", reason(r)),
            ],
        ),
        ChainEvent::ProviderUpdated { owner } => (
            "provider.v1beta4.EventProviderUpdated",
            vec![("owner", quoted(owner))],
        ),
        ChainEvent::AuditChanged { auditor, owner } => (
            "audit.v1.EventTrustedAuditorCreated",
            vec![("auditor", quoted(auditor)), ("owner", quoted(owner))],
        ),
        ChainEvent::Resync(_) | ChainEvent::Block { .. } => unreachable!("not an event of a transaction"),
        unknown => unreachable!("unsupported event {unknown:?}"),
    };
    let attributes: Vec<Value> = attributes
        .into_iter()
        .map(|(k, v)| json!({"key": k, "value": v, "index": true}))
        .collect();
    json!({"type": format!("akash.{kind}"), "attributes": attributes})
}
