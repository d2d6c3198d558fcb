//! Checks of a transaction before its messages: timeout, gas, fee, nonce, signature.

use super::gas;
use super::refusal::TxRefusal;
use super::tx::DecodedTx;
use akash_provider_chain::private_key::PublicKey;
use akash_provider_chain::proto::cosmos::tx::signing::v1beta1::SignMode;
use akash_provider_chain::proto::cosmos::tx::v1beta1::SignDoc;
use akash_provider_chain::proto::cosmos::tx::v1beta1::mode_info::Sum;
use akash_provider_core::market::{AccountRecord, Market};
use akash_provider_core::types::{Address, BlockTime, Coin, DecCoin, Denom, Height};
use prost::Message;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, UNIX_EPOCH};

const UNORDERED_TTL: Duration = Duration::from_secs(600);
const NANOS_PER_MILLI: i64 = 1_000_000;
/// 10^18, the scale of a decimal.
const DEC_ONE: i128 = 1_000_000_000_000_000_000;

/// Constant parameters for checking transactions.
#[derive(Debug, Clone)]
pub(super) struct AnteParams {
    pub(super) chain_id: String,
    /// Minimum gas price.
    pub(super) gas_price: DecCoin,
    /// Whether unordered transactions are accepted.
    pub(super) takes_unordered: bool,
}

/// Sequences, payments and nonces of the mempool transactions.
#[derive(Debug, Default)]
pub(super) struct MempoolState {
    sequences: HashMap<Address, u64>,
    spent: HashMap<(Address, Denom), u128>,
    nonces: BTreeSet<(i64, Address)>,
}

/// Nonces of the unordered transactions in blocks. A nonce is removed after the timeout of its transaction.
#[derive(Debug, Default)]
pub(super) struct Nonces(BTreeSet<(i64, Address)>);

impl Nonces {
    fn contains(&self, nonce: &(i64, Address)) -> bool {
        self.0.contains(nonce)
    }

    pub(super) fn insert(&mut self, nanos: i64, signer: &Address) {
        self.0.insert((nanos, signer.clone()));
    }

    pub(super) fn expire(&mut self, time: BlockTime) {
        let now = time.0.saturating_mul(NANOS_PER_MILLI);
        // Only nonces before the block's time: one that ends exactly then may still land, as in `timeout`.
        while self.0.first().is_some_and(|(nanos, _)| *nanos < now) {
            self.0.pop_first();
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnteMode {
    /// The transaction is checked before it enters the mempool.
    Check,
    /// The transaction is checked in a block, after the earlier transactions.
    Deliver,
    /// The transaction is simulated to estimate its gas. The signature and the gas limit are not checked.
    Simulate,
}

/// Chain state for checking a transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnteContext<'a> {
    pub(super) rules: &'a AnteParams,
    pub(super) market: &'a Market,
    pub(super) nonces: &'a Nonces,
    /// Transactions in the mempool, for the check of a new transaction. `None` for the check of a transaction
    /// in a block.
    pub(super) pending: Option<&'a MempoolState>,
    pub(super) height: Height,
    pub(super) time: BlockTime,
}

#[derive(Debug, Clone)]
pub(super) struct CheckedTx {
    pub(super) fee: Vec<Coin>,
    pub(super) public_key: Option<Vec<u8>>,
    /// Sequence of an ordered transaction.
    pub(super) sequence: Option<u64>,
    /// Nonce of an unordered transaction.
    pub(super) nonce: Option<i64>,
    pub(super) gas: u64,
}

impl MempoolState {
    pub(super) fn add(&mut self, signer: &Address, checked: &CheckedTx) {
        if let Some(sequence) = checked.sequence {
            self.sequences.insert(signer.clone(), sequence + 1);
        }
        if let Some(nonce) = checked.nonce {
            self.nonces.insert((nonce, signer.clone()));
        }
        for coin in &checked.fee {
            let spent = self.spent.entry((signer.clone(), coin.denom.clone()));
            let spent = spent.or_default();
            *spent = spent.saturating_add(coin.amount);
        }
    }
}

impl AnteContext<'_> {
    /// Checks a transaction without changing the state. Refusals have the codes and texts of an Akash node.
    pub(super) fn check(&self, tx: &DecodedTx, stage: AnteMode) -> Result<CheckedTx, TxRefusal> {
        // The order is the network's: the first of several faults determines the refusal.
        self.timeout(tx)?;
        let mut gas = gas::ANTE + gas::BYTE * tx.bytes.len() as u64;
        if tx.body.unordered {
            gas += gas::UNORDERED;
        }
        if stage != AnteMode::Simulate && tx.fee.gas_limit < gas {
            return Err(out_of_gas(tx.fee.gas_limit, gas));
        }
        let fee = self.fee(tx, stage)?;
        let account = self.market.account(&tx.signer);
        let account = account.ok_or_else(|| {
            let log = format!("account {} does not exist: unknown address", tx.signer);
            TxRefusal::sdk(9, log)
        })?;
        let public_key = public_key(tx, account)?;
        let (sequence, nonce) = if tx.body.unordered {
            (None, Some(self.unordered(tx)?))
        } else {
            (Some(self.sequence(tx, account)?), None)
        };
        if stage != AnteMode::Simulate {
            // Last, because it is the most work: a flood of stale transactions then costs little.
            self.signature(tx, account, public_key.as_deref())?;
        }
        Ok(CheckedTx {
            fee,
            public_key,
            sequence,
            nonce,
            gas,
        })
    }

    fn timeout(&self, tx: &DecodedTx) -> Result<(), TxRefusal> {
        let (last, height) = (tx.body.timeout_height, self.height);
        if last > 0 && height > last {
            let log = format!("block height: {height}, timeout height: {last}: tx timeout height");
            return Err(TxRefusal::sdk(30, log));
        }
        let now = self.time.0.saturating_mul(NANOS_PER_MILLI);
        match tx.timeout_nanos() {
            Some(nanos) if nanos < now => {
                let (now, then) = (go_time(now), go_time(nanos));
                let log = format!("block time: {now}, timeout timestamp: {then}: tx timeout");
                Err(TxRefusal::sdk(42, log))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn fee(&self, tx: &DecodedTx, stage: AnteMode) -> Result<Vec<Coin>, TxRefusal> {
        let fee = tx.fee_coins()?;
        // Fee grants are not implemented; the response is that of a chain without any.
        if !tx.fee.granter.is_empty() {
            return Err(TxRefusal::sdk(38, "fee-grant not found: not found"));
        }
        if stage == AnteMode::Check {
            // The gas price is a node's own requirement and not a rule of the chain: a block may contain what this node
            // would refuse.
            self.price_of_gas(tx, &fee)?;
        }
        for coin in &fee {
            let key = (tx.signer.clone(), coin.denom.clone());
            // Fees of pending transactions have not left the account yet. Without this, one balance would pay for many.
            let spent = self.pending.and_then(|t| t.spent.get(&key)).copied().unwrap_or(0);
            let balance = self.market.balance(&tx.signer, &coin.denom).amount;
            let left = balance.saturating_sub(spent);
            if left < coin.amount {
                let denom = &coin.denom;
                let log =
                    format!("spendable balance {left}{denom} is smaller than {coin}: insufficient funds");
                return Err(TxRefusal::sdk(5, log));
            }
        }
        Ok(fee)
    }

    fn price_of_gas(&self, tx: &DecodedTx, fee: &[Coin]) -> Result<(), TxRefusal> {
        let price = &self.rules.gas_price;
        // A price that overflows cannot be paid.
        let scaled = price
            .amount
            .checked_mul_int(i128::from(tx.fee.gas_limit))
            .map_or(i128::MAX, |d| d.scaled());
        // Rounded up, because a fraction of the smallest unit cannot be paid.
        let required = u128::try_from(scaled / DEC_ONE + i128::from(scaled % DEC_ONE != 0));
        let required = Coin::new(price.denom.clone(), required.unwrap_or(0));
        let paid = fee.iter().find(|c| c.denom == required.denom);
        if required.amount == 0 || paid.is_some_and(|c| c.amount >= required.amount) {
            return Ok(());
        }
        let got: Vec<String> = fee.iter().map(ToString::to_string).collect();
        let log = format!(
            "insufficient fees; got: {} required: {required}: insufficient fee",
            got.join(",")
        );
        Err(TxRefusal::sdk(13, log))
    }

    fn sequence(&self, tx: &DecodedTx, account: &AccountRecord) -> Result<u64, TxRefusal> {
        // Pending transactions count, so that an account can have several in one block.
        let waiting = self.pending.and_then(|t| t.sequences.get(&tx.signer)).copied();
        let expected = waiting.unwrap_or(account.sequence);
        let got = tx.info.sequence;
        if got == expected {
            return Ok(expected);
        }
        let log =
            format!("account sequence mismatch, expected {expected}, got {got}: incorrect account sequence");
        Err(TxRefusal::sdk(32, log))
    }

    fn unordered(&self, tx: &DecodedTx) -> Result<i64, TxRefusal> {
        if !self.rules.takes_unordered {
            let log = "unordered transactions are not enabled: feature not supported";
            return Err(TxRefusal::sdk(37, log.to_owned()));
        }
        let invalid = |text: &str| TxRefusal::sdk(18, format!("{text}: invalid request"));
        if tx.info.sequence != 0 {
            return Err(invalid("sequence is not allowed for unordered transactions"));
        }
        let nanos = tx.timeout_nanos();
        let nanos = nanos.ok_or_else(|| invalid("unordered transaction must have timeout_timestamp set"))?;
        let latest = self.time.plus(UNORDERED_TTL).0.saturating_mul(NANOS_PER_MILLI);
        // This bound limits how long nonces must be stored.
        if nanos > latest {
            return Err(invalid("unordered tx ttl exceeds 10m0s"));
        }
        let nonce = (nanos, tx.signer.clone());
        if self.nonces.contains(&nonce) || self.pending.is_some_and(|t| t.nonces.contains(&nonce)) {
            let text = format!("already used timeout {nanos} for address {}", tx.signer);
            return Err(invalid(&text));
        }
        Ok(nanos)
    }

    fn signature(
        &self,
        tx: &DecodedTx,
        account: &AccountRecord,
        key: Option<&[u8]>,
    ) -> Result<(), TxRefusal> {
        let mode = tx.info.mode_info.as_ref().and_then(|m| m.sum.as_ref());
        let mode = mode.map_or(SignMode::Unspecified, |Sum::Single(single)| single.mode());
        if mode != SignMode::Direct {
            let log = format!("{} is not supported: unauthorized", mode.as_str_name());
            return Err(TxRefusal::sdk(4, log));
        }
        let [signature] = tx.raw.signatures.as_slice() else {
            let n = tx.raw.signatures.len();
            let log = format!("wrong number of signers; expected 1, got {n}: unauthorized");
            return Err(TxRefusal::sdk(4, log));
        };
        // Over the received bytes, because a new encoding might differ.
        let document = SignDoc {
            body_bytes: tx.raw.body_bytes.clone(),
            auth_info_bytes: tx.raw.auth_info_bytes.clone(),
            chain_id: self.rules.chain_id.clone(),
            account_number: account.number,
        };
        let key = key.and_then(|bytes| PublicKey::from_bytes(bytes).ok());
        if key.is_some_and(|key| key.verify(&document.encode_to_vec(), signature)) {
            return Ok(());
        }
        let log = format!(
            "signature verification failed; please verify account number ({}) and chain-id ({}): \
             (unable to verify single signer signature): unauthorized",
            account.number, self.rules.chain_id
        );
        Err(TxRefusal::sdk(4, log))
    }
}

/// Returns the public key in the transaction, or else the stored key of the account.
fn public_key(tx: &DecodedTx, account: &AccountRecord) -> Result<Option<Vec<u8>>, TxRefusal> {
    let invalid = |text: String| TxRefusal::sdk(8, format!("{text}: invalid pubkey"));
    let Some(bytes) = tx.public_key()? else {
        // Only the first transaction of an account must contain its key.
        return Ok(account.pubkey.clone());
    };
    let key = PublicKey::from_bytes(&bytes).map_err(|e| invalid(e.to_string()))?;
    // The key in a transaction is untrusted. The address is a hash of the right one.
    if *key.address() != tx.signer {
        let text = format!(
            "pubKey does not match signer address {} with signer index: 0",
            tx.signer
        );
        return Err(invalid(text));
    }
    Ok(Some(bytes))
}

pub(super) fn out_of_gas(wanted: u64, used: u64) -> TxRefusal {
    let log =
        format!("out of gas in location: ReadPerByte; gasWanted: {wanted}, gasUsed: {used}: out of gas");
    TxRefusal::sdk(11, log)
}

/// Formats a time as in the error texts of Akash nodes.
fn go_time(nanos: i64) -> String {
    let since = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    let text = humantime::format_rfc3339_nanos(UNIX_EPOCH + since).to_string();
    format!("{} +0000 UTC", text.trim_end_matches('Z').replace('T', " "))
}
