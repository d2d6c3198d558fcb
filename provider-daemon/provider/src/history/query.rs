//! Selection of records.

use super::record::{HistoryOutcome, OrderRecord};
use super::store::HistoryStore;
use super::summary::newest_height;
use akash_provider_core::types::{Address, DeclineCode, DeploymentId, LeaseId, OrderId};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Maximum number of returned records for a reference of the form `DSEQ`.
const REFERENCED_MAX: usize = 64;

/// Filter for order records, and the maximum number of records to read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OrderFilter {
    /// Selects declined orders only.
    #[serde(default)]
    pub declined: bool,
    /// Selects orders that were declined with this code.
    #[serde(default)]
    pub code: Option<DeclineCode>,
    /// Selects orders that were received at this time or later, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub since: u64,
    /// Maximum number of returned records.
    pub limit: usize,
}

impl OrderFilter {
    fn matches(&self, record: &OrderRecord) -> bool {
        let is_code = |code| {
            record
                .decline
                .as_ref()
                .is_some_and(|decline| decline.code == code)
        };
        (!self.declined || record.outcome == HistoryOutcome::Declined) && self.code.is_none_or(is_code)
    }

    /// Reads the newest matching records, newest first.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read(&self, store: &HistoryStore) -> Result<Vec<OrderRecord>, redb::Error> {
        let mut records = Vec::new();
        store.each(|record| {
            if record.seen.time < self.since || records.len() >= self.limit {
                return false;
            }
            if self.matches(&record) {
                records.push(record);
            }
            true
        })?;
        Ok(records)
    }
}

/// Reference to one or more orders: `OWNER/DSEQ/GSEQ/OSEQ`, a lease ID, `OWNER/DSEQ`, or `DSEQ`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderRef {
    /// One order.
    Order(OrderId),
    /// All orders of a deployment.
    Deployment(Address, u64),
    /// All orders of deployments with this number.
    Dseq(u64),
}

impl FromStr for OrderRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(dseq) = text.parse() {
            return Ok(Self::Dseq(dseq));
        }
        let error = |error: &dyn std::fmt::Display| {
            format!("{error}; expected OWNER/DSEQ/GSEQ/OSEQ, a lease, OWNER/DSEQ or DSEQ")
        };
        match text.matches('/').count() {
            1 => {
                let id: DeploymentId = text.parse().map_err(|e| error(&e))?;
                Ok(Self::Deployment(id.owner, id.dseq))
            }
            4 => Ok(Self::Order(text.parse::<LeaseId>().map_err(|e| error(&e))?.order)),
            _ => Ok(Self::Order(text.parse().map_err(|e| error(&e))?)),
        }
    }
}

impl OrderRef {
    /// Reads the selected records, with the earnings of their leases. `height` is the newest known block.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read_with_accrued(
        &self,
        store: &HistoryStore,
        height: Option<u64>,
    ) -> Result<Vec<OrderRecord>, redb::Error> {
        let mut records = self.read(store)?;
        // Without a running provider, the newest recorded block is the end of open leases.
        let height = height.map_or_else(|| newest_height(store), Ok)?;
        for record in &mut records {
            record.accrued = record.accrued_at(height);
        }
        Ok(records)
    }

    /// Reads the selected records.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read(&self, store: &HistoryStore) -> Result<Vec<OrderRecord>, redb::Error> {
        match self {
            Self::Order(order) => Ok(store.get(order)?.into_iter().collect()),
            Self::Deployment(owner, dseq) => {
                let orders = store.orders_with_prefix(&format!("{owner}/{dseq}/"), REFERENCED_MAX)?;
                let records = orders.iter().map(|order| store.get(order));
                records.filter_map(Result::transpose).collect()
            }
            Self::Dseq(dseq) => {
                let mut records = Vec::new();
                store.each(|record| {
                    if record.order.deployment().dseq == *dseq {
                        records.push(record);
                    }
                    records.len() < REFERENCED_MAX
                })?;
                Ok(records)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_all_forms_of_ids() {
        let owner = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
        let provider = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";
        let order: OrderId = format!("{owner}/7/1/1").parse().unwrap();
        let parse = |text: &str| text.parse::<OrderRef>();
        assert_eq!(parse("7"), Ok(OrderRef::Dseq(7)));
        assert_eq!(
            parse(&format!("{owner}/7")),
            Ok(OrderRef::Deployment(owner.parse().unwrap(), 7))
        );
        assert_eq!(parse(&order.to_string()), Ok(OrderRef::Order(order.clone())));
        assert_eq!(parse(&format!("{order}/{provider}")), Ok(OrderRef::Order(order)));
        for bad in ["", "x", "akash1/7", &format!("{owner}/7/1"), "-7"] {
            assert!(parse(bad).unwrap_err().contains("expected OWNER/DSEQ"), "{bad}");
        }
    }
}
