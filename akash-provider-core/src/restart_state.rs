//! Provider state that must survive a restart. The chain and the cluster do not store this state.

use crate::config::Config;
use crate::engine::Status;
use crate::types::{Address, Event};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// State to restore at the next start: the owners for which the circuit breaker has tripped.
///
/// All other state is read from the chain and the cluster. Without this state, a provider would close leases
/// before an operator has reviewed the closes.
///
/// ```
/// # use akash_provider_core::{Config, RestartState};
/// # let account = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
/// # let file = RestartState::default().to_json();
/// // At start; for a missing file use `RestartState::default()`.
/// let state = RestartState::from_json(&file).unwrap_or_else(|error| {
///     eprintln!("{error}");
///     RestartState::unknown()
/// });
/// let mut config = Config::new(account, "akashnet-2");
/// state.apply_to(&mut config);
/// ```
/// At run time the `StateStore` of the builder receives each change before the change takes effect, and stores
/// the text: write a temporary file, sync it, rename it. A program that drives the engine directly calls
/// [`RestartState::apply`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RestartState {
    /// Whether the circuit breaker has tripped for all owners.
    pub breaker_tripped: bool,
    /// Owners with a tripped circuit breaker, even if `breaker_tripped` is false.
    pub breaker_held_owners: BTreeSet<Address>,
}

/// Error in a stored state: the text cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot read state of the previous run: {problem}; start with `RestartState::unknown()`, review the leases and \
     release the circuit breaker, or restore a backup of the file"
)]
pub struct InvalidRestartState {
    problem: String,
}

impl RestartState {
    /// Creates the restart state from the current status.
    #[must_use]
    pub fn from_status(status: &Status) -> Self {
        Self {
            breaker_tripped: status.breaker.tripped,
            breaker_held_owners: status.breaker.held_owners.iter().cloned().collect(),
        }
    }

    /// Creates the state for an unknown previous state: the circuit breaker holds all closes until an
    /// operator releases the breaker.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            breaker_tripped: true,
            ..Self::default()
        }
    }

    /// Returns true if the circuit breaker has not tripped for any owner.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies an event. Returns true if the state changed. The caller must then store the state.
    pub fn apply(&mut self, event: &Event) -> bool {
        let before = self.clone();
        match event {
            Event::BreakerTripped { .. } => self.breaker_tripped = true,
            Event::BreakerTrippedFor { owner, .. } => {
                self.breaker_held_owners.insert(owner.clone());
            }
            Event::BreakerReleased => *self = Self::default(),
            Event::BreakerReleasedFor { owner } => {
                self.breaker_held_owners.remove(owner);
            }
            // Other events do not change this state.
            _ => {}
        }
        *self != before
    }

    /// Writes this restart state into the settings of the next start.
    pub fn apply_to(&self, config: &mut Config) {
        config.breaker_tripped = self.breaker_tripped;
        config.breaker_held_owners = self.breaker_held_owners.clone();
    }

    /// Returns one line of JSON, for a file: `{"breaker_tripped":false,"breaker_held_owners":["akash1…"]}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Strings and booleans always serialize to JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a text from [`RestartState::to_json`]. An older program version may have created the text.
    /// Missing fields get their default.
    ///
    /// # Errors
    /// Returns an error when the text is not valid, for example an empty file after a crash during a write.
    pub fn from_json(text: &str) -> Result<Self, InvalidRestartState> {
        serde_json::from_str(text).map_err(|error| InvalidRestartState {
            problem: error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(number: u8) -> Address {
        Address::from_bytes(&[number; 20]).unwrap()
    }

    fn state_of(tripped: bool, owners: &[u8]) -> RestartState {
        RestartState {
            breaker_tripped: tripped,
            breaker_held_owners: owners.iter().map(|n| owner(*n)).collect(),
        }
    }

    #[test]
    fn the_state_round_trips_and_is_applied_to_the_next_start() {
        let state = state_of(true, &[1, 2]);
        let text = state.to_json();
        assert!(!text.contains('\n'), "{text}");
        let again = RestartState::from_json(&text).unwrap();
        assert_eq!(again, state);
        let mut config = Config::new(owner(9), "test");
        again.apply_to(&mut config);
        assert!(config.breaker_tripped);
        assert_eq!(config.breaker_held_owners, state.breaker_held_owners);
        let engine = crate::engine::Engine::new(config).unwrap();
        assert_eq!(
            RestartState::from_status(&engine.status(crate::types::Now::default())),
            state
        );
    }

    #[test]
    fn fields_missing_in_older_versions_have_their_default() {
        assert_eq!(RestartState::from_json("{}").unwrap(), RestartState::default());
        assert_eq!(
            RestartState::from_json(r#"{"newer": 1}"#).unwrap(),
            RestartState::default()
        );
    }

    #[test]
    fn unreadable_state_names_the_remedy() {
        for text in [
            "",
            "[",
            "\0\0\0",
            r#"{"breaker_tripped": 3}"#,
            r#"{"breaker_held_owners": ["x"]}"#,
        ] {
            let message = RestartState::from_json(text).unwrap_err().to_string();
            assert!(message.contains("RestartState::unknown()"), "{text}: {message}");
        }
        assert!(RestartState::unknown().breaker_tripped);
    }

    #[test]
    fn each_breaker_event_changes_the_state_once() {
        let mut now = RestartState::default();
        let trip = |n| Event::BreakerTrippedFor {
            owner: owner(n),
            wanted: 3,
        };
        assert!(now.apply(&trip(1)) && now.apply(&trip(2)) && !now.apply(&trip(2)));
        assert!(now.apply(&Event::BreakerTripped { wanted: 4 }));
        assert_eq!(now, state_of(true, &[1, 2]));
        assert!(!now.apply(&Event::DriftFound { findings: Vec::new() }));
        assert!(now.apply(&Event::BreakerReleasedFor { owner: owner(1) }));
        assert!(now.apply(&Event::BreakerReleased) && !now.apply(&Event::BreakerReleased));
        assert_eq!(now, RestartState::default());
    }
}
