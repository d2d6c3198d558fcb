//! Rendering of the Service of a leased address, with the annotations of MetalLB.

use super::facts::LeasedPort;
use akash_provider_kube_model::leased_ips::{self, DEFAULT_POOL};
use akash_provider_kube_model::objects::leased_ip_service;
use serde_json::{Value, json};

/// Annotation prefix that every version of MetalLB reads; version 0.14.9 and later log a deprecation warning.
const OLD: &str = "metallb.universe.tf/";
/// Annotation prefix that MetalLB 0.14.9 and later prefers to [`OLD`].
const NEW: &str = "metallb.io/";
const SHARING_KEY: &str = "allow-shared-ip";
const POOL: &str = "address-pool";

/// Prefixes of the MetalLB annotations that the operator writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnnotationPrefix {
    /// `metallb.universe.tf/…`: prefix of the Go operator. Every version of MetalLB supports this prefix.
    #[default]
    Old,
    /// `metallb.io/…`: for MetalLB 0.14.9 and later.
    New,
    /// Both prefixes.
    Both,
}

/// Settings for rendering the Services.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mode {
    /// Pool of the leased addresses (`--metal-lb-pool`). With `default`, MetalLB chooses the pool.
    pub pool: String,
    /// Prefixes of the annotations (`--metal-lb-annotations`).
    pub words: AnnotationPrefix,
    /// Load balancer class of new Services (`--load-balancer-class`); `None` for the default of the cluster.
    pub class: Option<String>,
}

impl Default for Mode {
    fn default() -> Self {
        Self {
            pool: DEFAULT_POOL.to_owned(),
            words: AnnotationPrefix::default(),
            class: None,
        }
    }
}

impl Mode {
    /// Returns true if MetalLB chooses the pool.
    #[must_use]
    pub fn is_any_pool(&self) -> bool {
        leased_ips::is_any_pool(&self.pool)
    }

    /// Renders the Service of a leased address.
    pub(crate) fn render(&self, leased: &LeasedPort) -> Value {
        let service = leased_ip_service(&leased.lease, &leased.ip, &self.pool);
        // Plain data always serializes to JSON.
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
            AnnotationPrefix::Old => &[OLD],
            AnnotationPrefix::New => &[NEW],
            AnnotationPrefix::Both => &[OLD, NEW],
        }
    }
}

/// Returns true for an annotation that this operator writes, with either prefix.
pub(crate) fn is_ours(annotation: &str) -> bool {
    let name = [OLD, NEW]
        .iter()
        .find_map(|prefix| annotation.strip_prefix(prefix));
    matches!(name, Some(SHARING_KEY | POOL))
}

/// Returns the sharing key from the annotations of a Service. Services with the same key can share an
/// address.
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
