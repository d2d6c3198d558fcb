//! Flags of an inventory operator that reports the capacity to the provider.

use super::needs::Needs;
use super::values;
use akash_provider_cli::setting::HaRule;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Inventory operator as the source of the capacity.
#[derive(Debug, Clone, Args)]
pub struct InventoryOperatorArgs {
    /// Inventory operator that reports the capacity, as http://HOST:PORT or https://HOST:PORT [default: own count]
    #[arg(long, value_name = "URL", value_parser = address)]
    pub inventory_operator: Option<Url>,
    /// Time without a report of --inventory-operator after which the provider places no bid
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = age)]
    #[arg(add = Needs::INVENTORY_OPERATOR)]
    pub inventory_operator_age: Duration,
    /// CA certificates (PEM) for --inventory-operator [default: the CA certificates of the system]
    #[arg(long, value_name = "FILE")]
    #[arg(add = HaRule::LOCATION, add = Needs::INVENTORY_OPERATOR)]
    pub inventory_operator_ca: Option<PathBuf>,
}

fn address(text: &str) -> Result<Url, String> {
    let url = values::web_url(text)?;
    match url.path() == "/" && url.query().is_none() && url.username().is_empty() {
        true => Ok(url),
        false => Err("expected http://HOST:PORT or https://HOST:PORT".to_owned()),
    }
}

fn age(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_secs(15), Duration::from_secs(3600));
    let age = values::go_duration(text)?;
    match (least..=most).contains(&age) {
        true => Ok(age),
        false => Err(format!("expected a duration from {least:?} to {most:?}")),
    }
}
