//! Metrics of a provider and of the operators, in the formats of Prometheus.
//!
//! ```text
//! sources ─▶ Metrics ─┬─▶ server: GET /metrics (cached)
//!                     └─▶ Registry of an embedder (Collector)
//! ```
//! There is no global registry. Each source computes its values during a scrape. `docs/metrics.md` lists the metrics.

mod chain;
mod collector;
pub(crate) mod convert;
mod engine;
mod gateway;
mod inventory;
mod kube_calls;
mod kubernetes;
mod measure;
mod operators;
mod parts;
mod process;
mod runway;
mod server;
mod text;

pub(crate) use chain::ChainSource;
pub(crate) use collector::MeasureCollector;
pub use engine::EngineSource;
pub(crate) use gateway::{CertificateExpiry, GatewaySource};
pub(crate) use inventory::InventoryWatches;
pub(crate) use kubernetes::{ClusterValues, KubernetesSource};
pub use measure::{Histogram, Measure};
pub(crate) use operators::{OperatorValues, queue_states};
pub(crate) use parts::PartsSource;
pub(crate) use process::ProcessSource;
pub(crate) use runway::RunwaySource;
pub use server::MetricsAddress;
pub(crate) use server::serve;
pub(crate) use text::Format;

use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, future};
use prometheus_client::registry::Registry;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum time to update one metric source. After a timeout, the source reports its previous values.
const REFRESH_TIME: Duration = Duration::from_secs(2);

/// Source of metrics. Sources for programs that embed the provider: [`EngineSource`], and the types
/// [`AkashClient`](akash_provider_chain::AkashClient), [`GatewayCounters`](akash_provider_gateway::GatewayCounters) and
/// [`ApiCalls`](akash_provider_k8s::statistics::ApiCalls).
pub trait MetricSource: Debug + Send + Sync + 'static {
    /// Returns the current values during a scrape. Must not block.
    fn measures(&self) -> Vec<Measure>;

    /// Updates values that need a query. Called before each scrape.
    fn refresh(&self) -> BoxFuture<'_, ()> {
        future::ready(()).boxed()
    }
}

/// Sources of metrics of one provider. A clone shares the sources.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    sources: Arc<RwLock<Vec<Arc<dyn MetricSource>>>>,
}

impl Metrics {
    /// Adds a source. A restarted component must not add its source again.
    pub fn add(&self, source: impl MetricSource) {
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.push(Arc::new(source));
    }

    /// Registers all sources, including sources that are added later. The caller runs [`Metrics::refresh`]
    /// before each scrape of the registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    /// Updates all sources concurrently, up to a time limit.
    pub async fn refresh(&self) {
        let sources = self.sources();
        let updates = sources
            .iter()
            .map(|source| timeout(REFRESH_TIME, source.refresh()));
        drop(join_all(updates).await);
    }

    /// Returns the values of all sources.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        self.sources()
            .iter()
            .flat_map(|source| source.measures())
            .collect()
    }

    fn sources(&self) -> Vec<Arc<dyn MetricSource>> {
        self.sources
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
impl MetricSource for Vec<Measure> {
    fn measures(&self) -> Vec<Measure> {
        self.clone()
    }
}

#[cfg(test)]
impl Metrics {
    /// Returns the metrics of one source.
    pub(crate) fn of(source: impl MetricSource) -> Self {
        let metrics = Self::default();
        metrics.add(source);
        metrics
    }

    /// Returns the given lines that a scrape in the Prometheus format lacks.
    pub(crate) fn missing(&self, lines: &str) -> Vec<String> {
        let (text, _) = self.texts().unwrap();
        let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
        let missing = lines.filter(|line| !text.lines().any(|found| found == *line));
        missing.map(str::to_owned).collect()
    }

    /// Asserts that a scrape in the Prometheus format has these lines.
    #[track_caller]
    pub(crate) fn check(&self, lines: &str) {
        assert_eq!(self.missing(lines), [""; 0], "{}", self.texts().unwrap().0);
    }
}
