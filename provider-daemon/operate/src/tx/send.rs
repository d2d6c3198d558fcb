//! Signing and sending of one transaction, and the wait for the block that includes it.
//!
//! Without `--sequence` and `--timeout-height` the transaction is unordered. An unordered transaction is
//! valid for one minute, and does not conflict with other transactions of the account, such as those of a
//! running provider. If the chain does not support unordered transactions, the sequence of the account is
//! used.

use super::TxAccount;
use crate::args::TxArgs;
use crate::args::tx::BroadcastMode;
use crate::chain_json;
use crate::query::print;
use akash_provider_chain::Reader;
use akash_provider_chain::gas::GasConfig;
use akash_provider_chain::proto::cosmos::base::abci::v1beta1::TxResponse;
use akash_provider_chain::proto::cosmos::base::v1beta1::Coin as WireCoin;
use akash_provider_chain::proto::cosmos::tx::v1beta1::{AuthInfo, Fee, GetTxRequest, TxBody};
use akash_provider_chain::signer::{Ordering, SignedTx, SigningAccount, TxFee, sign_with_note};
use akash_provider_chain::tx::api::{Simulation, Submission, TxApi};
use akash_provider_chain::tx::{LIFETIME, LIFETIME_BLOCKS};
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::json::Json;
use akash_provider_cli::node::{endpoints_with_chain_id, failure};
use akash_provider_cli::secrets;
use akash_provider_core::audit::{Act, ActOutcome};
use akash_provider_core::chain::{Account as AccountRecord, SyncInfo};
use akash_provider_core::types::{Coin, TxReceipt};
use akash_provider_service::args::gas::{Gas, gas_price};
use akash_provider_service::audit;
use anyhow::{Context, anyhow, bail};
use prost_types::Any;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Gas limit of a transaction that is only printed, as in the Go tools.
const DEFAULT_GAS: u64 = 200_000;
/// Gas limit of a simulated transaction, higher than any message needs.
const SIMULATION_GAS: u64 = 10_000_000;
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum time to wait until the transaction is in a block.
const WAIT_MAX: Duration = Duration::from_secs(180);

/// After a confirmation, signs and sends a transaction, audits the act, and prints the result.
pub(super) async fn send(
    args: &TxArgs,
    account: &TxAccount,
    messages: Vec<Any>,
    act: Act,
) -> anyhow::Result<ExitCode> {
    let fee = FeeArgs::from_args(args)?;
    if args.how.generate_only {
        let limit = match args.gas.gas {
            Gas::Limit(limit) => limit,
            Gas::Auto => DEFAULT_GAS,
        };
        // The signing program chooses the sequence.
        let unsigned = unsigned(messages, fee.fees.as_ref(), limit, false, args)?;
        print(&unsigned, args.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut sending = TransactionSender::start(args, account, messages, fee).await?;
    let price = sending.price().await?;
    if args.how.dry_run {
        akash_provider_cli::output::say(&format!("gas estimate: {}\n", price.gas_limit));
        return Ok(ExitCode::SUCCESS);
    }
    let fee = (price.fee.amount > 0).then_some(&price.fee);
    let is_unordered = sending.sequencing == Sequencing::Unordered;
    let messages = sending.messages.clone();
    let preview = unsigned(messages, fee, price.gas_limit, is_unordered, args)?;
    if !args.yes {
        // On stderr: scripts read the result from stdout.
        eprintln!("{}", serde_json::to_string_pretty(&preview)?);
        if !secrets::confirm("Sign and send this transaction?")? {
            bail!(WithHelp::new(
                "transaction not sent: no confirmation",
                "add --yes to send without a prompt"
            ));
        }
    }
    let act = audit::record_intent(account.log.as_ref(), act).await?;
    let sent = sending.broadcast(&price).await;
    if let Some(act) = act {
        act.record_outcome(outcome(sent.as_ref(), &price, args.how.broadcast_mode));
    }
    let response = sent?;
    print(&chain_json::from_message(&response)?, args.output)?;
    if response.code == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!(
        "error: the chain rejected transaction {} ({}/{}): {}",
        response.txhash, response.codespace, response.code, response.raw_log
    );
    Ok(ExitCode::FAILURE)
}

fn outcome(sent: Result<&TxResponse, &anyhow::Error>, price: &TxFee, mode: BroadcastMode) -> ActOutcome {
    let response = match sent {
        Ok(response) => response,
        // A node may have received the transaction.
        Err(error) => return ActOutcome::new("unknown", Some(format!("{error:#}"))),
    };
    let outcome = match (response.code, mode) {
        (0, BroadcastMode::Block) => ActOutcome {
            height: u64::try_from(response.height).ok(),
            ..ActOutcome::new("committed", None)
        },
        (0, BroadcastMode::Sync | BroadcastMode::Async) => ActOutcome::new("sent", None),
        (code, _) => {
            let why = format!("{}/{code}: {}", response.codespace, response.raw_log);
            ActOutcome::new("rejected", Some(why))
        }
    };
    ActOutcome {
        receipt: Some(TxReceipt {
            hash: response.txhash.clone(),
            fee: price.fee.clone(),
        }),
        ..outcome
    }
}

/// Returns the unsigned transaction as JSON. An unordered transaction has no timeout yet, because the timeout
/// depends on the time of signing.
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
    chain_json::unsigned(&body, &auth_info)
}

struct FeeArgs {
    fees: Option<Coin>,
    config: GasConfig,
}

impl FeeArgs {
    fn from_args(args: &TxArgs) -> anyhow::Result<Self> {
        let given = args.gas.fees.as_deref().filter(|fees| !fees.is_empty());
        let fees = given.map(|text| {
            let coin = text.parse::<Coin>();
            coin.map_err(|e| {
                anyhow!(WithHelp::new(
                    format!("--fees {text}: {e}"),
                    "expected an amount such as 5000uakt"
                ))
            })
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
    let mut config = GasConfig::default();
    config.denom = denom;
    config.price = price;
    config.price_max = price_max;
    config.ceilings = args.gas.ceilings(price_max);
    // The flag is between 1 and 10.
    config.factor_percent = (args.gas.gas_adjustment * 100.0).round() as u32;
    config.granter = args.gas.fee_granter.clone();
    Ok(config)
}

const SEQUENCE_NOTICE: &str =
    "the chain does not support unordered transactions: using the sequence of the account";

struct TransactionSender<'a> {
    args: &'a TxArgs,
    account: &'a TxAccount,
    messages: Vec<Any>,
    fee: FeeArgs,
    node: Reader,
    tip: SyncInfo,
    account_number: u64,
    sequencing: Sequencing,
}

/// Replay protection of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sequencing {
    /// Unordered transaction, which has a timeout instead of a sequence number.
    Unordered,
    /// Ordered transaction with the sequence number `sequence` of the account.
    ///
    /// `last` is the height of the last block that may include the transaction; 0 means no limit. If `last`
    /// is `None`, the transaction is valid for as long as an unordered transaction.
    Ordered { sequence: u64, last: Option<u64> },
}

/// Errors of a chain without unordered transactions: unsupported feature (37), and undecodable transaction
/// (2).
const UNORDERED_UNSUPPORTED: [u32; 2] = [37, 2];

impl<'a> TransactionSender<'a> {
    async fn start(
        args: &'a TxArgs,
        account: &'a TxAccount,
        messages: Vec<Any>,
        fee: FeeArgs,
    ) -> anyhow::Result<Self> {
        let node = Reader::new(endpoints_with_chain_id(&args.node)?);
        let tip = TxApi::sync_info(&node)
            .await
            .context("cannot query the latest block")?;
        let mut sending = Self {
            args,
            account,
            messages,
            fee,
            node,
            tip,
            account_number: args.how.account_number.unwrap_or_default(),
            sequencing: Sequencing::Unordered,
        };
        if args.how.account_number.is_none() {
            sending.account_number = sending.account().await?.number;
        }
        let last = args.how.timeout_height;
        sending.sequencing = match args.how.sequence {
            Some(sequence) => Sequencing::Ordered {
                sequence,
                last: Some(last),
            },
            None if last > 0 => sending.next_sequence(Some(last)).await?,
            None => Sequencing::Unordered,
        };
        Ok(sending)
    }

    async fn account(&self) -> anyhow::Result<AccountRecord> {
        let account = TxApi::account(&self.node, &self.account.address).await;
        let account = account.with_context(|| format!("cannot query account {}", self.account.address))?;
        account.with_context(|| {
            WithHelp::new(
                format!(
                    "account {} does not exist on chain `{}`",
                    self.account.address, self.tip.chain_id
                ),
                "send funds to the account first: an account without funds cannot sign",
            )
        })
    }

    async fn next_sequence(&self, last: Option<u64>) -> anyhow::Result<Sequencing> {
        let sequence = self.account().await?.sequence;
        Ok(Sequencing::Ordered { sequence, last })
    }

    /// Makes an unordered transaction ordered. Returns false if the transaction was already ordered.
    async fn use_sequence(&mut self) -> anyhow::Result<bool> {
        if self.sequencing != Sequencing::Unordered {
            return Ok(false);
        }
        self.sequencing = self.next_sequence(None).await?;
        Ok(true)
    }

    fn last_height(&self, last: Option<u64>) -> u64 {
        last.unwrap_or_else(|| self.tip.height.saturating_add(LIFETIME_BLOCKS))
    }

    /// Returns the replay protection of a transaction. An unordered transaction needs a new timeout for each
    /// signature, because the chain accepts a timeout only once per account.
    fn ordering(&self) -> Ordering {
        match self.sequencing {
            Sequencing::Ordered { sequence, last } => Ordering::Ordered {
                sequence,
                timeout_height: self.last_height(last),
            },
            Sequencing::Unordered => {
                let expires = self.tip.time.plus(LIFETIME).0.saturating_mul(1_000_000);
                // The process ID below one millisecond avoids collisions with other processes that use the same key.
                let salt = i64::from(std::process::id()) % 1_000_000;
                Ordering::Unordered {
                    timeout_nanos: expires.saturating_add(salt),
                }
            }
        }
    }

    fn sign(&self, price: &TxFee) -> anyhow::Result<SignedTx> {
        let account = SigningAccount {
            key: self.account.key()?,
            number: self.account_number,
            chain_id: &self.tip.chain_id,
        };
        let messages = self.messages.clone();
        let note = &self.args.how.note;
        Ok(sign_with_note(&account, messages, self.ordering(), price, note))
    }

    async fn price(&mut self) -> anyhow::Result<TxFee> {
        let (config, fees) = (self.fee.config.clone(), self.fee.fees.clone());
        let minimum = match &fees {
            Some(_) => Vec::new(),
            None => {
                let prices = self.node.min_gas_prices().await;
                prices.context("cannot query the gas price")?
            }
        };
        let per_unit = config.price_at(&minimum)?;
        let price = |limit| {
            let price = config.price(limit, per_unit);
            match &fees {
                Some(fee) => TxFee {
                    fee: fee.clone(),
                    ..price
                },
                None => price,
            }
        };
        if let Gas::Limit(limit) = self.args.gas.gas {
            return Ok(price(limit));
        }
        // The simulation includes a usual fee, because its payment uses gas too.
        let trial = TxFee {
            gas_limit: SIMULATION_GAS,
            ..price(DEFAULT_GAS)
        };
        let mut used = self.simulate(&trial).await?;
        // A simulation returns no code, so a second attempt shows whether the ordering was the problem.
        if used.is_err() && self.use_sequence().await? {
            used = self.simulate(&trial).await?;
            if used.is_ok() {
                eprintln!("{SEQUENCE_NOTICE}");
            }
        }
        match used {
            Ok(used) => {
                let price = price(config.limit(used));
                // An explicit fee is used unchanged.
                match fees {
                    Some(_) => {}
                    None => config
                        .ceilings
                        .check_price(&price)
                        .context("transaction not sent")?,
                }
                Ok(price)
            }
            Err(log) => bail!(WithHelp::new(
                format!("transaction not sent, the simulation failed: {log}"),
                "check the flags and the state on the chain; the chain reported the reason above"
            )),
        }
    }

    /// Returns the gas of a simulation, or the reason for a rejection.
    async fn simulate(&self, trial: &TxFee) -> anyhow::Result<Result<u64, String>> {
        let signed = self.sign(trial)?;
        let simulated = self.node.simulate(signed.bytes).await;
        Ok(match simulated.context("cannot simulate the transaction")? {
            Simulation::Gas { used } => Ok(used),
            Simulation::Refused { log } | Simulation::Unpaid { log, .. } => Err(one_line(&log)),
        })
    }

    async fn broadcast(&mut self, price: &TxFee) -> anyhow::Result<TxResponse> {
        // The confirmation may have taken time, and the validity is relative to the latest block.
        let tip = TxApi::sync_info(&self.node).await;
        self.tip = tip.context("cannot query the latest block")?;
        let (mut hash, mut sent) = self.submit(price).await?;
        // A transaction that the node rejects is never included, so sending another one is safe.
        if matches!(&sent, Submission::Refused { code, .. } if UNORDERED_UNSUPPORTED.iter().any(|n| code.is_sdk(*n)))
            && self.use_sequence().await?
        {
            eprintln!("{SEQUENCE_NOTICE}");
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

    async fn submit(&self, price: &TxFee) -> anyhow::Result<(String, Submission)> {
        let signed = self.sign(price)?;
        // The hash is known before sending, so that the transaction can be found if the response is lost.
        let hash = signed.hash.to_string();
        let sent = self.node.broadcast(signed.bytes).await;
        let sent = sent.with_context(|| {
            WithHelp::new(
                format!("cannot confirm the broadcast of transaction {hash}"),
                format!("run `query tx {hash}` to check it later"),
            )
        })?;
        Ok((hash, sent))
    }

    async fn wait(&self, hash: &str) -> anyhow::Result<TxResponse> {
        let mut progress = ProgressLine::start(hash);
        let began = Instant::now();
        let mut last_error = None;
        while began.elapsed() < WAIT_MAX {
            // In this order: a transaction that is not found after a block beyond its expiry can never be included.
            let tip = TxApi::sync_info(&self.node).await;
            match self.find(hash).await {
                Ok(Some(response)) => {
                    progress.end(&format!("in block {}", response.height));
                    return Ok(response);
                }
                // Queried after the tip above, so earlier failures no longer matter.
                Ok(None) => last_error = None,
                Err(error) => last_error = Some(error),
            }
            if let Ok(tip) = tip {
                progress.at(&format!("block {}", tip.height));
                if self.has_expired(&tip) && last_error.is_none() {
                    progress.end("expired");
                    bail!(WithHelp::new(
                        format!("transaction {hash} expired: the node accepted it, but no block includes it"),
                        "run the command again, with a higher --gas-prices if the chain is busy"
                    ));
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        progress.end("not seen");
        let why = last_error.map(|e| format!(": {e:#}")).unwrap_or_default();
        bail!(WithHelp::new(
            format!("cannot confirm transaction {hash}{why}"),
            format!("run `query tx {hash}` to check it later")
        ))
    }

    /// Returns whether no later block can include the transaction.
    fn has_expired(&self, tip: &SyncInfo) -> bool {
        match self.sequencing {
            Sequencing::Unordered => tip.time > self.tip.time.plus(LIFETIME).plus(Duration::from_secs(1)),
            Sequencing::Ordered { last, .. } => {
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
                // The printed response contains the result without the transaction itself.
                response.tx = None;
                response.raw_log = one_line(&response.raw_log);
                response
            })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(failure(&error)),
        }
    }
}

/// Returns the chain's error text, without the stack trace of a panic.
fn one_line(log: &str) -> String {
    log.split("stack:").next().unwrap_or_default().trim().to_owned()
}

/// Progress line on stderr.
struct ProgressLine {
    began: Instant,
    is_seen: bool,
}

impl ProgressLine {
    fn start(hash: &str) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        eprintln!("transaction {hash} sent; waiting until a block contains it");
        Self {
            began: Instant::now(),
            is_seen,
        }
    }

    fn at(&mut self, what: &str) {
        if self.is_seen {
            eprint!("\r{:>5.1}s  {what}   ", self.began.elapsed().as_secs_f64());
            // A failed write of the progress line is ignored.
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
    fn omits_the_stack_trace() {
        assert_eq!(
            one_line("recovered: no payment\nstack:\ngoroutine 1"),
            "recovered: no payment"
        );
    }
}
