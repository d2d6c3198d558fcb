//! Attribute of a resource, a provider or a placement requirement.

use serde::{Deserialize, Serialize};

/// An attribute: a key and a value. The keys of requirements can end with a wildcard.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attribute {
    /// Key, a path with `/` between its parts; omitted from the JSON when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Value, compared byte by byte.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

impl Attribute {
    /// Key of the placement attribute that requests confidential computing.
    pub const TEE: &'static str = "tee/type";

    /// Creates an attribute without validation.
    #[must_use]
    pub fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
        }
    }
}
