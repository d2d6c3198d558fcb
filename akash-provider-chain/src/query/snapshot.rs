//! Snapshot of the chain state of one provider.
//!
//! The snapshot has a single height if the nodes serve states by height. Otherwise the snapshot contains all
//! changes up to its height, and possibly later changes. Processing all events after this height then results
//! in the same state.

use super::Reader;
use crate::convert;
use crate::fault::{Fault, NodeError};
use crate::method::Method;
use crate::proto::akash;
use crate::rpc::types::BlockHash;
use akash_provider_core::chain::{BidFilter, LeaseFilter, OrderFilter, Page, PageRequest, SyncInfo};
use akash_provider_core::types::{
    Address, Bid, BidState, BlockTime, DeploymentId, DeploymentRecord, Height, LeaseRecord, LeaseState,
    MarketParams, Order, OrderId, OrderState, ProviderRecord, Snapshot,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of concurrent queries of a snapshot.
const PARALLEL: usize = 16;

/// Snapshot of the chain records of a provider, and whether all records are from one height.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainListing {
    /// Records of the provider, with all changes up to the height of the snapshot.
    pub snapshot: Snapshot,
    /// True if all records are from the height of the snapshot. The market parameters may be newer.
    pub is_pinned: bool,
    /// Hash of the block at the height of the snapshot.
    pub(crate) block: BlockHash,
}

impl Reader {
    /// Reads a snapshot of the records of `provider` at the newest height. If the nodes cannot return the
    /// state at this height, the records can be from different heights.
    ///
    /// # Errors
    /// Returns an error if a query fails.
    pub async fn take_snapshot(&self, provider: &Address) -> Result<ChainListing, NodeError> {
        let (now, block) = self.endpoints.tip(true).await?;
        self.cache_time(now.height, now.time);
        match self.list(provider, &now, Some(now.height)).await {
            Err(why) if why.is_about_height() => {
                tracing::info!(height = now.height, %why, "chain nodes cannot return the state at the requested block height, reading the newest state instead");
                let snapshot = self.list(provider, &now, None).await?;
                Ok(ChainListing {
                    snapshot,
                    is_pinned: false,
                    block,
                })
            }
            pinned => Ok(ChainListing {
                snapshot: pinned?,
                is_pinned: true,
                block,
            }),
        }
    }

    async fn list(
        &self,
        provider: &Address,
        now: &SyncInfo,
        pin: Option<Height>,
    ) -> Result<Snapshot, NodeError> {
        // These queries are independent. Closed bids require the orders, and deployments require the leases.
        let (record, params, orders, live, leases) = tokio::try_join!(
            self.provider_at(provider, pin),
            self.params_at(pin),
            self.open_orders(pin),
            self.live_bids(provider, pin),
            self.live_leases(provider, pin),
        )?;
        let bids = self.with_ended_bids(provider, &orders, live, pin).await?;
        let deployments = self.deployments_of(provider, &leases, pin).await?;
        let mut snapshot = Snapshot {
            chain_id: now.chain_id.clone(),
            // Height at the start, even without a pinned height. Events after this height are reported again.
            height: now.height,
            time: now.time,
            provider: record,
            params,
            orders,
            bids,
            leases,
            deployments,
            block_times: BTreeMap::new(),
        };
        snapshot.block_times = self.times_of(&snapshot).await?;
        Ok(snapshot)
    }

    pub(crate) async fn provider_at(
        &self,
        owner: &Address,
        pin: Option<Height>,
    ) -> Result<Option<ProviderRecord>, NodeError> {
        let request = akash::provider::v1beta4::QueryProviderRequest {
            owner: owner.to_string(),
        };
        let response = match self.get(&request, pin).await {
            Err(error) if error.is_not_found() => return Ok(None),
            response => response?,
        };
        let path = akash::provider::v1beta4::QueryProviderRequest::PATH;
        let record = response.provider.map(convert::provider).transpose();
        record.map_err(|e| self.malformed_record(path, &e))
    }

    pub(crate) async fn params_at(&self, pin: Option<Height>) -> Result<MarketParams, NodeError> {
        let request = akash::market::v1beta5::QueryParamsRequest {};
        // Used until the next snapshot, so two nodes must agree. Two nodes need not have the pinned height.
        let response = if self.endpoints.has_second() {
            self.endpoints.query_agreed(&request).await?
        } else {
            self.get(&request, pin).await?
        };
        let params = convert::market_params(response.params.unwrap_or_default());
        params.map_err(|e| self.malformed_record(akash::market::v1beta5::QueryParamsRequest::PATH, &e))
    }

    /// Reads all pages of a list. Returns an error if the list is too long.
    pub(super) async fn all<T, F>(
        &self,
        what: &'static str,
        page: impl Fn(PageRequest) -> F,
    ) -> Result<Vec<T>, NodeError>
    where
        F: Future<Output = Result<Page<T>, NodeError>>,
    {
        let limits = self.endpoints.limits();
        let mut request = PageRequest {
            key: None,
            limit: limits.page,
        };
        let mut all = Vec::new();
        // An empty page counts as one record, so that the loop ends.
        let mut seen = 0_usize;
        loop {
            let Page { items, next } = page(request.clone()).await?;
            seen = seen.saturating_add(items.len().max(1));
            all.extend(items);
            // A node that returns the same key again would cause an endless loop.
            let turns = next.is_some() && next == request.key;
            if seen > limits.listing || turns {
                let why = if turns {
                    "repeats a page key"
                } else {
                    "does not end"
                };
                let fault = Fault::Malformed(format!("list {why} after {} records", all.len()));
                return Err(NodeError {
                    endpoint: self.endpoints.chain_id().into(),
                    method: what.into(),
                    fault,
                });
            }
            match next {
                Some(key) => request.key = Some(key),
                None => return Ok(all),
            }
        }
    }

    async fn open_orders(&self, pin: Option<Height>) -> Result<Vec<Order>, NodeError> {
        let filter = &OrderFilter {
            state: Some(OrderState::Open),
            deployment: None,
        };
        let mut orders = self
            .all("orders", |page| self.orders_at(filter, page, pin))
            .await?;
        // Without a pinned height, pages may overlap.
        orders.sort_by(|a, b| a.id.cmp(&b.id));
        orders.dedup_by(|a, b| a.id == b.id);
        Ok(orders)
    }

    async fn live_bids(&self, provider: &Address, pin: Option<Height>) -> Result<Vec<Bid>, NodeError> {
        let of = |state| async move {
            let filter = &BidFilter {
                provider: Some(provider.clone()),
                state: Some(state),
                ..BidFilter::default()
            };
            self.all("bids", |page| self.bids_at(filter, page, pin)).await
        };
        let (open, active) = tokio::try_join!(of(BidState::Open), of(BidState::Active))?;
        Ok(open.into_iter().chain(active).collect())
    }

    /// Adds to `live` the closed bids of `provider` on the open orders `orders`.
    ///
    /// The chain allows one bid of a provider per order, so the provider cannot bid on these orders again.
    async fn with_ended_bids(
        &self,
        provider: &Address,
        orders: &[Order],
        live: Vec<Bid>,
        pin: Option<Height>,
    ) -> Result<Vec<Bid>, NodeError> {
        let live_orders: BTreeSet<&OrderId> = live.iter().map(|b| &b.id.order).collect();
        let rest = orders.iter().filter(|o| !live_orders.contains(&o.id));
        let look = |order: &Order| {
            let id = order.id.clone().bid(provider.clone());
            async move {
                let response = match self.get(&convert::bid_request(&id), pin).await {
                    Err(error) if error.is_not_found() => return Ok(None),
                    response => response?,
                };
                let bid = super::convert_bid(response);
                let path = akash::market::v1beta5::QueryBidRequest::PATH;
                bid.map(Some).map_err(|e| self.malformed_record(path, &e))
            }
        };
        let queries: Vec<_> = rest.map(look).collect();
        let ended: Vec<Option<Bid>> = stream::iter(queries)
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await?;
        let mut bids: Vec<Bid> = live.into_iter().chain(ended.into_iter().flatten()).collect();
        bids.sort_by(|a, b| a.id.cmp(&b.id));
        bids.dedup_by(|a, b| a.id == b.id);
        Ok(bids)
    }

    pub(super) async fn all_leases(
        &self,
        filter: &LeaseFilter,
        pin: Option<Height>,
        us: Option<&Address>,
    ) -> Result<Vec<LeaseRecord>, NodeError> {
        self.all("leases", |page| self.leases_at(filter, page, pin, us))
            .await
    }

    async fn live_leases(
        &self,
        provider: &Address,
        pin: Option<Height>,
    ) -> Result<Vec<LeaseRecord>, NodeError> {
        let of = |state| async move {
            let filter = LeaseFilter {
                provider: Some(provider.clone()),
                deployment: None,
                state: Some(state),
            };
            self.all_leases(&filter, pin, Some(provider)).await
        };
        let (active, reclaiming) = tokio::try_join!(of(LeaseState::Active), of(LeaseState::Reclaiming))?;
        let mut leases: Vec<LeaseRecord> = active.into_iter().chain(reclaiming).collect();
        leases.sort_by(|a, b| a.lease.id.cmp(&b.lease.id));
        leases.dedup_by(|a, b| a.lease.id == b.lease.id);
        Ok(leases)
    }

    /// Returns the deployments of leases. Omits malformed deployments: a tenant can create a malformed
    /// deployment.
    async fn deployments_of(
        &self,
        provider: &Address,
        leases: &[LeaseRecord],
        pin: Option<Height>,
    ) -> Result<Vec<DeploymentRecord>, NodeError> {
        let ids: BTreeSet<DeploymentId> = leases.iter().map(|l| l.lease.id.deployment().clone()).collect();
        let queries = ids.into_iter().map(|id| async move {
            match self.deployment_at(&id, pin, Some(provider)).await? {
                Ok(record) => Ok(record),
                Err(error) => {
                    self.reported.report_deployment(&id, &error);
                    Ok(None)
                }
            }
        });
        let queries: Vec<_> = queries.collect();
        let found: Vec<_> = stream::iter(queries).buffered(PARALLEL).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn times_of(&self, snapshot: &Snapshot) -> Result<BTreeMap<Height, BlockTime>, NodeError> {
        let orders = snapshot.orders.iter().map(|o| o.created_at);
        let bids = snapshot.bids.iter().map(|b| b.created_at);
        let leases = snapshot.leases.iter().map(|l| l.lease.created_at);
        let deployments = snapshot.deployments.iter().map(|d| d.deployment.created_at);
        let heights = orders.chain(bids).chain(leases).chain(deployments);
        // No block has height 0, and nodes refuse such a query.
        let heights: BTreeSet<Height> = heights.filter(|height| *height > 0).collect();
        let ask = |height| async move { Ok((height, self.time_of(height).await?)) };
        let queries: Vec<_> = heights.into_iter().map(ask).collect();
        let times: Vec<(Height, Option<BlockTime>)> = stream::iter(queries)
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await?;
        // A block that no node has any more is omitted.
        Ok(times
            .into_iter()
            .filter_map(|(h, time)| Some((h, time?)))
            .collect())
    }
}
