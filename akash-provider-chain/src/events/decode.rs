//! Decoding of the events of a block.
//!
//! An event has a type and a list of keys and values. Each value is JSON. Unknown events and keys are ignored. A
//! malformed event is reported with its position and skipped, without effect on the other events.

use crate::convert::{Malformed, close_reason, dec_coin_from_text, event_address, excerpt};
use crate::proto::akash::market::v1::LeaseClosedReason;
use crate::rpc::types::{AbciAttribute, AbciEvent, Number, TxResult};
use akash_provider_core::types::{
    Address, BidId, BlockTime, ChainEvent, CloseReason, DecCoin, DeploymentId, GroupId, Height, OrderId,
};
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;

/// Maximum size of an attribute value, in bytes. Values on the Akash network have a few hundred bytes.
const VALUE_MAX: usize = 16 << 10;

/// Attribute keys that are decoded. Other keys are ignored.
const KEYS: [&str; 7] = ["auditor", "deadline", "hash", "id", "owner", "price", "reason"];

/// Malformed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedEvent {
    /// Height of the block that contains the event.
    pub height: Height,
    /// Index of the transaction in the block. `None` if the event belongs to the block itself.
    pub tx: Option<usize>,
    /// Index of the event in the transaction or block.
    pub index: usize,
    /// Type of the event, as untrusted text.
    pub kind: String,
    /// Reason why the event is malformed.
    pub why: String,
    /// Provider that the event concerns. `None` if the event concerns several providers or the address is
    /// unreadable.
    pub provider: Option<Address>,
}

impl fmt::Display for MalformedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            height,
            index,
            kind,
            why,
            ..
        } = self;
        match self.tx {
            Some(tx) => write!(
                f,
                "block {height}, transaction {tx}, event {index}, {kind}: {why}"
            ),
            None => write!(f, "block {height}, event {index}, {kind}: {why}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct BlockEvents {
    pub(crate) events: Vec<ChainEvent>,
    pub(crate) malformed: Vec<MalformedEvent>,
}

/// Decodes the events of a block: those of its successful transactions, then those of the block itself.
pub(crate) fn decode_events(height: Height, txs: &[TxResult], block: &[AbciEvent]) -> BlockEvents {
    let mut events = BlockEvents::default();
    for (tx, result) in txs.iter().enumerate() {
        // A failed transaction has no effect, so its events are ignored.
        if result.code == 0 {
            events.read(height, Some(tx), result.events.as_deref().unwrap_or_default());
        }
    }
    events.read(height, None, block);
    events
}

impl BlockEvents {
    fn read(&mut self, height: Height, tx: Option<usize>, events: &[AbciEvent]) {
        for (index, event) in events.iter().enumerate() {
            match decode_event(event) {
                Ok(Some(fact)) => self.events.push(fact),
                Ok(None) => {}
                Err(error) => self.malformed.push(MalformedEvent {
                    height,
                    tx,
                    index,
                    kind: event.kind.clone(),
                    why: error.to_string(),
                    provider: sole_provider(event),
                }),
            }
        }
    }
}

/// Id of a deployment, group, order, bid or lease in an event. The event type determines the required fields.
#[derive(Debug, Deserialize)]
struct EventMarketId {
    owner: String,
    dseq: Number,
    gseq: Option<u32>,
    oseq: Option<u32>,
    provider: Option<String>,
    bseq: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct EventPrice {
    denom: String,
    amount: String,
}

/// Close reason, encoded as a name or as a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Reason {
    Name(String),
    Number(i32),
}

fn need<T>(part: &'static str, value: Option<T>) -> Result<T, Malformed> {
    value.ok_or_else(|| Malformed::new(part, "is missing"))
}

impl EventMarketId {
    fn deployment(&self) -> Result<DeploymentId, Malformed> {
        Ok(DeploymentId::new(
            event_address("id.owner", &self.owner)?,
            self.dseq.0,
        ))
    }

    fn group(&self) -> Result<GroupId, Malformed> {
        Ok(self.deployment()?.group(need("id.gseq", self.gseq)?))
    }

    fn order(&self) -> Result<OrderId, Malformed> {
        Ok(self.group()?.order(need("id.oseq", self.oseq)?))
    }

    /// Returns true for a bid id with a `bseq`. Such a bid never belongs to this provider.
    fn is_numbered(&self) -> bool {
        self.bseq.is_some_and(|bseq| bseq != 0)
    }

    fn bid(&self) -> Result<BidId, Malformed> {
        let provider = need("id.provider", self.provider.as_deref())?;
        Ok(self.order()?.bid(event_address("id.provider", provider)?))
    }
}

/// Attribute values of an event, in the order of [`KEYS`].
struct Values<'a> {
    values: [Option<Cow<'a, str>>; KEYS.len()],
}

impl<'a> Values<'a> {
    fn new(attributes: &'a [AbciAttribute]) -> Result<Self, Malformed> {
        let mut values = [const { None }; KEYS.len()];
        for attribute in attributes {
            let Some((key, value)) = plain(attribute)? else {
                continue;
            };
            let slot = KEYS.iter().position(|k| *k == key);
            let Some(slot) = slot.and_then(|at| values.get_mut(at)) else {
                continue;
            };
            // Ambiguous.
            if slot.is_some() {
                return Err(Malformed::new(key, "is duplicated"));
            }
            *slot = Some(value);
        }
        Ok(Self { values })
    }

    fn text(&self, key: &'static str) -> Result<&str, Malformed> {
        let at = KEYS.iter().position(|k| *k == key);
        let value = at.and_then(|at| self.values.get(at)).and_then(Option::as_deref);
        let value = need(key, value)?;
        if value.len() > VALUE_MAX {
            return Err(Malformed::new(key, format!("is larger than {VALUE_MAX} bytes")));
        }
        Ok(value)
    }

    fn json<'s, T: Deserialize<'s>>(&'s self, key: &'static str) -> Result<T, Malformed> {
        let text = self.text(key)?;
        serde_json::from_str(text).map_err(|e| Malformed::new(key, format!("{e} in `{}`", excerpt(text))))
    }

    fn id(&self) -> Result<EventMarketId, Malformed> {
        self.json("id")
    }

    fn address(&self, key: &'static str) -> Result<Address, Malformed> {
        let text: String = self.json(key)?;
        event_address(key, &text)
    }

    fn price(&self) -> Result<DecCoin, Malformed> {
        let price: EventPrice = self.json("price")?;
        dec_coin_from_text(&price.denom, &price.amount)
    }

    fn hash(&self) -> Result<[u8; 32], Malformed> {
        let text: String = self.json("hash")?;
        let bytes = data_encoding::BASE64.decode(text.as_bytes());
        let bytes = bytes.map_err(|e| Malformed::new("hash", e.to_string()))?;
        let len = bytes.len();
        bytes
            .try_into()
            .map_err(|_| Malformed::new("hash", format!("has {len} bytes, not 32")))
    }

    fn reason(&self) -> Result<CloseReason, Malformed> {
        let number = match self.json("reason")? {
            Reason::Number(number) => number,
            Reason::Name(name) => {
                let named = LeaseClosedReason::from_str_name(&name);
                let unknown = || Malformed::new("reason", format!("`{}` is not a reason", excerpt(&name)));
                named.ok_or_else(unknown)?.into()
            }
        };
        // Old leases have no close reason.
        Ok(close_reason(number).unwrap_or(CloseReason::Other(0)))
    }

    fn deadline(&self) -> Result<BlockTime, Malformed> {
        let seconds: Number = self.json("deadline")?;
        let millis = i64::try_from(seconds.0).ok().and_then(|s| s.checked_mul(1000));
        millis
            .map(BlockTime)
            .ok_or_else(|| Malformed::new("deadline", format!("{} is not a time", seconds.0)))
    }
}

/// Returns key and value of an attribute as text, or `None` for a key that is not decoded.
///
/// Nodes before CometBFT 0.38 encode both as base64.
fn plain(attribute: &AbciAttribute) -> Result<Option<(&'static str, Cow<'_, str>)>, Malformed> {
    let key = attribute.key.as_deref().unwrap_or_default();
    let value = attribute.value.as_deref().unwrap_or_default();
    if let Some(key_name) = KEYS.iter().find(|k| **k == key) {
        return Ok(Some((key_name, Cow::Borrowed(value))));
    }
    let decoded = data_encoding::BASE64.decode(key.as_bytes()).ok();
    let Some(key_name) = KEYS.iter().find(|k| decoded.as_deref() == Some(k.as_bytes())) else {
        return Ok(None);
    };
    let bytes = data_encoding::BASE64.decode(value.as_bytes());
    let bytes = bytes.map_err(|e| Malformed::new(*key_name, format!("is not base64, {e}")))?;
    let text = String::from_utf8(bytes).map_err(|_| Malformed::new(*key_name, "is not UTF-8"))?;
    Ok(Some((key_name, Cow::Owned(text))))
}

/// Decodes an event. Returns `None` if the event type is unknown.
fn decode_event(event: &AbciEvent) -> Result<Option<ChainEvent>, Malformed> {
    let Some(name) = event.kind.strip_prefix("akash.") else {
        return Ok(None);
    };
    let attributes = event.attributes.as_deref().unwrap_or_default();
    if let Some(name) = name.strip_prefix("deployment.v1.Event") {
        deployment_event(name, attributes)
    } else if let Some(name) = name.strip_prefix("market.v1.Event") {
        market_event(name, attributes)
    } else {
        account_event(name, attributes)
    }
}

fn deployment_event(name: &str, attributes: &[AbciAttribute]) -> Result<Option<ChainEvent>, Malformed> {
    let values = || Values::new(attributes);
    let fact = match name {
        "DeploymentCreated" => ChainEvent::DeploymentCreated {
            id: values()?.id()?.deployment()?,
        },
        "DeploymentUpdated" => {
            let values = values()?;
            let id = values.id()?.deployment()?;
            let hash = values.hash()?;
            ChainEvent::DeploymentUpdated { id, hash }
        }
        "DeploymentClosed" => ChainEvent::DeploymentClosed {
            id: values()?.id()?.deployment()?,
        },
        "GroupStarted" => ChainEvent::GroupStarted {
            id: values()?.id()?.group()?,
        },
        "GroupPaused" => ChainEvent::GroupPaused {
            id: values()?.id()?.group()?,
        },
        "GroupClosed" => ChainEvent::GroupClosed {
            id: values()?.id()?.group()?,
        },
        _ => return Ok(None),
    };
    Ok(Some(fact))
}

fn market_event(name: &str, attributes: &[AbciAttribute]) -> Result<Option<ChainEvent>, Malformed> {
    let values = || Values::new(attributes);
    let fact = match name {
        "OrderCreated" => ChainEvent::OrderCreated {
            id: values()?.id()?.order()?,
        },
        "OrderClosed" => ChainEvent::OrderClosed {
            id: values()?.id()?.order()?,
        },
        "LeaseCreated" => {
            // Relevant for any provider and any bid: the order is no longer open.
            let values = values()?;
            let id = values.id()?.bid()?;
            let price = values.price()?;
            ChainEvent::LeaseCreated { id, price }
        }
        "BidCreated" | "BidClosed" | "LeaseClosed" | "LeaseReclaimStarted" => {
            let values = values()?;
            let id = values.id()?;
            if id.is_numbered() {
                return Ok(None);
            }
            return bid_event(name, id.bid()?, &values).map(Some);
        }
        _ => return Ok(None),
    };
    Ok(Some(fact))
}

/// Decodes an event of the type `BidCreated`, `BidClosed`, `LeaseClosed` or `LeaseReclaimStarted`. Each of
/// these events concerns exactly one provider: the provider in `id`.
fn bid_event(name: &str, id: BidId, values: &Values<'_>) -> Result<ChainEvent, Malformed> {
    Ok(match name {
        "BidCreated" => ChainEvent::BidCreated {
            id,
            price: values.price()?,
        },
        "LeaseClosed" => ChainEvent::LeaseClosed {
            id,
            reason: values.reason()?,
        },
        "LeaseReclaimStarted" => ChainEvent::LeaseReclaimStarted {
            id,
            reason: values.reason()?,
            deadline: values.deadline()?,
        },
        _ => ChainEvent::BidClosed { id },
    })
}

/// Returns the provider of an event about a single provider. Ignores malformed attributes of the event.
fn sole_provider(event: &AbciEvent) -> Option<Address> {
    let (key, part) = match event.kind.strip_prefix("akash.")? {
        "market.v1.EventBidCreated"
        | "market.v1.EventBidClosed"
        | "market.v1.EventLeaseClosed"
        | "market.v1.EventLeaseReclaimStarted" => ("id", Some("provider")),
        "provider.v1beta4.EventProviderCreated"
        | "provider.v1beta4.EventProviderUpdated"
        | "audit.v1.EventTrustedAuditorCreated"
        | "audit.v1.EventTrustedAuditorDeleted" => ("owner", None),
        _ => return None,
    };
    let attributes = event.attributes.as_deref().unwrap_or_default().iter();
    let mut named = attributes
        .filter_map(|a| plain(a).ok().flatten())
        .filter(|(k, _)| *k == key);
    // A duplicate key is ambiguous.
    let (Some((_, value)), None) = (named.next(), named.next()) else {
        return None;
    };
    let value: serde_json::Value = serde_json::from_str(value.get(..VALUE_MAX).unwrap_or(&value)).ok()?;
    let address = part.map_or(Some(&value), |part| value.get(part))?;
    address.as_str()?.parse().ok()
}

fn account_event(name: &str, attributes: &[AbciAttribute]) -> Result<Option<ChainEvent>, Malformed> {
    let values = || Values::new(attributes);
    let fact = match name {
        "provider.v1beta4.EventProviderCreated" | "provider.v1beta4.EventProviderUpdated" => {
            let owner = values()?.address("owner")?;
            ChainEvent::ProviderUpdated { owner }
        }
        "audit.v1.EventTrustedAuditorCreated" | "audit.v1.EventTrustedAuditorDeleted" => {
            let values = values()?;
            let (auditor, owner) = (values.address("auditor")?, values.address("owner")?);
            ChainEvent::AuditChanged { auditor, owner }
        }
        _ => return Ok(None),
    };
    Ok(Some(fact))
}
