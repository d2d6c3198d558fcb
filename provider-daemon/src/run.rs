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
mod cluster;
mod cluster_proxy;
mod gateway;
mod ha;
mod metrics;
mod parts;
mod readiness;
mod recordings;
mod summary;

use crate::args::RunArgs;
use crate::commands::tx::gas_price;
use crate::flight;
use crate::metrics::PartsSource;
use crate::operators::OperatorPlan;
use crate::prices::FilePolicy;
use crate::printer::Printer;
use crate::signals::on_signals;
use crate::state::{OpenedState, State};
use crate::supervise::{self, PartFailed, Supervisor};
use akash_provider_chain::gas::GasConfig;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::{ClientSettings, redact_address};
use akash_provider_cli::node::{addresses, roots};
use akash_provider_core::Config;
use akash_provider_core::pricing::PricingStrategy;
use akash_provider_core::types::Address;
use akash_provider_gateway::Screening;
use akash_provider_gateway::descriptors::raise;
use anyhow::Context;
use breaker::BreakerFile;
use bus::Buses;
use cluster::ClusterAccess;
pub(crate) use cluster_proxy::ClusterProxy;
use gateway::GatewayDependencies;
use ha::Ha;
use parts::{all_ended, answer_operators, connect, print, run_and_look, supervised};
use readiness::{Conditions, Watch};
use recordings::Recordings;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
pub(crate) use summary::declines_text;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Settings and dependencies of a provider.
#[derive(Debug)]
pub struct Plan<'a> {
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
pub async fn live(plan: Plan<'_>) -> anyhow::Result<ExitCode> {
    let Plan {
        args,
        home,
        mut config,
        key,
        pricing,
        policy,
        printer,
    } = plan;
    // Signal handlers are installed first, so that a signal during the start causes an orderly shutdown.
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let signals = tokio::spawn(on_signals(Arc::clone(&printer), shutdown.clone(), abort.clone())?);
    raise_open_files();
    let nodes = addresses(&args.node)?;
    introduce(&config, &nodes, &printer);
    let breaker = BreakerFile::new(home, &config.chain_id, &config.provider);
    // Restored before the provider exists, which must not close a lease while its breaker is tripped.
    let shut = breaker.restore(&mut config);
    // Checked before anything is opened or sent: an invalid file prevents the start.
    let buses = Buses::open(&args.bus, &printer)?;
    let operators = operators(args, home)?;
    let background = CancellationToken::new();
    // Opening the state also locks the home directory: a second provider with the same directory fails here, before any
    // transaction.
    let state = state(home, &printer)?;
    let settings = client(args, nodes, &config.chain_id, key.clone(), &state)?;
    let ha = Ha::start(args, &config, &shut, &state, &printer).await?;
    let mut parts = Supervisor::new(shutdown.clone());
    let metrics = metrics::start(args, &printer, &background, &mut parts);
    let log = recordings::start_audit_log(args, home)?;
    let conditions = Conditions::new(ha.gate(), ha.writers(args.ha.ha_lease).audited(log.as_ref()));
    let chain = connect(settings, &conditions.writers, &background, &mut parts)?;
    let prepared = (operators, state.lease_events());
    let cluster = ClusterAccess::start(args, &config, &conditions, &background, &mut parts, prepared).await;
    config.leased_ips = cluster.cluster.leased_ips().is_some();
    let screening = screening(&config, &pricing);
    let gateway = gateway::GatewayOptions::from_args(args, home, key, screening, ha.source());
    let (builder, records) =
        Recordings::start(args, home, &config, &pricing, (&chain, &metrics, log)).await?;
    let watch = Watch::new(&printer, &chain, &breaker, args, &conditions, &records);
    let balances = metrics::MeasuredParts {
        chain: metrics::chain_source(&chain, &config, &args.gas.gas_prices),
        kubernetes: cluster.metric_source(&conditions.writers),
        gateway: gateway.as_ref().map(gateway::GatewayOptions::metric_source),
        process: process_source(&parts, &ha, &state, &records),
    }
    .add_to(&metrics);
    let builder = cluster.add_to(builder.config(config).pricing(pricing));
    let builder = gateway::hold_bids(builder, gateway.as_ref());
    let bus = buses.provider_bus(&conditions.writers);
    let builder = builder.bus(bus.bus()).leadership(ha.role()).state_store(breaker);
    let (provider, handle) = builder.chain(chain.clone()).build()?;
    metrics::add_engine(&metrics, args, &handle, balances);
    // Subscribers start before the provider, or they miss its first events.
    print(&mut parts, &buses, &printer, &background).await?;
    answer_operators(&mut parts, home, (&handle, &cluster.proxy, &records), &background);
    let served = GatewayDependencies::new(&handle, &cluster, chain, (&state, &records), conditions.writers);
    let end = gateway::ShutdownTokens::new(&shutdown);
    gateway::start(gateway, served, conditions.gateway, &printer, &end, &mut parts);
    ha.follow(&handle, &background, &mut parts);
    let _following = policy.map(|policy| AbortOnDropHandle::new(tokio::spawn(policy.follow(handle.clone()))));
    let running = provider.run_until(shutdown.clone(), abort.clone());
    let running = run_and_look(&mut parts, running, watch, &handle, &background);
    let _watchdog = parts.watchdog().context("cannot start the watchdog")?;
    supervise::ready();
    let (ended, failure) = supervised(running, &mut parts, &[&shutdown, &abort]).await;
    stop_operators(cluster.proxy).await;
    // Before the release of the leadership, so that no event arrives at the remote bus afterwards.
    bus.finish().await;
    // The last write: another instance leads immediately afterwards. Without an orderly end the lease expires.
    ha.end(&handle, ended.is_ok() && failure.is_none()).await;
    // Stopped after the provider, which still sends transactions and events while it stops. The gateway ends with the
    // provider, in every case.
    cancel_all(&[&background, &shutdown, &end.stopped]);
    let parts = all_ended(parts).await;
    records.finish().await;
    signals.abort();
    // The first failed part is the cause. Later failures may be consequences.
    concluded(failure.map_or(parts, Err), ended, &printer)
}

fn operators(args: &RunArgs, home: &Path) -> anyhow::Result<OperatorPlan> {
    let domain = &args.leases.deployment_ingress_domain;
    OperatorPlan::read(&args.kubernetes, &[], domain, Some(home))
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

fn screening(config: &Config, pricing: &Arc<dyn PricingStrategy>) -> Screening {
    Screening {
        config: config.clone(),
        pricing: Arc::clone(pricing),
    }
}

/// Stops embedded operators and releases their election leases, for an immediate fail-over.
async fn stop_operators(cluster: Option<ClusterProxy>) {
    if let Some(cluster) = cluster {
        cluster.stop_operators().await;
    }
}

/// Adds the stores of processed heights and paid fees to the settings of the chain client.
fn remember(
    settings: &mut ClientSettings,
    state: &State,
    chain_id: &str,
    account: &Address,
) -> anyhow::Result<()> {
    let reading = || format!("cannot read {}", state.path().display());
    settings.heights = state.heights(chain_id).with_context(reading)?;
    settings.expenses = state.spent(chain_id, account).with_context(reading)?;
    Ok(())
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

fn introduce(config: &Config, nodes: &[String], printer: &Printer) {
    let (account, chain_id) = (&config.provider, &config.chain_id);
    let nodes: Vec<String> = nodes.iter().map(|node| redact_address(node)).collect();
    let nodes = nodes.join(", ");
    printer.note(&format!("provider {account} on chain `{chain_id}`, {nodes}"));
}

/// Opens the state in the home directory, and locks the directory for this process.
fn state(home: &Path, printer: &Printer) -> anyhow::Result<State> {
    let OpenedState { state, moved_aside } = State::open(home)?;
    if let Some(aside) = moved_aside {
        let aside = aside.display();
        printer.note(&format!(
            "state file that cannot be read moved to {aside}; no lease is affected"
        ));
    }
    Ok(state)
}

fn client(
    args: &RunArgs,
    nodes: Vec<String>,
    chain_id: &str,
    key: PrivateKey,
    state: &State,
) -> anyhow::Result<ClientSettings> {
    let mut settings = ClientSettings::new(nodes, chain_id);
    remember(&mut settings, state, chain_id, key.address())?;
    settings.key = Some(key);
    settings.roots = roots(&args.node);
    settings.limits.response_time = args.node.node_timeout;
    let (denom, price) = gas_price(&args.gas.gas_prices)?;
    let price_max = GasConfig::default().price_max.max(price);
    settings.planner.gas = GasConfig {
        denom,
        price,
        price_max,
        ceilings: args.gas.ceilings(price_max),
        // The flag is between 1 and 10.
        factor_percent: (args.gas.gas_adjustment * 100.0).round() as u32,
        granter: args.gas.fee_granter.clone(),
    };
    Ok(settings)
}
