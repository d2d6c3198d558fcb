//! Messages as trees in the JSON form of the network.

use akash_provider_chain::proto::DESCRIPTORS;
use akash_provider_cli::json::Json;
use anyhow::{Context, anyhow};
use data_encoding::BASE64;
use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage, Value,
};
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

/// Number of decimal places on the chain.
const DECIMALS: usize = 18;
/// Full names of decimal fields. The encoded value is an integer scaled by 10^18.
const DECIMAL_FIELDS: [&str; 2] = [
    "cosmos.base.v1beta1.DecCoin.amount",
    "akash.escrow.types.v1.Balance.amount",
];
/// Full name of the field that contains a decimal number as bytes.
const DIGITS_FIELD: &str = "akash.base.resources.v1beta4.ResourceValue.val";
const ANY: &str = "google.protobuf.Any";
const TIMESTAMP: &str = "google.protobuf.Timestamp";
const DURATION: &str = "google.protobuf.Duration";

/// Converts a message of the chain to JSON.
///
/// # Errors
/// Returns an error if a nested message has an unknown type.
pub fn from_message<M: Message + Name>(message: &M) -> anyhow::Result<Json> {
    decoded(&M::full_name(), &message.encode_to_vec())
}

/// Converts the body and the `auth_info` of an unsigned transaction to JSON.
///
/// # Errors
/// Same as [`from_message`].
pub fn unsigned<B: Message + Name, A: Message + Name>(body: &B, auth_info: &A) -> anyhow::Result<Json> {
    Ok(Json::Fields(vec![
        ("body".to_owned(), from_message(body)?),
        ("auth_info".to_owned(), from_message(auth_info)?),
        ("signatures".to_owned(), Json::List(Vec::new())),
    ]))
}

fn pool() -> anyhow::Result<&'static DescriptorPool> {
    static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| DescriptorPool::decode(DESCRIPTORS).ok());
    pool.as_ref()
        .context("cannot read the built-in message descriptors")
}

/// Decodes a message with the full type name `name`, and converts the message to JSON.
///
/// # Errors
/// Returns an error if the type is unknown, or the bytes are invalid.
pub fn decoded(name: &str, bytes: &[u8]) -> anyhow::Result<Json> {
    let descriptor = pool()?.get_message_by_name(name);
    let descriptor = descriptor.with_context(|| format!("unknown message type {name}"))?;
    let message =
        DynamicMessage::decode(descriptor, bytes).with_context(|| format!("invalid message {name}"))?;
    to_json(&message)
}

fn to_json(message: &DynamicMessage) -> anyhow::Result<Json> {
    let descriptor = message.descriptor();
    match descriptor.full_name() {
        ANY => return any(message),
        TIMESTAMP => return Ok(Json::Text(timestamp(message))),
        DURATION => return Ok(Json::Text(duration(message))),
        _ => {}
    }
    let mut fields = Vec::new();
    for field in in_order(&descriptor) {
        // Only the set alternative of a `oneof` is printed.
        if field.containing_oneof().is_some() && !message.has_field(&field) {
            continue;
        }
        fields.push((field.name().to_owned(), field_json(message, &field)?));
    }
    Ok(Json::Fields(fields))
}

/// Returns the fields of a message type in the order of their declaration, as in Go.
fn in_order(descriptor: &MessageDescriptor) -> Vec<FieldDescriptor> {
    let declared = descriptor.descriptor_proto().field.iter();
    declared
        .filter_map(|f| descriptor.get_field_by_name(f.name()))
        .collect()
}

fn field_json(message: &DynamicMessage, field: &FieldDescriptor) -> anyhow::Result<Json> {
    let value = message.get_field(field);
    if let Value::List(items) = value.as_ref() {
        let items = items.iter().map(|item| value_json(item, field));
        return items.collect::<anyhow::Result<_>>().map(Json::List);
    }
    let has_absence = matches!(field.kind(), Kind::Message(_) | Kind::Bytes);
    if has_absence && !message.has_field(field) {
        return Ok(Json::Null);
    }
    value_json(&value, field)
}

fn value_json(value: &Value, field: &FieldDescriptor) -> anyhow::Result<Json> {
    Ok(match value {
        Value::Bool(value) => Json::Bool(*value),
        Value::I32(value) => Json::Number((*value).into()),
        Value::U32(value) => Json::Number((*value).into()),
        Value::I64(value) => Json::Text(value.to_string()),
        Value::U64(value) => Json::Text(value.to_string()),
        Value::F32(value) => Json::Text(value.to_string()),
        Value::F64(value) => Json::Text(value.to_string()),
        Value::String(text) if DECIMAL_FIELDS.contains(&field.full_name()) => Json::Text(decimal(text)),
        Value::String(text) => Json::Text(text.clone()),
        Value::Bytes(bytes) if field.full_name() == DIGITS_FIELD => {
            Json::Text(String::from_utf8_lossy(bytes).into_owned())
        }
        Value::Bytes(bytes) => Json::Text(BASE64.encode(bytes)),
        Value::EnumNumber(number) => Json::Text(enum_name(*number, field)),
        Value::Message(message) => to_json(message)?,
        Value::List(_) | Value::Map(_) => {
            return Err(anyhow!(
                "cannot print field {}: its value is a nested list or map",
                field.full_name()
            ));
        }
    })
}

fn enum_name(number: i32, field: &FieldDescriptor) -> String {
    let kind = field.kind();
    let value = kind.as_enum().and_then(|e| e.get_value(number));
    value.map_or_else(|| number.to_string(), |v| v.name().to_owned())
}

/// Converts a packed message (`Any`) to JSON with its type. An unknown type is printed as bytes.
fn any(message: &DynamicMessage) -> anyhow::Result<Json> {
    let text = |name: &str| {
        let value = message.get_field_by_name(name);
        value
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    let url = text("type_url");
    let value = message.get_field_by_name("value");
    let bytes = value.and_then(|v| v.as_bytes().cloned()).unwrap_or_default();
    let name = url.rsplit('/').next().unwrap_or_default();
    let tag = ("@type".to_owned(), Json::Text(url.clone()));
    if pool()?.get_message_by_name(name).is_none() {
        let value = ("value".to_owned(), Json::Text(BASE64.encode(&bytes)));
        return Ok(Json::Fields(vec![tag, value]));
    }
    match decoded(name, &bytes)? {
        Json::Fields(fields) => Ok(Json::Fields(std::iter::once(tag).chain(fields).collect())),
        other => Ok(Json::Fields(vec![tag, ("value".to_owned(), other)])),
    }
}

fn seconds_and_nanos(message: &DynamicMessage) -> (i64, i32) {
    let seconds = message.get_field_by_name("seconds").and_then(|v| v.as_i64());
    let nanos = message.get_field_by_name("nanos").and_then(|v| v.as_i32());
    (seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

/// Last second of the year 9999, since the Unix epoch.
const LAST_SECOND: i64 = 253_402_300_799;

fn timestamp(message: &DynamicMessage) -> String {
    let (seconds, nanos) = seconds_and_nanos(message);
    let since = Duration::new(
        u64::try_from(seconds).unwrap_or(0),
        u32::try_from(nanos).unwrap_or(0),
    );
    // RFC 3339 ends with the year 9999, and formatting a later time fails.
    let Some(time) = UNIX_EPOCH.checked_add(since).filter(|_| seconds <= LAST_SECOND) else {
        return format!("{seconds} s after 1970");
    };
    if nanos == 0 {
        humantime::format_rfc3339_seconds(time).to_string()
    } else {
        humantime::format_rfc3339_nanos(time).to_string()
    }
}

/// Formats a duration such as `25s`, with 0, 3, 6 or 9 decimal places.
fn duration(message: &DynamicMessage) -> String {
    let (seconds, nanos) = seconds_and_nanos(message);
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let fraction = format!("{:09}", nanos.unsigned_abs());
    let mut fraction = fraction.as_str();
    while let Some(shorter) = fraction.strip_suffix("000") {
        fraction = shorter;
    }
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}s", seconds.unsigned_abs())
}

/// Formats an integer scaled by 10^18 as a decimal.
fn decimal(scaled: &str) -> String {
    let (sign, digits) = scaled
        .strip_prefix('-')
        .map_or(("", scaled), |digits| ("-", digits));
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return scaled.to_owned();
    }
    let padded = format!("{digits:0>width$}", width = DECIMALS + 1);
    let (whole, fraction) = padded.split_at(padded.len() - DECIMALS);
    format!("{sign}{whole}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_chain::proto::{akash, cosmos};
    use serde_json::json;

    fn json_of<M: Message + Name>(message: &M) -> serde_json::Value {
        serde_json::to_value(from_message(message).unwrap()).unwrap()
    }

    #[test]
    fn prints_decimals_with_18_digits() {
        assert_eq!(decimal("40000000000000000000"), "40.000000000000000000");
        assert_eq!(decimal("0"), "0.000000000000000000");
        assert_eq!(decimal("-5"), "-0.000000000000000005");
        assert_eq!(decimal("odd"), "odd");
    }

    #[test]
    fn prints_any_time_of_a_node() {
        let json = |seconds| json_of(&prost_types::Timestamp { seconds, nanos: 0 });
        assert_eq!(json(LAST_SECOND), "9999-12-31T23:59:59Z");
        for seconds in [i64::MIN, LAST_SECOND + 1, i64::MAX] {
            assert!(json(seconds).is_string(), "{seconds}");
        }
    }

    #[test]
    fn prints_every_field_in_the_form_of_the_network() {
        let bid = akash::market::v1beta5::Bid {
            id: Some(akash::market::v1::BidId {
                owner: "o".into(),
                dseq: 1001,
                gseq: 1,
                oseq: 2,
                provider: "p".into(),
                bseq: 0,
            }),
            state: 1,
            price: Some(cosmos::base::v1beta1::DecCoin {
                denom: "uact".into(),
                amount: "41500000000000000000".into(),
            }),
            created_at: 506,
            resources_offer: Vec::new(),
            reclamation_window: Some(prost_types::Duration {
                seconds: 3600,
                nanos: 0,
            }),
        };
        let expected = json!({
            "id": {"owner": "o", "dseq": "1001", "gseq": 1, "oseq": 2, "provider": "p", "bseq": 0},
            "state": "open", "price": {"denom": "uact", "amount": "41.500000000000000000"}, "created_at": "506",
            "resources_offer": [], "reclamation_window": "3600s",
        });
        assert_eq!(json_of(&bid), expected);
        let text = serde_json::to_string(&from_message(&bid).unwrap()).unwrap();
        assert!(text.starts_with(r#"{"id":{"owner":"o","dseq":"1001","#), "{text}");
    }

    #[test]
    fn prints_missing_messages_as_null_and_digits_as_text() {
        let page = cosmos::base::query::v1beta1::PageResponse::default();
        assert_eq!(json_of(&page), json!({"next_key": null, "total": "0"}));
        let cpu = akash::base::resources::v1beta4::Cpu {
            units: Some(akash::base::resources::v1beta4::ResourceValue { val: b"100".to_vec() }),
            attributes: Vec::new(),
        };
        assert_eq!(json_of(&cpu), json!({"units": {"val": "100"}, "attributes": []}));
        let lease = akash::market::v1::Lease::default();
        let json = json_of(&lease);
        assert_eq!(
            (&json["price"], &json["reclamation"]),
            (&serde_json::Value::Null, &serde_json::Value::Null)
        );
        assert_eq!(json["reason"], "lease_closed_invalid");
    }

    #[test]
    fn unpacks_packed_messages() {
        let key = cosmos::crypto::secp256k1::PubKey { key: vec![2, 3] };
        let account = cosmos::auth::v1beta1::BaseAccount {
            address: "a".into(),
            pub_key: Some(prost_types::Any {
                type_url: "/cosmos.crypto.secp256k1.PubKey".into(),
                value: key.encode_to_vec(),
            }),
            account_number: 7,
            sequence: 0,
        };
        assert_eq!(
            json_of(&account)["pub_key"],
            json!({"@type": "/cosmos.crypto.secp256k1.PubKey", "key": "AgM="})
        );
        let foreign = prost_types::Any {
            type_url: "/some.where.Else".into(),
            value: vec![1],
        };
        assert_eq!(
            json_of(&foreign),
            json!({"@type": "/some.where.Else", "value": "AQ=="})
        );
    }

    #[test]
    fn prints_times_and_durations_as_text() {
        let body = cosmos::tx::v1beta1::TxBody {
            timeout_timestamp: Some(prost_types::Timestamp {
                seconds: 1_795_253_704,
                nanos: 5_000_000,
            }),
            ..Default::default()
        };
        assert_eq!(
            json_of(&body)["timeout_timestamp"],
            "2026-11-21T09:35:04.005000000Z"
        );
        let span = prost_types::Duration {
            seconds: 1,
            nanos: 500_000_000,
        };
        assert_eq!(json_of(&span), json!("1.500s"));
    }
}
