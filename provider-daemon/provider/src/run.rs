//! Wiring of a provider: chain client, cluster, bus and gateway. The provider starts even if chain or cluster are
//! unavailable.
//!
//! ```text
//! key, settings ─▶ chain client ───────────────────┐
//!                  cluster (connected, or retried) ─▶ provider ─▶ gateway, events, readiness
//! ```
//!
//! The commands for a running provider use a [socket](crate::operator) in the home directory.

mod breaker;
mod bus;
mod certificate_secret;
mod cluster;
pub(crate) mod cluster_proxy;
mod command;
pub mod config;
pub mod faults;
mod gateway;
mod ha;
mod metrics;
mod parts;
mod prepared;
mod readiness;
mod recordings;
mod summary;

pub use command::run;

use crate::args::RunArgs;
use crate::flight;
use crate::metrics::PartsSource;
use crate::prices::FilePolicy;
use crate::printer::Printer;
use crate::signals::on_signals;
use crate::state::State;
use crate::supervise::{self, PartFailed, Supervisor};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::Config;
use akash_provider_core::pricing::PricingStrategy;
use akash_provider_core::provider::ProviderHandle;
use akash_provider_gateway::Screening;
use akash_provider_gateway::descriptors::raise;
use anyhow::Context;
use bus::ProviderBus;
use cluster::ClusterAccess;
use cluster_proxy::ClusterProxy;
use gateway::GatewayDependencies;
use ha::Ha;
use parts::{all_ended, answer_operators, connect, print, run_and_look, supervised};
use prepared::Prepared;
use readiness::ReadinessWatch;
use recordings::Recordings;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
pub(crate) use summary::declines_text;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Settings and dependencies of a provider.
#[derive(Debug)]
pub struct ProviderSetup<'a> {
    /// Flags of the command, for the settings of gateway, cluster and chain client.
    pub args: &'a RunArgs,
    /// Home directory, which contains the persisted state.
    pub home: &'a Path,
    /// Configuration of the engine, without the stored state of the circuit breaker.
    pub config: Config,
    /// Private key of the provider's account. The key signs transactions, and decrypts the gateway
    /// certificate.
    pub key: PrivateKey,
    /// Strategy that calculates prices, for bids and for screening.
    pub pricing: Arc<dyn PricingStrategy>,
    /// Policy file of `pricing`; `None` for any other strategy.
    pub(crate) policy: Option<FilePolicy>,
    /// Printer of events, as text or JSON.
    pub printer: Arc<Printer>,
}

/// Runs a provider until a signal stops the process.
///
/// # Errors
/// Returns the failure of the provider. An unavailable chain or cluster is not an error: the provider waits
/// and reports the cause.
pub async fn live(mut plan: ProviderSetup<'_>) -> anyhow::Result<ExitCode> {
    let (args, home, printer) = (plan.args, plan.home, Arc::clone(&plan.printer));
    // Signal handlers are installed first, so that a signal during the start causes an orderly shutdown.
    let [shutdown, abort, background] = [(); 3].map(|()| CancellationToken::new());
    let signals = on_signals(Arc::clone(&printer), shutdown.clone(), abort.clone())?;
    let _signals = AbortOnDropHandle::new(tokio::spawn(signals));
    raise_open_files();
    let opened = Prepared::open(args, home, &mut plan.config, &plan.key, &printer).await?;
    let (ha, state, conditions) = (opened.ha, opened.state, opened.conditions);
    let mut parts = Supervisor::new(shutdown.clone());
    let metrics = metrics::start(args, &printer, &background, &mut parts);
    let chain = connect(opened.chain, &background, &mut parts)?;
    let prepared = (opened.operators, state.lease_events());
    let cluster =
        ClusterAccess::start(args, &plan.config, &conditions, &background, &mut parts, prepared).await;
    plan.config.leased_ips = cluster.cluster.leased_ips().is_some();
    let screening = Screening::new(plan.config.clone(), Arc::clone(&plan.pricing));
    let writers = &conditions.writers;
    let gateway = gateway::GatewayOptions::from_args(args, home, plan.key, screening, ha.source(), writers);
    let recorded = (&chain, &metrics, opened.log);
    let (builder, records) = Recordings::start(args, home, &plan.config, &plan.pricing, recorded).await?;
    let watch = ReadinessWatch::new(&printer, &chain, &opened.breaker, args, &conditions, &records);
    let balances = metrics::MeasuredParts {
        chain: metrics::chain_source(&chain, &plan.config, &args.gas.gas_prices),
        kubernetes: cluster.metric_source(&conditions.writers),
        gateway: gateway.as_ref().map(gateway::GatewayOptions::metric_source),
        process: process_source(&parts, &ha, &state, &records),
    }
    .add_to(&metrics);
    let builder = cluster.add_to(builder.config(plan.config).pricing(plan.pricing));
    let bus = opened.buses.provider_bus(&conditions.writers);
    let builder = gateway::hold_bids(builder, gateway.as_ref()).bus(bus.bus());
    let builder = builder.leadership(ha.role()).state_store(opened.breaker);
    let (provider, handle) = builder.chain(chain.clone()).build()?;
    metrics::add_engine(&metrics, args, &handle, balances);
    // Subscribers start before the provider, or they miss its first events.
    print(&mut parts, &opened.buses, &printer, &background).await?;
    answer_operators(&mut parts, home, (&handle, &cluster.proxy, &records), &background);
    let served = GatewayDependencies::new(&handle, &cluster, chain, (&state, &records), conditions.writers);
    let end = gateway::ShutdownTokens::new(&shutdown);
    gateway::start(gateway, served, conditions.gateway, &printer, &end, &mut parts);
    ha.follow(&handle, &background, &mut parts);
    let _following = follow_prices(plan.policy, &handle);
    let running = provider.run_until(shutdown.clone(), abort.clone());
    let running = run_and_look(&mut parts, running, watch, &handle, &background);
    let _watchdog = parts.watchdog().context("cannot start the watchdog")?;
    supervise::ready();
    let (ended, failure) = supervised(running, &mut parts, &[&shutdown, &abort]).await;
    release(
        cluster.proxy,
        &bus,
        &ha,
        &handle,
        ended.is_ok() && failure.is_none(),
    )
    .await;
    // Stopped after the provider, which sends transactions and events until it ends.
    cancel_all(&[&background, &shutdown, &end.stopped]);
    let parts = all_ended(parts).await;
    records.finish().await;
    // The first failed part is the cause. Later failures may be consequences.
    concluded(failure.map_or(parts, Err), ended, &printer)
}

/// Starts the task that applies changes of the price policy file.
fn follow_prices(policy: Option<FilePolicy>, handle: &ProviderHandle) -> Option<AbortOnDropHandle<()>> {
    policy.map(|policy| AbortOnDropHandle::new(tokio::spawn(policy.follow(handle.clone()))))
}

fn cancel_all(tokens: &[&CancellationToken]) {
    tokens.iter().for_each(|token| token.cancel());
}

fn concluded(
    parts: Result<(), PartFailed>,
    ended: Result<(), akash_provider_core::Error>,
    printer: &Printer,
) -> anyhow::Result<ExitCode> {
    parts?;
    ended.context("the provider failed")?;
    printer.note("stopped; open bids and leases are unchanged");
    Ok(ExitCode::SUCCESS)
}

fn process_source(parts: &Supervisor, ha: &Ha, state: &State, recordings: &Recordings) -> PartsSource {
    PartsSource {
        pulses: parts.pulses(),
        leadership: ha.source(),
        recording: recordings.flight.as_ref().map(flight::Finish::health),
        history: recordings.history.clone(),
        audit: recordings.audit.clone(),
        state: state.path().to_owned(),
    }
}

/// Ends all writes of this instance, and releases the leadership.
async fn release(
    cluster: Option<ClusterProxy>,
    bus: &ProviderBus,
    ha: &Ha,
    handle: &ProviderHandle,
    is_orderly: bool,
) {
    // The elections of the embedded operators end with the operators, for an immediate fail-over.
    if let Some(cluster) = cluster {
        cluster.stop_operators().await;
    }
    // Before the release of the leadership, so that no event arrives at the remote bus afterwards.
    bus.finish().await;
    // The last write: another instance leads immediately afterwards. Without an orderly end the lease expires.
    ha.end(handle, is_orderly).await;
}

/// Raises the limit of open files, because each client connection needs an open file.
fn raise_open_files() {
    match raise() {
        Ok(files) => tracing::debug!(files, "limit of open files raised"),
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit of open files, fewer clients can connect; run with a higher `ulimit -n`")
        }
    }
}
