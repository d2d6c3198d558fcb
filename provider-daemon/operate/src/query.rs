//! `query`: chain queries, with responses in the form of the Go tools.

use crate::args::query::{
    AuditQuery, AuthQuery, BankQuery, BidQuery, CertQuery, DeploymentQuery, EscrowQuery, GroupQuery,
    LeaseQuery, MarketListArgs, MarketQuery, OrderQuery, PageArgs, ProviderQuery, QueryArgs, QueryCommand,
};
use crate::chain_json;
use akash::market::{v1 as mkt1, v1beta5 as mkt};
use akash::{
    audit::v1 as audit, cert::v1 as cert, deployment::v1beta4 as dep, escrow::v1 as escrow,
    provider::v1beta4 as prov,
};
use akash_provider_chain::convert;
use akash_provider_chain::endpoints::Endpoints;
use akash_provider_chain::method::Method;
use akash_provider_chain::proto::{akash, cosmos};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::flags::DataOutput;
use akash_provider_cli::json::Json;
use akash_provider_cli::node::{self, block_on, endpoints};
use akash_provider_cli::output::say;
use akash_provider_core::types::Address;
use anyhow::{Context, anyhow};
use cosmos::base::query::v1beta1::PageRequest;
use data_encoding::BASE64;
use prost::Name;
use std::process::ExitCode;

/// Sends a query and prints the response.
///
/// # Errors
/// Returns an error if no node responds, the query is rejected, or the record does not exist.
pub fn run(args: &QueryArgs) -> anyhow::Result<ExitCode> {
    let answer = block_on(async {
        let height = (args.height > 0).then_some(args.height);
        let asking = QueryClient {
            endpoints: endpoints(&args.node).await?,
            height,
        };
        asking.respond(&args.command).await
    })?;
    print(&answer, args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a response.
///
/// # Errors
/// Returns an error if the response cannot be serialized.
pub fn print(answer: &Json, output: DataOutput) -> anyhow::Result<()> {
    match output {
        DataOutput::Json => say(&(serde_json::to_string(answer)? + "\n")),
        DataOutput::Text | DataOutput::Yaml => say(&chain_json::yaml(&serde_json::to_value(answer)?)),
    }
    Ok(())
}

struct QueryClient {
    endpoints: Endpoints,
    height: Option<u64>,
}

impl QueryClient {
    async fn respond(&self, command: &QueryCommand) -> anyhow::Result<Json> {
        match command {
            QueryCommand::Provider(query) => self.provider(query).await,
            QueryCommand::Cert(query) => self.cert(query).await,
            QueryCommand::Market(query) => self.market(query).await,
            QueryCommand::Orders(args) => self.orders(args).await,
            QueryCommand::Bids(args) => self.bids(args).await,
            QueryCommand::Leases(args) => self.leases(args).await,
            QueryCommand::Deployment(query) => self.deployment(query).await,
            QueryCommand::Escrow(query) => self.escrow(query).await,
            QueryCommand::Audit(query) => self.audit(query).await,
            QueryCommand::Bank(BankQuery::Balances { address, page }) => {
                let request = cosmos::bank::v1beta1::QueryAllBalancesRequest {
                    address: address.to_string(),
                    pagination: Some(wire_page(page)?),
                    ..Default::default()
                };
                self.send(&request).await
            }
            QueryCommand::Auth(AuthQuery::Account { address }) => {
                let request = cosmos::auth::v1beta1::QueryAccountRequest {
                    address: address.to_string(),
                };
                self.send(&request).await
            }
            QueryCommand::Params => self.params().await,
            QueryCommand::Tx { hash } => {
                let request = cosmos::tx::v1beta1::GetTxRequest {
                    // Explorers print hashes in lower case or with a prefix; nodes expect upper case without a prefix.
                    hash: hash.trim_start_matches("0x").to_ascii_uppercase(),
                };
                let answer = self.send(&request).await?;
                Ok(answer.at("tx_response").clone())
            }
        }
    }

    async fn send<M: Method>(&self, request: &M) -> anyhow::Result<Json>
    where
        M::Response: Name,
    {
        let asked = self.endpoints.query(request, self.height).await;
        let (answer, _) = asked.map_err(|error| node::failure(&error))?;
        chain_json::from_message(&answer)
    }

    async fn provider(&self, query: &ProviderQuery) -> anyhow::Result<Json> {
        match query {
            ProviderQuery::Get { address } => {
                let request = prov::QueryProviderRequest {
                    owner: address.to_string(),
                };
                let asked = self.endpoints.query(&request, self.height).await;
                let (answer, _) = asked.map_err(|error| match error.is_not_found() {
                    true => anyhow!(WithHelp::new(
                        format!("provider {address} is not registered on this chain"),
                        "check the address, --node and --chain-id, or register the provider with `tx provider create`"
                    )),
                    false => node::failure(&error),
                })?;
                // The Go tools print the record itself, and scripts depend on this form.
                Ok(chain_json::from_message(&answer)?.at("provider").clone())
            }
            ProviderQuery::List(page) => {
                let pagination = Some(wire_page(page)?);
                self.send(&prov::QueryProvidersRequest { pagination }).await
            }
        }
    }

    async fn cert(&self, query: &CertQuery) -> anyhow::Result<Json> {
        let CertQuery::List {
            owner,
            serial,
            state,
            page,
        } = query;
        let request = cert::QueryCertificatesRequest {
            filter: Some(cert::CertificateFilter {
                owner: text(owner.as_ref()),
                serial: serial.clone().unwrap_or_default(),
                state: state.clone().unwrap_or_default(),
            }),
            pagination: Some(wire_page(page)?),
        };
        self.send(&request).await
    }

    async fn market(&self, query: &MarketQuery) -> anyhow::Result<Json> {
        match query {
            MarketQuery::Order(OrderQuery::List(args)) => self.orders(args).await,
            MarketQuery::Bid(BidQuery::List(args)) => self.bids(args).await,
            MarketQuery::Lease(LeaseQuery::List(args)) => self.leases(args).await,
            MarketQuery::Order(OrderQuery::Get(id)) => {
                let answer = self.send(&convert::order_request(&id.order())).await?;
                Ok(answer.at("order").clone())
            }
            MarketQuery::Bid(BidQuery::Get(id)) => self.send(&convert::bid_request(&id.bid())).await,
            MarketQuery::Lease(LeaseQuery::Get(id)) => self.send(&convert::lease_request(&id.bid())).await,
            MarketQuery::Params => {
                let answer = self.send(&mkt::QueryParamsRequest {}).await?;
                Ok(answer.at("params").clone())
            }
        }
    }

    async fn orders(&self, args: &MarketListArgs) -> anyhow::Result<Json> {
        let filter = &args.filter;
        if filter.provider.is_some() {
            return Err(anyhow!(WithHelp::new(
                "--provider applies to bids and leases only: an order has no provider",
                "remove --provider, or query the bids with `query bids`"
            )));
        }
        let request = mkt::QueryOrdersRequest {
            filters: Some(mkt::OrderFilters {
                owner: text(filter.owner.as_ref()),
                dseq: filter.dseq,
                gseq: filter.gseq,
                oseq: filter.oseq,
                state: filter.state.clone().unwrap_or_default(),
            }),
            pagination: Some(wire_page(&args.page)?),
        };
        self.send(&request).await
    }

    async fn bids(&self, args: &MarketListArgs) -> anyhow::Result<Json> {
        let filter = args.filter.clone();
        let request = mkt::QueryBidsRequest {
            filters: Some(mkt::BidFilters {
                owner: text(filter.owner.as_ref()),
                dseq: filter.dseq,
                gseq: filter.gseq,
                oseq: filter.oseq,
                provider: text(filter.provider.as_ref()),
                state: filter.state.unwrap_or_default(),
                ..Default::default()
            }),
            pagination: Some(wire_page(&args.page)?),
        };
        self.send(&request).await
    }

    async fn leases(&self, args: &MarketListArgs) -> anyhow::Result<Json> {
        let filter = args.filter.clone();
        let request = mkt::QueryLeasesRequest {
            filters: Some(mkt1::LeaseFilters {
                owner: text(filter.owner.as_ref()),
                dseq: filter.dseq,
                gseq: filter.gseq,
                oseq: filter.oseq,
                provider: text(filter.provider.as_ref()),
                state: filter.state.unwrap_or_default(),
                ..Default::default()
            }),
            pagination: Some(wire_page(&args.page)?),
        };
        self.send(&request).await
    }

    async fn deployment(&self, query: &DeploymentQuery) -> anyhow::Result<Json> {
        match query {
            DeploymentQuery::Get(args) => self.send(&convert::deployment_request(&args.id())).await,
            DeploymentQuery::List {
                owner,
                dseq,
                state,
                page,
            } => {
                let request = dep::QueryDeploymentsRequest {
                    filters: Some(dep::DeploymentFilters {
                        owner: text(owner.as_ref()),
                        dseq: *dseq,
                        state: state.clone().unwrap_or_default(),
                    }),
                    pagination: Some(wire_page(page)?),
                };
                self.send(&request).await
            }
            DeploymentQuery::Group(GroupQuery::Get(args)) => {
                let answer = self.send(&convert::group_request(&args.id())).await?;
                Ok(answer.at("group").clone())
            }
            // Unlike those of the market, these parameters are wrapped in a field.
            DeploymentQuery::Params => self.send(&dep::QueryParamsRequest {}).await,
        }
    }

    async fn escrow(&self, query: &EscrowQuery) -> anyhow::Result<Json> {
        let (EscrowQuery::Accounts(args) | EscrowQuery::Payments(args)) = query;
        let state = args.state.clone().unwrap_or_default();
        let xid = args.xid.clone().unwrap_or_default();
        let pagination = Some(wire_page(&args.page)?);
        match query {
            EscrowQuery::Accounts(_) => {
                let request = escrow::QueryAccountsRequest {
                    state,
                    xid,
                    pagination,
                };
                self.send(&request).await
            }
            EscrowQuery::Payments(_) => {
                let request = escrow::QueryPaymentsRequest {
                    state,
                    xid,
                    pagination,
                };
                self.send(&request).await
            }
        }
    }

    async fn audit(&self, query: &AuditQuery) -> anyhow::Result<Json> {
        match query {
            AuditQuery::Get {
                provider,
                auditor: Some(auditor),
            } => self.send(&convert::auditor_request(auditor, provider)).await,
            AuditQuery::Get {
                provider,
                auditor: None,
            } => {
                let request = audit::QueryProviderAttributesRequest {
                    owner: provider.to_string(),
                    pagination: None,
                };
                self.send(&request).await
            }
            AuditQuery::List(page) => {
                let pagination = Some(wire_page(page)?);
                let request = audit::QueryAllProvidersAttributesRequest { pagination };
                self.send(&request).await
            }
        }
    }

    async fn params(&self) -> anyhow::Result<Json> {
        let market = self.send(&mkt::QueryParamsRequest {}).await?;
        let deployment = self.send(&dep::QueryParamsRequest {}).await?;
        Ok(Json::Fields(vec![
            ("market".to_owned(), market.at("params").clone()),
            ("deployment".to_owned(), deployment.at("params").clone()),
        ]))
    }
}

fn text(address: Option<&Address>) -> String {
    address.map(ToString::to_string).unwrap_or_default()
}

fn wire_page(page: &PageArgs) -> anyhow::Result<PageRequest> {
    let key = page.page_key.as_deref().unwrap_or_default();
    let key = BASE64.decode(key.as_bytes()).with_context(|| {
        WithHelp::new(
            "invalid --page-key",
            "expected the base64 `next_key` of the previous page",
        )
    })?;
    Ok(PageRequest {
        key,
        offset: page.offset.max((page.page - 1).saturating_mul(page.limit)),
        limit: page.limit,
        count_total: page.count_total,
        reverse: page.reverse,
    })
}
