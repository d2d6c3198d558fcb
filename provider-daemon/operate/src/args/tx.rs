//! Flags of `tx`.

pub mod tenant;

use akash_provider_cli::flags::{DataOutput, NodeArgs, SignerArgs};
use akash_provider_service::args::AuditLogArgs;
use akash_provider_service::args::gas::GasArgs;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use tenant::{DeploymentTx, EscrowTx, MarketTx};

/// Arguments of `tx`.
#[derive(Debug, Args)]
pub struct TxArgs {
    /// Output format of the result
    #[arg(long, short, value_enum, default_value = "json", global = true)]
    pub output: DataOutput,
    /// Send the transaction without confirmation
    #[arg(long, short, global = true)]
    pub yes: bool,
    /// Fees.
    #[command(flatten)]
    pub gas: GasArgs,
    /// Transaction.
    #[command(flatten)]
    pub how: TransactionArgs,
    /// Audit log.
    #[command(flatten)]
    pub audit: AuditLogArgs,
    /// Signing key.
    #[command(flatten)]
    pub signer: SignerArgs,
    /// Nodes of the chain.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Transaction to send.
    #[command(subcommand)]
    pub command: TxCommand,
}

/// Creation and broadcast of a transaction.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Transaction")]
pub struct TransactionArgs {
    /// Return after a block includes the transaction (block), or after the node has checked it (sync, async)
    #[arg(long, short, value_enum, default_value = "block", global = true)]
    pub broadcast_mode: BroadcastMode,
    /// Sequence number of the account [default: an unordered transaction, unless --timeout-height is set]
    #[arg(long, short, value_name = "NUMBER", global = true)]
    pub sequence: Option<u64>,
    /// Height of the last block that may include the transaction; 0 sets no limit
    #[arg(long, value_name = "HEIGHT", default_value_t = 0, global = true)]
    pub timeout_height: u64,
    /// Public note in the transaction
    #[arg(long, value_name = "TEXT", default_value = "", global = true)]
    pub note: String,
    /// Account number on the chain [default: queried from a node]
    #[arg(long, short, value_name = "NUMBER", global = true)]
    pub account_number: Option<u64>,
    /// Print the transaction without signing or sending it
    #[arg(long, global = true)]
    pub generate_only: bool,
    /// Do not query a node; requires --generate-only
    #[arg(long, global = true)]
    pub offline: bool,
    /// Print the simulated gas without sending the transaction
    #[arg(long, global = true)]
    pub dry_run: bool,
    /// Signing mode; only `direct` is supported
    #[arg(long, value_enum, default_value = "direct", global = true)]
    pub sign_mode: SignMode,
}

/// Moment at which a command returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BroadcastMode {
    /// After the block that includes the transaction
    Block,
    /// After the check of the node
    Sync,
    /// Like sync, because a transaction that the node rejects must be reported
    Async,
}

/// Signing mode of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SignMode {
    /// Sign the encoded bytes
    Direct,
}

/// Transactions.
#[derive(Debug, Subcommand)]
pub enum TxCommand {
    /// Create, publish or revoke the certificate of the account
    #[command(subcommand)]
    Cert(CertTx),
    /// Register the provider, or update its record
    #[command(subcommand)]
    Provider(ProviderTx),
    /// Create, update or close a deployment of a tenant
    #[command(subcommand)]
    Deployment(DeploymentTx),
    /// Accept or close bids, close or settle leases
    #[command(subcommand)]
    Market(MarketTx),
    /// Deposit money for a deployment of a tenant
    #[command(subcommand)]
    Escrow(EscrowTx),
}

/// Actions on certificates.
#[derive(Debug, Subcommand)]
pub enum CertTx {
    /// Create a certificate in the home directory
    #[command(subcommand)]
    Generate(GenerateCert),
    /// Publish the certificate on the chain
    Publish {
        /// Owner of the certificate; client and server certificates use the same file
        #[arg(value_enum)]
        role: Role,
    },
    /// Permanently revoke the certificate on the chain
    Revoke {
        /// Owner of the certificate; client and server certificates use the same file
        #[arg(value_enum)]
        role: Role,
        /// Serial number of the certificate, in decimal [default: of the certificate in the home directory]
        #[arg(long)]
        serial: Option<String>,
    },
}

/// Owner of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Tenant
    Client,
    /// Provider
    Server,
}

/// Kinds of new certificates.
#[derive(Debug, Subcommand)]
pub enum GenerateCert {
    /// Create the certificate of a tenant
    Client {
        /// Replace an existing certificate
        #[arg(long)]
        overwrite: bool,
    },
    /// Create the certificate of a provider, for its host names
    Server {
        /// Host names of the provider, without scheme and port
        #[arg(required = true)]
        domains: Vec<String>,
        /// Replace an existing certificate
        #[arg(long)]
        overwrite: bool,
    },
}

/// Actions on the record of the provider.
#[derive(Debug, Subcommand)]
pub enum ProviderTx {
    /// Register the provider of this account
    Create {
        /// provider.yaml with the host, info and attributes of the provider
        file: PathBuf,
    },
    /// Replace the record of the provider with the record in the file
    Update {
        /// provider.yaml with the host, info and attributes of the provider
        file: PathBuf,
    },
    /// Create the record of the provider, or update it if it differs from the file
    Apply {
        /// provider.yaml with the host, info and attributes of the provider
        file: PathBuf,
    },
}

impl ProviderTx {
    /// Returns the path of provider.yaml.
    pub(crate) const fn file(&self) -> &PathBuf {
        let (Self::Create { file } | Self::Update { file } | Self::Apply { file }) = self;
        file
    }
}
