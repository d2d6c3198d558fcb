//! What the embedded market keeps over a restart, in one file.

use akash_provider_chain::regular_file;
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::error::ErrorKind;
use akash_provider_core::market::Market;
use akash_provider_core::provider::Keeper;
use akash_provider_core::types::Address;
use akash_provider_core::{Error, Kept};
use anyhow::{Context, bail};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Larger files are not read: a market of 100,000 deployments has some 200 MiB.
const MAX_BYTES: u64 = 1 << 30;

/// The contents of the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Contents {
    market: Option<Market>,
    breaker_tripped: bool,
    #[serde(default)]
    breaker_owners: BTreeSet<Address>,
}

/// A file that always holds the newest state, whole: it is replaced, never rewritten in place.
#[derive(Debug, Clone)]
pub struct StateFile {
    path: PathBuf,
    contents: Arc<Mutex<Contents>>,
}

impl StateFile {
    /// Opens the file, or starts an empty one.
    ///
    /// # Errors
    /// The file cannot be read, or is not one of ours.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let contents = match fs::metadata(path) {
            Ok(about) if about.len() > MAX_BYTES => {
                bail!(
                    "{} is larger than {MAX_BYTES} bytes; it cannot be a state file",
                    path.display()
                )
            }
            Ok(_) => {
                let bytes = regular_file::read(path, MAX_BYTES)
                    .with_context(|| format!("reading {}", path.display()))?;
                rmp_serde::from_slice(&bytes)
                    .with_context(|| format!("{} is not a state file of this version", path.display()))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Contents::default(),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let file = Self {
            path: path.to_owned(),
            contents: Arc::new(Mutex::new(contents)),
        };
        // Written once at the start, so that a place that cannot be written is told now.
        file.change(|_| {})?;
        Ok(file)
    }

    /// The market as it was, if there was one.
    #[must_use]
    pub fn market(&self) -> Option<Market> {
        self.lock().market.clone()
    }

    /// For whom the circuit breaker had tripped.
    pub(crate) fn breaker(&self) -> Kept {
        let contents = self.lock();
        Kept {
            breaker_tripped: contents.breaker_tripped,
            breaker_held_owners: contents.breaker_owners.clone(),
        }
    }

    /// The circuit breaker tripped or was released.
    fn set_breaker(&self, shut: &Kept) -> anyhow::Result<()> {
        self.change(|contents| {
            contents.breaker_tripped = shut.breaker_tripped;
            contents.breaker_owners = shut.breaker_held_owners.clone();
        })
    }

    /// Keeps every change of a chain from now on, before anybody is told of it.
    pub fn follow(&self, chain: &MemoryChain) {
        let file = self.clone();
        chain.keep(move |market| file.keep(|contents| contents.market = Some(market.clone())));
    }

    /// A change that cannot be written is told; the market goes on without it.
    fn keep(&self, change: impl FnOnce(&mut Contents)) {
        if let Err(error) = self.change(change) {
            tracing::error!("the state of the market was not kept: {error:#}");
        }
    }

    fn change(&self, change: impl FnOnce(&mut Contents)) -> anyhow::Result<()> {
        let mut contents = self.lock();
        change(&mut contents);
        // With the names of fields, so that a field that is added later does not spoil older files.
        let bytes = rmp_serde::to_vec_named(&*contents)?;
        let fresh = self.path.with_extension("new");
        fs::write(&fresh, bytes).with_context(|| format!("writing {}", fresh.display()))?;
        fs::rename(&fresh, &self.path).with_context(|| format!("replacing {}", self.path.display()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Keeper for StateFile {
    async fn keep(&self, kept: &Kept) -> Result<(), Error> {
        let (file, kept) = (self.clone(), kept.clone());
        let failed = |message| Error::new(ErrorKind::Unavailable, "keep the circuit breaker", message);
        let written = tokio::task::spawn_blocking(move || file.set_breaker(&kept)).await;
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
    fn a_market_goes_on_where_it_was() {
        let path = place("goes-on");
        let file = StateFile::open(&path).unwrap();
        assert!(file.market().is_none() && file.breaker().is_empty());
        let chain = MemoryChain::new(MarketConfig::new("here", BlockTime(7)));
        file.follow(&chain);
        chain.advance(Duration::from_secs(1));
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        let shut = Kept {
            breaker_tripped: true,
            breaker_held_owners: [owner].into(),
        };
        file.set_breaker(&shut).unwrap();
        let again = StateFile::open(&path).unwrap();
        let market = again.market().unwrap();
        assert_eq!((market.chain_id(), market.height()), ("here", 2));
        assert_eq!(again.breaker(), shut);
    }

    #[test]
    fn a_file_of_something_else_is_refused_and_left_alone() {
        let path = place("foreign");
        fs::write(&path, "version: \"2.0\"\n").unwrap();
        let error = format!("{:#}", StateFile::open(&path).unwrap_err());
        assert!(error.contains("market.state is not a state file"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "version: \"2.0\"\n");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_at_once() {
        let error = format!(
            "{:#}",
            StateFile::open(Path::new("/proc/none/market")).unwrap_err()
        );
        assert!(error.contains("/proc/none/market"), "{error}");
    }
}
