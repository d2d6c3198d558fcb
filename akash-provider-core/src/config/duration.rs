//! Serialization of durations as text for readable formats.

use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// Accepted form of a duration, for error messages.
const WANTED: &str = "a duration as text, such as 500ms, 30s, 5m or 1h30m";
/// Text form of `None`.
const NEVER: &str = "never";

fn parse<E: de::Error>(text: &str) -> Result<Duration, E> {
    let short: String = text.chars().take(80).collect();
    humantime::parse_duration(text).map_err(|_| {
        E::custom(format!(
            "invalid duration `{short}`; write it as 500ms, 30s, 5m or 1h30m"
        ))
    })
}

pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        return serializer.collect_str(&humantime::format_duration(*value));
    }
    value.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    if deserializer.is_human_readable() {
        return deserializer.deserialize_any(DurationVisitor);
    }
    Duration::deserialize(deserializer)
}

/// Deserializes a duration from text, or from the old form `{"secs": 30, "nanos": 0}`.
struct DurationVisitor;

impl<'de> Visitor<'de> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WANTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        parse(text)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Duration, A::Error> {
        Duration::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Serialization of optional durations, with `never` for `None`.
pub(super) mod or_never {
    use super::{Deserialize, Deserializer, Duration, NEVER, OrNever, Serialize, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            _ if !serializer.is_human_readable() => value.serialize(serializer),
            Some(value) => super::serialize(value, serializer),
            None => serializer.serialize_str(NEVER),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(OrNever);
        }
        Option::deserialize(deserializer)
    }
}

struct OrNever;

impl<'de> Visitor<'de> for OrNever {
    type Value = Option<Duration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WANTED}, or {NEVER}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Option<Duration>, E> {
        if text == NEVER {
            return Ok(None);
        }
        parse(text).map(Some)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<Duration>, E> {
        Ok(None)
    }

    fn visit_none<E: de::Error>(self) -> Result<Option<Duration>, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<Duration>, A::Error> {
        DurationVisitor.visit_map(map).map(Some)
    }
}
