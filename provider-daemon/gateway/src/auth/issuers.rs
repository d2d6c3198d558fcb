//! Public keys of accounts, from the [`AuthStore`] or the chain.
//!
//! A key is stored in the cache and in the `AuthStore` after its first valid signature. Before that, the key of
//! an account that a client names is cached for a short time in a separate cache. Such keys never evict
//! proven keys.

use super::LookupFault;
use super::lookups::Lookups;
use super::memory::AuthStore;
use akash_provider_chain::private_key::PublicKey;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::Address;
use moka::{future, sync};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of cached keys that have verified a signature.
const CACHED_MAX: u64 = 10_000;
/// Maximum number of entries in each cache of unproven accounts. Such an account has not sent a valid
/// signature yet.
const NAMED_MAX: u64 = 10_000;
/// Cache time of the query result for an account without a verified signature. The time is short, because the
/// result changes when the account publishes its key.
const NAMED_FOR: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(super) struct Issuers {
    chain: Arc<dyn ChainQuery>,
    memory: Arc<dyn AuthStore>,
    lookups: Arc<Lookups>,
    proven: sync::Cache<Address, Arc<PublicKey>>,
    named: future::Cache<Address, Arc<PublicKey>>,
    missing: sync::Cache<Address, ()>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AccountKey {
    pub(super) key: Arc<PublicKey>,
    /// True if this key has verified a signature before.
    pub(super) is_proven: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoKey {
    Missing,
    Fault(LookupFault),
}

impl Issuers {
    pub(super) fn new(chain: Arc<dyn ChainQuery>, memory: Arc<dyn AuthStore>, lookups: Arc<Lookups>) -> Self {
        Self {
            chain,
            memory,
            lookups,
            proven: sync::Cache::new(CACHED_MAX),
            named: future::Cache::builder()
                .max_capacity(NAMED_MAX)
                .time_to_live(NAMED_FOR)
                .build(),
            missing: sync::Cache::builder()
                .max_capacity(NAMED_MAX)
                .time_to_live(NAMED_FOR)
                .build(),
        }
    }

    /// Returns the public key of an account, or `None` if the chain stores no key for this account.
    /// Concurrent calls share one chain query.
    pub(super) async fn key(
        &self,
        account: &Address,
        peer: IpAddr,
    ) -> Result<Option<AccountKey>, LookupFault> {
        if let Some(key) = self.cached(account) {
            return Ok(Some(AccountKey { key, is_proven: true }));
        }
        // Accounts without a key have a cache of their own: the cache below does not store failures.
        if self.missing.contains_key(account) {
            return Ok(None);
        }
        let found = self
            .named
            .try_get_with_by_ref(account, self.look_up(account, peer))
            .await;
        match found.map_err(|e| *e) {
            Ok(key) => Ok(Some(AccountKey {
                key,
                is_proven: false,
            })),
            Err(NoKey::Missing) => {
                self.missing.insert(account.clone(), ());
                Ok(None)
            }
            Err(NoKey::Fault(fault)) => Err(fault),
        }
    }

    /// Caches a key after its first valid signature, and stores the key in the `AuthStore`.
    pub(super) fn store(&self, account: &Address, key: &AccountKey) {
        // A proven key is in the memory already; writing it at each request is unnecessary.
        if !key.is_proven {
            self.memory.store_key(account, *key.key.as_bytes());
            self.proven.insert(account.clone(), Arc::clone(&key.key));
        }
    }

    fn cached(&self, account: &Address) -> Option<Arc<PublicKey>> {
        if let Some(key) = self.proven.get(account) {
            return Some(key);
        }
        // The key is checked against the address again: the file may be damaged or edited.
        let stored = self.memory.key(account).and_then(|k| key_of(account, &k))?;
        let key = Arc::new(stored);
        self.proven.insert(account.clone(), Arc::clone(&key));
        Some(key)
    }

    async fn look_up(&self, account: &Address, peer: IpAddr) -> Result<Arc<PublicKey>, NoKey> {
        let query = async {
            let found = self.chain.account(account).await?;
            Ok(found
                .and_then(|a| a.pubkey)
                .and_then(|bytes| key_of(account, &bytes)))
        };
        let found = self.lookups.query(peer, query).await.map_err(NoKey::Fault)?;
        found.map(Arc::new).ok_or(NoKey::Missing)
    }
}

/// Parses a key. Returns `None` if the key is invalid, or is not the key of the account.
fn key_of(account: &Address, bytes: &[u8]) -> Option<PublicKey> {
    let key = PublicKey::from_bytes(bytes).ok()?;
    (key.address() == account).then_some(key)
}
