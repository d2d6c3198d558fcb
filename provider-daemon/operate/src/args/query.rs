//! Flags of `query`.

use akash_provider_cli::flags::{DataOutput, NodeArgs};
use akash_provider_core::types::{Address, BidId, DeploymentId, GroupId, OrderId};
use clap::{Args, Subcommand};

/// Arguments of `query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// Output format of the response
    #[arg(long, short, value_enum, default_value = "text", global = true)]
    pub output: DataOutput,
    /// Height of the queried state; 0 queries the latest block
    #[arg(long, value_name = "HEIGHT", default_value_t = 0, global = true)]
    pub height: u64,
    /// Nodes of the chain.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Query to send.
    #[command(subcommand)]
    pub command: QueryCommand,
}

/// Page of a list.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pages")]
pub struct PageArgs {
    /// Maximum number of records per page
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub limit: u64,
    /// Number of the page, from 1
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["offset", "page_key"])]
    pub page: u64,
    /// Number of records to skip
    #[arg(long, default_value_t = 0, conflicts_with = "page_key")]
    pub offset: u64,
    /// Key of the page: `next_key` of the previous response
    #[arg(long, value_name = "BASE64")]
    pub page_key: Option<String>,
    /// Count all records and print the total
    #[arg(long)]
    pub count_total: bool,
    /// List the records in reverse order, starting with the last
    #[arg(long)]
    pub reverse: bool,
}

/// Filter for orders, bids or leases.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct MarketFilterArgs {
    /// Only records of this tenant
    #[arg(long)]
    pub owner: Option<Address>,
    /// Only records of this deployment; 0 for any
    #[arg(long, default_value_t = 0)]
    pub dseq: u64,
    /// Only records of this group; 0 for any
    #[arg(long, default_value_t = 0)]
    pub gseq: u32,
    /// Only records of this order of the group; 0 for any
    #[arg(long, default_value_t = 0)]
    pub oseq: u32,
    /// Only records of this provider
    #[arg(long)]
    pub provider: Option<Address>,
    /// Only records in this state, such as `open`, `active` or `closed`
    #[arg(long)]
    pub state: Option<String>,
}

/// ID of one deployment.
#[derive(Debug, Clone, Args)]
pub struct DeploymentIdArgs {
    /// Account of the tenant that owns the deployment
    #[arg(long)]
    pub owner: Address,
    /// Sequence number of the deployment (dseq)
    #[arg(long)]
    pub dseq: u64,
}

impl DeploymentIdArgs {
    pub(crate) fn id(&self) -> DeploymentId {
        DeploymentId::new(self.owner.clone(), self.dseq)
    }
}

/// ID of one group.
#[derive(Debug, Clone, Args)]
pub struct GroupIdArgs {
    /// ID of the deployment.
    #[command(flatten)]
    pub deployment: DeploymentIdArgs,
    /// Sequence number of the group (gseq)
    #[arg(long, default_value_t = 1)]
    pub gseq: u32,
}

impl GroupIdArgs {
    pub(crate) fn id(&self) -> GroupId {
        self.deployment.id().group(self.gseq)
    }
}

/// ID of one order, bid or lease.
#[derive(Debug, Clone, Args)]
pub struct MarketIdArgs {
    /// ID of the group.
    #[command(flatten)]
    pub group: GroupIdArgs,
    /// Sequence number of the order (oseq)
    #[arg(long, default_value_t = 1)]
    pub oseq: u32,
}

impl MarketIdArgs {
    pub(crate) fn order(&self) -> OrderId {
        self.group.id().order(self.oseq)
    }
}

/// Queries.
#[derive(Debug, Subcommand)]
pub enum QueryCommand {
    /// Query providers and their records
    #[command(subcommand)]
    Provider(ProviderQuery),
    /// Query certificates of tenants and providers
    #[command(subcommand)]
    Cert(CertQuery),
    /// Query orders, bids and leases
    #[command(subcommand, visible_alias = "m")]
    Market(MarketQuery),
    /// List orders, like `market order list`
    Orders(MarketListArgs),
    /// List bids, like `market bid list`
    Bids(MarketListArgs),
    /// List leases, like `market lease list`
    Leases(MarketListArgs),
    /// Query deployments and their groups
    #[command(subcommand)]
    Deployment(DeploymentQuery),
    /// Query the escrow accounts of deployments and bids
    #[command(subcommand)]
    Escrow(EscrowQuery),
    /// Query provider attributes signed by auditors
    #[command(subcommand)]
    Audit(AuditQuery),
    /// Query the token balances of accounts
    #[command(subcommand)]
    Bank(BankQuery),
    /// Query accounts with their public keys and sequence numbers
    #[command(subcommand)]
    Auth(AuthQuery),
    /// Show the parameters of the market and of deployments
    Params,
    /// Look up a transaction by its hash
    Tx {
        /// Hash of the transaction, in hexadecimal
        hash: String,
    },
}

/// Arguments of `query orders`, `query bids` and `query leases`.
#[derive(Debug, Args)]
pub struct MarketListArgs {
    /// Filter.
    #[command(flatten)]
    pub filter: MarketFilterArgs,
    /// Page.
    #[command(flatten)]
    pub page: PageArgs,
}

/// Queries about providers.
#[derive(Debug, Subcommand)]
pub enum ProviderQuery {
    /// Show the record of one provider
    Get {
        /// Account of the provider
        address: Address,
    },
    /// List the records of all providers
    List(PageArgs),
}

/// Queries about certificates.
#[derive(Debug, Subcommand)]
pub enum CertQuery {
    /// List all certificates, or those of --owner
    List {
        /// Only certificates of this account
        #[arg(long)]
        owner: Option<Address>,
        /// Only the certificate with this serial number, in decimal
        #[arg(long, requires = "owner")]
        serial: Option<String>,
        /// Only certificates in this state: `valid` or `revoked`
        #[arg(long)]
        state: Option<String>,
        /// Page.
        #[command(flatten)]
        page: PageArgs,
    },
}

/// Queries about the market.
#[derive(Debug, Subcommand)]
pub enum MarketQuery {
    /// Query the orders of tenants
    #[command(subcommand)]
    Order(OrderQuery),
    /// Query the bids of providers
    #[command(subcommand)]
    Bid(BidQuery),
    /// Query leases between tenants and providers
    #[command(subcommand)]
    Lease(LeaseQuery),
    /// Show the parameters of the market
    Params,
}

/// Queries about orders.
#[derive(Debug, Subcommand)]
pub enum OrderQuery {
    /// Show one order by its ID
    Get(MarketIdArgs),
    /// List all orders, or filter them by tenant or state
    List(MarketListArgs),
}

/// ID of a bid or of its lease.
#[derive(Debug, Clone, Args)]
pub struct BidIdArgs {
    /// ID of the order.
    #[command(flatten)]
    pub id: MarketIdArgs,
    /// Account of the provider
    #[arg(long)]
    pub provider: Address,
}

impl BidIdArgs {
    pub(crate) fn bid(&self) -> BidId {
        self.id.order().bid(self.provider.clone())
    }
}

/// Queries about bids.
#[derive(Debug, Subcommand)]
pub enum BidQuery {
    /// Show one bid and its deposit
    Get(BidIdArgs),
    /// List all bids, or filter them by order or provider
    List(MarketListArgs),
}

/// Queries about leases.
#[derive(Debug, Subcommand)]
pub enum LeaseQuery {
    /// Show one lease and its payments
    Get(BidIdArgs),
    /// List all leases, or filter them by tenant or provider
    List(MarketListArgs),
}

/// Queries about deployments.
#[derive(Debug, Subcommand)]
pub enum DeploymentQuery {
    /// Show one deployment with its groups and escrow account
    Get(DeploymentIdArgs),
    /// List all deployments, or those of --owner
    List {
        /// Only deployments of this tenant
        #[arg(long)]
        owner: Option<Address>,
        /// Only the deployment with this number; 0 for any
        #[arg(long, default_value_t = 0)]
        dseq: u64,
        /// Only deployments in this state: `active` or `closed`
        #[arg(long)]
        state: Option<String>,
        /// Page.
        #[command(flatten)]
        page: PageArgs,
    },
    /// Query one group of a deployment
    #[command(subcommand)]
    Group(GroupQuery),
    /// Show the parameters of deployments
    Params,
}

/// Queries about groups.
#[derive(Debug, Subcommand)]
pub enum GroupQuery {
    /// Show one group with its resources
    Get(GroupIdArgs),
}

/// Queries about escrow accounts.
#[derive(Debug, Subcommand)]
pub enum EscrowQuery {
    /// List escrow accounts and their balances
    Accounts(EscrowArgs),
    /// List the payments from escrow accounts to leases
    Payments(EscrowArgs),
}

/// Filter for escrow accounts or payments.
#[derive(Debug, Args)]
pub struct EscrowArgs {
    /// Only records in this state: `open`, `closed` or `overdrawn`
    pub state: Option<String>,
    /// Only the record with this ID, such as `deployment/OWNER/DSEQ`
    pub xid: Option<String>,
    /// Page.
    #[command(flatten)]
    pub page: PageArgs,
}

/// Queries about signed attributes.
#[derive(Debug, Subcommand)]
pub enum AuditQuery {
    /// Show the attributes of one provider that auditors signed
    Get {
        /// Account of the provider
        provider: Address,
        /// Only attributes that this auditor signed
        auditor: Option<Address>,
    },
    /// List the signed attributes of all providers
    List(PageArgs),
}

/// Queries about balances.
#[derive(Debug, Subcommand)]
pub enum BankQuery {
    /// Show the balances of an account
    Balances {
        /// Address of the account to query
        address: Address,
        /// Page.
        #[command(flatten)]
        page: PageArgs,
    },
}

/// Queries about accounts.
#[derive(Debug, Subcommand)]
pub enum AuthQuery {
    /// Show an account, its public key and its sequence number
    Account {
        /// Address of the account to query
        address: Address,
    },
}
