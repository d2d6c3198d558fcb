//! Execution of a transaction in a block: fee and nonce are consumed, then all or none of its messages take effect.

use super::ante::{AnteContext, AnteMode, AnteParams, CheckedTx, Nonces, out_of_gas};
use super::event::{DevnetEvent, FEE_COLLECTOR, message, transfer};
use super::gas;
use super::money::MoneyBefore;
use super::refusal::TxRefusal;
use super::tx::{Act, DecodedTx, TxMessage};
use akash_provider_chain::proto::cosmos::base::abci::v1beta1::TxMsgData;
use akash_provider_core::market::{Market, TenantMsg};
use akash_provider_core::types::{Address, BlockTime, ChainEvent, Coin, Height, Msg};
use data_encoding::BASE64;
use prost::Message;
use prost_types::Any;

#[derive(Debug, Clone, Default)]
pub(super) struct TxResult {
    pub(super) code: u32,
    pub(super) codespace: String,
    pub(super) data: Vec<u8>,
    pub(super) log: String,
    pub(super) gas_wanted: u64,
    pub(super) gas_used: u64,
    pub(super) events: Vec<DevnetEvent>,
    /// Market events, for embedders that observe the market directly.
    pub(super) facts: Vec<ChainEvent>,
}

impl TxResult {
    fn refused(refusal: TxRefusal, gas_wanted: u64, gas_used: u64) -> Self {
        Self {
            code: refusal.code,
            codespace: refusal.space,
            log: refusal.log,
            gas_wanted,
            gas_used,
            ..Self::default()
        }
    }
}

/// Chain state for the execution of the transactions in a block.
#[derive(Debug)]
pub(super) struct DeliverState<'a> {
    pub(super) rules: &'a AnteParams,
    pub(super) market: &'a mut Market,
    pub(super) nonces: &'a mut Nonces,
    /// Height of the block in progress.
    pub(super) height: Height,
    pub(super) time: BlockTime,
}

#[derive(Debug, Default)]
struct Effects {
    facts: Vec<ChainEvent>,
    events: Vec<DevnetEvent>,
    gas: u64,
}

impl DeliverState<'_> {
    /// Checks and executes a transaction. A transaction that passes all checks pays the fee, even if the
    /// execution fails.
    pub(super) fn deliver(&mut self, tx: &DecodedTx) -> TxResult {
        let view = AnteContext {
            rules: self.rules,
            market: self.market,
            nonces: self.nonces,
            pending: None,
            height: self.height,
            time: self.time,
        };
        match view.check(tx, AnteMode::Deliver) {
            Ok(checked) => self.execute(tx, &checked, tx.fee.gas_limit),
            Err(refusal) => TxResult::refused(refusal, tx.fee.gas_limit, 0),
        }
    }

    pub(super) fn execute(&mut self, tx: &DecodedTx, checked: &CheckedTx, gas_limit: u64) -> TxResult {
        let sequence = self.take(tx, checked);
        let mut events = ante_events(tx, checked);
        // A single refused message changes nothing, and the gas of many kinds of messages is constant.
        let certain = match tx.steps.as_slice() {
            [step] => certain_gas(step).is_some_and(|gas| checked.gas + gas <= gas_limit),
            _ => false,
        };
        // Copied after the fee was pending: a failed transaction pays too.
        let before = (!certain).then(|| self.market.clone());
        let mut effects = Effects {
            gas: checked.gas,
            ..Effects::default()
        };
        let mut failure = None;
        for (index, step) in tx.steps.iter().enumerate() {
            if let Err(refusal) = self.step(index, step, &mut effects) {
                effects.gas += gas::FAILED;
                failure = Some(refusal);
                break;
            }
            // Checked after each message, so that a low gas limit cannot cause the work of a thousand messages.
            if effects.gas > gas_limit {
                break;
            }
        }
        let failure = if effects.gas > gas_limit {
            Some(out_of_gas(gas_limit, effects.gas))
        } else {
            failure
        };
        if let Some(refusal) = failure {
            if let Some(market) = before {
                *self.market = market;
            }
            self.market.account_mut(&tx.signer).sequence = sequence;
            let mut result = TxResult::refused(refusal, tx.fee.gas_limit, effects.gas);
            result.events = events;
            return result;
        }
        // The sequence counts signatures, whatever the market counts.
        self.market.account_mut(&tx.signer).sequence = sequence;
        events.append(&mut effects.events);
        TxResult {
            data: data(&tx.steps),
            gas_wanted: tx.fee.gas_limit,
            gas_used: effects.gas,
            events,
            facts: effects.facts,
            ..TxResult::default()
        }
    }

    /// Deducts the fee from the signer's account, and stores the public key and the nonce. Returns the next
    /// sequence of the account.
    fn take(&mut self, tx: &DecodedTx, checked: &CheckedTx) -> u64 {
        let account = self.market.account_mut(&tx.signer);
        for coin in &checked.fee {
            if let Some(amount) = account.coins.get_mut(&coin.denom) {
                *amount = amount.saturating_sub(coin.amount);
            }
        }
        // The key of an account never changes.
        if account.pubkey.is_none() {
            account.pubkey.clone_from(&checked.public_key);
        }
        account.sequence = checked.sequence.map_or(account.sequence, |s| s + 1);
        let sequence = account.sequence;
        if let Some(nanos) = checked.nonce {
            self.nonces.insert(nanos, &tx.signer);
        }
        sequence
    }

    fn step(&mut self, index: usize, step: &TxMessage, effects: &mut Effects) -> Result<(), TxRefusal> {
        // Market events do not contain the amount of transferred money. It is the difference between the records.
        let before = MoneyBefore::new(self.market, &step.act);
        let refusal = |r: &akash_provider_core::market::Rejection| TxRefusal::from_rejection(index, r);
        let facts = match &step.act {
            Act::Provider(msg) => self.market.execute(msg).map_err(|r| refusal(&r))?,
            Act::Tenant(msg) => self.market.tenant(msg.clone()).map_err(|r| refusal(&r))?,
            Act::Send { from, to, coins } => {
                self.send(from, to, coins).map_err(|r| r.in_message(index))?;
                Vec::new()
            }
        };
        let mut events = vec![message(&step.type_url, super::tx::signer(&step.act))];
        events.extend(before.events(self.market, &step.act, &facts, self.height));
        let transfers = events.iter().filter(|e| e.kind == "transfer").count() as u64;
        // As in nodes: clients use the index to assign events to messages.
        for event in &mut events {
            event.attributes.push(("msg_index", index.to_string()));
        }
        effects.gas += gas::message(&step.type_url)
            + facts.iter().map(gas::fact).sum::<u64>()
            + transfers * gas::TRANSFER;
        effects.events.extend(events);
        effects.facts.extend(facts);
        Ok(())
    }

    fn send(&mut self, from: &Address, to: &Address, coins: &[Coin]) -> Result<(), TxRefusal> {
        for coin in coins {
            // A rule of the network: this token pays for leases and cannot be transferred.
            if &*coin.denom == "uact" {
                let log = "uact transfers are currently disabled: send transactions are disabled";
                return Err(TxRefusal::new("bank", 5, log));
            }
            let balance = self.market.balance(from, &coin.denom).amount;
            if balance < coin.amount {
                let denom = &coin.denom;
                let log =
                    format!("spendable balance {balance}{denom} is smaller than {coin}: insufficient funds");
                return Err(TxRefusal::sdk(5, log));
            }
        }
        // No coin moves unless the balance covers all of them.
        for coin in coins {
            if let Some(balance) = self.market.account_mut(from).coins.get_mut(&coin.denom) {
                *balance = balance.saturating_sub(coin.amount);
            }
            self.market.fund(to, coin);
        }
        Ok(())
    }
}

/// Returns the maximum gas of a message, or `None` if the gas depends on the state of the market.
fn certain_gas(step: &TxMessage) -> Option<u64> {
    let base = gas::message(&step.type_url);
    // The amounts of `gas::fact` for the effects of these messages.
    let certain = match &step.act {
        Act::Provider(Msg::CreateBid { .. }) => 45_000 + gas::TRANSFER,
        Act::Provider(
            Msg::CreateProvider(_)
            | Msg::UpdateProvider(_)
            | Msg::CreateCertificate { .. }
            | Msg::RevokeCertificate { .. }
            | Msg::StartReclaim { .. },
        ) => 0,
        Act::Tenant(TenantMsg::CreateDeployment { groups, .. }) => {
            10_000 + 55_000 * groups.len() as u64 + gas::TRANSFER
        }
        _ => return None,
    };
    // A failing message costs less, or has no effects to undo.
    Some(base + certain.max(gas::FAILED))
}

fn ante_events(tx: &DecodedTx, checked: &CheckedTx) -> Vec<DevnetEvent> {
    let payer = tx.signer.to_string();
    let mut events = Vec::new();
    let fees: Vec<String> = checked.fee.iter().map(ToString::to_string).collect();
    for coin in &checked.fee {
        events.extend(transfer(&payer, FEE_COLLECTOR, coin));
    }
    let fee = vec![("fee", fees.join(",")), ("fee_payer", payer.clone())];
    events.push(DevnetEvent::new("tx", fee));
    if let Some(sequence) = checked.sequence {
        events.push(DevnetEvent::new(
            "tx",
            vec![("acc_seq", format!("{payer}/{sequence}"))],
        ));
    }
    for signature in &tx.raw.signatures {
        events.push(DevnetEvent::new(
            "tx",
            vec![("signature", BASE64.encode(signature))],
        ));
    }
    events
}

/// Encodes the responses of the messages. Each response is empty.
fn data(steps: &[TxMessage]) -> Vec<u8> {
    TxMsgData {
        msg_responses: responses(steps),
    }
    .encode_to_vec()
}

pub(super) fn responses(steps: &[TxMessage]) -> Vec<Any> {
    let response = |step: &TxMessage| Any {
        type_url: format!("{}Response", step.type_url),
        value: Vec::new(),
    };
    steps.iter().map(response).collect()
}
