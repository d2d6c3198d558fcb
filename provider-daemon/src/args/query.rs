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
    /// How to print the answer.
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
    /// Most records that one page has.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub limit: u64,
    /// The page by its number, from 1.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["offset", "page_key"])]
    pub page: u64,
    /// Records to pass over from the beginning.
    #[arg(long, default_value_t = 0, conflicts_with = "page_key")]
    pub offset: u64,
    /// The page after the one that said this as its `next_key`.
    #[arg(long, value_name = "BASE64")]
    pub page_key: Option<String>,
    /// Count all records, and say how many.
    #[arg(long)]
    pub count_total: bool,
    /// Begin with the last record.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false",
          value_parser = values::go_bool, action = ArgAction::Set)]
    pub reverse: bool,
}

/// Which orders, bids or leases.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct MarketFilterArgs {
    /// Only those of this tenant.
    #[arg(long)]
    pub owner: Option<Address>,
    /// Only those of this deployment; 0 for any.
    #[arg(long, default_value_t = 0)]
    pub dseq: u64,
    /// Only those of this group; 0 for any.
    #[arg(long, default_value_t = 0)]
    pub gseq: u32,
    /// Only those of this order of the group; 0 for any.
    #[arg(long, default_value_t = 0)]
    pub oseq: u32,
    /// Only those of this provider.
    #[arg(long)]
    pub provider: Option<Address>,
    /// Only those in this state, such as `open`, `active` or `closed`.
    #[arg(long)]
    pub state: Option<String>,
}

/// One order, bid or lease.
#[derive(Debug, Clone, Args)]
pub struct MarketIdArgs {
    /// Account of the deployment's tenant.
    #[arg(long)]
    pub owner: Address,
    /// Number of the tenant's deployment.
    #[arg(long)]
    pub dseq: u64,
    /// Number of the deployment's group.
    #[arg(long, default_value_t = 1)]
    pub gseq: u32,
    /// Number of the group's order.
    #[arg(long, default_value_t = 1)]
    pub oseq: u32,
}

/// What to ask.
#[derive(Debug, Subcommand)]
pub enum QueryCommand {
    /// Ask about providers and their records.
    #[command(subcommand)]
    Provider(ProviderQuery),
    /// Ask about certificates of tenants and providers.
    #[command(subcommand)]
    Cert(CertQuery),
    /// Ask about orders, bids and leases.
    #[command(subcommand, visible_alias = "m")]
    Market(MarketQuery),
    /// List orders, as `market order list` does.
    Orders(OrdersArgs),
    /// List bids, as `market bid list` does.
    Bids(MarketListArgs),
    /// List leases, as `market lease list` does.
    Leases(MarketListArgs),
    /// Ask about deployments and their groups.
    #[command(subcommand)]
    Deployment(DeploymentQuery),
    /// Ask about the money that is held for deployments and bids.
    #[command(subcommand)]
    Escrow(EscrowQuery),
    /// Ask what auditors have signed about providers.
    #[command(subcommand)]
    Audit(AuditQuery),
    /// Ask how much money accounts have.
    #[command(subcommand)]
    Bank(BankQuery),
    /// Ask about accounts and their keys.
    #[command(subcommand)]
    Auth(AuthQuery),
    /// Show the parameters of the market and of deployments.
    Params,
    /// Look a transaction up by its hash.
    Tx {
        /// The hash of the transaction, in hexadecimal.
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
    /// Show the record of one provider.
    Get {
        /// Account of the provider.
        address: Address,
    },
    /// List the records of all providers.
    List(PageArgs),
}

/// About certificates.
#[derive(Debug, Subcommand)]
pub enum CertQuery {
    /// List the certificates of everybody, or of one account.
    List {
        /// Only certificates of this account.
        #[arg(long)]
        owner: Option<Address>,
        /// Only the certificate with this serial, in decimal.
        #[arg(long, requires = "owner")]
        serial: Option<String>,
        /// Only those in this state: `valid` or `revoked`.
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
    /// Ask about the orders of tenants.
    #[command(subcommand)]
    Order(OrderQuery),
    /// Ask about the bids of providers.
    #[command(subcommand)]
    Bid(BidQuery),
    /// Ask about leases between tenants and providers.
    #[command(subcommand)]
    Lease(LeaseQuery),
    /// Show the parameters of the market.
    Params,
}

/// About orders.
#[derive(Debug, Subcommand)]
pub enum OrderQuery {
    /// Show one order by its numbers.
    Get(MarketIdArgs),
    /// List orders, those of a tenant or in a state alone if wanted.
    List(OrdersArgs),
}

/// About bids.
#[derive(Debug, Subcommand)]
pub enum BidQuery {
    /// Show one bid and its deposit.
    Get {
        /// The order.
        #[command(flatten)]
        id: MarketIdArgs,
        /// Account of the provider.
        #[arg(long)]
        provider: Address,
    },
    /// List bids, those of an order or a provider alone if wanted.
    List(MarketListArgs),
}

/// About leases.
#[derive(Debug, Subcommand)]
pub enum LeaseQuery {
    /// Show one lease and its payments.
    Get {
        /// The order.
        #[command(flatten)]
        id: MarketIdArgs,
        /// Account of the provider.
        #[arg(long)]
        provider: Address,
    },
    /// List leases, those of a tenant or a provider alone if wanted.
    List(MarketListArgs),
}

/// About deployments.
#[derive(Debug, Subcommand)]
pub enum DeploymentQuery {
    /// Show one deployment, with its groups and its money.
    Get {
        /// Account of the deployment's tenant.
        #[arg(long)]
        owner: Address,
        /// Number of the tenant's deployment.
        #[arg(long)]
        dseq: u64,
    },
    /// List deployments, those of a tenant alone if wanted.
    List {
        /// Only those of this tenant.
        #[arg(long)]
        owner: Option<Address>,
        /// Only the one with this number; 0 for any.
        #[arg(long, default_value_t = 0)]
        dseq: u64,
        /// Only those in this state: `active` or `closed`.
        #[arg(long)]
        state: Option<String>,
        /// Page.
        #[command(flatten)]
        page: PageArgs,
    },
    /// Ask about one group of a deployment.
    #[command(subcommand)]
    Group(GroupQuery),
    /// Show the parameters of deployments.
    Params,
}

/// About groups.
#[derive(Debug, Subcommand)]
pub enum GroupQuery {
    /// Show one group with its resources.
    Get {
        /// Account of the deployment's tenant.
        #[arg(long)]
        owner: Address,
        /// Number of the tenant's deployment.
        #[arg(long)]
        dseq: u64,
        /// Number of the deployment's group.
        #[arg(long, default_value_t = 1)]
        gseq: u32,
    },
}

/// About money in escrow.
#[derive(Debug, Subcommand)]
pub enum EscrowQuery {
    /// List escrow accounts and what they hold.
    Accounts(EscrowArgs),
    /// List the payments that leases make from escrow.
    Payments(EscrowArgs),
}

/// Which escrow accounts or payments.
#[derive(Debug, Args)]
pub struct EscrowArgs {
    /// Only those in this state: `open`, `closed` or `overdrawn`.
    pub state: Option<String>,
    /// Only the one of this id, such as `deployment/OWNER/DSEQ`.
    pub xid: Option<String>,
    /// Page.
    #[command(flatten)]
    pub page: PageArgs,
}

/// About signed attributes.
#[derive(Debug, Subcommand)]
pub enum AuditQuery {
    /// Show what auditors signed about one provider.
    Get {
        /// Account of the provider.
        provider: Address,
        /// Only what this auditor signed.
        auditor: Option<Address>,
    },
    /// List what auditors signed about all providers.
    List(PageArgs),
}

/// About balances.
#[derive(Debug, Subcommand)]
pub enum BankQuery {
    /// Show how much money an account has.
    Balances {
        /// Address of the account that is asked about.
        address: Address,
        /// Page.
        #[command(flatten)]
        page: PageArgs,
    },
}

/// About accounts.
#[derive(Debug, Subcommand)]
pub enum AuthQuery {
    /// Show an account, its key and its sequence.
    Account {
        /// Address of the account that is asked about.
        address: Address,
    },
}
