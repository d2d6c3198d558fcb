//! The load balancer of a leased address as an object, in the words that MetalLB reads.

use super::facts::Leased;
use crate::objects::leased_ip_service;
use serde_json::{Value, json};

/// What the Services of leased addresses have as [`SERVICE_TARGET`](crate::labels::SERVICE_TARGET).
pub const TARGET: &str = "metal-lb";
/// The pool that is meant where none is named.
pub const DEFAULT_POOL: &str = "default";

/// Prefix of annotations that every MetalLB reads; since 0.14.9 it warns of them.
const OLD: &str = "metallb.universe.tf/";
/// Prefix that MetalLB reads since 0.14.9; where both are there it counts.
const NEW: &str = "metallb.io/";
const SHARING_KEY: &str = "allow-shared-ip";
const POOL: &str = "address-pool";

/// In whose words annotations are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Words {
    /// `metallb.universe.tf/…`: as today's operator, for every MetalLB.
    #[default]
    Old,
    /// `metallb.io/…`: for MetalLB 0.14.9 and later.
    New,
    /// Both.
    Both,
}

/// How leased addresses become load balancers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mode {
    /// Pool that addresses are of; `default` for any that MetalLB assigns by itself (`--metal-lb-pool`).
    pub pool: String,
    /// In whose words annotations are written (`--metal-lb-annotations`).
    pub words: Words,
    /// Class of new load balancers (`--load-balancer-class`).
    pub class: Option<String>,
}

impl Default for Mode {
    fn default() -> Self {
        Self {
            pool: DEFAULT_POOL.to_owned(),
            words: Words::default(),
            class: None,
        }
    }
}

impl Mode {
    /// True where MetalLB chooses the pool.
    #[must_use]
    pub fn is_any_pool(&self) -> bool {
        self.pool.is_empty() || self.pool == DEFAULT_POOL
    }

    /// The load balancer of a leased address.
    #[must_use]
    pub fn render(&self, leased: &Leased) -> Value {
        let service = leased_ip_service(&leased.lease, &leased.ip, &self.pool);
        // Plain data, which always has a form in JSON.
        let mut body = serde_json::to_value(service).unwrap_or_default();
        let mut annotations = json!({});
        for prefix in self.prefixes() {
            annotations[format!("{prefix}{SHARING_KEY}")] = json!(leased.ip.sharing_key);
            if !self.is_any_pool() {
                annotations[format!("{prefix}{POOL}")] = json!(self.pool);
            }
        }
        body["metadata"]["annotations"] = annotations;
        if let Some(class) = &self.class {
            body["spec"]["loadBalancerClass"] = json!(class);
        }
        body
    }

    const fn prefixes(&self) -> &'static [&'static str] {
        match self.words {
            Words::Old => &[OLD],
            Words::New => &[NEW],
            Words::Both => &[OLD, NEW],
        }
    }
}

/// True for an annotation that is written here, or would be in other words, so that one too many goes.
#[must_use]
pub fn is_ours(annotation: &str) -> bool {
    let name = [OLD, NEW]
        .iter()
        .find_map(|prefix| annotation.strip_prefix(prefix));
    matches!(name, Some(SHARING_KEY | POOL))
}

/// The key by which MetalLB shares the address of a Service.
pub(super) fn sharing_key<'a>(
    annotations: impl Iterator<Item = (&'a String, &'a String)>,
) -> Option<&'a str> {
    let (mut old, mut new) = (None, None);
    for (key, value) in annotations {
        if key.strip_prefix(OLD) == Some(SHARING_KEY) {
            old = Some(value.as_str());
        } else if key.strip_prefix(NEW) == Some(SHARING_KEY) {
            new = Some(value.as_str());
        }
    }
    new.or(old)
}
