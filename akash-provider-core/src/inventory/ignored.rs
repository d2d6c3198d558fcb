//! Resources of the cluster that the provider does not offer.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Kind of a resource that is not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IgnoredKind {
    /// Kind of API objects that the provider cannot read.
    ObjectKind,
    /// Storage class, or a component that reports the sizes of storage classes.
    StorageClass,
    /// Stored workload record that the provider cannot decode.
    Record,
    /// Node that is not offered to tenants.
    Node,
    /// Node that accepts no new replicas, for example a cordoned node.
    ClosedNode,
    /// GPUs of a node.
    Gpu,
    /// Any other resource.
    #[default]
    #[serde(other)]
    Other,
}

/// Resource of the cluster that the provider does not offer, with the reason and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Serialized")]
pub struct IgnoredResource {
    kind: IgnoredKind,
    reason: String,
    help: String,
}

/// Serialized form of [`IgnoredResource`]. Earlier versions wrote only the reason.
#[derive(Deserialize)]
#[serde(untagged)]
enum Serialized {
    Reason(String),
    Resource {
        #[serde(default)]
        kind: IgnoredKind,
        reason: String,
        #[serde(default)]
        help: String,
    },
}

impl From<Serialized> for IgnoredResource {
    fn from(serialized: Serialized) -> Self {
        match serialized {
            Serialized::Reason(reason) => Self::new(IgnoredKind::Other, reason, ""),
            Serialized::Resource { kind, reason, help } => Self::new(kind, reason, help),
        }
    }
}

impl IgnoredResource {
    /// Creates an entry. `reason` names the resource and states why the resource is not offered. `help` is
    /// the remedy, or empty if no remedy is known. Both texts are one line.
    pub fn new(kind: IgnoredKind, reason: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            help: help.into(),
        }
    }

    /// Kind of the resource.
    #[must_use]
    pub const fn kind(&self) -> IgnoredKind {
        self.kind
    }

    /// Returns the name of the resource, and the reason why the provider does not offer it.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the remedy, such as the command that sets a missing label. The text is empty if no remedy is
    /// known.
    #[must_use]
    pub fn help(&self) -> &str {
        &self.help
    }
}

/// Writes the reason.
impl fmt::Display for IgnoredResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn resource_is_decoded_from_its_fields_and_from_a_reason() {
        let node = IgnoredResource::new(IgnoredKind::Node, "node `n1`: missing label", "set the label");
        let value = serde_json::to_value(&node).unwrap();
        assert_eq!(
            value,
            json!({"kind": "node", "reason": "node `n1`: missing label", "help": "set the label"})
        );
        let decode = |value| serde_json::from_value::<IgnoredResource>(value).unwrap();
        assert_eq!(decode(value), node);
        let other = IgnoredResource::new(IgnoredKind::Other, "x", "");
        assert_eq!(decode(json!("x")), other);
        assert_eq!(
            decode(json!({"kind": "of a later version", "reason": "x"})),
            other
        );
    }
}
