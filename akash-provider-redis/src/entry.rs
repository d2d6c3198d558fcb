//! Stream entry with one event: the fields `v`, `epoch`, `at` and `event`.

use akash_provider_core::types::Event;
use redis::streams::StreamId;
use redis::{RedisError, RedisResult};
use std::sync::Arc;

/// Version of the entry format, the only version that readers accept.
pub(crate) const VERSION: &str = "1";
/// Maximum size of an event as JSON, in bytes. The status of ten thousand leases has several megabytes.
pub(crate) const BYTES_MAX: usize = 16 << 20;
/// Maximum size of an entry, in bytes: an event and three short fields.
pub(crate) const ENTRY_MAX: usize = BYTES_MAX + 1024;

/// Id of an entry: its position among the entries of all topics, and its position in its own topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct EntryId {
    pub(crate) sequence: u64,
    pub(crate) count: u64,
}

impl EntryId {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (sequence, count) = text.split_once('-')?;
        Some(Self {
            sequence: sequence.parse().ok()?,
            count: count.parse().ok()?,
        })
    }
}

impl std::fmt::Display for EntryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.sequence, self.count)
    }
}

#[derive(Debug)]
pub(crate) struct StreamEntry {
    pub(crate) id: EntryId,
    pub(crate) epoch: String,
    /// Event, or the reason why the entry is invalid.
    pub(crate) event: Result<Arc<Event>, String>,
}

impl StreamEntry {
    /// Decodes an entry. An invalid stream ID is an error, because a reader cannot continue without this ID.
    pub(crate) fn read(raw: &StreamId) -> RedisResult<Self> {
        let wrong = || RedisError::from((redis::ErrorKind::UnexpectedReturnType, "entry without a valid id"));
        let id = EntryId::parse(&raw.id).ok_or_else(wrong)?;
        let version: String = raw.get("v").unwrap_or_default();
        let text: Option<String> = raw.get("event");
        let event = match text {
            _ if version != VERSION => {
                Err(format!("unsupported version `{version:.20}`, expected {VERSION}"))
            }
            None => Err("missing field `event`".to_owned()),
            Some(text) => event(&text),
        };
        Ok(Self {
            id,
            epoch: raw.get("epoch").unwrap_or_default(),
            event,
        })
    }
}

/// Decodes an event from JSON.
pub(crate) fn event(text: &str) -> Result<Arc<Event>, String> {
    if text.len() > BYTES_MAX {
        return Err(format!(
            "the event has {} bytes, more than {BYTES_MAX}",
            text.len()
        ));
    }
    serde_json::from_str(text)
        .map(Arc::new)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_consist_of_two_numbers() {
        let id = EntryId {
            sequence: 7,
            count: 3,
        };
        assert_eq!(EntryId::parse("7-3"), Some(id));
        assert_eq!(id.to_string(), "7-3");
        for bad in ["", "7", "7-", "-3", "a-3", "7-3-1", "18446744073709551616-1"] {
            assert_eq!(EntryId::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_invalid_event_has_a_reason() {
        assert!(event("{}").unwrap_err().contains("event"));
        let long = " ".repeat(BYTES_MAX + 1);
        assert!(event(&long).unwrap_err().contains("more than"));
    }
}
