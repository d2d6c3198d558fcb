//! What the chain says of the provider, for all who are screened: asked for once and kept for a moment.

use super::Unscreened;
use crate::App;
use crate::auth::LookupFault;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::error::Error;
use akash_provider_core::types::{Address, AuditedAttributes, MarketParams, ProviderRecord};
use moka::future::Cache;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// For how long the provider's record and the parameters are kept: a block or two.
const RECORD_FOR: Duration = Duration::from_secs(10);
/// For how long it is kept what an auditor has signed, also that it is nothing.
const AUDITS_FOR: Duration = Duration::from_secs(60);
/// Auditors that are remembered.
const AUDITORS_MAX: u64 = 1000;

/// Facts of the chain with a short life. Failures are not kept: the next one asks again.
#[derive(Debug)]
pub(crate) struct Known {
    record: Cache<(), Arc<Record>>,
    audits: Cache<Address, Option<Arc<AuditedAttributes>>>,
}

/// The provider, where it is registered, and the market.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) provider: Option<ProviderRecord>,
    pub(super) params: MarketParams,
}

impl Default for Known {
    fn default() -> Self {
        let of_one = Cache::builder().max_capacity(1);
        let of_many = Cache::builder().max_capacity(AUDITORS_MAX);
        Self {
            record: of_one.time_to_live(RECORD_FOR).build(),
            audits: of_many.time_to_live(AUDITS_FOR).build(),
        }
    }
}

impl Known {
    /// The provider's record and the parameters; however many ask, the chain is asked once.
    pub(super) async fn record(&self, app: &App, us: &Address) -> Result<Arc<Record>, Unscreened> {
        let asking = async {
            let provider = app.bounded("provider", app.chain.provider(us)).await?;
            let params = app.bounded("params", app.chain.params()).await?;
            Ok::<_, Error>(Arc::new(Record { provider, params }))
        };
        let found = self.record.try_get_with((), asking).await;
        found.map_err(|error| super::unavailable(&error))
    }

    /// What an auditor has signed of the provider. That somebody has signed nothing counts against who names him.
    pub(super) async fn audit(
        &self,
        app: &App,
        us: &Address,
        auditor: &str,
        peer: IpAddr,
    ) -> Result<Option<Arc<AuditedAttributes>>, Unscreened> {
        // Whoever is no account has signed nothing.
        let Ok(account) = auditor.parse::<Address>() else {
            return Ok(None);
        };
        let asking = async {
            let question = app.chain.auditor_attributes(auditor, us);
            let found = app.auth.ask_about_a_stranger(peer, question).await?;
            Ok::<_, LookupFault>(found.map(Arc::new))
        };
        // Kept under the parsed account, so that only what is an address can take a place in the cache.
        let found = self.audits.try_get_with(account, asking).await;
        found.map_err(|fault| Unscreened::from(*fault))
    }
}
