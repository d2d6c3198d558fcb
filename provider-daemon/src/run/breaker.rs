//! The circuit breaker's state over restarts: a file that is there while it is tripped. It is a note for the next
//! start and no switch: the command `breaker release` releases the breaker, and what is removed by hand is written
//! again while it is tripped.

use crate::breaker;
use akash_provider_core::bus::{Bus, LocalBus};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::types::{Address, Topic};
use anyhow::Context;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const TEXT: &str = "The circuit breaker has tripped: more leases were about to be closed by this provider than is \
                    usual.\nLook at its log. When that is how it should be, let the provider run and release it with \
                    `provider-daemon breaker release`: the closes then go on.\n";

/// Where it is kept.
#[derive(Debug, Clone)]
pub(super) struct Breaker {
    path: PathBuf,
}

impl Breaker {
    /// That of one account on one chain.
    pub(super) fn of(home: &Path, chain_id: &str, provider: &Address) -> Self {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        let chain: String = chain_id.chars().map(plain).collect();
        Self {
            path: home.join(format!("{provider}.{chain}.breaker-tripped")),
        }
    }

    /// Keeps what a provider does with its breaker, until the end.
    pub(super) async fn follow(
        &self,
        bus: &LocalBus,
        handle: ProviderHandle,
        until: CancellationToken,
    ) -> anyhow::Result<JoinHandle<()>> {
        let facts = bus.subscribe(&[Topic::Facts]).await?;
        let file = self.clone();
        Ok(tokio::spawn(async move {
            let now = || async { Some(handle.known_status().await?.breaker.tripped) };
            breaker::follow(facts, now, |tripped| file.keep(tripped), until).await;
        }))
    }

    /// Writes the file again when it is gone although the breaker of this provider has tripped.
    pub(super) async fn renew(&self, handle: &ProviderHandle) {
        if self.is_tripped().is_ok_and(|is_there| !is_there) {
            tracing::warn!(
                file = %self.path.display(),
                "the file of the tripped circuit breaker was removed, which releases nothing: it is written again"
            );
            self.keep(true);
            // It may have been released just before, and its file rightly removed.
            if handle
                .known_status()
                .await
                .is_some_and(|status| !status.breaker.tripped)
            {
                self.keep(false);
            }
        }
    }

    pub(super) fn is_tripped(&self) -> anyhow::Result<bool> {
        self.path
            .try_exists()
            .with_context(|| format!("looking for {}", self.path.display()))
    }

    /// Keeps what the engine says; the engine goes on where that fails.
    pub(super) fn keep(&self, tripped: bool) {
        if let Err(error) = self.set(tripped) {
            tracing::error!("the state of the circuit breaker was not kept: {error:#}");
        }
    }

    fn set(&self, tripped: bool) -> anyhow::Result<()> {
        if tripped {
            let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
            return fs::write(&self.path, TEXT).with_context(|| format!("writing {}", self.path.display()));
        }
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_tripped_over_a_restart() {
        let home = std::env::temp_dir().join(format!("breaker-{}", std::process::id()));
        let account: Address = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
        let breaker = Breaker::of(&home, "../odd chain", &account);
        assert!(breaker.path.starts_with(&home) && !breaker.is_tripped().unwrap());
        breaker.set(false).unwrap();
        breaker.set(true).unwrap();
        assert!(Breaker::of(&home, "../odd chain", &account).is_tripped().unwrap());
        assert!(!Breaker::of(&home, "another", &account).is_tripped().unwrap());
        breaker.set(false).unwrap();
        assert!(!breaker.is_tripped().unwrap());
        fs::remove_dir_all(&home).unwrap();
    }
}
