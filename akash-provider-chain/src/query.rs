//! Queries: implements [`ChainQuery`] with a pool of endpoints.

pub(crate) mod records;
mod snapshot;
#[cfg(test)]
mod tests;

use crate::convert::{self, Malformed};
use crate::endpoints::Capability;
use crate::fault::{Fault, NodeError};
use crate::method::Method;
use crate::proto::{akash, cosmos};
use crate::reader::Reader;
use akash::market::v1beta5 as mkt;
use akash_provider_core::chain::{
    Account, BidFilter, Certificate, ChainQuery, LeaseFilter, OrderFilter, Page, PageRequest, SyncInfo,
};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::{
    Address, AuditedAttributes, Bid, BidId, BlockTime, Coin, DeploymentId, DeploymentRecord, Group, GroupId,
    Height, Lease, LeaseId, LeaseRecord, LeaseState, MarketParams, Observed, Order, OrderId, ProviderRecord,
    Snapshot,
};
use async_trait::async_trait;
use bytes::Bytes;
use cosmos::base::query::v1beta1::PageResponse;
use records::{DeploymentParts, RecordKind, RecordPage};
pub use snapshot::ChainListing;

fn malformed(operation: &'static str, error: &Malformed) -> Error {
    let message = format!("malformed response of a node: {error}");
    Error::new(ErrorKind::Unavailable, operation, message)
}

/// Converts a "not found" error to `None`.
fn found<T>(response: Result<T, NodeError>, operation: &'static str) -> Result<Option<T>, Error> {
    match response {
        Ok(response) => Ok(Some(response)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into_port(operation)),
    }
}

fn next_key(page: Option<PageResponse>) -> Option<Vec<u8>> {
    page.map(|p| p.next_key).filter(|key| !key.is_empty())
}

impl Reader {
    /// Sends a query. If `pin` is set, the response is the state after the block at this height.
    pub(crate) async fn get<M: Method>(
        &self,
        request: &M,
        pin: Option<Height>,
    ) -> Result<M::Response, NodeError> {
        Ok(self.endpoints.query(request, pin).await?.0)
    }

    /// Returns a page of undecoded records. If the page fails `check`, the next endpoint is tried.
    async fn page_of<M: Method>(
        &self,
        request: &M,
        pin: Option<Height>,
        check: impl Fn(&RecordPage) -> Result<(), Malformed> + Clone + Send + Sync + 'static,
    ) -> Result<RecordPage, NodeError> {
        Ok(self
            .endpoints
            .query_as::<M, RecordPage>(request, pin, check)
            .await?
            .0)
    }

    pub(crate) async fn orders_at(
        &self,
        filter: &OrderFilter,
        page: PageRequest,
        pin: Option<Height>,
    ) -> Result<Page<Order>, NodeError> {
        let request = convert::orders_request(filter, page);
        let page = self.page_of(&request, pin, |_| Ok(())).await?;
        let order = |record: &Bytes| records::read(record, convert::order);
        Ok(Page {
            items: self
                .reported
                .decode_lenient(RecordKind::Order, page.records, order),
            next: next_key(page.pagination),
        })
    }

    /// Returns a page of bids. If the filter names a provider, an invalid bid is an error. Without a
    /// provider, invalid bids are omitted, and the resources of the bids are not decoded.
    pub(crate) async fn bids_at(
        &self,
        filter: &BidFilter,
        page: PageRequest,
        pin: Option<Height>,
    ) -> Result<Page<Bid>, NodeError> {
        let request = convert::bids_request(filter, page);
        if filter.provider.is_none() {
            let page = self.page_of(&request, pin, |_| Ok(())).await?;
            return Ok(Page {
                items: self
                    .reported
                    .decode_lenient(RecordKind::Bid, page.records, records::bid_head),
                next: next_key(page.pagination),
            });
        }
        let bid = |record: &Bytes| {
            records::read(record, convert_bid)
                .map_err(|e| records::own_record_error(RecordKind::Bid, record, &e))
        };
        let check = move |page: &RecordPage| page.records.iter().try_for_each(|r| bid(r).map(drop));
        let page = self.page_of(&request, pin, check).await?;
        let bids = page.records.iter().map(bid);
        Ok(Page {
            items: bids
                .collect::<Result<_, _>>()
                .map_err(|e| self.malformed_record(mkt::QueryBidsRequest::PATH, &e))?,
            next: next_key(page.pagination),
        })
    }

    /// Returns a page of leases. Every lease of the provider `us` must be decodable, and its bid must have the
    /// `bseq` 0. If `filter` contains a provider, this applies to all leases. Other undecodable leases are
    /// omitted.
    pub(crate) async fn leases_at(
        &self,
        filter: &LeaseFilter,
        page: PageRequest,
        pin: Option<Height>,
        us: Option<&Address>,
    ) -> Result<Page<LeaseRecord>, NodeError> {
        let request = convert::leases_request(filter, page);
        let is_asked_about = filter.provider.is_some();
        let us = us.cloned();
        let lease = |record: &Bytes| records::read(record, convert::lease_record);
        let check = move |page: &RecordPage| {
            let is_ours = |record: &Bytes| {
                let named = || RecordKind::Lease.provider(record);
                is_asked_about
                    || us
                        .as_ref()
                        .is_some_and(|us| named().as_deref() == Some(us.as_str()))
            };
            let mut ours = page.records.iter().filter(|record| is_ours(record));
            ours.try_for_each(|record| match lease(record) {
                Ok(_) => Ok(()),
                Err(error) => Err(records::own_record_error(RecordKind::Lease, record, &error)),
            })
        };
        let page = self.page_of(&request, pin, check).await?;
        Ok(Page {
            items: self
                .reported
                .decode_lenient(RecordKind::Lease, page.records, records::any_lease),
            next: next_key(page.pagination),
        })
    }

    fn malformed_record(&self, method: &'static str, error: &Malformed) -> NodeError {
        NodeError {
            endpoint: self.endpoints.chain_id().into(),
            method: method.into(),
            fault: Fault::Malformed(error.to_string()),
        }
    }

    /// Returns a deployment with its groups, its escrow account, and its active and reclaiming leases.
    /// Without `pin`, the leases may be newer than the other records. An inner `Err` means that the
    /// deployment is malformed.
    pub(crate) async fn deployment_at(
        &self,
        id: &DeploymentId,
        pin: Option<Height>,
        us: Option<&Address>,
    ) -> Result<Result<Option<DeploymentRecord>, Malformed>, NodeError> {
        let request = convert::deployment_request(id);
        let asked = self
            .endpoints
            .query_as::<_, DeploymentParts>(&request, pin, |_| Ok(()));
        let (response, height) = match asked.await {
            Ok(response) => response,
            Err(error) if error.is_not_found() => return Ok(Ok(None)),
            Err(error) => return Err(error),
        };
        let (deployment, mut groups, escrow) =
            match response.whole(&self.reported).and_then(convert::deployment) {
                Ok(parts) => parts,
                Err(error) => return Ok(Err(error)),
            };
        // A node may return groups of other deployments.
        groups.retain(|group| group.id.deployment == *id);
        let leases = match self.live_leases_of(id, Some(height), us).await {
            // Without a pinned height, leases of a later height are accepted.
            Err(error) if pin.is_none() && error.is_about_height() => {
                self.live_leases_of(id, None, us).await?
            }
            other => other?,
        };
        Ok(Ok(Some(DeploymentRecord {
            deployment,
            groups,
            escrow,
            leases,
        })))
    }

    async fn live_leases_of(
        &self,
        id: &DeploymentId,
        pin: Option<Height>,
        us: Option<&Address>,
    ) -> Result<Vec<Lease>, NodeError> {
        let of = |state| async move {
            self.all_leases(&convert::deployment_leases(id, state), pin, us)
                .await
        };
        let (active, reclaiming) = tokio::try_join!(of(LeaseState::Active), of(LeaseState::Reclaiming))?;
        let mut leases: Vec<Lease> = active.into_iter().chain(reclaiming).map(|r| r.lease).collect();
        leases.retain(|lease| lease.id.deployment() == id);
        leases.sort_by(|a, b| a.id.cmp(&b.id));
        // A lease that starts its reclamation between the two queries is in both results.
        leases.dedup_by(|a, b| a.id == b.id);
        Ok(leases)
    }

    async fn certificates_at(
        &self,
        owner: &Address,
        serial: Option<&str>,
        page: PageRequest,
    ) -> Result<Page<Certificate>, NodeError> {
        let request = convert::certificates_request(owner, serial, page);
        let read = |record: &Bytes| records::read(record, |c| Ok(convert::certificate(c)));
        let is_one = serial.is_some();
        // A malformed certificate that was queried by serial is an error, not absent.
        let check = move |page: &RecordPage| match page.records.first() {
            Some(record) if is_one => read(record).map(drop),
            _ => Ok(()),
        };
        let page = self.page_of(&request, None, check).await;
        // The gateway stores the validity of a certificate.
        if page.is_ok() && self.endpoints.has_second() {
            self.endpoints.query_agreed(&request).await?;
        }
        match page {
            Ok(page) => Ok(Page {
                items: self
                    .reported
                    .decode_lenient(RecordKind::Certificate, page.records, read),
                next: next_key(page.pagination),
            }),
            Err(error) if error.is_not_found() => Ok(Page {
                items: Vec::new(),
                next: None,
            }),
            Err(error) => Err(error),
        }
    }

    /// Returns the time of a block, or `None` if no node has the block.
    ///
    /// A block time from only one node is valid for [`EndpointLimits::single_age`](crate::EndpointLimits::single_age). After
    /// this duration, the nodes are queried again. If no node returns a time, returns the stored time.
    pub(crate) async fn time_of(&self, height: Height) -> Result<Option<BlockTime>, NodeError> {
        let stored = self.cached_time(height);
        if let Some((time, true)) = stored {
            return Ok(Some(time));
        }
        match self.read_time(height).await {
            Ok(None) | Err(_) if stored.is_some() => Ok(stored.map(|(time, _)| time)),
            read => read,
        }
    }

    async fn read_time(&self, height: Height) -> Result<Option<BlockTime>, NodeError> {
        // Runs health checks that are due, and fails without a usable endpoint. The selected endpoint does not
        // matter.
        self.endpoints.choose(Capability::Queries, &[]).await?;
        let mut last = None;
        let mut first: Option<(usize, BlockTime)> = None;
        // Each endpoint is queried once: another node may have a height that one node has pruned, and retries are
        // useless.
        for at in self.endpoints.ready(Capability::Queries) {
            let endpoint = self.endpoints.endpoint(at)?;
            match endpoint.header(height).await {
                Ok((chain_id, time)) if chain_id == self.endpoints.chain_id() => match first {
                    None => first = Some((at, time)),
                    Some((one, before)) if self.endpoints.is_other_node(one, at) => {
                        if before != time {
                            let why = format!("another node returns another time for block {height}");
                            return Err(endpoint.error("header", Fault::Untrusted(why)));
                        }
                        self.confirm_time(height, time);
                        return Ok(Some(time));
                    }
                    Some(_) => {}
                },
                Ok((chain_id, _)) => {
                    let fault = Fault::OtherChain {
                        expected: self.endpoints.chain_id().to_owned(),
                        found: convert::excerpt(&chain_id),
                    };
                    self.endpoints.record_fault(at, &fault);
                    last = Some(endpoint.error("header", fault));
                }
                Err(error) if error.is_about_height() || error.is_not_found() => {}
                Err(error) => {
                    self.endpoints.record_fault(at, &error.fault);
                    last = Some(error);
                }
            }
        }
        if let Some((_, time)) = first {
            self.cache_time(height, time);
            return Ok(Some(time));
        }
        // A failed endpoint may have the block, so its error is returned instead of `None`.
        last.map_or(Ok(None), Err)
    }
}

fn convert_bid(response: mkt::QueryBidResponse) -> Result<Bid, Malformed> {
    let missing = || Malformed::new("bid", "is missing");
    convert::bid(response.bid.ok_or_else(missing)?)
}

#[async_trait]
impl ChainQuery for Reader {
    async fn provider(&self, owner: &Address) -> Result<Option<ProviderRecord>, Error> {
        let request = akash::provider::v1beta4::QueryProviderRequest {
            owner: owner.to_string(),
        };
        let response = found(self.get(&request, None).await, "provider")?;
        let record = response.and_then(|a| a.provider).map(convert::provider);
        record.transpose().map_err(|e| malformed("provider", &e))
    }

    async fn orders(&self, filter: &OrderFilter, page: PageRequest) -> Result<Page<Order>, Error> {
        let page = self.orders_at(filter, page, None).await;
        page.map_err(|e| e.into_port("orders"))
    }

    async fn order(&self, id: &OrderId) -> Result<Option<Order>, Error> {
        let response = found(self.get(&convert::order_request(id), None).await, "order")?;
        let order = response.and_then(|a| a.order).map(convert::order);
        order.transpose().map_err(|e| malformed("order", &e))
    }

    async fn bid(&self, id: &BidId) -> Result<Observed<Bid>, Error> {
        let observed = self
            .endpoints
            .observe(&convert::bid_request(id), convert_bid)
            .await;
        observed.map_err(|e| e.into_port("bid"))
    }

    async fn bids(&self, filter: &BidFilter, page: PageRequest) -> Result<Page<Bid>, Error> {
        let page = self.bids_at(filter, page, None).await;
        page.map_err(|e| e.into_port("bids"))
    }

    async fn group(&self, id: &GroupId) -> Result<Option<Group>, Error> {
        let response = found(self.get(&convert::group_request(id), None).await, "group")?;
        let group = response.and_then(|a| a.group).map(convert::group);
        group.transpose().map_err(|e| malformed("group", &e))
    }

    async fn deployment(&self, id: &DeploymentId) -> Result<Option<DeploymentRecord>, Error> {
        let record = self.deployment_at(id, None, self.us.as_ref()).await;
        let record = record.map_err(|e| e.into_port("deployment"))?;
        record.map_err(|e| malformed("deployment", &e))
    }

    async fn lease(&self, id: &LeaseId) -> Result<Observed<LeaseRecord>, Error> {
        let request = convert::lease_request(id);
        let observed = self.endpoints.observe(&request, convert::lease_record).await;
        observed.map_err(|e| e.into_port("lease"))
    }

    async fn leases(&self, filter: &LeaseFilter, page: PageRequest) -> Result<Page<LeaseRecord>, Error> {
        let page = self.leases_at(filter, page, None, self.us.as_ref()).await;
        page.map_err(|e| e.into_port("leases"))
    }

    async fn auditor_attributes(
        &self,
        auditor: &str,
        owner: &Address,
    ) -> Result<Option<AuditedAttributes>, Error> {
        // An invalid address has no signed attributes.
        let Ok(auditor) = auditor.parse::<Address>() else {
            return Ok(None);
        };
        let request = convert::auditor_request(&auditor, owner);
        let page = self.page_of(&request, None, |_| Ok(())).await;
        let page = found(page, "auditor_attributes")?.unwrap_or_default();
        let mut unread = None;
        for record in &page.records {
            match records::read(record, |wire| Ok(convert::audited_by(wire))) {
                Ok((by, of, signed)) if by == auditor.as_str() && of == owner.as_str() => {
                    return Ok(Some(signed));
                }
                Ok(_) => {}
                Err(error) => {
                    self.reported.report(RecordKind::Audit, record, &error);
                    unread = Some(error);
                }
            }
        }
        // The malformed record may be the requested one.
        unread.map_or(Ok(None), |error| Err(malformed("auditor_attributes", &error)))
    }

    async fn certificates(&self, owner: &Address, serial: Option<&str>) -> Result<Vec<Certificate>, Error> {
        let page = |page| self.certificates_at(owner, serial, page);
        let all = self.all("certificates", page).await;
        all.map_err(|e| e.into_port("certificates"))
    }

    async fn account(&self, address: &Address) -> Result<Option<Account>, Error> {
        let request = cosmos::auth::v1beta1::QueryAccountRequest {
            address: address.to_string(),
        };
        let response = found(self.get(&request, None).await, "account")?;
        let account = response.map(|a| convert::account(a.account));
        account.transpose().map_err(|e| malformed("account", &e))
    }

    async fn params(&self) -> Result<MarketParams, Error> {
        let params = self.params_at(None).await;
        params.map_err(|e| e.into_port("params"))
    }

    async fn balance(&self, address: &Address, denom: &str) -> Result<Coin, Error> {
        let request = convert::balance_request(address, denom);
        let response = self
            .get(&request, None)
            .await
            .map_err(|e| e.into_port("balance"))?;
        let coin = convert::coin_balance(response.balance, denom);
        coin.map_err(|e| malformed("balance", &e))
    }

    async fn block_time(&self, height: Height) -> Result<Option<BlockTime>, Error> {
        let time = self.time_of(height).await;
        time.map_err(|e| e.into_port("block_time"))
    }

    async fn sync_info(&self) -> Result<SyncInfo, Error> {
        let info = self.endpoints.sync_info().await;
        info.map_err(|e| e.into_port("sync_info"))
    }

    async fn snapshot(&self, provider: &Address) -> Result<Snapshot, Error> {
        let listing = self.take_snapshot(provider).await;
        listing.map(|l| l.snapshot).map_err(|e| e.into_port("snapshot"))
    }
}
