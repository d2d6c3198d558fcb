//! The file of the settings.

use crate::Failed;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::Config;
use akash_provider_core::pricing::scale::{Scale, ScaleConfig, parse_storage_scales};
use akash_provider_core::types::Address;
use data_encoding::HEXLOWER_PERMISSIVE;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What the file says.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Addresses of nodes of the chain.
    pub nodes: Vec<String>,
    /// The file of the account's private key, as 64 hexadecimal digits.
    pub key: PathBuf,
    /// The file of what is kept over restarts.
    pub kept: PathBuf,
    /// Prices.
    pub prices: Prices,
    /// The provider's own settings: durations as text, and what is missing by default.
    pub provider: Config,
}

/// What a unit costs for a block, in the denomination of the order, as decimal text.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// A thousandth of a core.
    pub cpu: String,
    /// A MiB of memory.
    pub memory: String,
    /// A MiB of storage; by class where they differ: `0.001,beta2=0.002`.
    pub storage: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    nodes: Vec<String>,
    key: PathBuf,
    kept: PathBuf,
    prices: Prices,
    provider: toml::Value,
}

impl Settings {
    /// From a file; names in it are seen from its folder.
    ///
    /// # Errors
    /// Names the file, the setting, and what it must be.
    pub fn read(path: &Path) -> Result<Self, Failed> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
        let file: File = toml::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
        let provider =
            Config::read(file.provider).map_err(|error| format!("{shown}: section provider: {error}"))?;
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        Ok(Self {
            nodes: file.nodes,
            key: folder.join(file.key),
            kept: folder.join(file.kept),
            prices: file.prices,
            provider,
        })
    }

    /// The key, which is the account's.
    pub(crate) fn private_key(&self, account: &Address) -> Result<PrivateKey, Failed> {
        let shown = self.key.display();
        let text = std::fs::read_to_string(&self.key).map_err(|error| format!("{shown}: {error}"))?;
        let bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes());
        let bytes =
            bytes.map_err(|error| format!("{shown}: {error}; write the key as 64 hexadecimal digits"))?;
        let key = PrivateKey::from_bytes(&bytes).map_err(|error| format!("{shown}: {error}"))?;
        if key.address() == account {
            return Ok(key);
        }
        let other = key.address();
        Err(format!("{shown}: it is the key of {other} and not of {account}; set `provider` or `key`").into())
    }
}

impl Prices {
    pub(crate) fn scale(&self) -> Result<Scale, Failed> {
        let wrong = |name: &str, error: &dyn std::fmt::Display| format!("prices: {name}: {error}");
        let config = ScaleConfig {
            cpu: self.cpu.parse().map_err(|error| wrong("cpu", &error))?,
            memory: self.memory.parse().map_err(|error| wrong("memory", &error))?,
            storage: parse_storage_scales(&self.storage).map_err(|error| wrong("storage", &error))?,
            ..ScaleConfig::default()
        };
        Ok(Scale::new(config)?)
    }
}
