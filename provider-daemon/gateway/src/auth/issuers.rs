//! Keys of accounts: from the memory, or from the chain.
//!
//! A key is kept, here and in the memory, once something was signed with it. Anybody can name an account; its key is at
//! hand for a moment then, and pushes out nobody who has ever been here.

use super::LookupFault;
use super::lookups::Lookups;
use super::memory::Memory;
use akash_provider_chain::private_key::PublicKey;
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::Address;
use moka::{future, sync};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Keys of accounts that have signed something here. One that is pushed out is read from the memory again.
const AT_HAND_MAX: u64 = 10_000;
/// Accounts that were named and have not signed anything, with a key or without.
const NAMED_MAX: u64 = 10_000;
/// For so long they are not asked about again: an account gets its key with its first transaction.
const NAMED_FOR: Duration = Duration::from_secs(15);

/// Public keys of accounts, in three caches: those proven by a signature, those merely named, and names without a
/// key.
#[derive(Debug)]
pub(super) struct Issuers {
    chain: Arc<dyn ChainQuery>,
    memory: Arc<dyn Memory>,
    lookups: Arc<Lookups>,
    proven: sync::Cache<Address, Arc<PublicKey>>,
    named: future::Cache<Address, Arc<PublicKey>>,
    nobody: sync::Cache<Address, ()>,
}

/// The key of an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) key: Arc<PublicKey>,
    /// Something was signed with it before.
    pub(super) is_proven: bool,
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
            proven: sync::Cache::new(AT_HAND_MAX),
            named: future::Cache::builder()
                .max_capacity(NAMED_MAX)
                .time_to_live(NAMED_FOR)
                .build(),
            nobody: sync::Cache::builder()
                .max_capacity(NAMED_MAX)
                .time_to_live(NAMED_FOR)
                .build(),
        }
    }

    /// The key of an account; `None` when the chain knows of none. However many ask at once, the chain is asked
    /// once.
    pub(super) async fn key(&self, account: &Address, peer: IpAddr) -> Result<Option<Key>, LookupFault> {
        if let Some(key) = self.at_hand(account) {
            return Ok(Some(Key { key, is_proven: true }));
        }
        // A name without a key is remembered apart: the cache below keeps answers and forgets failures.
        if self.nobody.contains_key(account) {
            return Ok(None);
        }
        let found = self
            .named
            .try_get_with_by_ref(account, self.look_up(account, peer))
            .await;
        match found.map_err(|e| *e) {
            Ok(key) => Ok(Some(Key {
                key,
                is_proven: false,
            })),
            Err(NoKey::Nobody) => {
                self.nobody.insert(account.clone(), ());
                Ok(None)
            }
            Err(NoKey::Fault(fault)) => Err(fault),
        }
    }

    /// Something was signed with it: from here on it is known, also after a restart.
    pub(super) fn keep(&self, account: &Address, key: &Key) {
        // A proven key is in the memory already: writing to disk at each request would be for nothing.
        if !key.is_proven {
            self.memory.keep_key(account, *key.key.as_bytes());
            self.proven.insert(account.clone(), Arc::clone(&key.key));
        }
    }

    fn at_hand(&self, account: &Address) -> Option<Arc<PublicKey>> {
        if let Some(key) = self.proven.get(account) {
            return Some(key);
        }
        // The key is checked against the address again: the file may have been changed by hand or be damaged.
        let kept = self.memory.key(account).and_then(|k| key_of(account, &k))?;
        let key = Arc::new(kept);
        self.proven.insert(account.clone(), Arc::clone(&key));
        Some(key)
    }

    async fn look_up(&self, account: &Address, peer: IpAddr) -> Result<Arc<PublicKey>, NoKey> {
        let question = async {
            let found = self.chain.account(account).await?;
            Ok(found
                .and_then(|a| a.pubkey)
                .and_then(|bytes| key_of(account, &bytes)))
        };
        let found = self.lookups.ask(peer, question).await.map_err(NoKey::Fault)?;
        found.map(Arc::new).ok_or(NoKey::Nobody)
    }
}

/// A key that is this account's: the address follows from the key, so a node cannot tell another one.
fn key_of(account: &Address, bytes: &[u8]) -> Option<PublicKey> {
    let key = PublicKey::from_bytes(bytes).ok()?;
    (key.address() == account).then_some(key)
}
