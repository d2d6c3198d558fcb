//! Request messages, with the same bytes as the requests of the Go tools: empty filters are encoded too.

use super::ids::{wire_bid, wire_deployment, wire_group, wire_lease, wire_order};
use crate::proto::akash::{audit, cert, deployment as dep, market as mkt};
use crate::proto::cosmos::bank::v1beta1::QueryBalanceRequest;
use crate::proto::cosmos::base::query::v1beta1::PageRequest as WirePage;
use akash_provider_core::chain::{BidFilter, LeaseFilter, OrderFilter, PageRequest};
use akash_provider_core::types::{
    Address, BidId, BidState, DeploymentId, GroupId, LeaseId, LeaseState, OrderId, OrderState,
};

/// Maximum number of records in one page.
const PAGE_MAX: u32 = 1000;

/// Encodes a page request. A default page request is not encoded, so the node uses its default page size.
fn wire_page(page: PageRequest) -> Option<WirePage> {
    (page != PageRequest::default()).then(|| WirePage {
        key: page.key.unwrap_or_default(),
        limit: u64::from(page.limit.min(PAGE_MAX)),
        ..WirePage::default()
    })
}

fn text(address: Option<&Address>) -> String {
    address.map(ToString::to_string).unwrap_or_default()
}

/// Returns the request for the orders that match a filter.
#[must_use]
pub fn orders_request(filter: &OrderFilter, page: PageRequest) -> mkt::v1beta5::QueryOrdersRequest {
    let state = match filter.state {
        None => "",
        Some(OrderState::Open) => "open",
        Some(OrderState::Active) => "active",
        Some(OrderState::Closed) => "closed",
    };
    let deployment = filter.deployment.as_ref();
    mkt::v1beta5::QueryOrdersRequest {
        filters: Some(mkt::v1beta5::OrderFilters {
            owner: text(deployment.map(|d| &d.owner)),
            dseq: deployment.map_or(0, |d| d.dseq),
            state: state.to_owned(),
            ..mkt::v1beta5::OrderFilters::default()
        }),
        pagination: wire_page(page),
    }
}

/// Returns the request for the bids that match a filter.
#[must_use]
pub fn bids_request(filter: &BidFilter, page: PageRequest) -> mkt::v1beta5::QueryBidsRequest {
    let state = match filter.state {
        None => "",
        Some(BidState::Open) => "open",
        Some(BidState::Active) => "active",
        Some(BidState::Lost) => "lost",
        Some(BidState::Closed) => "closed",
    };
    let order = filter.order.as_ref();
    mkt::v1beta5::QueryBidsRequest {
        filters: Some(mkt::v1beta5::BidFilters {
            owner: text(order.map(|o| &o.group.deployment.owner)),
            dseq: order.map_or(0, |o| o.group.deployment.dseq),
            gseq: order.map_or(0, |o| o.group.gseq),
            oseq: order.map_or(0, |o| o.oseq),
            provider: text(filter.provider.as_ref()),
            state: state.to_owned(),
            ..mkt::v1beta5::BidFilters::default()
        }),
        pagination: wire_page(page),
    }
}

/// Returns the request for the leases that match a filter.
#[must_use]
pub fn leases_request(filter: &LeaseFilter, page: PageRequest) -> mkt::v1beta5::QueryLeasesRequest {
    let state = match filter.state {
        None => "",
        Some(LeaseState::Active) => "active",
        Some(LeaseState::Reclaiming) => "reclaiming",
        Some(LeaseState::InsufficientFunds) => "insufficient_funds",
        Some(LeaseState::Closed) => "closed",
    };
    let deployment = filter.deployment.as_ref();
    mkt::v1beta5::QueryLeasesRequest {
        filters: Some(mkt::v1::LeaseFilters {
            owner: text(deployment.map(|d| &d.owner)),
            dseq: deployment.map_or(0, |d| d.dseq),
            provider: text(filter.provider.as_ref()),
            state: state.to_owned(),
            ..mkt::v1::LeaseFilters::default()
        }),
        pagination: wire_page(page),
    }
}

/// Returns the filter that matches all leases of a deployment in one state.
#[must_use]
pub fn deployment_leases(deployment: &DeploymentId, state: LeaseState) -> LeaseFilter {
    LeaseFilter {
        provider: None,
        deployment: Some(deployment.clone()),
        state: Some(state),
    }
}

/// Returns the request for one order.
#[must_use]
pub fn order_request(id: &OrderId) -> mkt::v1beta5::QueryOrderRequest {
    let id = Some(wire_order(id));
    mkt::v1beta5::QueryOrderRequest { id }
}

/// Returns the request for one bid. The response contains the escrow account of the deposit.
#[must_use]
pub fn bid_request(id: &BidId) -> mkt::v1beta5::QueryBidRequest {
    let id = Some(wire_bid(id));
    mkt::v1beta5::QueryBidRequest { id }
}

/// Returns the request for one lease. The response contains the payment.
#[must_use]
pub fn lease_request(id: &LeaseId) -> mkt::v1beta5::QueryLeaseRequest {
    let id = Some(wire_lease(id));
    mkt::v1beta5::QueryLeaseRequest { id }
}

/// Returns the request for one group. The response does not contain the deployment.
#[must_use]
pub fn group_request(id: &GroupId) -> dep::v1beta4::QueryGroupRequest {
    let id = Some(wire_group(id));
    dep::v1beta4::QueryGroupRequest { id }
}

/// Returns the request for one deployment. The response contains the groups and the escrow account.
#[must_use]
pub fn deployment_request(id: &DeploymentId) -> dep::v1beta4::QueryDeploymentRequest {
    let id = Some(wire_deployment(id));
    dep::v1beta4::QueryDeploymentRequest { id }
}

/// Returns the request for the attributes that `auditor` has signed for the provider `owner`.
#[must_use]
pub fn auditor_request(auditor: &Address, owner: &Address) -> audit::v1::QueryProviderAuditorRequest {
    audit::v1::QueryProviderAuditorRequest {
        auditor: auditor.to_string(),
        owner: owner.to_string(),
    }
}

/// Returns the request for the certificates of a chain account: all certificates, or the certificate with the
/// serial number `serial`.
#[must_use]
pub fn certificates_request(
    owner: &Address,
    serial: Option<&str>,
    page: PageRequest,
) -> cert::v1::QueryCertificatesRequest {
    cert::v1::QueryCertificatesRequest {
        filter: Some(cert::v1::CertificateFilter {
            owner: owner.to_string(),
            serial: serial.unwrap_or_default().to_owned(),
            // Empty for all states: the provider must also see revoked certificates.
            state: String::new(),
        }),
        pagination: wire_page(page),
    }
}

/// Returns the request for the balance of an account in one denomination.
#[must_use]
pub fn balance_request(address: &Address, denom: &str) -> QueryBalanceRequest {
    QueryBalanceRequest {
        address: address.to_string(),
        denom: denom.to_owned(),
    }
}
