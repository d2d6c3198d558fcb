//! Files, settings and elections that a provider needs before its first part starts.

use super::breaker::BreakerFile;
use super::bus::Buses;
use super::ha::Ha;
use super::readiness::Conditions;
use super::recordings::start_audit_log;
use crate::args::RunArgs;
use crate::args::gas::gas_price;
use crate::audit::Audit;
use crate::operators::OperatorPlan;
use crate::printer::Printer;
use crate::state::{OpenedState, State};
use akash_provider_chain::gas::GasConfig;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_chain::tx::TxSigner;
use akash_provider_chain::{ClientSettings, redact_address};
use akash_provider_cli::node::{addresses, roots};
use akash_provider_core::Config;
use akash_provider_core::types::Address;
use anyhow::Context;
use std::path::Path;
use std::sync::Arc;

pub(super) struct Prepared {
    pub(super) breaker: BreakerFile,
    pub(super) buses: Buses,
    pub(super) operators: OperatorPlan,
    pub(super) state: State,
    pub(super) ha: Ha,
    /// Audit log; `None` if it is disabled.
    pub(super) log: Option<Audit>,
    pub(super) conditions: Conditions,
    /// Settings of the chain client, with the signer of this instance.
    pub(super) chain: ClientSettings,
}

impl Prepared {
    /// Checks and opens everything, and sends nothing. Adds the stored state of the circuit breaker to
    /// `config`.
    ///
    /// # Errors
    /// Returns an error if a file or a setting is invalid, or if another process uses the home directory.
    pub(super) async fn open(
        args: &RunArgs,
        home: &Path,
        config: &mut Config,
        key: &PrivateKey,
        printer: &Arc<Printer>,
    ) -> anyhow::Result<Self> {
        let nodes = addresses(&args.node)?;
        introduce(config, &nodes, printer);
        let breaker = BreakerFile::new(home, &config.chain_id, &config.provider);
        // Restored before the provider exists, which must not close a lease while its breaker is tripped.
        let shut = breaker.restore(config);
        // Checked before anything is opened or sent: an invalid file prevents the start.
        let buses = Buses::open(&args.bus, printer)?;
        let domain = &args.leases.deployment_ingress_domain;
        let operators = OperatorPlan::read(&args.kubernetes, &[], domain, Some(home))?;
        // Opening the state also locks the home directory: a second provider with the same directory fails here,
        // before any transaction.
        let state = state(home, printer)?;
        let ha = Ha::start(args, config, &shut, &state, printer).await?;
        let log = start_audit_log(args, home)?;
        let conditions = Conditions::new(ha.gate(), ha.writers(args.ha.ha_lease).audited(log.as_ref()));
        let signer = conditions.writers.signer(key.clone());
        let chain = client(args, nodes, &config.chain_id, signer, &state)?;
        Ok(Self {
            breaker,
            buses,
            operators,
            state,
            ha,
            log,
            conditions,
            chain,
        })
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

fn client(
    args: &RunArgs,
    nodes: Vec<String>,
    chain_id: &str,
    signer: TxSigner,
    state: &State,
) -> anyhow::Result<ClientSettings> {
    let mut settings = ClientSettings::new(nodes, chain_id);
    remember(&mut settings, state, chain_id, signer.address())?;
    settings.signer = Some(signer);
    settings.roots = roots(&args.node);
    settings.limits.response_time = args.node.node_timeout;
    let (denom, price) = gas_price(&args.gas.gas_prices)?;
    let price_max = GasConfig::default().price_max.max(price);
    let gas = &mut settings.planner.gas;
    gas.denom = denom;
    gas.price = price;
    gas.price_max = price_max;
    gas.ceilings = args.gas.ceilings(price_max);
    // The flag is between 1 and 10.
    gas.factor_percent = (args.gas.gas_adjustment * 100.0).round() as u32;
    gas.granter = args.gas.fee_granter.clone();
    Ok(settings)
}
