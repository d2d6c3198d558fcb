//! Metrics of the chain client: endpoints, blocks, transactions, balances.

#[cfg(test)]
mod tests;

use super::convert::{counter, decimal, flag, gauge, length, now, number, seconds};
use super::{Measure, MetricSource};
use akash_provider_chain::endpoints::{EndpointStatistics, EndpointStatus};
use akash_provider_chain::tx::{TxStatistics, WriterStatus};
use akash_provider_chain::{AkashClient, BlockSource, ClientStatistics, ClientStatus, FollowerStatus};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::{Address, Coin, Denom};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Minimum time between two queries of the balances.
const BALANCE_AGE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub(crate) struct ChainSource {
    client: AkashClient,
    account: Address,
    /// Denominations of the queried balances.
    denoms: Vec<Denom>,
    balances: Arc<Mutex<Balances>>,
}

#[derive(Debug, Default)]
struct Balances {
    amounts: BTreeMap<Denom, u128>,
    queried: Option<Instant>,
}

impl ChainSource {
    /// Creates the metric source for the chain client of an account. The balances are queried at most every
    /// 30 s.
    pub(crate) fn new(client: AkashClient, account: Address, mut denoms: Vec<Denom>) -> Self {
        denoms.sort();
        denoms.dedup();
        Self {
            client,
            account,
            denoms,
            balances: Arc::default(),
        }
    }

    /// Returns true if the balances must be queried, and marks the balances as queried.
    fn is_due(&self) -> bool {
        let mut balances = self.balances.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = balances.queried.is_none_or(|at| at.elapsed() >= BALANCE_AGE);
        if is_due {
            balances.queried = Some(Instant::now());
        }
        is_due
    }

    /// Returns the last known balances.
    pub(super) fn amounts(&self) -> BTreeMap<Denom, u128> {
        let balances = self.balances.lock().unwrap_or_else(PoisonError::into_inner);
        balances.amounts.clone()
    }

    /// Returns the fees of all included transactions, by denomination.
    pub(super) fn fees(&self) -> BTreeMap<Denom, u64> {
        let transactions = self.client.statistics().transactions;
        transactions.map(|counts| counts.fees).unwrap_or_default()
    }

    fn balances(&self) -> Measure {
        let measure = Measure::gauge(
            "akash_provider_balance",
            "Balance of the provider's account in units of the denomination, queried at most every 30 s",
        );
        let amounts = self.amounts();
        amounts.iter().fold(measure, |measure, (denom, amount)| {
            let amount = u64::try_from(*amount).unwrap_or(u64::MAX);
            measure.with([("denom", denom)], number(amount))
        })
    }
}

impl MetricSource for AkashClient {
    fn measures(&self) -> Vec<Measure> {
        measures(&self.status(), &self.statistics())
    }
}

fn measures(status: &ClientStatus, statistics: &ClientStatistics) -> Vec<Measure> {
    let mut measures = vec![counter(
        "akash_provider_chain_switches",
        "Changes of the selected endpoint",
        status.reader.switches,
    )];
    measures.extend(endpoints(&status.reader.endpoints));
    measures.extend(requests(&statistics.endpoints));
    measures.extend(blocks(&status.reader.follower));
    measures.extend(status.writer.iter().flat_map(writer));
    measures.extend(statistics.transactions.iter().flat_map(transactions));
    measures
}

impl MetricSource for ChainSource {
    fn measures(&self) -> Vec<Measure> {
        let mut measures = vec![self.balances()];
        measures.extend(self.client.measures());
        measures
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        async {
            if !self.is_due() {
                return;
            }
            let denoms = self.denoms.iter();
            let queries = denoms.map(|denom| self.client.balance(&self.account, denom));
            let found = join_all(queries).await;
            let mut balances = self.balances.lock().unwrap_or_else(PoisonError::into_inner);
            // An unknown balance keeps its last value.
            for Coin { denom, amount } in found.into_iter().flatten() {
                balances.amounts.insert(denom, amount);
            }
        }
        .boxed()
    }
}

fn endpoints(endpoints: &[EndpointStatus]) -> [Measure; 5] {
    let mut up = Measure::gauge(
        "akash_provider_chain_endpoint_up",
        "1 if the endpoint can be used",
    );
    let mut height = Measure::gauge(
        "akash_provider_chain_endpoint_height",
        "Newest height that the endpoint reported",
    );
    let mut lag = Measure::gauge(
        "akash_provider_chain_endpoint_lag_blocks",
        "Blocks by which the endpoint is behind the best endpoint",
    );
    let mut latency = Measure::gauge(
        "akash_provider_chain_endpoint_latency_seconds",
        "Smoothed response time of the endpoint",
    );
    let mut selected = Measure::gauge(
        "akash_provider_chain_endpoint_selected",
        "1 if the endpoint is selected for this use",
    );
    let best = endpoints.iter().map(|one| one.height).max().unwrap_or_default();
    for endpoint in endpoints {
        let labels = [("endpoint", &*endpoint.address)];
        let is_up = endpoint.fault.is_none() && endpoint.versions.is_some();
        up = up.with(labels, flag(is_up));
        height = height.with(labels, number(endpoint.height));
        lag = lag.with(labels, number(best.saturating_sub(endpoint.height)));
        if let Some(duration) = endpoint.latency {
            latency = latency.with(labels, duration.as_secs_f64());
        }
        for (purpose, is_selected) in [
            ("queries", endpoint.serves_queries),
            ("blocks", endpoint.serves_blocks),
        ] {
            let labels = [("endpoint", &*endpoint.address), ("use", purpose)];
            selected = selected.with(labels, flag(is_selected));
        }
    }
    [up, height, lag, latency, selected]
}

fn requests(endpoints: &[EndpointStatistics]) -> [Measure; 2] {
    let mut durations = Measure::histogram(
        "akash_provider_chain_request_duration_seconds",
        "Duration of requests that the endpoint responded to",
    );
    let mut errors = Measure::counter("akash_provider_chain_errors", "Errors of the endpoint");
    for endpoint in endpoints {
        let address = &*endpoint.address;
        durations = durations.with_histogram([("endpoint", address)], seconds(&endpoint.responses));
        for (error, count) in &endpoint.errors {
            errors = errors.with([("endpoint", address), ("error", error)], number(*count));
        }
    }
    [durations, errors]
}

fn blocks(follower: &FollowerStatus) -> Vec<Measure> {
    let silence = follower.silent_since.map(|since| {
        let silence = SystemTime::now().duration_since(since);
        silence.unwrap_or_default().as_secs_f64()
    });
    let pushed = follower.blocks.saturating_sub(follower.fetched());
    let sources = [
        ("pushed", pushed),
        ("polled", follower.polled),
        ("missed", follower.missed),
        ("replayed", follower.replayed),
    ];
    let received = Measure::counter("akash_provider_chain_blocks", "Processed blocks by source");
    let received = sources.into_iter().fold(received, |measure, (source, count)| {
        measure.with([("source", source)], number(count))
    });
    let mut measures = vec![
        received,
        gauge(
            "akash_provider_chain_height",
            "Height of the newest processed block",
            number(follower.height),
        ),
        gauge(
            "akash_provider_chain_websocket_up",
            "1 if a node pushes blocks",
            flag(matches!(follower.source, BlockSource::Websocket(_))),
        ),
        gauge(
            "akash_provider_chain_silence_seconds",
            "Time without new blocks; 0 while blocks arrive",
            silence.unwrap_or_default(),
        ),
        counter(
            "akash_provider_chain_skipped_blocks",
            "Blocks that a snapshot replaced",
            follower.skipped,
        ),
        counter(
            "akash_provider_chain_resyncs",
            "Snapshots of the chain",
            follower.resyncs,
        ),
        counter(
            "akash_provider_chain_websockets",
            "Opened websocket connections",
            follower.connections,
        ),
        counter(
            "akash_provider_chain_malformed_events",
            "Events that cannot be decoded",
            follower.malformed,
        ),
    ];
    let age = Measure::gauge(
        "akash_provider_chain_block_age_seconds",
        "Age of the newest processed block",
    );
    // Before the first block there is no age.
    measures.push(if follower.height > 0 {
        let time = u64::try_from(follower.time.0).unwrap_or_default();
        let since = now().saturating_sub(Duration::from_millis(time));
        age.with([], since.as_secs_f64())
    } else {
        age
    });
    measures
}

fn writer(writer: &WriterStatus) -> Vec<Measure> {
    let mut measures = vec![
        gauge(
            "akash_provider_tx_queued",
            "Calls that wait for a transaction",
            length(writer.waiting),
        ),
        gauge(
            "akash_provider_tx_in_flight",
            "Sent transactions that have no outcome yet",
            length(writer.in_flight),
        ),
        gauge(
            "akash_provider_tx_blocked",
            "1 if a missing value or a cost ceiling prevents transactions",
            flag(writer.problem.is_some()),
        ),
    ];
    let price = Measure::gauge(
        "akash_provider_tx_gas_price",
        "Price of one unit of gas, in units of the denomination",
    );
    measures.push(match &writer.gas_price {
        Some(amount) => price.with([("denom", &*amount.denom)], decimal(amount.amount)),
        None => price,
    });
    measures
}

fn transactions(statistics: &TxStatistics) -> Vec<Measure> {
    let by_label = |measure: Measure, label, counts: &BTreeMap<String, u64>| {
        let counts = counts.iter();
        counts.fold(measure, |measure, (value, count)| {
            measure.with([(label, value.as_str())], number(*count))
        })
    };
    let mut messages = Measure::counter(
        "akash_provider_tx_messages",
        "Messages of transactions, by outcome",
    );
    for ((message, outcome), count) in &statistics.messages {
        let labels = [("message", *message), ("outcome", outcome.name())];
        messages = messages.with(labels, number(*count));
    }
    let refusals = Measure::counter(
        "akash_provider_tx_refusals",
        "Messages that the chain refused, by error code",
    );
    let refused = Measure::counter(
        "akash_provider_tx_refused_submissions",
        "Transactions that a node refused, by error code",
    );
    let fees = Measure::counter(
        "akash_provider_tx_fees",
        "Fees of transactions that were included in a block, in units of the denomination",
    );
    let durations = Measure::histogram(
        "akash_provider_tx_outcome_duration_seconds",
        "Time until the transaction of a call is in a block or refused",
    );
    vec![
        messages,
        by_label(refusals, "code", &statistics.refusals),
        by_label(refused, "code", &statistics.refused_submissions),
        statistics.fees.iter().fold(fees, |measure, (denom, amount)| {
            measure.with([("denom", denom)], number(*amount))
        }),
        durations.with_histogram([], seconds(&statistics.outcome_times)),
        counter(
            "akash_provider_tx_submissions",
            "Submissions of transactions to nodes, including repetitions",
            statistics.submissions,
        ),
        counter(
            "akash_provider_tx_mempool_full",
            "Submissions that a node refused because of a full mempool",
            statistics.mempool_full,
        ),
        counter(
            "akash_provider_tx_included",
            "Transactions that were included in a block",
            statistics.included,
        ),
        counter(
            "akash_provider_tx_gas_used",
            "Gas used by transactions that were included in a block",
            statistics.gas_used,
        ),
    ]
}
