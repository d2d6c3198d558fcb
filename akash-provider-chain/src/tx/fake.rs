//! Simulated node that accepts encoded transactions. The node checks signature, nonce, timeout and fee, has a
//! mempool, and executes transactions on the in-memory market.

use super::api::{Code, IncludedTx, Simulation, Submission};
use crate::convert::from_any;
use crate::private_key::PublicKey;
use crate::proto::cosmos::tx::v1beta1::{AuthInfo, SignDoc, TxBody, TxRaw};
use crate::signer::TxHash;
use crate::testing::chain::{account, create, create_bid, create_provider};
use akash_provider_core::chain::{Account, MemoryChain, SyncInfo};
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::types::{
    BidId, BlockTime, CloseReason, Coin, Dec, DecCoin, DeploymentId, Msg, OrderId,
};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) const CHAIN: &str = "fake";
const NUMBER: u64 = 9;
/// Minimum gas price of the node: 0.0025 uakt, scaled by 10^18.
const MIN_PRICE_SCALED: i128 = 2_500_000_000_000_000;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) chain: MemoryChain,
    key: PublicKey,
    /// Account sequence of the next transaction, according to the newest block.
    pub(crate) committed: u64,
    checked: u64,
    pub(crate) supports_unordered: bool,
    pub(crate) price_scaled: i128,
    nonces: BTreeSet<i64>,
    mempool: Vec<(TxHash, Vec<u8>)>,
    cache: BTreeSet<TxHash>,
    index: BTreeMap<TxHash, IncludedTx>,
    /// Executed messages, with their heights.
    pub(crate) executed: Vec<(Msg, u64)>,
    pub(crate) panics: u32,
    /// Sum of the fees of the transactions in blocks.
    pub(crate) fees: u128,
    /// Transactions in the newest block.
    pub(crate) landed: Vec<(Vec<u8>, IncludedTx)>,
    /// Height and number of transactions of each block.
    pub(crate) blocks: Vec<(u64, usize)>,
}

struct Tx {
    msgs: Vec<Msg>,
    nanos: Option<i64>,
    sequence: u64,
    timeout_height: u64,
    gas_limit: u64,
    fee: u128,
}

type Refusal = (Code, String);

fn refusal(number: u32, log: &str) -> Refusal {
    (Code::new("sdk", number), log.to_owned())
}

fn uact(amount: u128) -> Coin {
    Coin::new("uact", amount)
}

impl Node {
    pub(crate) fn new(key: &PublicKey) -> Self {
        let chain = MemoryChain::new(MarketConfig::new(CHAIN, BlockTime(1_700_000_000_000)));
        chain.market(|market| {
            market.fund(&account(1), &uact(u128::from(u64::MAX)));
            market.fund(key.address(), &uact(u128::from(u64::MAX)));
            let fees = Coin::new("uakt", u128::from(u64::MAX));
            market.fund(key.address(), &fees);
            market.execute(&create_provider(key.address())).unwrap();
        });
        chain.advance(Duration::from_secs(1));
        Self {
            chain,
            key: key.clone(),
            committed: 3,
            checked: 3,
            supports_unordered: true,
            price_scaled: MIN_PRICE_SCALED,
            nonces: BTreeSet::new(),
            mempool: Vec::new(),
            cache: BTreeSet::new(),
            index: BTreeMap::new(),
            executed: Vec::new(),
            panics: 0,
            fees: 0,
            landed: Vec::new(),
            blocks: Vec::new(),
        }
    }

    /// Creates an open order.
    pub(crate) fn order(&self, dseq: u64) -> OrderId {
        self.chain.market(|m| m.tenant(create(dseq, 1))).unwrap();
        DeploymentId::new(account(1), dseq).group(1).order(1)
    }

    pub(crate) fn bid(&self, order: &OrderId) -> Msg {
        create_bid(&order.clone().bid(self.key.address().clone()))
    }

    pub(crate) fn lease(&self, dseq: u64) -> BidId {
        let bid = self.bid(&self.order(dseq));
        let Msg::CreateBid { id, .. } = &bid else {
            unreachable!()
        };
        self.chain.market(|m| {
            m.execute(&bid).unwrap();
            m.tenant(TenantMsg::CreateLease { bid: id.clone() }).unwrap();
        });
        id.clone()
    }

    pub(crate) fn close(id: &BidId) -> Msg {
        Msg::CloseBid {
            id: id.clone(),
            reason: CloseReason::Unspecified,
        }
    }

    pub(crate) fn close_by_tenant(&self, id: &DeploymentId) {
        let close = TenantMsg::CloseDeployment { id: id.clone() };
        self.chain.market(|m| m.tenant(close)).unwrap();
    }

    pub(crate) fn sync_info(&self) -> SyncInfo {
        let (height, time) = self.chain.market(|m| (m.height(), m.time()));
        SyncInfo {
            chain_id: CHAIN.into(),
            height,
            time,
            catching_up: false,
        }
    }

    pub(crate) fn account(&self) -> Account {
        Account {
            address: self.key.address().clone(),
            pubkey: None,
            number: NUMBER,
            sequence: self.committed,
        }
    }

    pub(crate) fn prices(&self) -> Vec<DecCoin> {
        vec![DecCoin::new(&"uakt".into(), Dec::from_scaled(self.price_scaled))]
    }

    fn parse(&self, bytes: &[u8]) -> Result<Tx, Refusal> {
        let broken = || refusal(2, "tx parse error");
        let raw = TxRaw::decode(bytes).map_err(|_| broken())?;
        let body = TxBody::decode(&raw.body_bytes[..]).map_err(|_| broken())?;
        let auth = AuthInfo::decode(&raw.auth_info_bytes[..]).map_err(|_| broken())?;
        let document = SignDoc {
            body_bytes: raw.body_bytes,
            auth_info_bytes: raw.auth_info_bytes,
            chain_id: CHAIN.into(),
            account_number: NUMBER,
        };
        let signature = raw.signatures.first().ok_or_else(broken)?;
        if !self.key.verify(&document.encode_to_vec(), signature) {
            return Err(refusal(4, "signature verification failed"));
        }
        let msgs = body
            .messages
            .iter()
            .map(|any| from_any(any).unwrap().unwrap())
            .collect();
        let fee = auth.fee.ok_or_else(broken)?;
        let paid: u128 = fee
            .amount
            .iter()
            .find(|c| c.denom == "uakt")
            .map_or(0, |c| c.amount.parse().unwrap());
        let due = i128::from(fee.gas_limit) * self.price_scaled / 1_000_000_000_000_000_000;
        if paid < u128::try_from(due).unwrap() {
            return Err(refusal(13, "insufficient fees"));
        }
        let at = body.timeout_timestamp.as_ref();
        let nanos = at
            .map(|t| t.seconds * 1_000_000_000 + i64::from(t.nanos))
            .filter(|_| body.unordered);
        if body.unordered && !self.supports_unordered {
            return Err(refusal(37, "unordered transactions are not enabled"));
        }
        Ok(Tx {
            msgs,
            nanos,
            sequence: auth.signer_infos[0].sequence,
            timeout_height: body.timeout_height,
            gas_limit: fee.gas_limit,
            fee: paid,
        })
    }

    /// Checks the timeout and the sequence or nonce. A chain checks these values before it executes messages.
    fn ante(&self, tx: &Tx, sequence: u64, time: BlockTime, height: u64) -> Result<(), Refusal> {
        let Some(nanos) = tx.nanos else {
            if tx.timeout_height != 0 && height > tx.timeout_height {
                return Err(refusal(30, "tx timeout height"));
            }
            let right = tx.sequence == sequence;
            return right
                .then_some(())
                .ok_or_else(|| refusal(32, "account sequence mismatch"));
        };
        let now = time.0 * 1_000_000;
        if now > nanos {
            return Err(refusal(42, "tx timeout"));
        }
        if nanos > now + 600_000_000_000 {
            return Err(refusal(18, "unordered tx ttl exceeds 10m0s"));
        }
        if tx.sequence != 0 || self.nonces.contains(&nanos) {
            return Err(refusal(18, "sequence or nonce"));
        }
        Ok(())
    }

    fn gas(tx: &Tx) -> u64 {
        80_000 + 45_000 * tx.msgs.len() as u64
    }

    pub(crate) fn broadcast(&mut self, bytes: &[u8]) -> Submission {
        let hash = TxHash::new(bytes);
        if self.cache.contains(&hash) {
            return Submission::Known;
        }
        let info = self.sync_info();
        let tx = self.parse(bytes);
        let checked = tx.and_then(|tx| self.ante(&tx, self.checked, info.time, info.height).map(|()| tx));
        match checked {
            Ok(tx) => {
                self.checked += u64::from(tx.nanos.is_none());
                self.cache.insert(hash);
                self.mempool.push((hash, bytes.to_vec()));
                Submission::Accepted
            }
            Err((code, log)) => Submission::Refused { code, log },
        }
    }

    pub(crate) fn simulate(&self, bytes: &[u8]) -> Simulation {
        let info = self.sync_info();
        let tx = self.parse(bytes);
        let tx = tx.and_then(|tx| self.ante(&tx, self.checked, info.time, info.height).map(|()| tx));
        match tx {
            Ok(tx) => match self.chain.market(|m| m.clone().transaction(&tx.msgs)) {
                Ok(_) => Simulation::Gas { used: Self::gas(&tx) },
                Err(rejection) => Simulation::Refused { log: rejection.log },
            },
            Err((_, log)) => Simulation::Refused { log },
        }
    }

    pub(crate) fn find(&self, hash: &TxHash, lag: u64) -> Option<IncludedTx> {
        let behind = self.sync_info().height.saturating_sub(lag);
        self.index.get(hash).filter(|i| i.height <= behind).cloned()
    }

    /// Returns the number of transactions in the mempool.
    pub(crate) fn waiting(&self) -> usize {
        self.mempool.len()
    }

    pub(crate) fn included(&self) -> Vec<(TxHash, IncludedTx)> {
        self.index
            .iter()
            .map(|(hash, included)| (*hash, included.clone()))
            .collect()
    }

    /// Increments the account sequence, as if another program used the key.
    pub(crate) fn owner_sends(&mut self) {
        self.committed += 1;
        self.checked = self.checked.max(self.committed);
    }

    pub(crate) fn clear_mempool(&mut self) {
        for (hash, _) in std::mem::take(&mut self.mempool) {
            self.cache.remove(&hash);
        }
        self.checked = self.committed;
    }

    pub(crate) fn end_block(&mut self, elapsed: Duration) {
        let before = self.sync_info();
        let (height, time) = (before.height + 1, before.time.plus(elapsed));
        let waiting = std::mem::take(&mut self.mempool);
        self.landed.clear();
        for (hash, bytes) in waiting {
            // A transaction that fails these checks is not included in the block.
            let Ok(tx) = self.parse(&bytes) else { continue };
            if self.ante(&tx, self.committed, time, height).is_err() {
                self.cache.remove(&hash);
                continue;
            }
            match tx.nanos {
                Some(nanos) => drop(self.nonces.insert(nanos)),
                None => self.committed += 1,
            }
            let included = self.execute(&tx, height);
            self.fees += tx.fee;
            self.landed.push((bytes, included.clone()));
            self.index.insert(hash, included);
        }
        self.checked = self.committed;
        self.blocks.push((height, self.landed.len()));
        self.chain.advance(elapsed);
    }

    fn execute(&mut self, tx: &Tx, height: u64) -> IncludedTx {
        let bids = tx
            .msgs
            .iter()
            .filter(|m| matches!(m, Msg::CreateBid { .. }))
            .count();
        assert!(
            bids == 0 || tx.msgs.len() == 1,
            "a transaction with a bid contains other messages"
        );
        let gas_used = Self::gas(tx);
        let failure = if tx.gas_limit < gas_used {
            Some((Code::new("sdk", 11), "out of gas".to_owned()))
        } else {
            let result = self.chain.market(|m| m.transaction(&tx.msgs));
            result.err().map(|r| {
                let (space, number) = r.code.split_once('/').unwrap_or((&r.code, "1"));
                (Code::new(space, number.parse().unwrap()), r.log)
            })
        };
        match &failure {
            None => self.executed.extend(tx.msgs.iter().map(|m| (m.clone(), height))),
            Some((code, _)) if code.number == 111_222 => self.panics += 1,
            Some(_) => {}
        }
        let (failure, log) = failure.map_or((None, String::new()), |(code, log)| (Some(code), log));
        IncludedTx {
            height,
            failure,
            log,
            gas_used,
        }
    }
}
