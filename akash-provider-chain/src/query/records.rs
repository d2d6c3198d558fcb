//! Answers whose records are read one by one.
//!
//! A message of a node holds records of many parties. Read as a whole it is lost when one of them cannot be read,
//! and anybody who can write one could then stop everybody who lists. So the answer is cut into its records first,
//! and each is read by itself. One of another party that cannot be read is left out and told once; of our own it
//! is an error, because what is unknown must not look like what has ended.

use super::Reader;
use crate::convert::{self, Malformed};
use crate::lock::lock;
use crate::proto::akash::{deployment as dep, market as mkt};
use crate::proto::cosmos::base::query::v1beta1::PageResponse;
use crate::proto::cosmos::base::v1beta1::DecCoin;
use akash_provider_core::types::{Bid, DeploymentId};
use bytes::Bytes;
use prost::Message;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

/// Records that are told of by name; of later ones only that there are more. 32 KiB of memory.
const TOLD_MAX: usize = 4096;
/// Bytes that are shown of a record without a readable id.
const SHOWN_BYTES: usize = 16;

/// A page of whatever records: every listing of the network has this form.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Records {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) records: Vec<Bytes>,
    #[prost(message, optional, tag = "2")]
    pub(super) pagination: Option<PageResponse>,
}

/// A deployment with its groups, each of them unread.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DeploymentParts {
    #[prost(bytes = "bytes", tag = "1")]
    deployment: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    groups: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "3")]
    escrow_account: Bytes,
}

/// The first field of a message, which holds its id or what has the id.
#[derive(Clone, PartialEq, Message)]
struct First {
    #[prost(bytes = "bytes", tag = "1")]
    first: Bytes,
}

/// What is read of a bid that is only counted: not what it offers.
#[derive(Clone, PartialEq, Message)]
struct BidHead {
    #[prost(message, optional, tag = "1")]
    id: Option<mkt::v1::BidId>,
    #[prost(int32, tag = "2")]
    state: i32,
    #[prost(message, optional, tag = "3")]
    price: Option<DecCoin>,
    #[prost(int64, tag = "4")]
    created_at: i64,
}

/// What a record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Order,
    Bid,
    Lease,
    Deployment,
    Group,
    Certificate,
    Audit,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Bid => "bid",
            Self::Lease => "lease",
            Self::Deployment => "deployment",
            Self::Group => "group",
            Self::Certificate => "certificate",
            Self::Audit => "audited provider",
        }
    }

    /// The id, as far as it can be read. The ids of the market are one another's beginnings.
    fn id(self, record: &[u8]) -> Option<mkt::v1::BidId> {
        let bytes = match self {
            Self::Order | Self::Deployment | Self::Group => first(record),
            Self::Bid | Self::Lease => first(&first(record)),
            Self::Certificate | Self::Audit => return None,
        };
        let mut id = mkt::v1::BidId::default();
        // What was read before the fault counts.
        let _ = id.merge(bytes);
        (!id.owner.is_empty()).then_some(id)
    }

    /// How the record is named to whoever reads the log.
    fn shown(self, record: &[u8]) -> String {
        let Some(id) = self.id(record) else {
            let beginning = record.get(..SHOWN_BYTES).unwrap_or(record);
            let beginning = data_encoding::HEXLOWER.encode(beginning);
            return format!("without a readable id, {} bytes from {beginning}", record.len());
        };
        let mut text = format!("{}/{}", id.owner, id.dseq);
        for number in [id.gseq, id.oseq].into_iter().filter(|number| *number > 0) {
            text.push_str(&format!("/{number}"));
        }
        if !id.provider.is_empty() {
            text.push_str(&format!("/{}", id.provider));
        }
        convert::shown(&text)
    }

    /// Whose lease or bid it is, where that can be read.
    pub(super) fn provider(self, record: &[u8]) -> Option<String> {
        self.id(record)
            .map(|id| id.provider)
            .filter(|text| !text.is_empty())
    }
}

fn first(record: &[u8]) -> Bytes {
    let mut message = First::default();
    // What was read before the fault counts.
    let _ = message.merge(record);
    message.first
}

/// Reads one record by itself, so that it spoils no other.
pub(super) fn read<W: Message + Default, T>(
    record: &Bytes,
    convert: impl Fn(W) -> Result<T, Malformed>,
) -> Result<T, Malformed> {
    let wire = W::decode(record.clone());
    convert(wire.map_err(|e| Malformed::new("record", e.to_string()))?)
}

/// Reads a bid of whomever as far as counting and comparing need it. It says nothing of what is offered.
pub(super) fn bid_head(record: &Bytes) -> Result<Bid, Malformed> {
    let head = BidHead::decode(first(record)).map_err(|e| Malformed::new("bid", e.to_string()))?;
    // The chain takes several bids of one provider, told apart by a number that ours never have.
    let id = head.id.map(|id| mkt::v1::BidId { bseq: 0, ..id });
    convert::bid(mkt::v1beta5::Bid {
        id,
        state: head.state,
        price: head.price,
        created_at: head.created_at,
        ..mkt::v1beta5::Bid::default()
    })
}

/// Says of a record of our own that it cannot be read.
pub(super) fn our_own(kind: Kind, record: &[u8], error: &Malformed) -> Malformed {
    let part = format!("our own {} {}", kind.name(), kind.shown(record));
    Malformed::new(part, format!("cannot be read, {error}"))
}

impl DeploymentParts {
    /// The deployment with those of its groups that can be read.
    pub(super) fn whole(self, reader: &Reader) -> Result<dep::v1beta4::QueryDeploymentResponse, Malformed> {
        let part = |name: &str, error: prost::DecodeError| Malformed::new(name, error.to_string());
        // Converted only to see whether it can be; it is handed on as it came.
        let group = |g: dep::v1beta4::Group| convert::group(g.clone()).map(|_| g);
        Ok(dep::v1beta4::QueryDeploymentResponse {
            deployment: Some(Message::decode(self.deployment).map_err(|e| part("deployment", e))?),
            groups: reader.lenient(Kind::Group, self.groups, |record| read(record, group)),
            escrow_account: Some(
                Message::decode(self.escrow_account).map_err(|e| part("escrow_account", e))?,
            ),
        })
    }
}

/// Of which records was told that they cannot be read.
#[derive(Debug, Default)]
pub(crate) struct Told {
    records: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl Told {
    /// True the first time; false, too, for all that come when many have come before.
    fn is_new(&self, kind: Kind, record: &[u8]) -> bool {
        // By its id where there is one: a record may change and still be unreadable.
        let key = match kind.id(record) {
            Some(id) => self.hasher.hash_one((kind, id.encode_to_vec())),
            None => self.hasher.hash_one((kind, record)),
        };
        let mut records = lock(&self.records);
        if records.len() >= TOLD_MAX {
            return false;
        }
        let is_new = records.insert(key);
        if is_new && records.len() == TOLD_MAX {
            tracing::warn!(
                records = TOLD_MAX,
                "of further records that cannot be read nothing is said"
            );
        }
        is_new
    }

    /// Tells of a record that cannot be read, once.
    pub(super) fn note(&self, kind: Kind, record: &[u8], error: &Malformed) {
        if self.is_new(kind, record) {
            let (what, id) = (kind.name(), kind.shown(record));
            tracing::warn!(what, %id, %error, "a record of another party cannot be read and is left out");
        }
    }
}

impl Told {
    /// The same of a deployment, which was asked for by its id.
    pub(super) fn note_deployment(&self, id: &DeploymentId, error: &Malformed) {
        let id = dep::v1::DeploymentId {
            owner: id.owner.to_string(),
            dseq: id.dseq,
        };
        let record = dep::v1::Deployment {
            id: Some(id),
            ..dep::v1::Deployment::default()
        };
        self.note(Kind::Deployment, &record.encode_to_vec(), error);
    }
}

impl Reader {
    /// Reads what can be read; the rest is left out and told once.
    pub(super) fn lenient<T>(
        &self,
        kind: Kind,
        records: Vec<Bytes>,
        read: impl Fn(&Bytes) -> Result<T, Malformed>,
    ) -> Vec<T> {
        let readable = records.into_iter().filter_map(|record| match read(&record) {
            Ok(record) => Some(record),
            Err(error) => {
                self.told.note(kind, &record, &error);
                None
            }
        });
        readable.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_is_told_once_and_of_too_many_nothing_more() {
        let told = Told::default();
        assert!(told.is_new(Kind::Order, b"a"));
        assert!(!told.is_new(Kind::Order, b"a"));
        assert!(told.is_new(Kind::Bid, b"a"), "of another kind");
        for number in 0..2 * TOLD_MAX {
            told.is_new(Kind::Lease, &number.to_be_bytes());
        }
        assert_eq!(lock(&told.records).len(), TOLD_MAX);
        assert!(!told.is_new(Kind::Order, b"b"));
    }

    #[test]
    fn a_record_is_named_by_what_can_be_read_of_its_id() {
        let id = mkt::v1::OrderId {
            owner: "akash1\n".into(),
            dseq: 7,
            gseq: 1,
            oseq: 2,
        };
        let mut order = mkt::v1beta5::Order {
            id: Some(id),
            ..Default::default()
        }
        .encode_to_vec();
        order.extend([0xff; 9]);
        assert_eq!(Kind::Order.shown(&order), "akash1\\n/7/1/2");
        let told = Told::default();
        assert!(told.is_new(Kind::Order, &order));
        order.pop();
        assert!(!told.is_new(Kind::Order, &order), "the same order");
        let nameless = Kind::Order.shown(&[0xff; 40]);
        assert!(nameless.contains("40 bytes from ffff"), "{nameless}");
    }
}
