//! Flags of `query`.

use super::values;
use akash_provider_core::types::Address;
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The nodes that are asked.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Chain")]
pub struct NodeArgs {
    /// Nodes: http://, https://, tcp:// (JSON-RPC) or grpc://, grpcs://; several, with commas, stand in for each other.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        default_value = "http://localhost:26657",
        global = true
    )]
    pub node: Vec<String>,
    /// The chain that the nodes must belong to.
    #[arg(long, value_name = "ID", global = true)]
    pub chain_id: Option<String>,
    /// Certificates of an authority of one's own, as a PEM file: whoever they vouch for is believed besides those whom
    /// the system trusts.
    #[arg(long, value_name = "FILE", global = true)]
    pub node_ca: Option<PathBuf>,
    /// Limit of one answer of a node.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::duration, global = true)]
    pub node_timeout: Duration,
}

/// Settings of `query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// How to print.
    #[arg(long, short, value_enum, default_value = "text", global = true)]
    pub output: QueryOutput,
    /// Ask about the state after this block instead of the newest one.
    #[arg(long, value_name = "HEIGHT", default_value_t = 0, global = true)]
    pub height: u64,
    /// Nodes.
    #[command(flatten)]
    pub node: NodeArgs,
    /// What to ask.
    #[command(subcommand)]
    pub command: QueryCommand,
}

/// How an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueryOutput {
    /// YAML too, as today's tool calls it.
    Text,
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

/// Which page of a listing.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pages")]
pub struct PageArgs {
    /// Records of a page.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub limit: u64,
    /// The page by its number, from 1.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["offset", "page_key"])]
    pub page: u64,
    /// Records to pass over.
    #[arg(long, default_value_t = 0, conflicts_with = "page_key")]
    pub offset: u64,
    /// The page after the one that said this as its `next_key`.
    #[arg(long, value_name = "BASE64")]
    pub page_key: Option<String>,
    /// Count all records.
    #[arg(long)]
    pub count_total: bool,
    /// From the end.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = values::go_bool, action = ArgAction::Set)]
    pub reverse: bool,
}

/// Which orders, bids or leases.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct MarketFilterArgs {
    /// Of this tenant.
    #[arg(long)]
    pub owner: Option<Address>,
    /// Of this deployment.
    #[arg(long, default_value_t = 0)]
    pub dseq: u64,
    /// Of this group.
    #[arg(long, default_value_t = 0)]
    pub gseq: u32,
    /// Of this order of the group.
    #[arg(long, default_value_t = 0)]
    pub oseq: u32,
    /// Of this provider.
    #[arg(long)]
    pub provider: Option<Address>,
    /// In this state.
    #[arg(long)]
    pub state: Option<String>,
}

/// One order, bid or lease.
#[derive(Debug, Clone, Args)]
pub struct MarketIdArgs {
    /// The tenant.
    #[arg(long)]
    pub owner: Address,
    /// The deployment.
    #[arg(long)]
    pub dseq: u64,
    /// The group.
    #[arg(long, default_value_t = 1)]
    pub gseq: u32,
    /// The order of the group.
    #[arg(long, default_value_t = 1)]
    pub oseq: u32,
}

/// What to ask.
#[derive(Debug, Subcommand)]
pub enum QueryCommand {
    /// Providers.
    #[command(subcommand)]
    Provider(ProviderQuery),
    /// Certificates.
    #[command(subcommand)]
    Cert(CertQuery),
    /// Orders, bids and leases.
    #[command(subcommand, visible_alias = "m")]
    Market(MarketQuery),
    /// Orders, as `market order list`.
    Orders(OrdersArgs),
    /// Bids, as `market bid list`.
    Bids(MarketListArgs),
    /// Leases, as `market lease list`.
    Leases(MarketListArgs),
    /// Deployments and their groups.
    #[command(subcommand)]
    Deployment(DeploymentQuery),
    /// Escrow accounts and payments.
    #[command(subcommand)]
    Escrow(EscrowQuery),
    /// What auditors have signed.
    #[command(subcommand)]
    Audit(AuditQuery),
    /// Balances.
    #[command(subcommand)]
    Bank(BankQuery),
    /// Accounts.
    #[command(subcommand)]
    Auth(AuthQuery),
    /// Parameters of market and deployments.
    Params,
    /// A transaction by its hash.
    Tx {
        /// In hexadecimal.
        hash: String,
    },
}

/// Orders.
#[derive(Debug, Args)]
pub struct OrdersArgs {
    /// Which.
    #[command(flatten)]
    pub filter: MarketFilterArgs,
    /// Page.
    #[command(flatten)]
    pub page: PageArgs,
}

/// Bids or leases.
#[derive(Debug, Args)]
pub struct MarketListArgs {
    /// Which.
    #[command(flatten)]
    pub filter: MarketFilterArgs,
    /// Page.
    #[command(flatten)]
    pub page: PageArgs,
}

/// About providers.
#[derive(Debug, Subcommand)]
pub enum ProviderQuery {
    /// One.
    Get {
        /// Its account.
        address: Address,
    },
    /// All.
    List(PageArgs),
}

/// About certificates.
#[derive(Debug, Subcommand)]
pub enum CertQuery {
    /// Certificates of everybody, or of one account.
    List {
        /// The account.
        #[arg(long)]
        owner: Option<Address>,
        /// The serial, in decimal.
        #[arg(long, requires = "owner")]
        serial: Option<String>,
        /// `valid` or `revoked`.
        #[arg(long)]
        state: Option<String>,
        /// Page.
        #[command(flatten)]
        page: PageArgs,
    },
}

/// About the market.
#[derive(Debug, Subcommand)]
pub enum MarketQuery {
    /// Orders.
    #[command(subcommand)]
    Order(OrderQuery),
    /// Bids.
    #[command(subcommand)]
    Bid(BidQuery),
    /// Leases.
    #[command(subcommand)]
    Lease(LeaseQuery),
    /// Parameters.
    Params,
}

/// About orders.
#[derive(Debug, Subcommand)]
pub enum OrderQuery {
    /// One.
    Get(MarketIdArgs),
    /// Many.
    List(OrdersArgs),
}

/// About bids.
#[derive(Debug, Subcommand)]
pub enum BidQuery {
    /// One.
    Get {
        /// The order.
        #[command(flatten)]
        id: MarketIdArgs,
        /// The provider.
        #[arg(long)]
        provider: Address,
    },
    /// Many.
    List(MarketListArgs),
}

/// About leases.
#[derive(Debug, Subcommand)]
pub enum LeaseQuery {
    /// One.
    Get {
        /// The order.
        #[command(flatten)]
        id: MarketIdArgs,
        /// The provider.
        #[arg(long)]
        provider: Address,
    },
    /// Many.
    List(MarketListArgs),
}

/// About deployments.
#[derive(Debug, Subcommand)]
pub enum DeploymentQuery {
    /// One, with its groups and its money.
    Get {
        /// The tenant.
        #[arg(long)]
        owner: Address,
        /// Its number.
        #[arg(long)]
        dseq: u64,
    },
    /// Many.
    List {
        /// Of this tenant.
        #[arg(long)]
        owner: Option<Address>,
        /// With this number.
        #[arg(long, default_value_t = 0)]
        dseq: u64,
        /// `active` or `closed`.
        #[arg(long)]
        state: Option<String>,
        /// Page.
        #[command(flatten)]
        page: PageArgs,
    },
    /// A group.
    #[command(subcommand)]
    Group(GroupQuery),
    /// Parameters.
    Params,
}

/// About groups.
#[derive(Debug, Subcommand)]
pub enum GroupQuery {
    /// One.
    Get {
        /// The tenant.
        #[arg(long)]
        owner: Address,
        /// The deployment.
        #[arg(long)]
        dseq: u64,
        /// Its number.
        #[arg(long, default_value_t = 1)]
        gseq: u32,
    },
}

/// About money in escrow.
#[derive(Debug, Subcommand)]
pub enum EscrowQuery {
    /// Accounts.
    Accounts(EscrowArgs),
    /// Payments of leases.
    Payments(EscrowArgs),
}

/// Which escrow accounts or payments.
#[derive(Debug, Args)]
pub struct EscrowArgs {
    /// `open`, `closed` or `overdrawn`.
    pub state: Option<String>,
    /// Such as `deployment/OWNER/DSEQ`.
    pub xid: Option<String>,
    /// Page.
    #[command(flatten)]
    pub page: PageArgs,
}

/// About signed attributes.
#[derive(Debug, Subcommand)]
pub enum AuditQuery {
    /// Of one provider.
    Get {
        /// The provider.
        provider: Address,
        /// Only what this auditor signed.
        auditor: Option<Address>,
    },
    /// Of all providers.
    List(PageArgs),
}

/// About balances.
#[derive(Debug, Subcommand)]
pub enum BankQuery {
    /// What an account has.
    Balances {
        /// The account.
        address: Address,
        /// Page.
        #[command(flatten)]
        page: PageArgs,
    },
}

/// About accounts.
#[derive(Debug, Subcommand)]
pub enum AuthQuery {
    /// One.
    Account {
        /// Its address.
        address: Address,
    },
}
