//! Market events in the format of transaction results.
//!
//! A typed event has one attribute for each field, sorted by name. The value of an attribute is the JSON of the field.
//! Each transfer of money has four untyped events, placed between the typed events.

use akash_provider_chain::proto::akash::market::v1::LeaseClosedReason;
use akash_provider_core::types::{
    Address, BidId, ChainEvent, CloseReason, Coin, DecCoin, DeploymentId, GroupId, OrderId,
};
use serde::Serialize;
use serde_json::{Value, json};

pub(super) const FEE_COLLECTOR: &str = "akash17xpfvakm2amg962yls6f84z3kell8c5lazw8j8";
pub(super) const ESCROW: &str = "akash14pphss726thpwws3yc458hggufynm9x77l4l2u";

/// Event of a transaction or a block: a kind, and attributes in the order of the Akash network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DevnetEvent {
    pub(super) kind: String,
    pub(super) attributes: Vec<(&'static str, String)>,
}

impl DevnetEvent {
    pub(super) fn new(kind: impl Into<String>, attributes: Vec<(&'static str, String)>) -> Self {
        Self {
            kind: kind.into(),
            attributes,
        }
    }

    /// Encodes the event as JSON, in the format of a node's responses.
    pub(super) fn json(&self) -> Value {
        let attribute = |(key, value): &(&str, String)| json!({"key": key, "value": value, "index": true});
        let attributes: Vec<Value> = self.attributes.iter().map(attribute).collect();
        json!({"type": self.kind, "attributes": attributes})
    }
}

pub(super) fn transfer(from: &str, to: &str, coin: &Coin) -> [DevnetEvent; 4] {
    let (from, to, amount) = (from.to_owned(), to.to_owned(), coin.to_string());
    [
        DevnetEvent::new(
            "coin_spent",
            vec![("spender", from.clone()), ("amount", amount.clone())],
        ),
        DevnetEvent::new(
            "coin_received",
            vec![("receiver", to.clone()), ("amount", amount.clone())],
        ),
        DevnetEvent::new(
            "transfer",
            vec![("recipient", to), ("sender", from.clone()), ("amount", amount)],
        ),
        DevnetEvent::new("message", vec![("sender", from)]),
    ]
}

/// Id of a deployment, group, order, bid or lease. The fields have the same order as in the JSON of the Akash
/// network.
#[derive(Default, Serialize)]
struct JsonMarketId<'a> {
    owner: &'a str,
    dseq: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gseq: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oseq: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bseq: Option<u32>,
}

#[derive(Serialize)]
struct PriceAttribute<'a> {
    denom: &'a str,
    amount: String,
}

/// Encodes a value as JSON text. These values can always be encoded.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn deployment_id(id: &DeploymentId) -> JsonMarketId<'_> {
    JsonMarketId {
        owner: id.owner.as_str(),
        dseq: id.dseq.to_string(),
        ..JsonMarketId::default()
    }
}

fn group_id(id: &GroupId) -> JsonMarketId<'_> {
    JsonMarketId {
        gseq: Some(id.gseq),
        ..deployment_id(&id.deployment)
    }
}

fn order_id(id: &OrderId) -> JsonMarketId<'_> {
    JsonMarketId {
        oseq: Some(id.oseq),
        ..group_id(&id.group)
    }
}

fn bid_id(id: &BidId) -> JsonMarketId<'_> {
    JsonMarketId {
        provider: Some(id.provider.as_str()),
        // The chain accepts one bid of a provider on an order, so the number is constant.
        bseq: Some(0),
        ..order_id(&id.order)
    }
}

fn id_attribute(id: &JsonMarketId<'_>) -> (&'static str, String) {
    ("id", text(id))
}

fn quoted(name: &'static str, text: impl ToString) -> (&'static str, String) {
    (name, Value::from(text.to_string()).to_string())
}

fn price(price: &DecCoin) -> (&'static str, String) {
    let price = PriceAttribute {
        denom: &price.denom,
        amount: price.amount.to_string(),
    };
    ("price", text(&price))
}

fn reason(reason: CloseReason) -> (&'static str, String) {
    let number = i32::try_from(reason.code()).unwrap_or_default();
    match LeaseClosedReason::try_from(number) {
        Ok(name) => quoted("reason", name.as_str_name()),
        // A number without a name is written as a number.
        Err(_) => ("reason", number.to_string()),
    }
}

fn hash(hash: &[u8; 32]) -> (&'static str, String) {
    quoted("hash", data_encoding::BASE64.encode(hash))
}

/// Values of a typed event that are missing in the [`ChainEvent`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EventContext<'a> {
    /// Hash of the manifest, for events of a deployment.
    pub(super) hash: Option<&'a [u8; 32]>,
    /// True if the message created the provider's record; false for an update.
    pub(super) is_new: bool,
}

/// Returns the typed event for a [`ChainEvent`], or `None` for an event without a transaction.
pub(super) fn typed(fact: &ChainEvent, context: EventContext<'_>) -> Option<DevnetEvent> {
    let dep = |name: &str, attributes| DevnetEvent::new(format!("akash.deployment.v1.{name}"), attributes);
    let market = |name: &str, attributes| DevnetEvent::new(format!("akash.market.v1.{name}"), attributes);
    Some(match fact {
        ChainEvent::DeploymentCreated { id } => {
            let hash = hash(context.hash.unwrap_or(&[0; 32]));
            dep(
                "EventDeploymentCreated",
                vec![hash, id_attribute(&deployment_id(id))],
            )
        }
        ChainEvent::DeploymentUpdated { id, hash: new } => {
            let attributes = vec![hash(new), id_attribute(&deployment_id(id))];
            dep("EventDeploymentUpdated", attributes)
        }
        ChainEvent::DeploymentClosed { id } => {
            dep("EventDeploymentClosed", vec![id_attribute(&deployment_id(id))])
        }
        ChainEvent::GroupStarted { id } => dep("EventGroupStarted", vec![id_attribute(&group_id(id))]),
        ChainEvent::GroupPaused { id } => dep("EventGroupPaused", vec![id_attribute(&group_id(id))]),
        ChainEvent::GroupClosed { id } => dep("EventGroupClosed", vec![id_attribute(&group_id(id))]),
        ChainEvent::OrderCreated { id } => market("EventOrderCreated", vec![id_attribute(&order_id(id))]),
        ChainEvent::OrderClosed { id } => market("EventOrderClosed", vec![id_attribute(&order_id(id))]),
        ChainEvent::BidCreated { id, price: p } => {
            market("EventBidCreated", vec![id_attribute(&bid_id(id)), price(p)])
        }
        ChainEvent::BidClosed { id } => market("EventBidClosed", vec![id_attribute(&bid_id(id))]),
        ChainEvent::LeaseCreated { id, price: p } => {
            market("EventLeaseCreated", vec![id_attribute(&bid_id(id)), price(p)])
        }
        ChainEvent::LeaseClosed { id, reason: r } => {
            market("EventLeaseClosed", vec![id_attribute(&bid_id(id)), reason(*r)])
        }
        ChainEvent::LeaseReclaimStarted {
            id,
            reason: r,
            deadline,
        } => {
            // The network writes this time in seconds.
            let deadline = quoted("deadline", deadline.0.div_euclid(1000));
            market(
                "EventLeaseReclaimStarted",
                vec![deadline, id_attribute(&bid_id(id)), reason(*r)],
            )
        }
        ChainEvent::ProviderUpdated { owner } => {
            let name = if context.is_new { "Created" } else { "Updated" };
            let kind = format!("akash.provider.v1beta4.EventProvider{name}");
            DevnetEvent::new(kind, vec![quoted("owner", owner)])
        }
        ChainEvent::AuditChanged { auditor, owner } => {
            let attributes = vec![quoted("auditor", auditor), quoted("owner", owner)];
            DevnetEvent::new("akash.audit.v1.EventTrustedAuditorCreated", attributes)
        }
        ChainEvent::Resync(_) | ChainEvent::Block { .. } => return None,
        // Clients of this chain would miss the event, so it must not be ignored silently.
        unknown => {
            tracing::error!(event = ?unknown, "devnet cannot encode a chain event, so clients do not receive the event; report this as a bug");
            return None;
        }
    })
}

/// Returns the untyped event `message`, the first event of a transaction message.
pub(super) fn message(type_url: &str, signer: &Address) -> DevnetEvent {
    // `/akash.market.v1beta5.MsgCreateBid` belongs to the module `market`.
    let module = type_url.split('.').nth(1).unwrap_or_default();
    DevnetEvent::new(
        "message",
        vec![
            ("action", type_url.to_owned()),
            ("sender", signer.to_string()),
            ("module", module.to_owned()),
        ],
    )
}
