//! The embedded market: the network's rules for orders, bids, leases and escrow as a pure value.
//!
//! A [`Market`] is told what providers ([`Market::execute`]) and tenants ([`Market::tenant`]) do and answers
//! with the facts of that transaction, in the network's order, or with the network's refusal. It has no clock:
//! [`Market::end_block`] closes a block and says how long it took. The same calls give the same market.
//!
//! ```text
//!   TenantMsg ─┐                        ┌─ ChainEvents of the transaction
//!   Msg ───────┼─▶ Market (block h + 1) ┼─ Rejection: nothing was changed
//!   end_block ─┘                        └─ Block { h + 1 }
//! ```
//!
//! Transactions belong to the block after [`Market::height`]. They see its time once [`Market::begin_block`] has
//! said it, and the time of the newest complete block before.
//! Escrow is settled lazily, as on the network: an account that ran dry is noticed by the first transaction
//! that touches it.
//!
//! Not modelled: fees, gas and signatures (who serves the market to others takes them with
//! [`Market::account_mut`]), and deposits from grants.

mod bids;
mod book;
mod certificates;
mod escrow;
#[cfg(test)]
mod fixtures;
mod ledger;
mod queries;
mod tenants;
#[cfg(test)]
mod tests;

use crate::types::{
    Address, Attribute, BidId, BlockTime, Certificate, ChainEvent, Coin, DeploymentId, GroupId, GroupSpec,
    Height, LeaseId, MarketParams, Msg, OrderId, ProviderRecord, TxError,
};
use book::{Cx, DeploymentBook, Index};
pub use escrow::EscrowDetails;
pub use ledger::AccountRecord;
use ledger::Ledger;
pub use queries::{BidDeposit, LeaseDetails};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Least deposit of a deployment in either denomination, as the network's default.
pub const MIN_DEPLOYMENT_DEPOSIT: u128 = 500_000;

/// What a market starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarketConfig {
    /// Id of the chain that the market plays.
    pub chain_id: String,
    /// Time of block 1, which is complete from the start.
    pub genesis_time: BlockTime,
    /// Parameters in force until [`Market::set_params`].
    pub params: MarketParams,
}

impl MarketConfig {
    /// A market with the network's default parameters.
    #[must_use]
    pub fn new(chain_id: impl Into<String>, genesis_time: BlockTime) -> Self {
        Self {
            chain_id: chain_id.into(),
            genesis_time,
            params: network_params(),
        }
    }
}

/// The network's default parameters: deposits of 500000 uakt or uact, 20 bids, windows from 1 h to 720 h.
#[must_use]
pub fn network_params() -> MarketParams {
    const HOUR: Duration = Duration::from_secs(3600);
    let deposit = |denom: &str| Coin {
        denom: denom.into(),
        amount: 500_000,
    };
    MarketParams {
        bid_min_deposits: vec![deposit("uakt"), deposit("uact")],
        order_max_bids: 20,
        min_reclamation_window: HOUR,
        max_reclamation_window: 720 * HOUR,
    }
}

/// What a tenant or an auditor does.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "msg", rename_all = "snake_case")]
pub enum TenantMsg {
    /// Ask for bids on the groups of a new deployment.
    CreateDeployment {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
        /// Groups; sorted by name they get gseq 1, 2, and so on.
        groups: Vec<GroupSpec>,
        /// Hash of the manifest.
        hash: [u8; 32],
        /// First money, from the tenant's balance.
        deposit: Coin,
        /// Shortest reclamation window accepted; `None` when none is asked for.
        reclamation_min_window: Option<Duration>,
    },
    /// Replace the hash of the manifest; the groups stay as they are.
    UpdateDeployment {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
        /// Hash of the new manifest.
        hash: [u8; 32],
    },
    /// End everything and take the rest of the money back.
    CloseDeployment {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
    },
    /// Stop a group; it may be started again.
    PauseGroup {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// Start a paused group: a new order.
    StartGroup {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// End a group for good; the others of the deployment go on.
    CloseGroup {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// Take a bid; the others are lost.
    CreateLease {
        /// The bid that is to win; it must be open.
        bid: BidId,
    },
    /// End a lease; the open group gets a new order at once.
    CloseLease {
        /// Order and provider of the lease.
        id: LeaseId,
    },
    /// Add money to the escrow of a deployment.
    Deposit {
        /// Owner and dseq of the deployment.
        deployment: DeploymentId,
        /// How much, from the tenant's balance.
        coin: Coin,
    },
    /// An auditor signs attributes of a provider; they replace what it signed before.
    SignProvider {
        /// Account of the auditor who signs.
        auditor: Address,
        /// Account of the provider that it is about.
        owner: Address,
        /// Keys and values that are signed.
        attributes: Vec<Attribute>,
    },
    /// An auditor takes its signature back.
    UnsignProvider {
        /// Account of the auditor who had signed.
        auditor: Address,
        /// Account of the provider that it was about.
        owner: Address,
    },
}

/// A transaction was refused and changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{code}: {log}")]
pub struct Rejection {
    /// What it means for a provider.
    pub error: TxError,
    /// Codespace and code; only the codespace where the number is not known.
    pub code: String,
    /// The chain's text, for people.
    pub log: String,
}

impl Rejection {
    fn market(error: TxError, code: u32, log: impl Into<String>) -> Self {
        Self {
            error,
            code: format!("market/{code}"),
            log: log.into(),
        }
    }

    fn other(code: &str, log: impl Into<String>) -> Self {
        Self {
            error: TxError::Other,
            code: code.to_owned(),
            log: log.into(),
        }
    }
}

/// A market. See the [module](self).
///
/// ```
/// use akash_provider_core::market::{Market, MarketConfig};
/// use akash_provider_core::types::{BlockTime, ChainEvent, Msg, ProviderRecord};
/// use std::time::Duration;
///
/// let mut market = Market::new(MarketConfig::new("local", BlockTime(0)));
/// let owner = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse()?;
/// let record = ProviderRecord { owner, host_uri: "https://provider.example:8443".into(), attributes: vec![], info: Default::default() };
/// market.execute(&Msg::CreateProvider(record))?;
/// let block = market.end_block(Duration::from_secs(6));
/// assert_eq!(block, ChainEvent::Block { height: 2, time: BlockTime(6_000) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Market {
    chain_id: String,
    params: MarketParams,
    /// Times of the complete blocks; the first is block 1.
    block_times: Vec<BlockTime>,
    /// Time of the block under construction, once it is known.
    #[serde(default)]
    building_at: Option<BlockTime>,
    deployments: BTreeMap<DeploymentId, DeploymentBook>,
    ledger: Ledger,
    index: Index,
    providers: BTreeMap<Address, ProviderRecord>,
    /// By provider and auditor.
    audits: BTreeMap<(Address, String), Vec<Attribute>>,
    certificates: BTreeMap<Address, Vec<Certificate>>,
}

impl Market {
    /// A market whose block 1 is complete.
    #[must_use]
    pub fn new(config: MarketConfig) -> Self {
        Self {
            chain_id: config.chain_id,
            params: config.params,
            block_times: vec![config.genesis_time],
            building_at: None,
            deployments: BTreeMap::new(),
            ledger: Ledger::default(),
            index: Index::default(),
            providers: BTreeMap::new(),
            audits: BTreeMap::new(),
            certificates: BTreeMap::new(),
        }
    }

    /// Puts money on an account out of nothing; saturates.
    pub fn fund(&mut self, account: &Address, coin: &Coin) {
        self.ledger.credit(account, &coin.denom, coin.amount);
    }

    /// Executes one message of a provider as a transaction of its own.
    ///
    /// # Errors
    /// The network's refusal; nothing was changed.
    pub fn execute(&mut self, msg: &Msg) -> Result<Vec<ChainEvent>, Rejection> {
        let events = match msg {
            Msg::CreateBid {
                id,
                price,
                deposit,
                resources_offer,
                reclamation_window,
            } => self.create_bid(id, price, deposit, resources_offer, *reclamation_window)?,
            Msg::CloseBid { id, reason } => self.close_bid(id, *reason)?,
            Msg::StartReclaim { id, reason } => self.start_reclaim(id, *reason)?,
            Msg::WithdrawLease { id } => self.withdraw(id)?,
            Msg::CreateProvider(record) => self.create_provider(record)?,
            Msg::UpdateProvider(record) => self.update_provider(record)?,
            Msg::CreateCertificate { owner, cert, pubkey } => self.create_certificate(owner, cert, pubkey)?,
            Msg::RevokeCertificate { owner, serial } => self.revoke_certificate(owner, serial)?,
        };
        self.ledger.count_transaction(msg.signer());
        Ok(events)
    }

    /// Executes several messages as one transaction: all of them, or none. With more than one message the
    /// market is copied first, so this costs more the larger the market is.
    ///
    /// # Errors
    /// The refusal of the first message that is refused; nothing was changed.
    pub fn transaction(&mut self, msgs: &[Msg]) -> Result<Vec<ChainEvent>, Rejection> {
        // One message that is refused has changed nothing, so it needs no copy.
        if let [msg] = msgs {
            return self.execute(msg);
        }
        let before = self.clone();
        let mut events = Vec::new();
        for msg in msgs {
            match self.execute(msg) {
                Ok(more) => events.extend(more),
                Err(rejection) => {
                    // From the copy, because the messages before have changed something.
                    *self = before;
                    return Err(rejection);
                }
            }
        }
        Ok(events)
    }

    /// Executes one message of a tenant or an auditor as a transaction of its own.
    ///
    /// # Errors
    /// The network's refusal; nothing was changed.
    pub fn tenant(&mut self, msg: TenantMsg) -> Result<Vec<ChainEvent>, Rejection> {
        match msg {
            TenantMsg::CreateDeployment {
                id,
                groups,
                hash,
                deposit,
                reclamation_min_window,
            } => self.create_deployment(id, groups, hash, &deposit, reclamation_min_window),
            TenantMsg::UpdateDeployment { id, hash } => self.update_deployment(&id, hash),
            TenantMsg::CloseDeployment { id } => self.close_deployment(&id),
            TenantMsg::PauseGroup { id } => self.pause_group(&id),
            TenantMsg::StartGroup { id } => self.start_group(&id),
            TenantMsg::CloseGroup { id } => self.close_group(&id),
            TenantMsg::CreateLease { bid } => self.create_lease(&bid),
            TenantMsg::CloseLease { id } => self.close_lease(&id),
            TenantMsg::Deposit { deployment, coin } => self.deposit(&deployment, &coin),
            TenantMsg::SignProvider {
                auditor,
                owner,
                attributes,
            } => self.sign(auditor, owner, attributes),
            TenantMsg::UnsignProvider { auditor, owner } => self.unsign(auditor, owner),
        }
    }

    /// Says the time of the block under construction; [`Market::end_block`] still says how long it took.
    pub fn begin_block(&mut self, time: BlockTime) {
        self.building_at = Some(time);
    }

    /// Closes the block under construction `elapsed` after the one before it.
    pub fn end_block(&mut self, elapsed: Duration) -> ChainEvent {
        let time = self.time().plus(elapsed);
        self.building_at = None;
        self.block_times.push(time);
        ChainEvent::Block {
            height: self.height(),
            time,
        }
    }

    fn create_provider(&mut self, record: &ProviderRecord) -> Result<Vec<ChainEvent>, Rejection> {
        if self.providers.contains_key(&record.owner) {
            return Err(Rejection::other("provider/4", "invalid provider: already exists"));
        }
        self.put_provider(record)
    }

    fn update_provider(&mut self, record: &ProviderRecord) -> Result<Vec<ChainEvent>, Rejection> {
        if !self.providers.contains_key(&record.owner) {
            return Err(Rejection::other(
                "provider/3",
                "invalid provider: address not found",
            ));
        }
        self.put_provider(record)
    }

    fn put_provider(&mut self, record: &ProviderRecord) -> Result<Vec<ChainEvent>, Rejection> {
        if !record.host_uri.starts_with("https://") {
            let uri = &record.host_uri;
            let log = format!("`{uri}` does not start with https://: invalid provider: invalid host uri");
            return Err(Rejection::other("provider/1", log));
        }
        self.providers.insert(record.owner.clone(), record.clone());
        Ok(vec![ChainEvent::ProviderUpdated {
            owner: record.owner.clone(),
        }])
    }

    /// Height of the block under construction.
    fn building(&self) -> Height {
        self.height() + 1
    }

    /// A deployment and everything its rules change besides it.
    fn open(&mut self, id: &DeploymentId) -> Option<(&mut DeploymentBook, Cx<'_>)> {
        let (height, time) = (self.building(), self.building_at.unwrap_or_else(|| self.time()));
        let book = self.deployments.get_mut(id)?;
        let cx = Cx {
            height,
            time,
            ledger: &mut self.ledger,
            index: &mut self.index,
            events: Vec::new(),
        };
        Some((book, cx))
    }

    fn order_book(&self, id: &OrderId) -> Option<&book::OrderBook> {
        self.deployments.get(id.deployment())?.order(id)
    }
}
