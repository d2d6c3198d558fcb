//! Separate decoding of the records in a response.
//!
//! A response contains records of many chain accounts. If one malformed record made the whole response fail,
//! any account could block all readers. For this reason, each record is decoded separately. A malformed
//! record of another account is skipped and logged once. A malformed record of this provider is an error: a
//! lease that cannot be decoded must not look like a closed lease.

use crate::convert::{self, Malformed};
use crate::lock::lock;
use crate::proto::akash::{deployment as dep, market as mkt};
use crate::proto::cosmos::base::query::v1beta1::PageResponse;
use crate::proto::cosmos::base::v1beta1::DecCoin;
use akash_provider_core::types::{Bid, DeploymentId, LeaseRecord};
use bytes::Bytes;
use prost::Message;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;

/// Maximum number of malformed records that are logged individually.
const REPORTED_MAX: usize = 4096;
/// If the id of a record is unreadable, this number of bytes at the start of the record is logged.
const DESCRIBED_BYTES: usize = 16;

/// Page of undecoded records.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RecordPage {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) records: Vec<Bytes>,
    #[prost(message, optional, tag = "2")]
    pub(super) pagination: Option<PageResponse>,
}

/// Response of the deployment query. The records are not decoded yet.
#[derive(Clone, PartialEq, Message)]
pub(super) struct DeploymentParts {
    #[prost(bytes = "bytes", tag = "1")]
    deployment: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    groups: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "3")]
    escrow_account: Bytes,
}

/// First field of a record: the id, or a nested message that contains the id as its first field.
#[derive(Clone, PartialEq, Message)]
struct First {
    #[prost(bytes = "bytes", tag = "1")]
    first: Bytes,
}

/// Fields of a bid, without its resources.
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

/// Type of a chain record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RecordKind {
    Order,
    Bid,
    Lease,
    Deployment,
    Group,
    Certificate,
    Audit,
}

impl RecordKind {
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

    /// Decodes the id of a malformed record. Fields after a decoding error stay empty. Returns `None` if the
    /// owner is missing.
    fn id(self, record: &[u8]) -> Option<mkt::v1::BidId> {
        let bytes = match self {
            Self::Order | Self::Deployment | Self::Group => first(record),
            Self::Bid | Self::Lease => first(&first(record)),
            Self::Certificate | Self::Audit => return None,
        };
        let mut id = mkt::v1::BidId::default();
        // Fields before a decoding error are valid.
        let _ = id.merge(bytes);
        (!id.owner.is_empty()).then_some(id)
    }

    fn describe(self, record: &[u8]) -> String {
        let Some(id) = self.id(record) else {
            let beginning = record.get(..DESCRIBED_BYTES).unwrap_or(record);
            let beginning = data_encoding::HEXLOWER.encode(beginning);
            return format!("unreadable id, {} bytes starting with {beginning}", record.len());
        };
        let mut text = format!("{}/{}", id.owner, id.dseq);
        for number in [id.gseq, id.oseq].into_iter().filter(|number| *number > 0) {
            text.push_str(&format!("/{number}"));
        }
        if !id.provider.is_empty() {
            text.push_str(&format!("/{}", id.provider));
        }
        convert::excerpt(&text)
    }

    /// Returns the provider of a lease or bid, or `None` if the provider cannot be decoded.
    pub(super) fn provider(self, record: &[u8]) -> Option<String> {
        self.id(record)
            .map(|id| id.provider)
            .filter(|text| !text.is_empty())
    }
}

fn first(record: &[u8]) -> Bytes {
    let mut message = First::default();
    // After an error, the fields before the error are used.
    let _ = message.merge(record);
    message.first
}

pub(super) fn read<W: Message + Default, T>(
    record: &Bytes,
    convert: impl Fn(W) -> Result<T, Malformed>,
) -> Result<T, Malformed> {
    let wire = W::decode(record.clone());
    convert(wire.map_err(|e| Malformed::new("record", e.to_string()))?)
}

/// Decodes a bid without its resources.
pub(super) fn bid_head(record: &Bytes) -> Result<Bid, Malformed> {
    let head = BidHead::decode(first(record)).map_err(|e| Malformed::new("bid", e.to_string()))?;
    // Other providers may have several bids, with a `bseq` that bids of this provider never have.
    let id = head.id.map(|id| mkt::v1::BidId { bseq: 0, ..id });
    convert::bid(mkt::v1beta5::Bid {
        id,
        state: head.state,
        price: head.price,
        created_at: head.created_at,
        ..mkt::v1beta5::Bid::default()
    })
}

/// Decodes a lease. Ignores the `bseq` of its bid, because an order has at most one lease.
pub(super) fn any_lease(record: &Bytes) -> Result<LeaseRecord, Malformed> {
    read(record, |mut response: mkt::v1beta5::QueryLeaseResponse| {
        if let Some(id) = response.lease.as_mut().and_then(|lease| lease.id.as_mut()) {
            id.bseq = 0;
        }
        convert::lease_record(response)
    })
}

pub(super) fn own_record_error(kind: RecordKind, record: &[u8], error: &Malformed) -> Malformed {
    let part = format!("{} {} of this provider", kind.name(), kind.describe(record));
    Malformed::new(part, format!("is malformed: {error}"))
}

impl DeploymentParts {
    /// Decodes the deployment, its groups and its escrow account. Skips malformed groups.
    pub(super) fn whole(
        self,
        reported: &ReportedRecords,
    ) -> Result<dep::v1beta4::QueryDeploymentResponse, Malformed> {
        let part = |name: &str, error: prost::DecodeError| Malformed::new(name, error.to_string());
        // Converted as a check only. The result contains the message.
        let group = |g: dep::v1beta4::Group| convert::group(g.clone()).map(|_| g);
        Ok(dep::v1beta4::QueryDeploymentResponse {
            deployment: Some(Message::decode(self.deployment).map_err(|e| part("deployment", e))?),
            groups: reported.decode_lenient(RecordKind::Group, self.groups, |record| read(record, group)),
            escrow_account: Some(
                Message::decode(self.escrow_account).map_err(|e| part("escrow_account", e))?,
            ),
        })
    }
}

/// Set of malformed records that were already logged.
#[derive(Debug, Default)]
pub(crate) struct ReportedRecords {
    records: Mutex<HashSet<u64>>,
    hasher: RandomState,
}

impl ReportedRecords {
    /// Returns true if the record was not logged before, and fewer than [`REPORTED_MAX`] records were logged.
    fn is_new(&self, kind: RecordKind, record: &[u8]) -> bool {
        // Identified by id if possible, because a malformed record may change.
        let key = match kind.id(record) {
            Some(id) => self.hasher.hash_one((kind, id.encode_to_vec())),
            None => self.hasher.hash_one((kind, record)),
        };
        let mut records = lock(&self.records);
        if records.len() >= REPORTED_MAX {
            return false;
        }
        let is_new = records.insert(key);
        if is_new && records.len() == REPORTED_MAX {
            tracing::warn!(
                records = REPORTED_MAX,
                "too many malformed records on the chain: further malformed records are skipped without a log line"
            );
        }
        is_new
    }

    /// Logs a malformed record, unless this record was already logged.
    pub(super) fn report(&self, kind: RecordKind, record: &[u8], error: &Malformed) {
        if self.is_new(kind, record) {
            let (what, id) = (kind.name(), kind.describe(record));
            tracing::warn!(what, %id, %error, "cannot decode a chain record of another account, ignoring the record");
        }
    }
}

impl ReportedRecords {
    /// Decodes records. Malformed records are omitted, and each is logged once.
    pub(super) fn decode_lenient<T>(
        &self,
        kind: RecordKind,
        records: Vec<Bytes>,
        read: impl Fn(&Bytes) -> Result<T, Malformed>,
    ) -> Vec<T> {
        let readable = records.into_iter().filter_map(|record| match read(&record) {
            Ok(record) => Some(record),
            Err(error) => {
                self.report(kind, &record, &error);
                None
            }
        });
        readable.collect()
    }

    /// Logs a malformed deployment, unless this deployment was already logged.
    pub(super) fn report_deployment(&self, id: &DeploymentId, error: &Malformed) {
        let id = dep::v1::DeploymentId {
            owner: id.owner.to_string(),
            dseq: id.dseq,
        };
        let record = dep::v1::Deployment {
            id: Some(id),
            ..dep::v1::Deployment::default()
        };
        self.report(RecordKind::Deployment, &record.encode_to_vec(), error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_each_record_once_up_to_a_maximum() {
        let reported = ReportedRecords::default();
        assert!(reported.is_new(RecordKind::Order, b"a"));
        assert!(!reported.is_new(RecordKind::Order, b"a"));
        assert!(reported.is_new(RecordKind::Bid, b"a"), "another type");
        for number in 0..2 * REPORTED_MAX {
            reported.is_new(RecordKind::Lease, &number.to_be_bytes());
        }
        assert_eq!(lock(&reported.records).len(), REPORTED_MAX);
        assert!(!reported.is_new(RecordKind::Order, b"b"));
    }

    #[test]
    fn formats_the_readable_part_of_an_id() {
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
        assert_eq!(RecordKind::Order.describe(&order), "akash1\\n/7/1/2");
        let reported = ReportedRecords::default();
        assert!(reported.is_new(RecordKind::Order, &order));
        order.pop();
        assert!(!reported.is_new(RecordKind::Order, &order), "the same order");
        let nameless = RecordKind::Order.describe(&[0xff; 40]);
        assert!(nameless.contains("40 bytes starting with ffff"), "{nameless}");
    }
}
