//! What a group asks for, in the shape (and the JSON) the network gives it.

use super::group::Attribute;
use super::price::DecCoin;
use serde::{Deserialize, Serialize};

/// Processor share in thousandths of a core.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// Milli-units: 1000 is one core.
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

/// Memory of one replica, its volumes of class `ram` not included.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Size in bytes; the network's JSON calls it `size`.
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

/// Whole GPUs, with `vendor/<v>/model/<m>[/ram/<r>][/interface/<i>]` = `true` attributes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Gpu {
    /// Devices per replica; at 0 the attributes do not count.
    #[serde(with = "val")]
    pub units: u64,
    /// Acceptable models; any one of them will do.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub attributes: Vec<Attribute>,
}

/// A volume of one replica: on the node, in memory, or persistent of some class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Storage {
    /// Name, unique in its unit; `default` when the tenant gave none.
    pub name: String,
    /// Size in bytes for each replica; the network's JSON calls it `size`.
    #[serde(rename = "size", with = "val")]
    pub bytes: u64,
    /// `class`, `persistent` and others, sorted by key.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_empty"
    )]
    pub attributes: Vec<Attribute>,
}

/// Ephemeral storage of a replica that lists none, in bytes: 1 GiB. Holds logs and temporary files of a service
/// that has its data on other volumes. Without a limit, one container could fill its node.
pub const DEFAULT_EPHEMERAL: u64 = 1 << 30;

impl Resources {
    /// Ephemeral storage of one replica, in bytes: the sum of the volumes that are not persistent and not in memory,
    /// or [`DEFAULT_EPHEMERAL`] where that sum is 0. Returns `None` if the sum exceeds a `u64`.
    #[must_use]
    pub fn ephemeral_bytes(&self) -> Option<u64> {
        let mut volumes = self.storage.iter().filter(|v| !v.is_persistent() && !v.is_ram());
        let sum = volumes.try_fold(0_u64, |sum, volume| sum.checked_add(volume.bytes));
        sum.map(|sum| if sum == 0 { DEFAULT_EPHEMERAL } else { sum })
    }
}

impl Storage {
    /// Value of an attribute, if there is one.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|a| a.key == key)
            .map(|a| a.value.as_str())
    }

    /// True when `persistent` parses as a boolean true the way the network's tools parse it.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.attribute("persistent")
            .is_some_and(|v| matches!(v, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    /// The `class` attribute, if set and not empty.
    #[must_use]
    pub fn class(&self) -> Option<&str> {
        self.attribute("class").filter(|c| !c.is_empty())
    }

    /// True for a volume that lives in memory (class `ram`, not persistent).
    #[must_use]
    pub fn is_ram(&self) -> bool {
        !self.is_persistent() && self.class() == Some("ram")
    }
}

/// How a service is reached from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub enum EndpointKind {
    /// Behind the shared HTTP ingress (0).
    #[default]
    SharedHttp,
    /// On a port of the node the provider picks (1).
    RandomPort,
    /// On an IP address of its own (2).
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

/// One endpoint of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Endpoint {
    /// Kind; left out of the JSON when it is shared HTTP.
    #[serde(default, skip_serializing_if = "is_shared_http")]
    pub kind: EndpointKind,
    /// Distinguishes leased IPs of a group; 0 for the other kinds.
    #[serde(default)]
    pub sequence_number: u32,
}

fn is_shared_http(kind: &EndpointKind) -> bool {
    *kind == EndpointKind::SharedHttp
}

/// Resources of one replica.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Unique in its group, from 1.
    pub id: u32,
    /// Processor share of one replica.
    pub cpu: Cpu,
    /// Memory of one replica, without its volumes in memory.
    pub memory: Memory,
    /// Volumes of one replica; mounts of the manifest refer to them by name.
    pub storage: Vec<Storage>,
    /// GPUs; zero units when none.
    pub gpu: Gpu,
    /// Endpoints; one per global expose.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub endpoints: Vec<Endpoint>,
}

/// Some replicas of the same resources, with the most the tenant pays for one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceUnit {
    /// Resources of one replica.
    #[serde(rename = "resource")]
    pub resources: Resources,
    /// How many replicas there are to be; the price is for each of them.
    pub count: u32,
    /// Highest price for one replica per block.
    pub price: DecCoin,
}

/// Reads a JSON `null` as an empty list.
///
/// # Errors
/// Those of the elements.
pub(crate) fn null_as_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Vec<T>>::deserialize(deserializer)?.unwrap_or_default())
}

/// A quantity is `{"val": "<integer as text>"}` in the network's JSON.
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
