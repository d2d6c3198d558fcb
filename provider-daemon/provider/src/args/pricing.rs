//! Flags of the pricing strategy, with the names of the Go provider.

use super::needs::Needs;
use super::values;
use crate::prices::FilePolicy;
use akash_provider_cli::error::WithHelp;
use akash_provider_cli::setting::{HaRule, Reloaded};
use akash_provider_core::pricing::scale::{ScaleConfig, parse_gpu_prices, parse_storage_scales};
use akash_provider_core::pricing::{PricingStrategy, RandomRange, Scale, ShellScript, ShellScriptConfig};
use anyhow::Context;
use bigdecimal::BigDecimal;
use clap::{Args, ValueEnum};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Pricing strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    /// Resource quantities multiplied by factors
    #[value(name = "scale")]
    Scale,
    /// Random price within a range, for tests
    #[value(name = "randomRange")]
    RandomRange,
    /// Output of a program of the operator
    #[value(name = "shellScript")]
    ShellScript,
    /// File of prices and rules, reloaded when it changes
    #[value(name = "policy")]
    Policy,
}

/// Prices. The defaults are for development: low enough for most SDLs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Prices")]
pub struct PricingArgs {
    /// Strategy that calculates bid prices
    #[arg(long, value_enum, default_value = "scale")]
    pub bid_price_strategy: Strategy,
    /// Price of one millicore of CPU per block, in the token of the order
    #[arg(long, default_value = "0.001")]
    pub bid_price_cpu_scale: BigDecimal,
    /// Price of one MiB of memory per block, in the token of the order
    #[arg(long, default_value = "0.0002")]
    pub bid_price_memory_scale: BigDecimal,
    /// Price of one MiB of storage per block, in the token of the order; by class: 0.0001,beta2=0.0002
    #[arg(
        long,
        default_value = "0.00001,beta1=0.00001,beta2=0.00001,beta3=0.00002,default=0.00001,ram=0.00005"
    )]
    pub bid_price_storage_scale: String,
    /// Price of one endpoint per block, in the token of the order
    #[arg(long, default_value = "0.01")]
    pub bid_price_endpoint_scale: BigDecimal,
    /// Price of one leased IP address per block, in the token of the order
    #[arg(long, default_value = "1")]
    pub bid_price_ip_scale: BigDecimal,
    /// Prices of GPUs by model, per block: vendor/model=price, comma-separated; empty means no price
    #[arg(long, default_value = "")]
    pub bid_price_gpu_scale: String,
    /// Price file for the strategy `policy`, in YAML or JSON; changes apply within one second
    #[arg(long)]
    #[arg(add = HaRule::EqualContent, add = Reloaded, add = Needs::POLICY)]
    pub bid_price_policy: Option<PathBuf>,
    /// Program that calculates prices with the strategy `shellScript`
    #[arg(long)]
    #[arg(add = HaRule::EqualContent, add = Needs::SCRIPT)]
    pub bid_price_script_path: Option<PathBuf>,
    /// Maximum number of concurrent price programs
    #[arg(long, default_value_t = 32)]
    #[arg(add = Needs::SCRIPT)]
    pub bid_price_script_process_limit: usize,
    /// Timeout of one price program
    #[arg(long, default_value = "10s", value_parser = values::go_duration)]
    #[arg(add = Needs::SCRIPT)]
    pub bid_price_script_process_timeout: Duration,
    /// Environment variable of the price program; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = script_variable)]
    #[arg(add = Needs::SCRIPT)]
    pub bid_price_script_variable: Vec<(String, String)>,
}

/// Flag of one environment variable of the price program.
pub(super) const SCRIPT_VARIABLE: &str = "bid-price-script-variable";

fn script_variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or_default();
    if name.is_empty() || text.contains('\0') {
        return Err("expected NAME=VALUE such as PRICE_TARGET_CPU=1.60".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

impl PricingArgs {
    /// Returns the pricing strategy.
    ///
    /// # Errors
    /// Returns an error if a setting of the strategy is missing or invalid.
    pub fn strategy(&self, seed: u64) -> anyhow::Result<Arc<dyn PricingStrategy>> {
        Ok(match self.bid_price_strategy {
            Strategy::Scale => Arc::new(self.scale()?),
            Strategy::Policy => Arc::new(self.policy()?),
            Strategy::RandomRange => Arc::new(RandomRange::new(seed)),
            Strategy::ShellScript => {
                let path = self.bid_price_script_path.clone();
                let path = path.filter(|path| !path.as_os_str().is_empty());
                let path = path.with_context(|| {
                    WithHelp::new(
                        "--bid-price-strategy shellScript requires --bid-price-script-path",
                        "add --bid-price-script-path with the path of the script",
                    )
                })?;
                let mut config = ShellScriptConfig::new(path);
                config.process_limit = self.bid_price_script_process_limit;
                config.timeout = self.bid_price_script_process_timeout;
                config.supervisor = crate::script_supervisor::command();
                config.variables.clone_from(&self.bid_price_script_variable);
                Arc::new(ShellScript::new(config)?)
            }
        })
    }

    /// Returns the price policy in the file of `--bid-price-policy`.
    ///
    /// # Errors
    /// Returns an error with the file and the position of the mistake.
    pub fn policy(&self) -> anyhow::Result<FilePolicy> {
        let path = self.bid_price_policy.as_deref();
        let path = path
            .filter(|path| !path.as_os_str().is_empty())
            .with_context(|| {
                WithHelp::new(
                    "--bid-price-strategy policy requires --bid-price-policy",
                    "add --bid-price-policy with the path of a price file",
                )
            })?;
        let policy = FilePolicy::open(path).map_err(anyhow::Error::msg);
        policy.context("cannot use the file of --bid-price-policy")
    }

    /// Returns the reason why the price script cannot run, with a remedy, or `None` if the script can run. An
    /// unusable script does not stop the provider.
    #[must_use]
    pub fn script_trouble(&self) -> Option<String> {
        let path = self.bid_price_script_path.as_ref()?;
        if self.bid_price_strategy != Strategy::ShellScript {
            return None;
        }
        let name = path.display();
        let problem = match std::fs::metadata(path) {
            Err(error) => format!("{name}: {error}"),
            Ok(about) if !about.is_file() => format!("{name} is not a regular file"),
            Ok(about) if about.permissions().mode() & 0o111 == 0 => {
                format!("{name} is not executable; run `chmod +x {name}`")
            }
            Ok(_) => return None,
        };
        Some(format!("cannot use --bid-price-script-path {problem}"))
    }

    fn scale(&self) -> anyhow::Result<Scale> {
        let storage = parse_storage_scales(&self.bid_price_storage_scale).with_context(|| {
            format!(
                "invalid value \"{}\" for --bid-price-storage-scale",
                self.bid_price_storage_scale
            )
        })?;
        let gpu = match self.bid_price_gpu_scale.as_str() {
            "" => Default::default(),
            text => parse_gpu_prices(text)
                .with_context(|| format!("invalid value \"{text}\" for --bid-price-gpu-scale"))?,
        };
        let mut config = ScaleConfig::default();
        config.cpu = self.bid_price_cpu_scale.clone();
        config.memory = self.bid_price_memory_scale.clone();
        config.storage = storage;
        config.endpoint = self.bid_price_endpoint_scale.clone();
        config.ip = self.bid_price_ip_scale.clone();
        config.gpu = gpu;
        Ok(Scale::new(config)?)
    }
}
