//! Facts as the events that a node writes into the results of a transaction.
//!
//! A typed event has one attribute for each field, in the order of their names; a value is the JSON of the field.
//! Between them stand the movements of money, each four plain events.

use akash_provider_chain::proto::akash::market::v1::LeaseClosedReason;
use akash_provider_core::types::{
    Address, BidId, ChainEvent, CloseReason, Coin, DecCoin, DeploymentId, GroupId, OrderId,
};
use serde::Serialize;
use serde_json::{Value, json};

/// Account that takes the fees.
pub(super) const FEE_COLLECTOR: &str = "akash17xpfvakm2amg962yls6f84z3kell8c5lazw8j8";
/// Account that holds deposits.
pub(super) const ESCROW: &str = "akash14pphss726thpwws3yc458hggufynm9x77l4l2u";

/// An event in the result of a transaction or a block: a kind, and attributes in the order in which they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) attributes: Vec<(&'static str, String)>,
}

impl Event {
    pub(super) fn new(kind: impl Into<String>, attributes: Vec<(&'static str, String)>) -> Self {
        Self {
            kind: kind.into(),
            attributes,
        }
    }

    /// As it stands in answers.
    pub(super) fn json(&self) -> Value {
        let attribute = |(key, value): &(&str, String)| json!({"key": key, "value": value, "index": true});
        let attributes: Vec<Value> = self.attributes.iter().map(attribute).collect();
        json!({"type": self.kind, "attributes": attributes})
    }
}

/// Money that goes from one account to another.
pub(super) fn transfer(from: &str, to: &str, coin: &Coin) -> [Event; 4] {
    let (from, to, amount) = (from.to_owned(), to.to_owned(), coin.to_string());
    [
        Event::new(
            "coin_spent",
            vec![("spender", from.clone()), ("amount", amount.clone())],
        ),
        Event::new(
            "coin_received",
            vec![("receiver", to.clone()), ("amount", amount.clone())],
        ),
        Event::new(
            "transfer",
            vec![("recipient", to), ("sender", from.clone()), ("amount", amount)],
        ),
        Event::new("message", vec![("sender", from)]),
    ]
}

/// An id of whatever kind, its parts in the network's order.
#[derive(Default, Serialize)]
struct Id<'a> {
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
struct Price<'a> {
    denom: &'a str,
    amount: String,
}

/// JSON of something that always has one.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn of_deployment(id: &DeploymentId) -> Id<'_> {
    Id {
        owner: id.owner.as_str(),
        dseq: id.dseq.to_string(),
        ..Id::default()
    }
}

fn of_group(id: &GroupId) -> Id<'_> {
    Id {
        gseq: Some(id.gseq),
        ..of_deployment(&id.deployment)
    }
}

fn of_order(id: &OrderId) -> Id<'_> {
    Id {
        oseq: Some(id.oseq),
        ..of_group(&id.group)
    }
}

fn of_bid(id: &BidId) -> Id<'_> {
    Id {
        provider: Some(id.provider.as_str()),
        // The chain takes one bid of a provider on an order, so there is no other number.
        bseq: Some(0),
        ..of_order(&id.order)
    }
}

fn of_id(id: &Id<'_>) -> (&'static str, String) {
    ("id", text(id))
}

fn quoted(name: &'static str, text: impl ToString) -> (&'static str, String) {
    (name, Value::from(text.to_string()).to_string())
}

fn price(price: &DecCoin) -> (&'static str, String) {
    let price = Price {
        denom: &price.denom,
        amount: price.amount.to_string(),
    };
    ("price", text(&price))
}

fn reason(reason: CloseReason) -> (&'static str, String) {
    let number = i32::try_from(reason.code()).unwrap_or_default();
    match LeaseClosedReason::try_from(number) {
        Ok(name) => quoted("reason", name.as_str_name()),
        // A number without a name is written as it is.
        Err(_) => ("reason", number.to_string()),
    }
}

fn hash(hash: &[u8; 32]) -> (&'static str, String) {
    quoted("hash", data_encoding::BASE64.encode(hash))
}

/// What a fact does not say and its event does.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Context<'a> {
    /// The hash of a deployment's manifest.
    pub(super) hash: Option<&'a [u8; 32]>,
    /// The provider's record was not there before.
    pub(super) is_new: bool,
}

/// The typed event of a fact; none for what happens outside of transactions.
pub(super) fn typed(fact: &ChainEvent, context: Context<'_>) -> Option<Event> {
    let dep = |name: &str, attributes| Event::new(format!("akash.deployment.v1.{name}"), attributes);
    let market = |name: &str, attributes| Event::new(format!("akash.market.v1.{name}"), attributes);
    Some(match fact {
        ChainEvent::DeploymentCreated { id } => {
            let hash = hash(context.hash.unwrap_or(&[0; 32]));
            dep("EventDeploymentCreated", vec![hash, of_id(&of_deployment(id))])
        }
        ChainEvent::DeploymentUpdated { id, hash: new } => {
            let attributes = vec![hash(new), of_id(&of_deployment(id))];
            dep("EventDeploymentUpdated", attributes)
        }
        ChainEvent::DeploymentClosed { id } => dep("EventDeploymentClosed", vec![of_id(&of_deployment(id))]),
        ChainEvent::GroupStarted { id } => dep("EventGroupStarted", vec![of_id(&of_group(id))]),
        ChainEvent::GroupPaused { id } => dep("EventGroupPaused", vec![of_id(&of_group(id))]),
        ChainEvent::GroupClosed { id } => dep("EventGroupClosed", vec![of_id(&of_group(id))]),
        ChainEvent::OrderCreated { id } => market("EventOrderCreated", vec![of_id(&of_order(id))]),
        ChainEvent::OrderClosed { id } => market("EventOrderClosed", vec![of_id(&of_order(id))]),
        ChainEvent::BidCreated { id, price: p } => {
            market("EventBidCreated", vec![of_id(&of_bid(id)), price(p)])
        }
        ChainEvent::BidClosed { id } => market("EventBidClosed", vec![of_id(&of_bid(id))]),
        ChainEvent::LeaseCreated { id, price: p } => {
            market("EventLeaseCreated", vec![of_id(&of_bid(id)), price(p)])
        }
        ChainEvent::LeaseClosed { id, reason: r } => {
            market("EventLeaseClosed", vec![of_id(&of_bid(id)), reason(*r)])
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
                vec![deadline, of_id(&of_bid(id)), reason(*r)],
            )
        }
        ChainEvent::ProviderUpdated { owner } => {
            let name = if context.is_new { "Created" } else { "Updated" };
            let kind = format!("akash.provider.v1beta4.EventProvider{name}");
            Event::new(kind, vec![quoted("owner", owner)])
        }
        ChainEvent::AuditChanged { auditor, owner } => {
            let attributes = vec![quoted("auditor", auditor), quoted("owner", owner)];
            Event::new("akash.audit.v1.EventTrustedAuditorCreated", attributes)
        }
        ChainEvent::Resync(_) | ChainEvent::Block { .. } => return None,
        // Whoever follows this chain would never hear of it: not to be passed over in silence.
        unknown => {
            tracing::error!("no event of this chain says {unknown:?}; those who follow it are not told");
            return None;
        }
    })
}

/// What stands before the events of a message.
pub(super) fn message(type_url: &str, signer: &Address) -> Event {
    // `/akash.market.v1beta5.MsgCreateBid` belongs to the module `market`.
    let module = type_url.split('.').nth(1).unwrap_or_default();
    Event::new(
        "message",
        vec![
            ("action", type_url.to_owned()),
            ("sender", signer.to_string()),
            ("module", module.to_owned()),
        ],
    )
}
