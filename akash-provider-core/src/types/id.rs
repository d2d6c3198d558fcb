//! Ids and their text form, the path. The form is that of the Akash network, `owner/dseq/gseq/oseq/provider`,
//! because hashes and object names are derived from the paths. The bseq is always 0 and is not part of a
//! path.

use bech32::{Bech32, Hrp};
use data_encoding::{BASE32HEX_NOPAD, Encoding};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha224, Sha256};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const HRP: &str = "akash";

/// Reason why a text is not an address or an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{text}`: {why}")]
pub struct ParseIdError {
    what: &'static str,
    text: String,
    why: String,
}

impl ParseIdError {
    fn new(what: &'static str, text: &str, why: impl fmt::Display) -> Self {
        // Shortened, because an external text can have any length and the error is stored and logged.
        let text = text.chars().take(200).collect();
        Self {
            what,
            text,
            why: why.to_string(),
        }
    }
}

/// A valid bech32 account address with the prefix `akash`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Arc<str>);

impl Address {
    /// Creates the address from the raw bytes of an account (20 for keys, 32 for module accounts).
    ///
    /// # Errors
    /// Returns an error when `bytes` is empty or longer than 255 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ParseIdError> {
        if bytes.is_empty() || bytes.len() > 255 {
            return Err(ParseIdError::new("address", "", "must have 1 to 255 bytes"));
        }
        let hrp = Hrp::parse(HRP).map_err(|e| ParseIdError::new("address", HRP, e))?;
        let text = bech32::encode::<Bech32>(hrp, bytes).map_err(|e| ParseIdError::new("address", "", e))?;
        Ok(Self(text.into()))
    }

    /// Returns a placeholder for a missing account. No valid address equals the placeholder.
    pub(crate) fn nobody() -> Self {
        Self("".into())
    }

    /// Returns the raw bytes of the account: 20 for keys, 32 for module accounts.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // The address is valid, so the default is never used.
        bech32::decode(&self.0)
            .map(|(_, bytes)| bytes)
            .unwrap_or_default()
    }

    /// Returns the address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Address {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let (hrp, _) = bech32::decode(text).map_err(|e| ParseIdError::new("address", text, e))?;
        if hrp.as_str() != HRP {
            return Err(ParseIdError::new("address", text, "prefix must be `akash`"));
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Id of a deployment; `owner/dseq` as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeploymentId {
    /// Account of the tenant.
    pub owner: Address,
    /// Sequence number chosen by the tenant.
    pub dseq: u64,
}

/// Id of a placement group of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    /// Deployment of the group.
    pub deployment: DeploymentId,
    /// Sequence number of the group, from 1. Groups are numbered in the order of their names.
    pub gseq: u32,
}

/// Id of an order for a group. A restarted group gets a new order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId {
    /// Group of the order.
    pub group: GroupId,
    /// Sequence number of the order in its group, from 1.
    pub oseq: u32,
}

/// Id of a bid on an order. A provider has at most one bid per order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BidId {
    /// Order of the bid.
    pub order: OrderId,
    /// Account of the bidding provider.
    pub provider: Address,
}

/// Id of a lease. A lease has the id of its winning bid.
pub type LeaseId = BidId;

impl DeploymentId {
    /// Creates the id of a deployment of `owner`.
    #[must_use]
    pub const fn new(owner: Address, dseq: u64) -> Self {
        Self { owner, dseq }
    }

    /// Returns the id of a group of the deployment.
    #[must_use]
    pub const fn group(self, gseq: u32) -> GroupId {
        let deployment = self;
        GroupId { deployment, gseq }
    }
}

impl GroupId {
    /// Returns the id of an order for the group.
    #[must_use]
    pub const fn order(self, oseq: u32) -> OrderId {
        OrderId { group: self, oseq }
    }
}

impl OrderId {
    /// Returns the id of the bid of `provider` on the order, which is also the id of the lease.
    #[must_use]
    pub const fn bid(self, provider: Address) -> BidId {
        let order = self;
        BidId { order, provider }
    }

    /// Returns the deployment of the order.
    #[must_use]
    pub fn deployment(&self) -> &DeploymentId {
        &self.group.deployment
    }

    /// Returns the account of the tenant.
    #[must_use]
    pub fn owner(&self) -> &Address {
        &self.group.deployment.owner
    }
}

impl BidId {
    /// Returns the deployment of the bid or lease.
    #[must_use]
    pub fn deployment(&self) -> &DeploymentId {
        self.order.deployment()
    }

    /// Returns the account of the tenant.
    #[must_use]
    pub fn owner(&self) -> &Address {
        self.order.owner()
    }

    /// Returns the name that the namespace and the Manifest object of the lease share: the SHA-224 hash of
    /// the lease path, in base32hex.
    #[must_use]
    pub fn namespace(&self) -> String {
        base32hex(&Sha224::digest(self.to_string().as_bytes()))
    }

    /// Returns the first label of the automatic hostname of a service.
    #[must_use]
    pub fn ingress_label(&self, service: &str) -> String {
        let name = format!("{self}{service}");
        base32hex(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_DNS, name.as_bytes()).as_bytes())
    }
}

/// Returns the sharing key of a leased IP. Deployments of one tenant that use the same key share the IP.
#[must_use]
pub fn ip_sharing_key(owner: &Address, endpoint: &str) -> String {
    let plain = !endpoint.is_empty()
        && endpoint
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if plain {
        return format!("{owner}-ip-{endpoint}");
    }
    let digest = Sha256::digest(endpoint.as_bytes());
    format!("{owner}-ip-{}", base32hex(digest.get(..15).unwrap_or_default()))
}

fn base32hex(bytes: &[u8]) -> String {
    let encoding: &Encoding = &BASE32HEX_NOPAD;
    encoding.encode(bytes).to_ascii_lowercase()
}

impl fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.dseq)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.deployment, self.gseq)
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.oseq)
    }
}

impl fmt::Display for BidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.order, self.provider)
    }
}

fn split<'a, const N: usize>(what: &'static str, text: &'a str) -> Result<[&'a str; N], ParseIdError> {
    let parts: Vec<&str> = text.split('/').collect();
    parts
        .try_into()
        .map_err(|_| ParseIdError::new(what, text, format!("must have {N} parts separated by `/`")))
}

fn number<T: FromStr<Err: fmt::Display>>(what: &'static str, text: &str) -> Result<T, ParseIdError> {
    text.parse().map_err(|e| ParseIdError::new(what, text, e))
}

impl FromStr for DeploymentId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let [owner, dseq] = split("deployment id", text)?;
        Ok(Self {
            owner: owner.parse()?,
            dseq: number("dseq", dseq)?,
        })
    }
}

impl FromStr for GroupId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let [owner, dseq, gseq] = split("group id", text)?;
        let deployment = DeploymentId::new(owner.parse()?, number("dseq", dseq)?);
        Ok(deployment.group(number("gseq", gseq)?))
    }
}

impl FromStr for OrderId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let (group, oseq) = text
            .rsplit_once('/')
            .ok_or_else(|| ParseIdError::new("order id", text, "must have 4 parts"))?;
        Ok(Self {
            group: group.parse()?,
            oseq: number("oseq", oseq)?,
        })
    }
}

impl FromStr for BidId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let (order, provider) = text
            .rsplit_once('/')
            .ok_or_else(|| ParseIdError::new("bid id", text, "must have 5 parts"))?;
        Ok(Self {
            order: order.parse()?,
            provider: provider.parse()?,
        })
    }
}

macro_rules! serde_as_text {
    ($($id:ty),*) => {$(
        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
serde_as_text!(Address, DeploymentId, GroupId, OrderId, BidId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_parse_back() {
        let text = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1001/1/2/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
        let id: BidId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(id.order.oseq, 2);
        assert_eq!(id.namespace().len(), 45);
        assert_eq!(id.ingress_label("web").len(), 26);
    }

    #[test]
    fn addresses_are_their_bytes() {
        let bytes = [7; 20];
        let address = Address::from_bytes(&bytes).unwrap();
        assert_eq!(address.to_bytes(), bytes);
        assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
    }

    #[test]
    fn bad_ids_are_named() {
        for text in [
            "",
            "/",
            "akash1x/1",
            "cosmos1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1",
            "a/b/c/d/e/f",
        ] {
            assert!(text.parse::<BidId>().is_err(), "{text}");
            assert!(text.parse::<DeploymentId>().is_err(), "{text}");
        }
    }

    #[test]
    fn odd_endpoint_names_are_hashed() {
        let owner: Address = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse().unwrap();
        assert_eq!(ip_sharing_key(&owner, "web-1"), format!("{owner}-ip-web-1"));
        assert_eq!(ip_sharing_key(&owner, "Web").len(), owner.as_str().len() + 4 + 24);
    }
}
