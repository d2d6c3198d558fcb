//! What the operator notes on the record of a hostname: for the provider, which shows it to the tenant, and for the
//! operator that comes after it. It is an annotation each, which nobody else writes.

use crate::labels;
use akash_provider_core::cluster::{HostnameNotes, Reachable};
use akash_provider_core::types::Address;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A longer note is none of ours.
const NOTE_MAX: usize = 4_096;

/// What is noted on a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Notes {
    /// Whether its owner has proved that the name is theirs.
    pub proof: Option<Proof>,
    /// Whether its address answers.
    pub reachable: Option<Reachable>,
}

/// Whether an owner has proved that a name is theirs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proof {
    /// How far it is.
    pub state: ProofState,
    /// Whose proof it is; of another owner it counts nothing.
    pub owner: String,
    /// What makes it so, in words for the tenant.
    pub why: String,
    /// Since when it is so, RFC 3339 in UTC.
    pub at: String,
}

/// How far a proof is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofState {
    /// The record was found. A query that fails later changes nothing.
    Proven,
    /// It was never found.
    Waiting,
    /// It was found once, and DNS has said several times since that it is not there.
    Withdrawn,
}

impl Notes {
    /// Of the annotations of a record. What cannot be read counts as not noted.
    #[must_use]
    pub fn of(annotations: Option<&BTreeMap<String, String>>) -> Self {
        Self {
            proof: read(annotations, labels::HOSTNAME_PROOF),
            reachable: read(annotations, labels::HOSTNAME_REACHABLE),
        }
    }

    /// How far the proof of this owner is; `None` where nothing is noted of them.
    #[must_use]
    pub fn proof_of(&self, owner: &Address) -> Option<ProofState> {
        self.noted(&owner.to_string()).map(|proof| proof.state)
    }

    /// The same with everything that is noted of it.
    pub(super) fn noted(&self, owner: &str) -> Option<&Proof> {
        self.proof.as_ref().filter(|proof| proof.owner == owner)
    }

    /// What a tenant is shown of it; `None` where there is nothing to say.
    #[must_use]
    pub fn for_tenant(self, owner: &str) -> Option<HostnameNotes> {
        let waits = self
            .noted(owner)
            .filter(|proof| proof.state != ProofState::Proven);
        let waits_for = waits.map(|proof| format!("{} (as of {})", proof.why, proof.at));
        let notes = HostnameNotes {
            waits_for,
            reachable: self.reachable,
        };
        (notes != HostnameNotes::default()).then_some(notes)
    }
}

fn read<T: DeserializeOwned>(annotations: Option<&BTreeMap<String, String>>, key: &str) -> Option<T> {
    let text = annotations?.get(key).filter(|text| text.len() <= NOTE_MAX)?;
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::cluster::Reach;

    fn noted(proof: &str, reachable: &str) -> Notes {
        let all = [
            (labels::HOSTNAME_PROOF, proof),
            (labels::HOSTNAME_REACHABLE, reachable),
        ];
        let all = all.map(|(key, text)| (key.to_owned(), text.to_owned()));
        Notes::of(Some(&all.into()))
    }

    #[test]
    fn a_tenant_is_shown_what_its_name_waits_for_and_nothing_of_another_owner() {
        let proof = r#"{"state":"waiting","owner":"akash1a","why":"a record is missing","at":"2030-01-01T00:00:00Z"}"#;
        let reachable = r#"{"state":"no","why":"it answers 503","at":"2030-01-01T00:00:00Z"}"#;
        let shown = noted(proof, reachable).for_tenant("akash1a").unwrap();
        let waits_for = shown.waits_for.unwrap();
        assert_eq!(waits_for, "a record is missing (as of 2030-01-01T00:00:00Z)");
        assert_eq!(shown.reachable.unwrap().state, Reach::No);
        assert_eq!(noted(proof, "").for_tenant("akash1b"), None);
        assert_eq!(
            noted(&proof.replace("waiting", "proven"), "").for_tenant("akash1a"),
            None
        );
        assert!(
            noted(&proof.replace("waiting", "withdrawn"), "")
                .for_tenant("akash1a")
                .is_some()
        );
    }

    #[test]
    fn a_note_that_cannot_be_read_or_is_too_long_is_none() {
        for bad in ["", "{", "[]", r#"{"state":"maybe","owner":"a","why":"","at":""}"#] {
            assert_eq!(noted(bad, bad), Notes::default(), "{bad}");
        }
        let long = format!(
            r#"{{"state":"proven","owner":"a","why":"{}","at":""}}"#,
            "x".repeat(NOTE_MAX)
        );
        assert_eq!(noted(&long, &long), Notes::default());
    }
}
