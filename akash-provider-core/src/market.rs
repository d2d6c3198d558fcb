//! The embedded market: the rules of the Akash network for orders, bids, leases and escrow as a pure value.
//!
//! A [`Market`] executes messages of providers ([`Market::execute`]) and tenants ([`Market::tenant`]). The
//! result contains the events of the transaction, in the order of the Akash network, or the reason of the
//! refusal. The market has no clock: [`Market::end_block`] completes a block with a given duration. The same
//! calls always produce the same market.
//!
//! ```text
//!   TenantMsg ─┐                        ┌─ ChainEvents of the transaction
//!   Msg ───────┼─▶ Market (block h + 1) ┼─ Rejection: nothing was changed
//!   end_block ─┘                        └─ Block { h + 1 }
//! ```
//!
//! A transaction belongs to the block after [`Market::height`]. The time of the transaction is the time set
//! by [`Market::begin_block`], or the time of the newest complete block. As on the Akash network, escrow is
//! settled only when a transaction uses it: the first transaction on an exhausted account detects that the
//! funds are exhausted.
//!
//! Fees, gas, signatures and deposits from grants are not modeled. A server of the market handles fees and
//! signatures with [`Market::account_mut`].

mod bids;
mod book;
mod certificates;
mod escrow;
#[cfg(test)]
mod fixtures;
mod ledger;
mod queries;
mod settle;
mod tenants;
#[cfg(test)]
mod tests;

use crate::sdl::Sdl;
use crate::types::{
    Address, Attribute, BidId, BlockTime, Certificate, ChainEvent, Coin, DeploymentId, GroupId, GroupSpec,
    Height, LeaseId, MarketParams, Msg, OrderId, ProviderRecord, TxError,
};
use book::{ActiveRecords, DeploymentBook, TxContext};
pub use escrow::EscrowDetails;
pub use ledger::AccountRecord;
use ledger::Ledger;
pub use queries::{BidDeposit, LeaseDetails};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Minimum deposit of a deployment, in uakt or uact: the default of the Akash network.
pub const MIN_DEPLOYMENT_DEPOSIT: u128 = 500_000;

/// Initial state of a market.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MarketConfig {
    /// Chain id.
    pub chain_id: String,
    /// Time of block 1, which a new market already contains.
    pub genesis_time: BlockTime,
    /// Initial parameters; [`Market::set_params`] changes them.
    pub params: MarketParams,
}

impl MarketConfig {
    /// Creates a configuration with the default parameters of the Akash network.
    #[must_use]
    pub fn new(chain_id: impl Into<String>, genesis_time: BlockTime) -> Self {
        Self {
            chain_id: chain_id.into(),
            genesis_time,
            params: network_params(),
        }
    }
}

/// Returns the default parameters of the Akash network: minimum deposits of 500000 uakt or uact, 20 bids per
/// order, reclamation windows from 1 h to 720 h.
#[must_use]
pub fn network_params() -> MarketParams {
    const HOUR: Duration = Duration::from_secs(3600);
    let deposit = |denom: &str| Coin::new(denom, 500_000);
    MarketParams {
        bid_min_deposits: vec![deposit("uakt"), deposit("uact")],
        order_max_bids: 20,
        min_reclamation_window: HOUR,
        max_reclamation_window: 720 * HOUR,
    }
}

/// Message of a tenant or an auditor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "msg", rename_all = "snake_case")]
pub enum TenantMsg {
    /// Creates a deployment, with one order for each group.
    CreateDeployment {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
        /// Groups. The market sorts the groups by name, and assigns gseq 1, 2, … in this order.
        groups: Vec<GroupSpec>,
        /// Hash of the manifest.
        hash: [u8; 32],
        /// Initial deposit, from the tenant's balance.
        deposit: Coin,
        /// Minimum reclamation window that the tenant accepts; `None` requests no reclamation terms.
        reclamation_min_window: Option<Duration>,
    },
    /// Replaces the hash of the manifest. The groups stay unchanged.
    UpdateDeployment {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
        /// Hash of the new manifest.
        hash: [u8; 32],
    },
    /// Closes the deployment. The owner gets the remaining escrow balance.
    CloseDeployment {
        /// Owner and dseq of the deployment.
        id: DeploymentId,
    },
    /// Pauses a group. The tenant can start the group again.
    PauseGroup {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// Starts a paused group with a new order.
    StartGroup {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// Closes a group permanently. Other groups of the deployment continue.
    CloseGroup {
        /// Deployment and gseq of the group.
        id: GroupId,
    },
    /// Accepts a bid. The other bids on the order lose.
    CreateLease {
        /// The accepted bid, which must be open.
        bid: BidId,
    },
    /// Closes a lease. The group stays open and gets a new order at once.
    CloseLease {
        /// Order and provider of the lease.
        id: LeaseId,
    },
    /// Adds funds to the escrow account of a deployment.
    Deposit {
        /// Owner and dseq of the deployment.
        deployment: DeploymentId,
        /// Amount, from the tenant's balance.
        coin: Coin,
    },
    /// Signs attributes of a provider as an auditor. Replaces the attributes that the auditor signed before.
    SignProvider {
        /// Account of the auditor.
        auditor: Address,
        /// Account of the provider.
        owner: Address,
        /// Attributes that the auditor signs.
        attributes: Vec<Attribute>,
    },
    /// Deletes the attributes that the auditor signed for the provider.
    UnsignProvider {
        /// Account of the auditor.
        auditor: Address,
        /// Account of the provider.
        owner: Address,
    },
}

impl TenantMsg {
    /// Returns the message that creates a deployment with the groups and the manifest of an SDL.
    #[must_use]
    pub fn create_deployment(id: DeploymentId, sdl: &Sdl, deposit: Coin) -> Self {
        Self::CreateDeployment {
            id,
            groups: sdl.groups.clone(),
            hash: sdl.hash,
            deposit,
            reclamation_min_window: sdl.reclamation_min_window,
        }
    }
}

/// Rejection of a transaction. A rejected transaction changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{code}: {log}")]
pub struct Rejection {
    /// Category of the rejection, which determines the reaction of a provider.
    pub error: TxError,
    /// Codespace and code, or the codespace alone if the code is unknown.
    pub code: String,
    /// Error text of the chain.
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

/// An in-memory Akash network for orders, bids, leases and escrow. See the [module](self).
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
    /// Time of the block under construction, if already set.
    #[serde(default)]
    building_at: Option<BlockTime>,
    deployments: BTreeMap<DeploymentId, DeploymentBook>,
    ledger: Ledger,
    index: ActiveRecords,
    providers: BTreeMap<Address, ProviderRecord>,
    /// Provider attributes that auditors signed, by provider and auditor.
    audits: BTreeMap<(Address, String), Vec<Attribute>>,
    certificates: BTreeMap<Address, Vec<Certificate>>,
}

impl Market {
    /// Creates a market. Block 1 is complete.
    #[must_use]
    pub fn new(config: MarketConfig) -> Self {
        Self {
            chain_id: config.chain_id,
            params: config.params,
            block_times: vec![config.genesis_time],
            building_at: None,
            deployments: BTreeMap::new(),
            ledger: Ledger::default(),
            index: ActiveRecords::default(),
            providers: BTreeMap::new(),
            audits: BTreeMap::new(),
            certificates: BTreeMap::new(),
        }
    }

    /// Adds newly created funds to an account. A balance above `u128::MAX` becomes `u128::MAX`.
    pub fn fund(&mut self, account: &Address, coin: &Coin) {
        self.ledger.credit(account, &coin.denom, coin.amount);
    }

    /// Executes one message of a provider in its own transaction.
    ///
    /// # Errors
    /// Returns the same rejection as the Akash network. The market is unchanged.
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

    /// Executes several messages as one transaction: if one message is rejected, no message takes effect.
    /// For several messages, this method copies the whole market.
    ///
    /// # Errors
    /// Returns the rejection of the first rejected message. The market is unchanged.
    pub fn transaction(&mut self, msgs: &[Msg]) -> Result<Vec<ChainEvent>, Rejection> {
        // A single refused message has changed nothing, so it needs no copy.
        if let [msg] = msgs {
            return self.execute(msg);
        }
        let before = self.clone();
        let mut events = Vec::new();
        for msg in msgs {
            match self.execute(msg) {
                Ok(more) => events.extend(more),
                Err(rejection) => {
                    // Restored from the copy, because previous messages have changed the market.
                    *self = before;
                    return Err(rejection);
                }
            }
        }
        Ok(events)
    }

    /// Executes one message of a tenant or an auditor in its own transaction.
    ///
    /// # Errors
    /// Returns the same rejection as the Akash network. The market is unchanged.
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

    /// Sets a provisional block time. The transactions of the block under construction use this time.
    /// [`Market::end_block`] sets the final time.
    pub fn begin_block(&mut self, time: BlockTime) {
        self.building_at = Some(time);
    }

    /// Completes the block under construction, `elapsed` after the previous block.
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

    /// Returns the height of the block under construction.
    fn building(&self) -> Height {
        self.height() + 1
    }

    fn open(&mut self, id: &DeploymentId) -> Option<(&mut DeploymentBook, TxContext<'_>)> {
        let (height, time) = (self.building(), self.building_at.unwrap_or_else(|| self.time()));
        let book = self.deployments.get_mut(id)?;
        let cx = TxContext {
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
