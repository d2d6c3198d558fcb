//! Requested resources of a group, in the form and the JSON of the Akash network.

use super::attribute::Attribute;
use super::price::DecCoin;
use serde::{Deserialize, Serialize};

/// CPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// Millicores.
    #[serde(with = "val")]
    pub units: u64,
    /// Free-form attributes; usually none.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub attributes: Vec<Attribute>,
}

impl Cpu {
    /// Creates a request of millicores.
    #[must_use]
    pub const fn new(units: u64, attributes: Vec<Attribute>) -> Self {
        Self { units, attributes }
    }
}

/// Memory of one replica, without volumes of class `ram`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Size in bytes; `size` in the JSON of the Akash network.
    #[serde(rename = "size", with = "val")]
    pub bytes: u64,
    /// Free-form attributes; usually none.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub attributes: Vec<Attribute>,
}

impl Memory {
    /// Creates a request of bytes.
    #[must_use]
    pub const fn new(bytes: u64, attributes: Vec<Attribute>) -> Self {
        Self { bytes, attributes }
    }
}

/// Whole GPUs, with attributes `vendor/<v>/model/<m>[/ram/<r>][/interface/<i>]` = `true`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Gpu {
    /// Number of devices per replica. With 0 the attributes have no effect.
    #[serde(with = "val")]
    pub units: u64,
    /// GPU models that the tenant accepts. Each of these models satisfies the request.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub attributes: Vec<Attribute>,
}

impl Gpu {
    /// Creates a request of devices.
    #[must_use]
    pub const fn new(units: u64, attributes: Vec<Attribute>) -> Self {
        Self { units, attributes }
    }
}

/// A volume of one replica: ephemeral on the node, in memory, or persistent with a class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Storage {
    /// Unique name in the unit; `default` if the tenant set no name.
    pub name: String,
    /// Size in bytes per replica; `size` in the JSON of the Akash network.
    #[serde(rename = "size", with = "val")]
    pub bytes: u64,
    /// Attributes `class`, `persistent` and others, sorted by key.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub attributes: Vec<Attribute>,
}

/// Ephemeral storage in bytes for a replica that requests none: 1 GiB. Without a limit, one container could
/// fill its node.
pub const DEFAULT_EPHEMERAL: u64 = 1 << 30;

impl Resources {
    /// Returns the ephemeral storage of one replica, in bytes; [`DEFAULT_EPHEMERAL`] if none is requested.
    /// Returns `None` on overflow.
    #[must_use]
    pub fn ephemeral_bytes(&self) -> Option<u64> {
        let mut volumes = self.storage.iter().filter(|v| !v.is_persistent() && !v.is_ram());
        let sum = volumes.try_fold(0_u64, |sum, volume| sum.checked_add(volume.bytes));
        sum.map(|sum| if sum == 0 { DEFAULT_EPHEMERAL } else { sum })
    }
}

impl Storage {
    /// Creates a volume.
    #[must_use]
    pub fn new(name: impl Into<String>, bytes: u64, attributes: Vec<Attribute>) -> Self {
        Self {
            name: name.into(),
            bytes,
            attributes,
        }
    }

    /// Returns the value of an attribute, if set.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|a| a.key == key)
            .map(|a| a.value.as_str())
    }

    /// Returns whether the attribute `persistent` is true. Accepts the same spellings of true as the Akash
    /// tools.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.attribute("persistent")
            .is_some_and(|v| matches!(v, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    /// Returns the `class` attribute, if set and not empty.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        self.attribute("class").filter(|c| !c.is_empty())
    }

    /// Returns whether the volume is in memory (class `ram`, not persistent).
    #[must_use]
    pub fn is_ram(&self) -> bool {
        !self.is_persistent() && self.class() == Some("ram")
    }
}

/// Kind of external access to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum EndpointKind {
    /// Shared HTTP ingress (number 0 on the chain).
    #[default]
    SharedHttp,
    /// Port of a node, chosen by the provider (number 1 on the chain).
    RandomPort,
    /// Leased IP address (number 2 on the chain).
    LeasedIp,
}

impl From<EndpointKind> for u32 {
    fn from(kind: EndpointKind) -> Self {
        match kind {
            EndpointKind::SharedHttp => 0,
            EndpointKind::RandomPort => 1,
            EndpointKind::LeasedIp => 2,
        }
    }
}

impl TryFrom<u32> for EndpointKind {
    type Error = String;
    fn try_from(kind: u32) -> Result<Self, String> {
        match kind {
            0 => Ok(Self::SharedHttp),
            1 => Ok(Self::RandomPort),
            2 => Ok(Self::LeasedIp),
            other => Err(format!("endpoint kind {other} is unknown; 0 to 2 are defined")),
        }
    }
}

/// An external endpoint of a resource unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Endpoint {
    /// Kind; omitted from the JSON for shared HTTP.
    #[serde(default, skip_serializing_if = "is_shared_http")]
    pub kind: EndpointKind,
    /// Identifier of a leased IP within the group; 0 for other kinds.
    #[serde(default)]
    pub sequence_number: u32,
}

impl Endpoint {
    /// Creates an endpoint.
    #[must_use]
    pub const fn new(kind: EndpointKind, sequence_number: u32) -> Self {
        Self {
            kind,
            sequence_number,
        }
    }
}

fn is_shared_http(kind: &EndpointKind) -> bool {
    *kind == EndpointKind::SharedHttp
}

/// Resources of one replica.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Resource id, unique in the group, from 1.
    pub id: u32,
    /// CPU of one replica.
    pub cpu: Cpu,
    /// Memory of one replica. Volumes of the class `ram` are not included.
    pub memory: Memory,
    /// Volumes of one replica. Mounts in the manifest refer to the names of the volumes.
    pub storage: Vec<Storage>,
    /// GPUs; zero units for none.
    pub gpu: Gpu,
    /// Endpoints, one per global expose.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub endpoints: Vec<Endpoint>,
}

/// A number of equal replicas, with the maximum price of one replica.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceUnit {
    /// Resources of one replica.
    #[serde(rename = "resource")]
    pub resources: Resources,
    /// Number of replicas.
    pub count: u32,
    /// Maximum price of one replica per block.
    pub price: DecCoin,
}

impl ResourceUnit {
    /// Creates a unit of `count` replicas.
    #[must_use]
    pub const fn new(resources: Resources, count: u32, price: DecCoin) -> Self {
        Self {
            resources,
            count,
            price,
        }
    }
}

/// Deserializes a JSON `null` as an empty list.
///
/// # Errors
/// Returns the errors of the elements.
pub(crate) fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

/// Quantities in the JSON of the Akash network: `{"val": "<integer as text>"}`.
mod val {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize, Deserialize)]
    struct Val<T> {
        val: T,
    }

    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        Val {
            val: value.to_string(),
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = Val::<String>::deserialize(deserializer)?.val;
        let bad = |e| D::Error::custom(format!("quantity `{text}` is not a whole number below 2^64: {e}"));
        text.parse().map_err(bad)
    }
}
