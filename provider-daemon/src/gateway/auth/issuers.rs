//! Keys of accounts: from the memory, or from the chain.

use super::LookupFault;
use super::lookups::Lookups;
use super::memory::Memory;
use akash_provider_chain::private_key::PublicKey;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::Address;
use moka::future::Cache;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Keys at hand.
const AT_HAND_MAX: u64 = 10_000;
/// Accounts without a key that are remembered; a storm of them pushes none of the others out.
const NOBODY_MAX: u64 = 10_000;
/// For so long: an account gets its key with its first transaction.
const NOBODY_FOR: Duration = Duration::from_secs(15);

/// Keys of accounts.
#[derive(Debug)]
pub(super) struct Issuers {
    chain: Arc<dyn ChainQuery>,
    memory: Arc<dyn Memory>,
    lookups: Arc<Lookups>,
    keys: Cache<Address, Arc<PublicKey>>,
    nobody: moka::sync::Cache<Address, ()>,
}

/// Why there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoKey {
    Nobody,
    Fault(LookupFault),
}

impl Issuers {
    pub(super) fn new(chain: Arc<dyn ChainQuery>, memory: Arc<dyn Memory>, lookups: Arc<Lookups>) -> Self {
        Self {
            chain,
            memory,
            lookups,
            keys: Cache::new(AT_HAND_MAX),
            nobody: moka::sync::Cache::builder()
                .max_capacity(NOBODY_MAX)
                .time_to_live(NOBODY_FOR)
                .build(),
        }
    }

    /// The key of an account; `None` when the chain knows of none. However many ask at once, the chain is asked
    /// once.
    pub(super) async fn key(
        &self,
        account: &Address,
        peer: IpAddr,
    ) -> Result<Option<Arc<PublicKey>>, LookupFault> {
        if let Some(key) = self.keys.get(account).await {
            return Ok(Some(key));
        }
        if self.nobody.contains_key(account) {
            return Ok(None);
        }
        let found = self
            .keys
            .try_get_with_by_ref(account, self.look_up(account, peer))
            .await;
        match found.map_err(|e| *e) {
            Ok(key) => Ok(Some(key)),
            Err(NoKey::Nobody) => {
                self.nobody.insert(account.clone(), ());
                Ok(None)
            }
            Err(NoKey::Fault(fault)) => Err(fault),
        }
    }

    async fn look_up(&self, account: &Address, peer: IpAddr) -> Result<Arc<PublicKey>, NoKey> {
        if let Some(key) = self.memory.key(account).and_then(|k| key_of(account, &k)) {
            return Ok(Arc::new(key));
        }
        let question = async {
            let found = self.chain.account(account).await?;
            Ok(found
                .and_then(|a| a.pubkey)
                .and_then(|bytes| key_of(account, &bytes)))
        };
        let found = self.lookups.ask(peer, question).await.map_err(NoKey::Fault)?;
        let key = found.ok_or(NoKey::Nobody)?;
        self.memory.keep_key(account, *key.as_bytes());
        Ok(Arc::new(key))
    }
}

/// A key that is this account's: the address follows from the key, so a node cannot tell another one.
fn key_of(account: &Address, bytes: &[u8]) -> Option<PublicKey> {
    let key = PublicKey::from_bytes(bytes).ok()?;
    (key.address() == account).then_some(key)
}
