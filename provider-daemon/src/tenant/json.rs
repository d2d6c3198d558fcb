//! Answers of providers as they were given: fields in their order, and none lost that this version does not know.

use crate::gateway::escaped;
use akash_provider_core::types::LeaseId;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;
use std::fmt;

/// JSON whose objects keep the order of their fields.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Self>),
    Fields(Vec<(String, Self)>),
}

impl Json {
    /// An object's field.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        let Self::Fields(fields) = self else {
            return None;
        };
        fields
            .iter()
            .find(|(have, _)| have == name)
            .map(|(_, value)| value)
    }

    /// A text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// An object with one more field at its end.
    pub(super) fn with(self, name: &str, value: Self) -> Self {
        let mut fields = match self {
            Self::Fields(fields) => fields,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => Vec::new(),
        };
        fields.push((name.to_owned(), value));
        Self::Fields(fields)
    }

    /// The id of a lease as today's tool writes it.
    pub(super) fn of_lease(id: &LeaseId) -> Self {
        let text = |text: &str| Self::Text(text.to_owned());
        let order = &id.order;
        Self::Fields(Vec::new())
            .with("owner", text(id.owner().as_str()))
            .with("dseq", Self::Number(order.deployment().dseq.into()))
            .with("gseq", Self::Number(order.group.gseq.into()))
            .with("oseq", Self::Number(order.oseq.into()))
            .with("provider", text(id.provider.as_str()))
            .with("bseq", Self::Number(0.into()))
    }
}

/// JSON for people: two spaces for each level, and escaped as the network's tools do it.
pub(super) fn pretty(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(serde_json::to_string_pretty(value)?) + "\n")
}

/// JSON on one line.
pub(super) fn compact(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(escaped(serde_json::to_string(value)?) + "\n")
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => value.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Fields(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Number::from_f64(value).map_or(Json::Null, Json::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = access.next_entry()? {
            fields.push(field);
        }
        Ok(Json::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_its_order_its_numbers_and_what_is_unknown() {
        let text = r#"{"z":1,"a":[null,true,-5,18446744073709551615,0.5,"<ü>"],"m":{"y":{},"b":[]}}"#;
        let read: Json = serde_json::from_str(text).unwrap();
        let written = compact(&read).unwrap();
        assert_eq!(written, text.replace("<ü>", "\\u003cü\\u003e") + "\n");
        let indented = pretty(&read).unwrap();
        assert!(
            indented.starts_with("{\n  \"z\": 1,\n  \"a\": [\n    null,\n"),
            "{indented}"
        );
        assert!(
            indented.ends_with("\"y\": {},\n    \"b\": []\n  }\n}\n"),
            "{indented}"
        );
    }

    #[test]
    fn what_is_nested_without_end_is_refused() {
        assert!(serde_json::from_str::<Json>(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn a_lease_is_written_as_today_s_tool_writes_it() {
        let owner = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
        let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
        let lease = format!("{owner}/7/1/2/{provider}").parse().unwrap();
        let expected = format!(
            "{{\"owner\":\"{owner}\",\"dseq\":7,\"gseq\":1,\"oseq\":2,\"provider\":\"{provider}\",\"bseq\":0}}\n"
        );
        assert_eq!(compact(&Json::of_lease(&lease)).unwrap(), expected);
    }
}
