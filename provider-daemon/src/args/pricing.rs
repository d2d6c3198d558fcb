//! Flags that make a pricing strategy; named as in today's provider.

use super::{Output, values};
use crate::prices::PolicyOfFile;
use akash_provider_core::pricing::scale::{ScaleConfig, parse_gpu_prices, parse_storage_scales};
use akash_provider_core::pricing::{PricingStrategy, RandomRange, Scale, ShellScript, ShellScriptConfig};
use anyhow::Context;
use bigdecimal::BigDecimal;
use clap::{Args, Subcommand, ValueEnum};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How prices are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    /// Quantities times factors.
    #[value(name = "scale")]
    Scale,
    /// Any price within a range, for tests.
    #[value(name = "randomRange")]
    RandomRange,
    /// A program of the operator's.
    #[value(name = "shellScript")]
    ShellScript,
    /// A file of prices and rules, which may change while the provider runs.
    #[value(name = "policy")]
    Policy,
}

/// What is asked of a price policy.
#[derive(Debug, Subcommand)]
pub enum PriceCommand {
    /// Say whether a price policy can be used, where it is wrong, and what it leaves without a price.
    Check(PriceCheckArgs),
}

/// Settings of `price check`.
#[derive(Debug, Args)]
pub struct PriceCheckArgs {
    /// The policy, in YAML or JSON.
    pub file: PathBuf,
    /// How it is said.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
}

/// The prices. The defaults are for development: low enough for most SDLs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Prices")]
pub struct PricingArgs {
    /// How prices are made.
    #[arg(long, value_enum, default_value = "scale")]
    pub bid_price_strategy: Strategy,
    /// Price of a thousandth of a core, per block.
    #[arg(long, default_value = "0.001")]
    pub bid_price_cpu_scale: BigDecimal,
    /// Price of a MiB of memory, per block.
    #[arg(long, default_value = "0.0002")]
    pub bid_price_memory_scale: BigDecimal,
    /// Price of a MiB of storage, per block; by class: 0.0001,beta2=0.0002.
    #[arg(
        long,
        default_value = "0.00001,beta1=0.00001,beta2=0.00001,beta3=0.00002,default=0.00001,ram=0.00005"
    )]
    pub bid_price_storage_scale: String,
    /// Price of an endpoint, per block.
    #[arg(long, default_value = "0.01")]
    pub bid_price_endpoint_scale: BigDecimal,
    /// Price of a leased IP, per block.
    #[arg(long, default_value = "1")]
    pub bid_price_ip_scale: BigDecimal,
    /// Price of a GPU by model, per block: vendor/model=price, comma-separated; empty leaves GPUs unpriced.
    #[arg(long, default_value = "")]
    pub bid_price_gpu_scale: String,
    /// The file of the strategy policy, in YAML or JSON; a change of it counts within a second.
    #[arg(long)]
    pub bid_price_policy: Option<PathBuf>,
    /// The program of the strategy shellScript.
    #[arg(long)]
    pub bid_price_script_path: Option<PathBuf>,
    /// How many of these programs run at once.
    #[arg(long, default_value_t = 32)]
    pub bid_price_script_process_limit: usize,
    /// How long a program may take.
    #[arg(long, default_value = "10s", value_parser = values::go_duration)]
    pub bid_price_script_process_timeout: Duration,
}

impl PricingArgs {
    /// The strategy.
    ///
    /// # Errors
    /// Which setting makes no sense.
    pub fn strategy(&self, seed: u64) -> anyhow::Result<Arc<dyn PricingStrategy>> {
        Ok(match self.bid_price_strategy {
            Strategy::Scale => Arc::new(self.scale()?),
            Strategy::Policy => Arc::new(self.policy()?),
            Strategy::RandomRange => Arc::new(RandomRange::new(seed)),
            Strategy::ShellScript => {
                let path = self.bid_price_script_path.clone();
                let path = path.filter(|path| !path.as_os_str().is_empty());
                Arc::new(ShellScript::new(ShellScriptConfig {
                    path: path.context(
                        "--bid-price-strategy shellScript needs the program: name it with --bid-price-script-path",
                    )?,
                    process_limit: self.bid_price_script_process_limit,
                    timeout: self.bid_price_script_process_timeout,
                    supervisor: crate::script_supervisor::command(),
                })?)
            }
        })
    }

    /// Returns the price policy of the strategy `policy`.
    ///
    /// # Errors
    /// The file and what is wrong with it.
    pub(crate) fn policy(&self) -> anyhow::Result<PolicyOfFile> {
        let path = self.bid_price_policy.as_deref();
        let path = path
            .filter(|path| !path.as_os_str().is_empty())
            .context("--bid-price-strategy policy needs the file: name it with --bid-price-policy")?;
        let policy = PolicyOfFile::open(path).map_err(anyhow::Error::msg);
        policy.context("--bid-price-policy")
    }

    /// What is wrong with the price script, and the mend; it may be put right while the provider runs.
    #[must_use]
    pub fn script_trouble(&self) -> Option<String> {
        let path = self.bid_price_script_path.as_ref()?;
        if self.bid_price_strategy != Strategy::ShellScript {
            return None;
        }
        let shown = path.display();
        let problem = match std::fs::metadata(path) {
            Err(error) => format!("{shown}: {error}"),
            Ok(about) if !about.is_file() => format!("{shown} is no file"),
            Ok(about) if about.permissions().mode() & 0o111 == 0 => {
                format!("{shown} is not executable: `chmod +x {shown}`")
            }
            Ok(_) => return None,
        };
        Some(format!("the price script, --bid-price-script-path {problem}"))
    }

    fn scale(&self) -> anyhow::Result<Scale> {
        let storage = parse_storage_scales(&self.bid_price_storage_scale)
            .with_context(|| format!("--bid-price-storage-scale {}", self.bid_price_storage_scale))?;
        let gpu = match self.bid_price_gpu_scale.as_str() {
            "" => Default::default(),
            text => parse_gpu_prices(text).with_context(|| format!("--bid-price-gpu-scale {text}"))?,
        };
        let config = ScaleConfig {
            cpu: self.bid_price_cpu_scale.clone(),
            memory: self.bid_price_memory_scale.clone(),
            storage,
            endpoint: self.bid_price_endpoint_scale.clone(),
            ip: self.bid_price_ip_scale.clone(),
            gpu,
        };
        Ok(Scale::new(config)?)
    }
}
