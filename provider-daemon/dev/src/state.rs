//! Persisted state of the embedded market, in one file.

use akash_provider_chain::regular_file;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::market::Market;
use akash_provider_core::provider::StateStore;
use akash_provider_core::types::Address;
use akash_provider_core::{Error, RestartState};
use anyhow::{Context, bail};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum file size, in bytes.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct StateContents {
    market: Option<Market>,
    breaker_tripped: bool,
    #[serde(default)]
    breaker_owners: BTreeSet<Address>,
}

/// State file of the embedded market. Each change replaces the file atomically.
#[derive(Debug, Clone)]
pub struct MarketFile {
    path: PathBuf,
    contents: Arc<Mutex<StateContents>>,
}

impl MarketFile {
    /// Opens the file, or creates an empty one.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, or is not a state file.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let contents = match fs::metadata(path) {
            Ok(about) if about.len() > MAX_BYTES => {
                bail!(WithHelp::new(
                    format!(
                        "cannot read state file {}: larger than {MAX_BYTES} bytes",
                        path.display()
                    ),
                    "move the file away to start with a new market"
                ))
            }
            Ok(_) => {
                let bytes = regular_file::read(path, MAX_BYTES)
                    .with_context(|| format!("cannot read {}", path.display()))?;
                rmp_serde::from_slice(&bytes)
                    .with_context(|| format!("{} is not a state file of this version", path.display()))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => StateContents::default(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let file = Self {
            path: path.to_owned(),
            contents: Arc::new(Mutex::new(contents)),
        };
        // Written at the start, so that an unwritable path is reported immediately.
        file.change(|_| {})?;
        Ok(file)
    }

    /// Returns the stored market, if any.
    #[must_use]
    pub fn market(&self) -> Option<Market> {
        self.lock().market.clone()
    }

    pub(crate) fn breaker(&self) -> RestartState {
        let contents = self.lock();
        RestartState {
            breaker_tripped: contents.breaker_tripped,
            breaker_held_owners: contents.breaker_owners.clone(),
        }
    }

    fn set_breaker(&self, shut: &RestartState) -> anyhow::Result<()> {
        self.change(|contents| {
            contents.breaker_tripped = shut.breaker_tripped;
            contents.breaker_owners = shut.breaker_held_owners.clone();
        })
    }

    /// Stores each change of a chain from now on, before subscribers are notified.
    pub fn follow(&self, chain: &MemoryChain) {
        let file = self.clone();
        chain.on_change(move |market| file.keep(|contents| contents.market = Some(market.clone())));
    }

    /// Applies `change` and writes the file. A failure is logged, and the market continues.
    fn keep(&self, change: impl FnOnce(&mut StateContents)) {
        if let Err(error) = self.change(change) {
            tracing::error!(error = %format_args!("{error:#}"), "cannot store the state of the market; a restart continues at the last stored state");
        }
    }

    fn change(&self, change: impl FnOnce(&mut StateContents)) -> anyhow::Result<()> {
        let mut contents = self.lock();
        change(&mut contents);
        // With field names, so that a new field does not invalidate older files.
        let bytes = rmp_serde::to_vec_named(&*contents)?;
        let fresh = self.path.with_extension("new");
        fs::write(&fresh, bytes).with_context(|| format!("cannot write {}", fresh.display()))?;
        fs::rename(&fresh, &self.path).with_context(|| format!("cannot replace {}", self.path.display()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, StateContents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl StateStore for MarketFile {
    async fn save(&self, state: &RestartState) -> Result<(), Error> {
        let (file, state) = (self.clone(), state.clone());
        let failed = |message| Error::new(ErrorKind::Unavailable, "store the circuit breaker", message);
        let written = tokio::task::spawn_blocking(move || file.set_breaker(&state)).await;
        match written {
            Ok(written) => written.map_err(|error| failed(format!("{error:#}"))),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::market::MarketConfig;
    use akash_provider_core::types::BlockTime;
    use std::time::Duration;

    fn place(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("state-file-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder.join("market.state")
    }

    #[test]
    fn restores_the_market() {
        let path = place("goes-on");
        let file = MarketFile::open(&path).unwrap();
        assert!(file.market().is_none() && file.breaker().is_empty());
        let chain = MemoryChain::new(MarketConfig::new("here", BlockTime(7)));
        file.follow(&chain);
        chain.advance(Duration::from_secs(1));
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        let shut = RestartState {
            breaker_tripped: true,
            breaker_held_owners: [owner].into(),
        };
        file.set_breaker(&shut).unwrap();
        let again = MarketFile::open(&path).unwrap();
        let market = again.market().unwrap();
        assert_eq!((market.chain_id(), market.height()), ("here", 2));
        assert_eq!(again.breaker(), shut);
    }

    #[test]
    fn rejects_a_foreign_file_without_changing_it() {
        let path = place("foreign");
        fs::write(&path, "version: \"2.0\"\n").unwrap();
        let error = format!("{:#}", MarketFile::open(&path).unwrap_err());
        assert!(error.contains("market.state is not a state file"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "version: \"2.0\"\n");
    }

    #[test]
    fn reports_an_unwritable_state_file_at_the_start() {
        let error = format!(
            "{:#}",
            MarketFile::open(Path::new("/proc/none/market")).unwrap_err()
        );
        assert!(error.contains("/proc/none/market"), "{error}");
    }
}
