//! The circuit breaker's state over restarts: a file that is there while it is tripped. Removing it releases the
//! breaker, of a provider that runs too.

use akash_provider_core::types::Address;
use anyhow::Context;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const TEXT: &str = "The circuit breaker has tripped: more leases were about to be closed by this provider than is \
                    usual.\nLook at its log. When that is how it should be, remove this file: the closes then go on.\n";

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

    pub(super) fn path(&self) -> &Path {
        &self.path
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
    fn it_stays_tripped_until_its_file_is_gone() {
        let home = std::env::temp_dir().join(format!("breaker-{}", std::process::id()));
        let account: Address = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm".parse().unwrap();
        let breaker = Breaker::of(&home, "../odd chain", &account);
        assert!(breaker.path().starts_with(&home) && !breaker.is_tripped().unwrap());
        breaker.set(false).unwrap();
        breaker.set(true).unwrap();
        assert!(Breaker::of(&home, "../odd chain", &account).is_tripped().unwrap());
        assert!(!Breaker::of(&home, "another", &account).is_tripped().unwrap());
        breaker.set(false).unwrap();
        assert!(!breaker.is_tripped().unwrap());
        fs::remove_dir_all(&home).unwrap();
    }
}
