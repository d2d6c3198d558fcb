//! JSON values that preserve the order of fields, because scripts compare the printed text.
//!
//! This module does not use the feature `preserve_order` of `serde_json`, because the feature would also
//! change the order of fields in a program that embeds this crate.

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;
use std::fmt;

/// JSON value. The order of the fields matters for equality.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`; also the result of [`Json::at`] for a missing field.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Number with its original digits, so that 64-bit integers stay exact.
    Number(Number),
    /// Text without quotes and escapes.
    Text(String),
    /// List of values of any kind.
    List(Vec<Self>),
    /// Object, with the fields in their original order.
    Fields(Vec<(String, Self)>),
}

impl Json {
    /// Returns a field of an object. If the name occurs several times, returns the first field. Returns
    /// `None` if the field is missing or the value is not an object.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Self> {
        let Self::Fields(fields) = self else {
            return None;
        };
        fields
            .iter()
            .find(|(have, _)| have == name)
            .map(|(_, value)| value)
    }

    /// Returns a field of an object, or `Null` if the field is missing.
    #[must_use]
    pub fn at(&self, name: &str) -> &Self {
        self.field(name).unwrap_or(&Self::Null)
    }

    /// Returns the text, or `None` for other kinds of values.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns an object with one more field at its end.
    #[must_use]
    pub fn with(self, name: &str, value: Self) -> Self {
        let mut fields = match self {
            Self::Fields(fields) => fields,
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) | Self::List(_) => Vec::new(),
        };
        fields.push((name.to_owned(), value));
        Self::Fields(fields)
    }
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
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
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
    fn rejects_deeply_nested_json() {
        assert!(serde_json::from_str::<Json>(&"[".repeat(100_000)).is_err());
    }
}
