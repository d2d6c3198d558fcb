//! One transaction from its messages to its block.
//!
//! It is unordered unless a sequence or a height is given: it then meets no other transaction of the account, such as
//! those of a provider that runs with the same key, and can land for a minute only. Where the chain takes none that are
//! unordered, it counts with the account's sequence.

use super::Author;
use crate::args::TxArgs;
use crate::args::tx::{BroadcastMode, Gas};
use crate::commands::chain::named;
use crate::commands::query::print;
use crate::json::Json;
use crate::{secrets, shown};
use akash_provider_chain::Reader;
use akash_provider_chain::gas::GasConfig;
use akash_provider_chain::proto::cosmos::base::abci::v1beta1::TxResponse;
use akash_provider_chain::proto::cosmos::base::v1beta1::Coin as WireCoin;
use akash_provider_chain::proto::cosmos::tx::v1beta1::{AuthInfo, Fee, GetTxRequest, TxBody};
use akash_provider_chain::signer::{Account, Ordering, Price, SignedTx, sign_with_note};
use akash_provider_chain::tx::api::{Simulation, Submission, TxApi};
use akash_provider_chain::tx::{LIFETIME, LIFETIME_BLOCKS};
use akash_provider_core::chain::{Account as AccountRecord, SyncInfo};
use akash_provider_core::types::{Coin, Dec, Denom};
use anyhow::{Context, anyhow, bail};
use prost_types::Any;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Gas of a transaction that is only printed and has no limit of its own, as with today's tool.
const GAS_UNASKED: u64 = 200_000;
/// Gas that a simulation may use: more than any of our messages needs.
const GAS_TRIED: u64 = 10_000_000;
/// Time between two looks for the transaction.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest wait for a block: a transaction lives for a minute of the chain's time.
const WAIT_MAX: Duration = Duration::from_secs(180);

/// Signs and sends, after asking; prints what came of it.
pub(super) async fn send(args: &TxArgs, author: &Author, messages: Vec<Any>) -> anyhow::Result<ExitCode> {
    let money = Money::of(args)?;
    if args.how.generate_only {
        let limit = match args.gas.gas {
            Gas::Limit(limit) => limit,
            Gas::Auto => GAS_UNASKED,
        };
        // Whoever signs it decides what keeps it apart from others.
        let unsigned = unsigned(messages, money.fees.as_ref(), limit, false, args)?;
        print(&unsigned, args.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut sending = Sending::start(args, author, messages, money).await?;
    let price = sending.price().await?;
    if args.how.dry_run {
        crate::say(&format!("gas estimate: {}\n", price.gas_limit));
        return Ok(ExitCode::SUCCESS);
    }
    let fee = (price.fee.amount > 0).then_some(&price.fee);
    let is_unordered = sending.turn == Turn::Unordered;
    let messages = sending.messages.clone();
    let preview = unsigned(messages, fee, price.gas_limit, is_unordered, args)?;
    if !args.yes {
        // On stderr: what goes to stdout is the result, which scripts read.
        eprintln!("{}", serde_json::to_string_pretty(&preview)?);
        if !secrets::confirm("Sign and send this transaction?")? {
            bail!("nothing was sent: say yes, or use --yes");
        }
    }
    let response = sending.broadcast(&price).await?;
    print(&shown::of(&response)?, args.output)?;
    if response.code == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "error: the chain refused transaction {} ({}/{}): {}",
        response.txhash, response.codespace, response.code, response.raw_log
    );
    Ok(ExitCode::FAILURE)
}

/// As JSON, before it is signed. The timeout of an unordered one is missing: it counts from the block that is the newest
/// when it is signed.
fn unsigned(
    messages: Vec<Any>,
    fee: Option<&Coin>,
    gas_limit: u64,
    is_unordered: bool,
    args: &TxArgs,
) -> anyhow::Result<Json> {
    let body = TxBody {
        unordered: is_unordered,
        messages,
        memo: args.how.note.clone(),
        timeout_height: args.how.timeout_height,
        ..TxBody::default()
    };
    let amount = fee.map(|coin| WireCoin {
        denom: coin.denom.to_string(),
        amount: coin.amount.to_string(),
    });
    let granter = args.gas.fee_granter.as_ref();
    let auth_info = AuthInfo {
        fee: Some(Fee {
            amount: amount.into_iter().collect(),
            gas_limit,
            payer: String::new(),
            granter: granter.map(ToString::to_string).unwrap_or_default(),
        }),
        ..AuthInfo::default()
    };
    shown::unsigned(&body, &auth_info)
}

/// What was said about paying.
struct Money {
    fees: Option<Coin>,
    config: GasConfig,
}

impl Money {
    fn of(args: &TxArgs) -> anyhow::Result<Self> {
        let given = args.gas.fees.as_deref().filter(|fees| !fees.is_empty());
        let fees = given.map(|text| {
            let coin = text.parse::<Coin>();
            coin.map_err(|e| anyhow!("--fees {text}: {e}; write it as 5000uakt"))
        });
        Ok(Self {
            fees: fees.transpose()?,
            config: config(args)?,
        })
    }
}

fn config(args: &TxArgs) -> anyhow::Result<GasConfig> {
    let (denom, price) = gas_price(&args.gas.gas_prices)?;
    let price_max = GasConfig::default().price_max.max(price);
    Ok(GasConfig {
        denom,
        price,
        price_max,
        ceilings: args.gas.ceilings(price_max),
        // The flag is from 1 to 10.
        factor_percent: (args.gas.gas_adjustment * 100.0).round() as u32,
        granter: args.gas.fee_granter.clone(),
    })
}

/// A price such as `0.025uakt`.
pub(crate) fn gas_price(text: &str) -> anyhow::Result<(Denom, Dec)> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (amount, denom) = text.split_at(at);
    let wanted = || format!("--gas-prices {text}: write it as 0.025uakt");
    let is_amount = !amount.is_empty();
    let amount: Dec = amount.parse().with_context(wanted)?;
    if !is_amount || denom.is_empty() || amount < Dec::ZERO {
        bail!(wanted());
    }
    Ok((denom.into(), amount))
}

const IN_TURN: &str = "the chain takes no unordered transactions: the account's sequence is used";

struct Sending<'a> {
    args: &'a TxArgs,
    author: &'a Author,
    messages: Vec<Any>,
    money: Money,
    node: Reader,
    tip: SyncInfo,
    account_number: u64,
    turn: Turn,
}

/// What keeps it apart from the account's other transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// A timeout of its own.
    Unordered,
    /// Its place in the account's sequence, and the last height it may land at: 0 for any, `None` for about as long
    /// as an unordered one has.
    Ordered { sequence: u64, last: Option<u64> },
}

/// The chain's codes for what it does not support, and for what it cannot read, which is how one that has never heard
/// of unordered transactions sees them.
const UNORDERED_UNKNOWN: [u32; 2] = [37, 2];

impl<'a> Sending<'a> {
    async fn start(
        args: &'a TxArgs,
        author: &'a Author,
        messages: Vec<Any>,
        money: Money,
    ) -> anyhow::Result<Self> {
        let node = Reader::new(named(&args.node)?);
        let tip = TxApi::sync_info(&node)
            .await
            .context("asking for the newest block")?;
        let mut sending = Self {
            args,
            author,
            messages,
            money,
            node,
            tip,
            account_number: args.how.account_number.unwrap_or_default(),
            turn: Turn::Unordered,
        };
        if args.how.account_number.is_none() {
            sending.account_number = sending.account().await?.number;
        }
        let last = args.how.timeout_height;
        sending.turn = match args.how.sequence {
            Some(sequence) => Turn::Ordered {
                sequence,
                last: Some(last),
            },
            None if last > 0 => sending.next_turn(Some(last)).await?,
            None => Turn::Unordered,
        };
        Ok(sending)
    }

    async fn account(&self) -> anyhow::Result<AccountRecord> {
        let account = TxApi::account(&self.node, &self.author.address).await;
        let account = account.context("asking for the account")?;
        account.with_context(|| {
            format!(
                "account {} is not on chain `{}`: it must have been sent money before it can sign",
                self.author.address, self.tip.chain_id
            )
        })
    }

    /// The next place in the account's sequence.
    async fn next_turn(&self, last: Option<u64>) -> anyhow::Result<Turn> {
        let sequence = self.account().await?.sequence;
        Ok(Turn::Ordered { sequence, last })
    }

    /// From here on it counts with the account's sequence. True when that may help.
    async fn take_a_turn(&mut self) -> anyhow::Result<bool> {
        if self.turn != Turn::Unordered {
            return Ok(false);
        }
        self.turn = self.next_turn(None).await?;
        Ok(true)
    }

    fn last_height(&self, last: Option<u64>) -> u64 {
        last.unwrap_or_else(|| self.tip.height.saturating_add(LIFETIME_BLOCKS))
    }

    /// The next nonce. Two calls give two, where there is no sequence.
    fn ordering(&self) -> Ordering {
        match self.turn {
            Turn::Ordered { sequence, last } => Ordering::Ordered {
                sequence,
                timeout_height: self.last_height(last),
            },
            Turn::Unordered => {
                let expires = self.tip.time.plus(LIFETIME).0.saturating_mul(1_000_000);
                // Below a millisecond the process differs from others of the same key.
                let salt = i64::from(std::process::id()) % 1_000_000;
                Ordering::Unordered {
                    timeout_nanos: expires.saturating_add(salt),
                }
            }
        }
    }

    fn sign(&self, price: &Price) -> anyhow::Result<SignedTx> {
        let account = Account {
            key: self.author.key()?,
            number: self.account_number,
            chain_id: &self.tip.chain_id,
        };
        let messages = self.messages.clone();
        let note = &self.args.how.note;
        Ok(sign_with_note(&account, messages, self.ordering(), price, note))
    }

    async fn price(&mut self) -> anyhow::Result<Price> {
        let (config, fees) = (self.money.config.clone(), self.money.fees.clone());
        let minimum = match &fees {
            Some(_) => Vec::new(),
            None => {
                let prices = self.node.min_gas_prices().await;
                prices.context("asking for the price of gas")?
            }
        };
        let per_unit = config.price_at(&minimum)?;
        let price = |limit| {
            let price = config.price(limit, per_unit);
            match &fees {
                Some(fee) => Price {
                    fee: fee.clone(),
                    ..price
                },
                None => price,
            }
        };
        if let Gas::Limit(limit) = self.args.gas.gas {
            return Ok(price(limit));
        }
        // The fee of the trial is that of a usual transaction: its payment uses gas too, whatever its amount.
        let trial = Price {
            gas_limit: GAS_TRIED,
            ..price(GAS_UNASKED)
        };
        let mut used = self.simulate(&trial).await?;
        // A trial gives no code, so only another one says whether the order of transactions was the trouble.
        if used.is_err() && self.take_a_turn().await? {
            used = self.simulate(&trial).await?;
            if used.is_ok() {
                eprintln!("{IN_TURN}");
            }
        }
        match used {
            Ok(used) => {
                let price = price(config.limit(used));
                // A fee that was named is what somebody wants to pay.
                match fees {
                    Some(_) => {}
                    None => config.ceilings.check_price(&price).context("nothing was sent")?,
                }
                Ok(price)
            }
            Err(log) => bail!("nothing was sent, the chain would refuse it: {log}"),
        }
    }

    /// The gas that it would use, or why the chain would refuse it.
    async fn simulate(&self, trial: &Price) -> anyhow::Result<Result<u64, String>> {
        let signed = self.sign(trial)?;
        let simulated = self.node.simulate(signed.bytes).await;
        Ok(match simulated.context("asking what gas is needed")? {
            Simulation::Gas { used } => Ok(used),
            Simulation::Refused { log } | Simulation::Unpaid { log, .. } => Err(one_line(&log)),
        })
    }

    async fn broadcast(&mut self, price: &Price) -> anyhow::Result<TxResponse> {
        // Whoever was asked may have taken their time, and it is from the newest block that its life counts.
        let tip = TxApi::sync_info(&self.node).await;
        self.tip = tip.context("asking for the newest block")?;
        let (mut hash, mut sent) = self.submit(price).await?;
        // What a node refuses to take can never land, so another one in its place is no second one.
        if matches!(&sent, Submission::Refused { code, .. } if UNORDERED_UNKNOWN.iter().any(|n| code.is_sdk(*n)))
            && self.take_a_turn().await?
        {
            eprintln!("{IN_TURN}");
            (hash, sent) = self.submit(price).await?;
        }
        let mut response = TxResponse {
            txhash: hash.clone(),
            ..TxResponse::default()
        };
        if let Submission::Refused { code, log } = sent {
            response.codespace = code.space;
            response.code = code.number;
            response.raw_log = one_line(&log);
            return Ok(response);
        }
        match self.args.how.broadcast_mode {
            BroadcastMode::Block => self.wait(&hash).await,
            BroadcastMode::Sync | BroadcastMode::Async => Ok(response),
        }
    }

    async fn submit(&self, price: &Price) -> anyhow::Result<(String, Submission)> {
        let signed = self.sign(price)?;
        // Known before it is sent, so that it can be looked for when the node's answer is lost.
        let hash = signed.hash.to_string();
        let sent = self.node.broadcast(signed.bytes).await;
        let sent = sent.with_context(|| {
            format!("sending transaction {hash}; it may have arrived: `query tx {hash}` says so")
        })?;
        Ok((hash, sent))
    }

    async fn wait(&self, hash: &str) -> anyhow::Result<TxResponse> {
        let mut progress = Progress::start(hash);
        let began = Instant::now();
        let mut last_error = None;
        while began.elapsed() < WAIT_MAX {
            // In this order: what is not found after a block beyond the expiry can never land.
            let tip = TxApi::sync_info(&self.node).await;
            match self.find(hash).await {
                Ok(Some(response)) => {
                    progress.end(&format!("in block {}", response.height));
                    return Ok(response);
                }
                // Asked after the tip above: what a failure before left open, this answers.
                Ok(None) => last_error = None,
                Err(error) => last_error = Some(error),
            }
            if let Ok(tip) = tip {
                progress.at(&format!("block {}", tip.height));
                if self.has_expired(&tip) && last_error.is_none() {
                    progress.end("expired");
                    bail!(
                        "transaction {hash} was taken by the node and is in no block; it can no longer land"
                    );
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        progress.end("not seen");
        let why = last_error.map(|e| format!(": {e:#}")).unwrap_or_default();
        bail!("whether transaction {hash} landed is not known{why}; `query tx {hash}` says so later")
    }

    /// True when no block after this one can hold it.
    fn has_expired(&self, tip: &SyncInfo) -> bool {
        match self.turn {
            Turn::Unordered => tip.time > self.tip.time.plus(LIFETIME).plus(Duration::from_secs(1)),
            Turn::Ordered { last, .. } => {
                let last = self.last_height(last);
                last > 0 && tip.height >= last
            }
        }
    }

    async fn find(&self, hash: &str) -> anyhow::Result<Option<TxResponse>> {
        let request = GetTxRequest {
            hash: hash.to_owned(),
        };
        match self.node.endpoints().query(&request, None).await {
            Ok((answer, _)) => Ok(answer.tx_response.map(|mut response| {
                // What was sent is known; what came of it is asked.
                response.tx = None;
                response.raw_log = one_line(&response.raw_log);
                response
            })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(anyhow!("{error}")),
        }
    }
}

/// The chain's text without the stack trace of a handler that panicked.
fn one_line(log: &str) -> String {
    log.split("stack:").next().unwrap_or_default().trim().to_owned()
}

/// A line on stderr while somebody waits.
struct Progress {
    began: Instant,
    is_seen: bool,
}

impl Progress {
    fn start(hash: &str) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        eprintln!("transaction {hash} is sent; waiting for its block");
        Self {
            began: Instant::now(),
            is_seen,
        }
    }

    fn at(&mut self, what: &str) {
        if self.is_seen {
            eprint!("\r{:>5.1}s  {what}   ", self.began.elapsed().as_secs_f64());
            // A line that cannot be shown is not worth an error.
            let _ = std::io::stderr().flush();
        }
    }

    fn end(&mut self, what: &str) {
        let start = if self.is_seen { "\r" } else { "" };
        eprintln!(
            "{start}{what} after {:.1}s     ",
            self.began.elapsed().as_secs_f64()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_of_gas_has_an_amount_and_a_denomination() {
        let (denom, price) = gas_price("0.025uakt").unwrap();
        assert_eq!(
            (&*denom, price.to_string().as_str()),
            ("uakt", "0.025000000000000000")
        );
        for bad in ["", "0.025", "uakt", "x0.025uakt", "-1uakt"] {
            assert!(
                gas_price(bad).unwrap_err().to_string().contains("0.025uakt"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_stack_trace_is_left_out() {
        assert_eq!(
            one_line("recovered: no payment\nstack:\ngoroutine 1"),
            "recovered: no payment"
        );
    }
}
