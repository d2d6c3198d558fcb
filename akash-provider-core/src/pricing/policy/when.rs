//! Evaluation of the conditions of a rule.

use super::PolicyError;
use super::file::{Amount, When};
use crate::pricing::PriceRequest;
use crate::pricing::gpu::GpuModel;
use crate::types::Address;
use bigdecimal::{BigDecimal, ToPrimitive};
use std::collections::{BTreeMap, BTreeSet};

const ANY: &str = "*";
const GIB: u32 = 1 << 30;
const MILLI: u32 = 1000;

/// Conditions of [`When`], prepared for fast evaluation.
#[derive(Debug, Clone)]
pub(super) struct OrderMatcher {
    tenants: BTreeSet<Address>,
    attributes: BTreeMap<String, String>,
    gpu: Vec<GpuPattern>,
    storage: BTreeSet<String>,
    cpu: Range,
    memory: Range,
}

/// Range in millicores or bytes, both ends included.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: u128,
    most: u128,
}

#[derive(Debug, Clone)]
struct GpuPattern {
    vendor: String,
    model: String,
}

impl OrderMatcher {
    pub(super) fn new(at: &str, when: When) -> Result<Self, PolicyError> {
        let tenants = when.tenants.iter().enumerate().map(|(number, text)| {
            text.parse::<Address>().map_err(|error| {
                PolicyError::new(
                    format!("{at}.when.tenants[{number}]"),
                    format!("`{text}`: {error}"),
                )
            })
        });
        let tenants = tenants.collect::<Result<_, _>>()?;
        let gpu = when.gpu.iter().enumerate().map(|(number, text)| {
            GpuPattern::new(text).ok_or_else(|| {
                PolicyError::new(
                    format!("{at}.when.gpu[{number}]"),
                    format!("`{text}` must be `*`, `vendor/*` or `vendor/model`"),
                )
            })
        });
        Ok(Self {
            tenants,
            gpu: gpu.collect::<Result<_, _>>()?,
            attributes: when.attributes,
            storage: when.storage.into_iter().collect(),
            cpu: Range::new(
                &format!("{at}.when.cpu"),
                when.cpu_at_least,
                when.cpu_at_most,
                MILLI,
            )?,
            memory: Range::new(
                &format!("{at}.when.memory"),
                when.memory_at_least,
                when.memory_at_most,
                GIB,
            )?,
        })
    }

    /// Returns whether the rule matches every order.
    pub(super) fn is_all(&self) -> bool {
        self.tenants.is_empty()
            && self.attributes.is_empty()
            && self.gpu.is_empty()
            && self.storage.is_empty()
            && self.cpu.is_all()
            && self.memory.is_all()
    }

    pub(super) fn has(&self, request: &PriceRequest) -> bool {
        (self.tenants.is_empty() || self.tenants.contains(&request.owner))
            && self.has_attributes(request)
            && self.has_size(request)
            && (self.storage.is_empty() || self.has_class(request))
            && (self.gpu.is_empty() || self.has_gpu(request))
    }

    fn has_attributes(&self, request: &PriceRequest) -> bool {
        let asked = &request.group.requirements.attributes;
        let is_asked =
            |(key, value): (&String, &String)| asked.iter().any(|a| a.key == *key && a.value == *value);
        self.attributes.iter().all(is_asked)
    }

    fn has_size(&self, request: &PriceRequest) -> bool {
        let (mut cpu, mut memory) = (0_u128, 0_u128);
        for unit in &request.group.resources {
            let count = u128::from(unit.count);
            cpu += u128::from(unit.resources.cpu.units) * count;
            memory += u128::from(unit.resources.memory.bytes) * count;
        }
        self.cpu.has(cpu) && self.memory.has(memory)
    }

    fn has_class(&self, request: &PriceRequest) -> bool {
        let mut volumes = request
            .group
            .resources
            .iter()
            .flat_map(|unit| &unit.resources.storage);
        volumes.any(|volume| self.storage.contains(crate::pricing::scale::class_of(volume)))
    }

    fn has_gpu(&self, request: &PriceRequest) -> bool {
        let mut units = request
            .pairs()
            .filter(|(ordered, _)| ordered.resources.gpu.units > 0);
        units.any(|(_, reserved)| {
            let attributes = &reserved.resources.gpu.attributes;
            let mut models = attributes.iter().filter_map(|a| GpuModel::parse(&a.key));
            // A GPU without attributes can be of any kind.
            (attributes.is_empty() && self.gpu.iter().any(GpuPattern::is_any))
                || models.any(|model| self.gpu.iter().any(|pattern| pattern.fits(&model)))
        })
    }
}

impl Range {
    fn new(at: &str, least: Option<Amount>, most: Option<Amount>, unit: u32) -> Result<Self, PolicyError> {
        let whole = |name: &str, amount: Option<Amount>, without: u128| match amount {
            None => Ok(without),
            Some(amount) => (amount.number() * BigDecimal::from(unit))
                .to_u128()
                .ok_or_else(|| {
                    PolicyError::new(
                        format!("{at}_{name}"),
                        format!("{} is not zero or above", amount.number()),
                    )
                }),
        };
        let least = whole("at_least", least, 0)?;
        let most = whole("at_most", most, u128::MAX)?;
        if least > most {
            return Err(PolicyError::new(
                format!("{at}_at_least"),
                "above at_most, so no order matches",
            ));
        }
        Ok(Self { least, most })
    }

    const fn is_all(self) -> bool {
        self.least == 0 && self.most == u128::MAX
    }

    const fn has(self, amount: u128) -> bool {
        self.least <= amount && amount <= self.most
    }
}

impl GpuPattern {
    fn new(text: &str) -> Option<Self> {
        let (vendor, model) = if text == ANY {
            (ANY, ANY)
        } else {
            text.split_once('/')?
        };
        let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '*']);
        let is_known = text == ANY || (is_name(vendor) && (model == ANY || is_name(model)));
        is_known.then(|| Self {
            vendor: vendor.to_owned(),
            model: model.to_owned(),
        })
    }

    fn is_any(&self) -> bool {
        self.vendor == ANY
    }

    fn fits(&self, gpu: &GpuModel<'_>) -> bool {
        (self.vendor == ANY || self.vendor == gpu.vendor) && (self.model == ANY || self.model == gpu.model)
    }
}
