//! Records on the chain that concern the provider, cached for a short time for all screenings.

use super::ScreeningError;
use crate::App;
use crate::auth::LookupFault;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, AuditedAttributes, MarketParams, ProviderRecord};
use moka::future::Cache;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum age of the cached provider record and market parameters.
const RECORD_FOR: Duration = Duration::from_secs(10);
/// Maximum age of the cached attributes of an auditor. An empty result is cached too.
const AUDITS_FOR: Duration = Duration::from_secs(60);
/// Maximum number of cached auditors.
const AUDITORS_MAX: u64 = 1000;

/// Cached records of the chain. Failed queries are not cached.
#[derive(Debug)]
pub(crate) struct ChainFacts {
    record: Cache<(), Arc<ProviderFacts>>,
    audits: Cache<Address, Option<Arc<AuditedAttributes>>>,
}

/// Record of the provider (`None` without a registration), and the market parameters.
#[derive(Debug)]
pub(super) struct ProviderFacts {
    pub(super) provider: Option<ProviderRecord>,
    pub(super) params: MarketParams,
}

impl Default for ChainFacts {
    fn default() -> Self {
        let of_one = Cache::builder().max_capacity(1);
        let of_many = Cache::builder().max_capacity(AUDITORS_MAX);
        Self {
            record: of_one.time_to_live(RECORD_FOR).build(),
            audits: of_many.time_to_live(AUDITS_FOR).build(),
        }
    }
}

impl ChainFacts {
    /// Returns the provider's record and the market parameters. Concurrent callers share one query.
    pub(super) async fn record(&self, app: &App, us: &Address) -> Result<Arc<ProviderFacts>, ScreeningError> {
        let call = async {
            let provider = app.bounded("provider", app.chain.provider(us)).await?;
            let params = app.bounded("params", app.chain.params()).await?;
            Ok::<_, Error>(Arc::new(ProviderFacts { provider, params }))
        };
        let found = self.record.try_get_with((), call).await;
        found.map_err(|error| super::unavailable(&error))
    }

    /// Returns the provider attributes that an auditor signed. A query without a result counts against the
    /// client's IP network.
    pub(super) async fn audit(
        &self,
        app: &App,
        us: &Address,
        auditor: &str,
        peer: IpAddr,
    ) -> Result<Option<Arc<AuditedAttributes>>, ScreeningError> {
        // An invalid account has signed nothing.
        let Ok(account) = auditor.parse::<Address>() else {
            return Ok(None);
        };
        let call = async {
            let query = app.chain.auditor_attributes(auditor, us);
            let found = app.auth.query_chain(peer, query).await?;
            Ok::<_, LookupFault>(found.map(Arc::new))
        };
        // The key is the parsed account, so that only valid addresses take a place in the cache.
        let found = self.audits.try_get_with(account, call).await;
        found.map_err(|fault| ScreeningError::from(*fault))
    }
}
