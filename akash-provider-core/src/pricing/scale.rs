//! Prices per unit of each resource.
//!
//! | part | quantity | price per |
//! |---|---|---|
//! | CPU | Σ units × count | thousandth of a core |
//! | memory | Σ bytes × count | MiB |
//! | storage, by class | Σ bytes × count | MiB |
//! | endpoints | Σ endpoints of the units, regardless of their count | endpoint |
//! | leased IPs | distinct leased IPs of the group | IP |
//! | GPUs, only where prices are set | Σ units × count | GPU |
//!
//! As in the Go provider, the price is that of the ordered quantities, but with the reserved GPU model. Bytes
//! are converted to MiB with 16 fractional digits, rounded half up, so that prices equal those of the Go
//! provider. A price with more than 18 fractional digits is rounded half up once at the end. The Go provider
//! does not bid in this case.

mod gpu;
mod rate;

#[cfg(feature = "runtime")]
use super::line::Line;
use super::{PriceError, PriceRequest, price_of};
use crate::types::price::Dec;
use crate::types::{DecCoin, Storage};
use bigdecimal::BigDecimal;
use gpu::GpuPrices;
use rate::{Quantity, Rate};
use std::collections::BTreeMap;

const EPHEMERAL: &str = "ephemeral";
/// Maximum length of a number in a setting, in bytes.
const MAX_NUMBER_LENGTH: usize = 100;

/// Prices in units of the denomination per block. By default, all prices are zero. This default is not a
/// valid configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub struct ScaleConfig {
    /// Price of a millicore (`bid-price-cpu-scale`).
    pub cpu: BigDecimal,
    /// Price of a MiB of memory (`bid-price-memory-scale`).
    pub memory: BigDecimal,
    /// Price of a MiB, by storage class (`bid-price-storage-scale`, see [`parse_storage_scales`]).
    pub storage: BTreeMap<String, BigDecimal>,
    /// Price of an endpoint (`bid-price-endpoint-scale`). The number of endpoints is not multiplied by the
    /// number of replicas.
    pub endpoint: BigDecimal,
    /// Price of a leased IP (`bid-price-ip-scale`).
    pub ip: BigDecimal,
    /// Price of a GPU, by model (see [`parse_gpu_prices`]). If the map is empty, GPUs cost nothing, as in the
    /// Go provider. If the map has entries, the provider does not bid on an order with any other GPU.
    pub gpu: BTreeMap<String, BigDecimal>,
}

/// Invalid prices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// Every price is zero, so a bid would have no price.
    #[error("at least one bid price must be a non-zero number")]
    AllZero,
    /// A price is negative.
    #[error("the price of {what} is {value}; it must not be negative")]
    Negative {
        /// Resource with the invalid price.
        what: String,
        /// Configured price.
        value: String,
    },
    /// A price is out of range.
    #[error("the price of {what} must be below 10^40 and have at most 40 digits after the decimal point")]
    OutOfRange {
        /// Resource with the invalid price.
        what: String,
    },
    /// An entry does not have the form `name=number`.
    #[error("`{entry}` must be `name=number`, for example `{example}`")]
    Entry {
        /// Invalid entry.
        entry: String,
        /// Example of a valid entry.
        example: &'static str,
    },
    /// A storage class or a GPU has two prices.
    #[error("`{name}` occurs twice")]
    Duplicate {
        /// Storage class or GPU with two prices.
        name: String,
    },
    /// The name of a GPU is invalid.
    #[error(
        "GPU `{name}` must be `*`, `vendor/*` or `vendor/model`; `/ram/<size>` or `/interface/<kind>` may follow a model"
    )]
    Gpu {
        /// Invalid name.
        name: String,
    },
}

/// Prices per unit of each resource.
#[derive(Debug, Clone)]
pub struct Scale {
    cpu: Rate,
    memory: Rate,
    /// Prices of storage, sorted by class.
    storage: Vec<(String, Rate)>,
    endpoint: Rate,
    ip: Rate,
    gpu: GpuPrices,
}

impl Scale {
    /// Creates the strategy from prices.
    ///
    /// # Errors
    /// Returns [`ScaleError::AllZero`] if no resource has a price. Other errors name the price that is
    /// negative or out of range, or the invalid GPU name.
    pub fn new(config: ScaleConfig) -> Result<Self, ScaleError> {
        let ScaleConfig {
            cpu,
            memory,
            storage,
            endpoint,
            ip,
            gpu,
        } = config;
        let storage = storage
            .into_iter()
            .map(|(class, price)| Ok((Rate::new(price, || format!("storage class `{class}`"))?, class)))
            .map(|made| made.map(|(rate, class)| (class, rate)))
            .collect::<Result<Vec<_>, ScaleError>>()?;
        let scale = Self {
            cpu: Rate::new(cpu, || "CPU".to_owned())?,
            memory: Rate::new(memory, || "memory".to_owned())?,
            storage,
            endpoint: Rate::new(endpoint, || "an endpoint".to_owned())?,
            ip: Rate::new(ip, || "a leased IP".to_owned())?,
            gpu: GpuPrices::new(gpu)?,
        };
        if scale.rates().all(Rate::is_zero) {
            return Err(ScaleError::AllZero);
        }
        Ok(scale)
    }

    /// Returns the price of one order.
    ///
    /// # Errors
    /// Returns [`PriceError`] if a storage class or a GPU has no price, if the sum is zero or exceeds 10^18,
    /// or if the order has no maximum price.
    pub fn price(&self, request: &PriceRequest) -> Result<DecCoin, PriceError> {
        let denom = request.maximum()?.denom;
        price_of(&denom, self.sum(request)?)
    }

    /// Returns the sum of the prices of all resources. The caller checks that the sum is a valid price.
    pub(super) fn sum(&self, request: &PriceRequest) -> Result<Dec, PriceError> {
        let totals = self.totals(request)?;
        match self.quick_sum(&totals) {
            Some(amount) => Ok(amount),
            None => self.exact_sum(&totals),
        }
    }

    /// Returns the names and prices of the resources with a price above zero. Each price is rounded separately.
    pub(super) fn lines(&self, request: &PriceRequest) -> Result<Vec<(String, Dec)>, PriceError> {
        let totals = self.totals(request)?;
        let storage = self
            .storage
            .iter()
            .map(|(class, _)| format!("storage of class {class}"));
        let fixed = ["CPU", "memory", "endpoints", "leased IPs"].map(str::to_owned);
        let gpus = totals
            .gpus
            .iter()
            .map(|(at, _)| format!("GPU {}", self.gpu.name(*at)));
        let names = fixed.into_iter().chain(storage).chain(gpus);
        let mut lines = Vec::new();
        for (name, term) in names.zip(self.terms(&totals)) {
            let amount = rate::exact_sum(std::iter::once(term)).ok_or(PriceError::TooLarge)?;
            if !amount.is_zero() {
                lines.push((name, amount));
            }
        }
        Ok(lines)
    }

    fn rates(&self) -> impl Iterator<Item = &Rate> {
        let fixed = [&self.cpu, &self.memory, &self.endpoint, &self.ip];
        fixed
            .into_iter()
            .chain(self.storage.iter().map(|(_, rate)| rate))
            .chain(self.gpu.rates())
    }

    fn totals(&self, request: &PriceRequest) -> Result<ResourceTotals, PriceError> {
        let mut totals = ResourceTotals {
            cpu: 0,
            memory: 0,
            storage: vec![0; self.storage.len()],
            endpoints: 0,
            ips: u128::from(request.group.leased_ips()),
            gpus: Vec::new(),
        };
        // A quantity has 64 bits and a count 32 bits, so an overflow would need 2^32 units.
        for (ordered, reserved) in request.pairs() {
            let count = u128::from(ordered.count);
            let resources = &ordered.resources;
            totals.cpu += u128::from(resources.cpu.units) * count;
            totals.memory += u128::from(resources.memory.bytes) * count;
            for volume in &resources.storage {
                let class = class_of(volume);
                let at = self.storage.binary_search_by(|(c, _)| c.as_str().cmp(class));
                let total = at.ok().and_then(|at| totals.storage.get_mut(at));
                let total = total.ok_or_else(|| PriceError::NoStorageClass {
                    class: shorten(class),
                })?;
                *total += u128::from(volume.bytes) * count;
            }
            // Regardless of the count, as in the Go provider.
            totals.endpoints += resources.endpoints.len() as u128;
            if resources.gpu.units > 0 && !self.gpu.is_empty() {
                let at = self.gpu.find(&reserved.resources.gpu.attributes)?;
                totals.gpus.push((at, u128::from(resources.gpu.units) * count));
            }
        }
        Ok(totals)
    }

    fn terms<'a>(&'a self, totals: &'a ResourceTotals) -> impl Iterator<Item = (&'a Rate, Quantity)> {
        let fixed = [
            (&self.cpu, Quantity::Whole(totals.cpu)),
            (&self.memory, Quantity::Bytes(totals.memory)),
            (&self.endpoint, Quantity::Whole(totals.endpoints)),
            (&self.ip, Quantity::Whole(totals.ips)),
        ];
        let storage = self
            .storage
            .iter()
            .zip(&totals.storage)
            .map(|((_, r), n)| (r, Quantity::Bytes(*n)));
        let gpus = totals
            .gpus
            .iter()
            .filter_map(|(at, n)| Some((self.gpu.rate(*at)?, Quantity::Whole(*n))));
        fixed.into_iter().chain(storage).chain(gpus)
    }

    /// Returns the sum, computed with 128-bit integers, or `None` on overflow.
    fn quick_sum(&self, totals: &ResourceTotals) -> Option<Dec> {
        rate::quick_sum(self.terms(totals))
    }

    fn exact_sum(&self, totals: &ResourceTotals) -> Result<Dec, PriceError> {
        rate::exact_sum(self.terms(totals)).ok_or(PriceError::TooLarge)
    }
}

#[cfg(feature = "runtime")]
#[async_trait::async_trait]
impl super::PricingStrategy for Scale {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, crate::error::Error> {
        self.price(request).map_err(|e| e.into_error("price by scale"))
    }

    fn price_lines(&self, request: &PriceRequest) -> Option<Vec<Line>> {
        let lines = self.lines(request).ok()?.into_iter();
        Some(lines.map(|(what, amount)| Line { what, amount }).collect())
    }
}

struct ResourceTotals {
    cpu: u128,
    memory: u128,
    /// Number of bytes for each configured class, in the sequence of `Scale::storage`.
    storage: Vec<u128>,
    endpoints: u128,
    ips: u128,
    /// Index of a GPU price, and the number of GPUs with this price.
    gpus: Vec<(usize, u128)>,
}

/// Returns the class that determines the price of a volume. Every volume that is not persistent is ephemeral,
/// including a volume in memory.
pub(super) fn class_of(volume: &Storage) -> &str {
    let persistent = volume.is_persistent();
    volume
        .attribute("class")
        .filter(|_| persistent)
        .unwrap_or(EPHEMERAL)
}

/// Parses `class=price,…`. An entry without a name is for `ephemeral`. An empty text contains no prices.
///
/// # Errors
/// Returns an error that names the invalid entry or the duplicate class.
pub fn parse_storage_scales(text: &str) -> Result<BTreeMap<String, BigDecimal>, ScaleError> {
    parse_prices(text, Some(EPHEMERAL), "beta3=0.0002")
}

/// Parses `gpu=price,…`, where a GPU is `*`, `vendor/*`, `vendor/model`, or a model with `/ram/<size>` or
/// `/interface/<kind>` or both. An empty text contains no prices.
///
/// # Errors
/// Returns an error that names the invalid entry, the invalid GPU or the duplicate GPU.
pub fn parse_gpu_prices(text: &str) -> Result<BTreeMap<String, BigDecimal>, ScaleError> {
    let prices = parse_prices(text, None, "nvidia/a100=120")?;
    GpuPrices::new(prices.clone())?;
    Ok(prices)
}

fn parse_prices(
    text: &str,
    unnamed: Option<&str>,
    example: &'static str,
) -> Result<BTreeMap<String, BigDecimal>, ScaleError> {
    let mut prices = BTreeMap::new();
    if text.trim().is_empty() {
        return Ok(prices);
    }
    for entry in text.split(',').map(str::trim) {
        let wrong = || ScaleError::Entry {
            entry: shorten(entry),
            example,
        };
        let (name, number) = match (entry.split_once('='), unnamed) {
            (Some((name, number)), _) => (name.trim(), number.trim()),
            (None, Some(name)) => (name, entry),
            (None, None) => return Err(wrong()),
        };
        if number.len() > MAX_NUMBER_LENGTH {
            return Err(wrong());
        }
        let price: BigDecimal = number.parse().map_err(|_| wrong())?;
        if prices.insert(name.to_owned(), price).is_some() {
            return Err(ScaleError::Duplicate { name: shorten(name) });
        }
    }
    Ok(prices)
}

/// Returns the first 100 characters of a text, for an error message.
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests;
