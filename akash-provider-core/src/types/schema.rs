//! JSON Schema of the bus events, for consumers in other languages (feature `schema`).

use super::event::Event;
use super::id::{Address, BidId, DeploymentId, OrderId};
use super::price::Dec;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};
use std::borrow::Cow;

const ID: &str = "Id of the fact, the same from every instance and after every restart; drop an id that was seen \
                  before. A fact without an id is published once, by the leader that made it.";

/// Returns the JSON Schema (draft 2020-12) of an [`Event`]. Consumers must ignore unknown fields and events.
#[must_use]
pub fn event_schema() -> Value {
    let mut schema = schemars::schema_for!(Event);
    schema.insert("title".to_owned(), "Event of an Akash provider".into());
    let mut schema = schema.to_value();
    for event in schema["oneOf"].as_array_mut().into_iter().flatten() {
        event["properties"]["id"] = json!({ "type": "string", "description": ID });
    }
    schema
}

macro_rules! text {
    ($($of:ident: $what:literal, $pattern:literal;)*) => {$(
        impl JsonSchema for $of {
            fn schema_name() -> Cow<'static, str> {
                stringify!($of).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "description": $what, "pattern": $pattern })
            }
        }
    )*};
}
text! {
    Address: "Account of the network, in bech32.", "^akash1[02-9ac-hj-np-z]+$";
    DeploymentId: "`OWNER/DSEQ`", "^akash1[^/]+/[0-9]+$";
    OrderId: "`OWNER/DSEQ/GSEQ/OSEQ`", "^akash1[^/]+(/[0-9]+){3}$";
    BidId: "`OWNER/DSEQ/GSEQ/OSEQ/PROVIDER`, of a bid and of the lease that it became", "^akash1[^/]+(/[0-9]+){3}/akash1[^/]+$";
    Dec: "Decimal number with up to 18 places.", "^-?[0-9]+(\\.[0-9]{1,18})?$";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Health;
    use crate::types::{BidOutcome, CloseReason, DecCoin, DeclineCode, LeaseId};

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/event.schema.json");

    fn branch<'a>(schema: &'a Value, event: &Value) -> &'a Value {
        let branches = schema["oneOf"].as_array().unwrap();
        let of = |one: &&Value| one["properties"]["event"]["const"] == event["event"];
        branches.iter().find(of).unwrap_or_else(|| panic!("{event}"))
    }

    /// Validates a value against the schema. Supports only the keywords that this schema uses.
    fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
        if let Some(name) = schema["$ref"].as_str() {
            return fits(root, &root["$defs"][name.trim_start_matches("#/$defs/")], value);
        }
        let some = ["oneOf", "anyOf"].iter().find_map(|of| schema[*of].as_array());
        if let Some(some) = some {
            return some.iter().any(|one| fits(root, one, value));
        }
        if let Some(constant) = schema.get("const") {
            return constant == value;
        }
        let is_of = |kind: &Value| match kind.as_str() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_u64(),
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("null") => value.is_null(),
            _ => false,
        };
        match &schema["type"] {
            Value::Array(kinds) => return kinds.iter().any(is_of),
            Value::Null => return true,
            kind if !is_of(kind) => return false,
            _ => {}
        }
        let required = schema["required"].as_array().into_iter().flatten();
        let has_all = required
            .into_iter()
            .all(|name| value.get(name.as_str().unwrap()).is_some());
        let fields = value.as_object().into_iter().flatten();
        let is_known = schema["properties"].is_object();
        let all_fit = fields.into_iter().all(|(name, value)| {
            !is_known
                || schema["properties"]
                    .get(name)
                    .is_some_and(|of| fits(root, of, value))
        });
        let is_one_of = schema["enum"].as_array().is_none_or(|all| all.contains(value));
        has_all && all_fit && is_one_of
    }

    #[test]
    fn events_match_the_schema_and_other_values_do_not() {
        let schema = event_schema();
        let lease: LeaseId =
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
                .parse()
                .unwrap();
        let order = lease.order.clone();
        let (bid, price) = (lease.clone(), DecCoin::new(&"uact".into(), Dec::from_int(3)));
        let (reason, message) = (DeclineCode::Gpu, "none".to_owned());
        let events = [
            Event::OrderDeclined {
                order: order.clone(),
                reason,
                message,
            },
            Event::BidPlaced {
                bid: bid.clone(),
                price,
            },
            Event::BidEnded {
                bid,
                outcome: BidOutcome::Lost,
            },
            Event::HealthChanged {
                lease: lease.clone(),
                health: Health::Bad,
            },
            Event::LeaseClosed {
                lease: lease.clone(),
                reason: Some(CloseReason::Other(7)),
            },
            Event::LeaseClosed {
                lease: lease.clone(),
                reason: None,
            },
            Event::BalanceChecked {
                deployment: order.deployment().clone(),
                blocks_left: Some(9),
            },
            Event::BreakerReleased,
            Event::DriftFound {
                findings: vec!["x".to_owned()],
            },
            Event::Status {
                body: serde_json::json!({ "leases": [] }),
            },
        ];
        for event in events {
            let written = serde_json::to_value(&event).unwrap();
            assert!(fits(&schema, branch(&schema, &written), &written), "{written}");
            let mut without = written.clone();
            if let Some((name, _)) = written
                .as_object()
                .unwrap()
                .iter()
                .find(|(name, of)| *name != "event" && !of.is_null())
            {
                without[name] = true.into();
                let is_open = event
                    == Event::Status {
                        body: written["body"].clone(),
                    };
                assert!(
                    is_open || !fits(&schema, branch(&schema, &without), &without),
                    "{without}"
                );
            }
        }
    }

    #[test]
    fn the_published_schema_is_current() {
        let shipped = std::fs::read_to_string(FILE).unwrap_or_default();
        let current = serde_json::to_string_pretty(&event_schema()).unwrap();
        assert!(
            shipped.trim() == current,
            "docs/event.schema.json is outdated; run: cargo run -p provider-daemon -- bus schema > docs/event.schema.json"
        );
    }
}
