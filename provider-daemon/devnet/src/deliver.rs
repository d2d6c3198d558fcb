//! A transaction in a block: fee and nonce are taken, then its messages are executed, all or none.

use super::ante::{Nonces, Passed, Rules, Stage, View, out_of_gas};
use super::event::{Event, FEE_COLLECTOR, message, transfer};
use super::gas;
use super::money::Before;
use super::refusal::Refusal;
use super::tx::{Act, Step, Tx};
use akash_provider_chain::proto::cosmos::base::abci::v1beta1::TxMsgData;
use akash_provider_core::market::{Market, TenantMsg};
use akash_provider_core::types::{Address, BlockTime, ChainEvent, Coin, Height, Msg};
use data_encoding::BASE64;
use prost::Message;
use prost_types::Any;

/// What became of a transaction.
#[derive(Debug, Clone, Default)]
pub(super) struct TxResult {
    pub(super) code: u32,
    pub(super) codespace: String,
    pub(super) data: Vec<u8>,
    pub(super) log: String,
    pub(super) gas_wanted: u64,
    pub(super) gas_used: u64,
    pub(super) events: Vec<Event>,
    /// What it did, for who follows the market itself.
    pub(super) facts: Vec<ChainEvent>,
}

impl TxResult {
    fn refused(refusal: Refusal, gas_wanted: u64, gas_used: u64) -> Self {
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

/// The state that transactions change.
#[derive(Debug)]
pub(super) struct Ledger<'a> {
    pub(super) rules: &'a Rules,
    pub(super) market: &'a mut Market,
    pub(super) nonces: &'a mut Nonces,
    /// Of the block that is made.
    pub(super) height: Height,
    pub(super) time: BlockTime,
}

/// What the messages of a transaction did.
#[derive(Debug, Default)]
struct Done {
    facts: Vec<ChainEvent>,
    events: Vec<Event>,
    gas: u64,
}

impl Ledger<'_> {
    /// Checks a transaction and executes it. One that does not pass costs nothing; one that fails later has paid its
    /// fee.
    pub(super) fn deliver(&mut self, tx: &Tx) -> TxResult {
        let view = View {
            rules: self.rules,
            market: self.market,
            nonces: self.nonces,
            taken: None,
            height: self.height,
            time: self.time,
        };
        match view.check(tx, Stage::Deliver) {
            Ok(passed) => self.execute(tx, &passed, tx.fee.gas_limit),
            Err(refusal) => TxResult::refused(refusal, tx.fee.gas_limit, 0),
        }
    }

    /// Executes what passed the checks, within `gas_limit`.
    pub(super) fn execute(&mut self, tx: &Tx, passed: &Passed, gas_limit: u64) -> TxResult {
        let sequence = self.take(tx, passed);
        let mut events = ante_events(tx, passed);
        // One message that is refused changes nothing by itself, and many cost the same whatever comes of them.
        let certain = match tx.steps.as_slice() {
            [step] => certain_gas(step).is_some_and(|gas| passed.gas + gas <= gas_limit),
            _ => false,
        };
        // Copied after the fee was taken: who fails has used the node's work and pays for it.
        let before = (!certain).then(|| self.market.clone());
        let mut done = Done {
            gas: passed.gas,
            ..Done::default()
        };
        let mut failure = None;
        for (index, step) in tx.steps.iter().enumerate() {
            if let Err(refusal) = self.step(index, step, &mut done) {
                done.gas += gas::FAILED;
                failure = Some(refusal);
                break;
            }
            // Looked at after each message, so that one cheap limit does not buy the work of a thousand messages.
            if done.gas > gas_limit {
                break;
            }
        }
        let failure = if done.gas > gas_limit {
            Some(out_of_gas(gas_limit, done.gas))
        } else {
            failure
        };
        if let Some(refusal) = failure {
            if let Some(market) = before {
                *self.market = market;
            }
            self.market.account_mut(&tx.signer).sequence = sequence;
            let mut result = TxResult::refused(refusal, tx.fee.gas_limit, done.gas);
            result.events = events;
            return result;
        }
        // The sequence counts signatures, whatever the market counts.
        self.market.account_mut(&tx.signer).sequence = sequence;
        events.append(&mut done.events);
        TxResult {
            data: data(&tx.steps),
            gas_wanted: tx.fee.gas_limit,
            gas_used: done.gas,
            events,
            facts: done.facts,
            ..TxResult::default()
        }
    }

    /// Takes the fee and remembers key and nonce; the account's next sequence.
    fn take(&mut self, tx: &Tx, passed: &Passed) -> u64 {
        let account = self.market.account_mut(&tx.signer);
        for coin in &passed.fee {
            if let Some(held) = account.coins.get_mut(&coin.denom) {
                *held = held.saturating_sub(coin.amount);
            }
        }
        // The key of an account never changes once it is known.
        if account.pubkey.is_none() {
            account.pubkey.clone_from(&passed.public_key);
        }
        account.sequence = passed.sequence.map_or(account.sequence, |s| s + 1);
        let sequence = account.sequence;
        if let Some(nanos) = passed.nonce {
            self.nonces.insert(nanos, &tx.signer);
        }
        sequence
    }

    fn step(&mut self, index: usize, step: &Step, done: &mut Done) -> Result<(), Refusal> {
        // Facts do not say how much money moved. The difference of the records does.
        let before = Before::of(self.market, &step.act);
        let of_market = |r: &akash_provider_core::market::Rejection| Refusal::of_message(index, r);
        let facts = match &step.act {
            Act::Provider(msg) => self.market.execute(msg).map_err(|r| of_market(&r))?,
            Act::Tenant(msg) => self.market.tenant(msg.clone()).map_err(|r| of_market(&r))?,
            Act::Send { from, to, coins } => {
                self.send(from, to, coins).map_err(|r| r.in_message(index))?;
                Vec::new()
            }
        };
        let mut events = vec![message(&step.type_url, super::tx::signer(&step.act))];
        events.extend(before.events(self.market, &step.act, &facts, self.height));
        let transfers = events.iter().filter(|e| e.kind == "transfer").count() as u64;
        // As nodes mark them: clients tell the messages of one transaction apart by it.
        for event in &mut events {
            event.attributes.push(("msg_index", index.to_string()));
        }
        done.gas += gas::message(&step.type_url)
            + facts.iter().map(gas::fact).sum::<u64>()
            + transfers * gas::TRANSFER;
        done.events.extend(events);
        done.facts.extend(facts);
        Ok(())
    }

    fn send(&mut self, from: &Address, to: &Address, coins: &[Coin]) -> Result<(), Refusal> {
        for coin in coins {
            // A rule of the network: this token is for paying leases and does not change hands.
            if &*coin.denom == "uact" {
                let log = "uact transfers are currently disabled: send transactions are disabled";
                return Err(Refusal::new("bank", 5, log));
            }
            let held = self.market.balance(from, &coin.denom).amount;
            if held < coin.amount {
                let denom = &coin.denom;
                let log =
                    format!("spendable balance {held}{denom} is smaller than {coin}: insufficient funds");
                return Err(Refusal::sdk(5, log));
            }
        }
        // Only when all coins are there does the first one move.
        for coin in coins {
            if let Some(held) = self.market.account_mut(from).coins.get_mut(&coin.denom) {
                *held = held.saturating_sub(coin.amount);
            }
            self.market.fund(to, coin);
        }
        Ok(())
    }
}

/// Gas of a message for which only one thing can come of it.
fn certain_gas(step: &Step) -> Option<u64> {
    let base = gas::message(&step.type_url);
    // The amounts that `gas::fact` has for what these messages bring about.
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
    // A message that fails is cheaper, or needs no undoing.
    Some(base + certain.max(gas::FAILED))
}

fn ante_events(tx: &Tx, passed: &Passed) -> Vec<Event> {
    let payer = tx.signer.to_string();
    let mut events = Vec::new();
    let fees: Vec<String> = passed.fee.iter().map(ToString::to_string).collect();
    for coin in &passed.fee {
        events.extend(transfer(&payer, FEE_COLLECTOR, coin));
    }
    let fee = vec![("fee", fees.join(",")), ("fee_payer", payer.clone())];
    events.push(Event::new("tx", fee));
    if let Some(sequence) = passed.sequence {
        events.push(Event::new("tx", vec![("acc_seq", format!("{payer}/{sequence}"))]));
    }
    for signature in &tx.raw.signatures {
        events.push(Event::new("tx", vec![("signature", BASE64.encode(signature))]));
    }
    events
}

/// The answers of the messages, which are all empty.
fn data(steps: &[Step]) -> Vec<u8> {
    TxMsgData {
        msg_responses: responses(steps),
    }
    .encode_to_vec()
}

/// The answers of the messages.
pub(super) fn responses(steps: &[Step]) -> Vec<Any> {
    let answer = |step: &Step| Any {
        type_url: format!("{}Response", step.type_url),
        value: Vec::new(),
    };
    steps.iter().map(answer).collect()
}
