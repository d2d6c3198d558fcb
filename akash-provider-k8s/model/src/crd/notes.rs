//! Notes that the operator writes on the record of a hostname, for the status that the tenant sees and for the next
//! process of the operator. Each note is an annotation that no other client writes.

use akash_provider_core::cluster::{HostnameNotes, Reachability};
use akash_provider_core::types::Address;
use akash_provider_kube_kernel::labels;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum length of a note in bytes; longer values are ignored.
const NOTE_MAX: usize = 4_096;

/// Notes that the hostname operator stores in annotations of a ProviderHost record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Notes {
    /// State of the proof of ownership.
    pub proof: Option<Proof>,
    /// Result of the last probe.
    pub reachable: Option<Reachability>,
}

/// Proof of ownership of a hostname.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proof {
    /// State of the proof.
    pub state: ProofState,
    /// Address of the tenant. The proof is ignored for other tenants.
    pub owner: String,
    /// Reason for the state of the proof, shown to the tenant.
    pub why: String,
    /// Time of the last change of the proof, RFC 3339 in UTC.
    pub at: String,
}

/// State of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProofState {
    /// The TXT record was found. A failed query does not change this state.
    Proven,
    /// The TXT record was never found.
    Waiting,
    /// The TXT record was found earlier, but several later queries did not find it.
    Withdrawn,
}

impl Notes {
    /// Decodes the annotations of a record. Invalid values are ignored.
    #[must_use]
    pub fn from_annotations(annotations: Option<&BTreeMap<String, String>>) -> Self {
        Self {
            proof: read(annotations, labels::HOSTNAME_PROOF),
            reachable: read(annotations, labels::HOSTNAME_REACHABLE),
        }
    }

    /// Returns the state of the ownership proof of this tenant. Returns `None` if the record contains no such
    /// proof.
    #[must_use]
    pub fn proof_of(&self, owner: &Address) -> Option<ProofState> {
        self.noted(&owner.to_string()).map(|proof| proof.state)
    }

    /// Returns the proof of the tenant `owner`.
    #[must_use]
    pub fn noted(&self, owner: &str) -> Option<&Proof> {
        self.proof.as_ref().filter(|proof| proof.owner == owner)
    }

    /// Returns the notes to show to the tenant `owner`, or `None` if there are no such notes.
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
    use akash_provider_core::cluster::ReachState;

    fn noted(proof: &str, reachable: &str) -> Notes {
        let all = [
            (labels::HOSTNAME_PROOF, proof),
            (labels::HOSTNAME_REACHABLE, reachable),
        ];
        let all = all.map(|(key, text)| (key.to_owned(), text.to_owned()));
        Notes::from_annotations(Some(&all.into()))
    }

    #[test]
    fn tenant_sees_its_pending_proof_and_not_that_of_another_owner() {
        let proof = r#"{"state":"waiting","owner":"akash1a","why":"a record is missing","at":"2030-01-01T00:00:00Z"}"#;
        let reachable = r#"{"state":"no","why":"the response is 503","at":"2030-01-01T00:00:00Z"}"#;
        let notes = noted(proof, reachable).for_tenant("akash1a").unwrap();
        let waits_for = notes.waits_for.unwrap();
        assert_eq!(waits_for, "a record is missing (as of 2030-01-01T00:00:00Z)");
        assert_eq!(notes.reachable.unwrap().state, ReachState::No);
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
    fn invalid_or_too_long_note_is_ignored() {
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
