//! A provider on a chain: chain client, cluster, bus and the provider between them, started with whatever of them is
//! there.
//!
//! ```text
//! key, settings ─▶ chain client ─────────────────────┐
//!                  cluster (connected, or tried again) ─▶ provider ─▶ gateway, lines, and what it waits for
//! ```
//!
//! Operators ask it at a [socket](crate::operator) in its home folder.

mod awaited;
mod breaker;
mod bus;
mod distant;
mod gateway;
mod ha;
mod hardware;
mod parts;
mod summary;
mod writers;

use crate::args::RunArgs;
use crate::commands::chain::{addresses, roots};
use crate::commands::tx::gas_price;
use crate::dev::Printer;
use crate::flight;
use crate::operators::OperatorPlan;
use crate::prices::PolicyOfFile;
use crate::signals::on_signals;
use crate::state::{Opened, State};
use crate::supervise::{self, PartFailed, Supervisor};
use akash_provider_chain::gas::GasConfig;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::{ClientSettings, redact_address};
use akash_provider_core::Config;
use akash_provider_core::pricing::PricingStrategy;
use akash_provider_core::provider::{Provider, ProviderBuilder};
use akash_provider_core::types::Address;
use akash_provider_gateway::Screening;
use akash_provider_gateway::descriptors::raise;
use anyhow::Context;
use awaited::{Desks, Watch};
use breaker::Breaker;
use bus::Buses;
pub(crate) use distant::Distant;
use ha::Ha;
use hardware::Hardware;
use parts::{all_ended, answer_operators, connect, print, run_and_look, supervised};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
pub(crate) use writers::Writers;

/// Everything a provider is started with.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The flags, for the parts that have settings of their own: gateway, cluster, chain client.
    pub args: &'a RunArgs,
    /// Where state is kept.
    pub home: &'a Path,
    /// What the engine goes by; the start adds what was kept of the breaker, and whether addresses are leased.
    pub config: Config,
    /// The account's key: signs transactions, and opens the key file of the gateway's certificate.
    pub key: PrivateKey,
    /// Calculates what leases cost, for bids and for whoever is screened.
    pub pricing: Arc<dyn PricingStrategy>,
    /// The file of `pricing`, if that is a policy.
    pub(crate) policy: Option<PolicyOfFile>,
    /// Tells what happens, in lines for people or objects for programs.
    pub printer: Arc<Printer>,
}

/// Runs a provider until a signal.
///
/// # Errors
/// What the provider failed of. That chain or cluster are down is no failure: it waits, and says for what.
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
    // Signals are heard before anything slow begins, so that one during the start stops it in order.
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let signals = tokio::spawn(on_signals(Arc::clone(&printer), shutdown.clone(), abort.clone())?);
    raise_open_files();
    let nodes = addresses(&args.node)?;
    introduce(&config, &nodes, &printer);
    let breaker = Breaker::of(home, &config.chain_id, &config.provider);
    // Before the provider exists: it must not close a lease before it knows that its breaker has tripped.
    let shut = breaker.remind(&mut config);
    // Before anything is opened or sent: rules and files that make no sense end a start.
    let buses = Buses::open(&args.bus, &printer)?;
    let domain = &args.leases.deployment_ingress_domain;
    let operators = OperatorPlan::read(&args.kubernetes, &[], domain, Some(home))?;
    let background = CancellationToken::new();
    // Opening the state is also the lock of the home: a second provider of the same home ends here, before it sends
    // anything.
    let state = state(home, &printer)?;
    let settings = client(args, nodes, &config.chain_id, key.clone(), &state)?;
    let ha = Ha::start(args, &config, &shut, &state, &printer).await?;
    let mut parts = Supervisor::new(shutdown.clone());
    let desks = Desks::of(ha.gate(), ha.writers(args.ha.ha_lease));
    let chain = connect(settings, &desks.writers, &background, &mut parts)?;
    let prepared = (operators, state.lease_events());
    let hardware = Hardware::start(args, &config, &desks, &background, &mut parts, prepared).await;
    config.leased_ips = hardware.cluster.leased_ips().is_some();
    let screening = screening(&config, &pricing);
    let gateway = gateway::Plan::of(args, home, key, screening, ha.source());
    let (builder, recording) = recorded(args, &config)?;
    let watch = Watch::new(&printer, &chain, &breaker, args, &desks, recording.as_ref());
    let mut builder = hardware.given_to(builder.config(config).pricing(pricing));
    if gateway.is_some() {
        // Held from the first moment: a lease that is won before tenants reach the gateway gets no manifest.
        builder = builder.bids_held(gateway::STARTS);
    }
    let bus = buses.of_provider(&desks.writers);
    builder = builder.bus(bus.bus()).leadership(ha.at_first()).keeper(breaker);
    let (provider, handle) = builder.chain(chain.clone()).build()?;
    // Those who listen subscribe before the provider runs, or its first facts are told to nobody.
    print(&mut parts, &buses, &printer, &background).await?;
    answer_operators(&mut parts, home, &handle, hardware.distant.clone(), &background);
    let served = gateway::Served {
        handle: handle.clone(),
        cluster: hardware.cluster,
        chain,
        memory: state.tenants(),
        writers: desks.writers,
    };
    let end = gateway::End::of(&shutdown);
    gateway::start(gateway, served, desks.gateway, &printer, &end, &mut parts);
    ha.follow(&handle, &background, &mut parts);
    let _following = policy.map(|policy| AbortOnDropHandle::new(tokio::spawn(policy.follow(handle.clone()))));
    let running = provider.run_until(shutdown.clone(), abort.clone());
    let running = run_and_look(&mut parts, running, watch, &handle, &background);
    let _watchdog = parts.watchdog().context("starting the watchdog")?;
    supervise::ready();
    let (ended, failure) = supervised(running, &mut parts, &[&shutdown, &abort]).await;
    stop_operators(hardware.distant).await;
    // Last of what writes: whoever leads next does so at once. What did not end in order ends by itself.
    ha.end(&handle, ended.is_ok() && failure.is_none()).await;
    // Only after the provider: while it stops it still sends transactions and tells facts.
    background.cancel();
    // The gateway ends with it, however it ended.
    shutdown.cancel();
    end.over.cancel();
    let parts = all_ended(parts).await;
    bus.finish().await;
    written(recording).await;
    signals.abort();
    // The part that failed first is the cause. Whatever failed after it may only follow from that.
    concluded(failure.map_or(parts, Err), ended, &printer)
}

fn concluded(
    parts: Result<(), PartFailed>,
    ended: Result<(), akash_provider_core::Error>,
    printer: &Printer,
) -> anyhow::Result<ExitCode> {
    parts?;
    ended.context("the provider")?;
    printer.note("stopped; open bids and leases stay as they are");
    Ok(ExitCode::SUCCESS)
}

/// A provider that is recorded, where that is wanted.
fn recorded(args: &RunArgs, config: &Config) -> anyhow::Result<(ProviderBuilder, Option<flight::Finish>)> {
    let Some(dir) = &args.record.record else {
        return Ok((Provider::builder(), None));
    };
    let (recorder, recording) = flight::start(dir, args.record.record_bytes, config)?;
    Ok((Provider::builder().recorder(recorder), Some(recording)))
}

/// The recorder went with the provider; the last of what it took is written.
async fn written(recording: Option<flight::Finish>) {
    if let Some(recording) = recording {
        recording.wait().await;
    }
}

/// What a screening goes by: the same as a bid.
fn screening(config: &Config, pricing: &Arc<dyn PricingStrategy>) -> Screening {
    Screening {
        config: config.clone(),
        pricing: Arc::clone(pricing),
    }
}

/// Before the end, so that another process can take over at once.
async fn stop_operators(cluster: Option<Distant>) {
    if let Some(cluster) = cluster {
        cluster.stop_operators().await;
    }
}

/// Gives the chain client what it has to know after a restart.
fn remember(
    settings: &mut ClientSettings,
    state: &State,
    chain_id: &str,
    account: &Address,
) -> anyhow::Result<()> {
    let reading = || format!("reading {}", state.path().display());
    settings.heights = state.heights(chain_id).with_context(reading)?;
    settings.expenses = state.spent(chain_id, account).with_context(reading)?;
    Ok(())
}

/// Many strangers hold many connections.
fn raise_open_files() {
    match raise() {
        Ok(files) => tracing::debug!(files, "files that may be open"),
        Err(error) => tracing::warn!("the limit of open files stays as it is: {error}"),
    }
}

fn introduce(config: &Config, nodes: &[String], printer: &Printer) {
    let (account, chain_id) = (&config.provider, &config.chain_id);
    let nodes: Vec<String> = nodes.iter().map(|node| redact_address(node)).collect();
    let nodes = nodes.join(", ");
    printer.note(&format!("provider {account} on chain `{chain_id}`, {nodes}"));
}

/// What is kept in the home folder; whoever has it open is the one provider of that folder.
fn state(home: &Path, printer: &Printer) -> anyhow::Result<State> {
    let Opened { state, moved_aside } = State::open(home)?;
    if let Some(aside) = moved_aside {
        let aside = aside.display();
        printer.note(&format!(
            "the state was damaged and is kept at {aside}; no lease is lost"
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
        // The flag is from 1 to 10.
        factor_percent: (args.gas.gas_adjustment * 100.0).round() as u32,
        granter: args.gas.fee_granter.clone(),
    };
    Ok(settings)
}
