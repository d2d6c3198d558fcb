//! Prices of GPUs by vendor and model.

use super::rate::Rate;
use super::{PriceError, ScaleError, shorten};
use crate::pricing::gpu::GpuModel;
use crate::types::Attribute;
use bigdecimal::BigDecimal;
use std::collections::BTreeMap;

const ANY: &str = "*";

/// GPU prices by name. A name is `*`, `vendor/*` or `vendor/model`, and can also contain a RAM size or an
/// interface.
#[derive(Debug, Clone)]
pub(super) struct GpuPrices {
    entries: Vec<GpuRate>,
}

#[derive(Debug, Clone)]
struct GpuRate {
    vendor: String,
    model: String,
    ram: Option<String>,
    interface: Option<String>,
    rate: Rate,
}

impl GpuRate {
    /// Returns whether the GPU has every property in the entry.
    fn covers(&self, gpu: &GpuModel<'_>) -> bool {
        let says = |wanted: &Option<String>, actual: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| Some(wanted) == actual)
        };
        says(&self.ram, gpu.ram) && says(&self.interface, gpu.interface)
    }

    /// Returns whether every known property of the GPU is compatible with the entry.
    fn may_be(&self, gpu: &GpuModel<'_>) -> bool {
        let agrees = |wanted: &Option<String>, actual: Option<&str>| match (wanted.as_deref(), actual) {
            (Some(wanted), Some(actual)) => wanted == actual,
            (None, _) | (_, None) => true,
        };
        agrees(&self.ram, gpu.ram) && agrees(&self.interface, gpu.interface)
    }

    fn detail(&self) -> usize {
        usize::from(self.ram.is_some()) + usize::from(self.interface.is_some())
    }
}

impl GpuPrices {
    pub(super) fn new(prices: BTreeMap<String, BigDecimal>) -> Result<Self, ScaleError> {
        let mut entries = Vec::with_capacity(prices.len());
        for (name, price) in prices {
            let rate = Rate::new(price, || format!("GPU `{}`", shorten(&name)))?;
            let key = if name == ANY {
                "vendor/*/model/*".to_owned()
            } else {
                attribute_key(&name)
            };
            let model = GpuModel::parse(&key).filter(|gpu| is_known_form(&name, gpu));
            let gpu = model.ok_or_else(|| ScaleError::Gpu { name: shorten(&name) })?;
            entries.push(GpuRate {
                vendor: gpu.vendor.to_owned(),
                model: gpu.model.to_owned(),
                ram: gpu.ram.map(str::to_owned),
                interface: gpu.interface.map(str::to_owned),
                rate,
            });
        }
        Ok(Self { entries })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn rates(&self) -> impl Iterator<Item = &Rate> {
        self.entries.iter().map(|e| &e.rate)
    }

    pub(super) fn rate(&self, at: usize) -> Option<&Rate> {
        self.entries.get(at).map(|e| &e.rate)
    }

    /// Returns the configured name of the GPU price with the index `at`.
    pub(super) fn name(&self, at: usize) -> String {
        let Some(entry) = self.entries.get(at) else {
            return ANY.to_owned();
        };
        let mut name = entry.vendor.clone();
        if entry.vendor != ANY {
            name = format!("{name}/{}", entry.model);
        }
        let details = [("ram", &entry.ram), ("interface", &entry.interface)];
        for (what, value) in details {
            if let Some(value) = value {
                name = format!("{name}/{what}/{value}");
            }
        }
        name
    }

    /// Returns the index of the price that applies to one GPU with these attributes.
    ///
    /// If the attributes name several models or a wildcard, the highest price applies. Malformed attributes
    /// are skipped.
    pub(super) fn find(&self, attributes: &[Attribute]) -> Result<usize, PriceError> {
        let mut models = attributes
            .iter()
            .filter_map(|a| GpuModel::parse(&a.key))
            .peekable();
        if models.peek().is_none() {
            return self.highest(|_| true).ok_or_else(|| no_price(ANY, ANY));
        }
        let mut dearest = None;
        for gpu in models {
            let at = self
                .price_of(&gpu)
                .ok_or_else(|| no_price(gpu.vendor, gpu.model))?;
            dearest = Some(dearest.map_or(at, |best| self.dearer(best, at)));
        }
        dearest.ok_or_else(|| no_price(ANY, ANY))
    }

    /// Returns the index of the price of a GPU. The first match in this order applies:
    ///
    /// 1. the most specific entry that covers the GPU
    /// 2. the most expensive entry that the GPU may match
    /// 3. the entry of the vendor
    /// 4. the entry `*`
    fn price_of(&self, gpu: &GpuModel<'_>) -> Option<usize> {
        if gpu.model.contains(ANY) {
            let of_vendor = self.highest(|e| e.vendor == gpu.vendor && e.may_be(gpu));
            return of_vendor.or_else(|| self.highest(|e| e.vendor == ANY));
        }
        let own = |e: &GpuRate| e.vendor == gpu.vendor && e.model == gpu.model;
        let covering = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, e)| own(e) && e.covers(gpu));
        covering
            .max_by_key(|(_, e)| e.detail())
            .map(|(at, _)| at)
            .or_else(|| self.highest(|e| own(e) && e.may_be(gpu)))
            .or_else(|| self.highest(|e| e.vendor == gpu.vendor && e.model == ANY))
            .or_else(|| self.highest(|e| e.vendor == ANY))
    }

    fn highest(&self, of: impl Fn(&GpuRate) -> bool) -> Option<usize> {
        let candidates = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, e)| of(e))
            .map(|(at, _)| at);
        candidates.reduce(|best, at| self.dearer(best, at))
    }

    fn dearer(&self, one: usize, other: usize) -> usize {
        match (self.rate(one), self.rate(other)) {
            (Some(a), Some(b)) if b.exceeds(a) => other,
            _ => one,
        }
    }
}

fn no_price(vendor: &str, model: &str) -> PriceError {
    PriceError::NoGpu {
        model: shorten(&format!("{vendor}/{model}")),
    }
}

/// Converts `nvidia/a100/ram/80Gi` to `vendor/nvidia/model/a100/ram/80Gi`.
fn attribute_key(name: &str) -> String {
    let (vendor, rest) = name.split_once('/').unwrap_or((name, ""));
    format!("vendor/{vendor}/model/{rest}")
}

/// Returns whether the name of a price is `*`, `VENDOR/*`, or `VENDOR/MODEL` with optional RAM and interface.
fn is_known_form(name: &str, gpu: &GpuModel<'_>) -> bool {
    let any_vendor = gpu.vendor.contains(ANY);
    let any_model = gpu.model.contains(ANY);
    if any_vendor || any_model {
        return name == ANY || (!any_vendor && gpu.model == ANY && name.matches('/').count() == 1);
    }
    let details = usize::from(gpu.ram.is_some()) + usize::from(gpu.interface.is_some());
    name.matches('/').count() == 1 + 2 * details
}
