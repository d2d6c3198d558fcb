//! `run`: the provider.

use super::config::{config, invalid_prices};
use super::faults;
use super::{ProviderSetup, live};
use crate::args::RunArgs;
use crate::args::pricing::Strategy;
use crate::printer::Printer;
use akash_provider_cli::node::required_chain_id;
use akash_provider_cli::secrets;
use akash_provider_core::pricing::PricingStrategy;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Runs the provider until it is stopped.
///
/// # Errors
/// Returns an error if a setting is invalid, the key is unavailable, or the provider fails. An unavailable chain or
/// cluster is not an error.
pub fn run(args: &RunArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let printer = Arc::new(Printer::with_wall_clock(args.output));
    let notices = args.notices(|name| std::env::var(name).ok());
    for notice in notices.into_iter().chain(args.warnings()) {
        printer.note(&notice);
    }
    // Checked before the passphrase prompt.
    faults::refuse(args, Ok(home.to_owned()))?;
    let chain_id = required_chain_id(&args.node)?;
    let policy = match args.pricing.bid_price_strategy {
        Strategy::Policy => Some(args.pricing.policy().map_err(invalid_prices)?),
        Strategy::Scale | Strategy::RandomRange | Strategy::ShellScript => None,
    };
    let pricing: Arc<dyn PricingStrategy> = match &policy {
        Some(policy) => Arc::new(policy.clone()),
        None => args.pricing.strategy(seed()).map_err(invalid_prices)?,
    };
    let key = secrets::signer(&args.signer, home)?;
    let config = config(args, key.address().clone(), chain_id)?;
    config.validate()?;
    let plan = ProviderSetup {
        args,
        home,
        config,
        key,
        pricing,
        policy,
        printer,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(live(plan));
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

/// Returns a seed that is difficult to predict, for random prices.
fn seed() -> u64 {
    let nanos = std::time::UNIX_EPOCH.elapsed().map_or(1, |d| d.subsec_nanos());
    u64::from(nanos) + 1
}
