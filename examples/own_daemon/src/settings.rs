//! Settings file of the daemon.

use crate::DaemonError;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::Config;
use akash_provider_core::pricing::scale::{Scale, ScaleConfig, parse_storage_scales};
use akash_provider_core::types::Address;
use data_encoding::HEXLOWER_PERMISSIVE;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Settings of the daemon, from its settings file.
#[derive(Debug, Clone)]
pub struct DaemonSettings {
    /// URLs of chain nodes.
    pub nodes: Vec<String>,
    /// Path of the file with the private key of the account, as 64 hexadecimal digits.
    pub key: PathBuf,
    /// Path of the file with the state that survives restarts.
    pub state: PathBuf,
    /// Prices of resources.
    pub prices: Prices,
    /// Settings of the provider. In the file, durations are text, and a missing setting has its default.
    pub provider: Config,
}

/// Prices per block, in the denomination of the order, as decimal text.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Price of a millicore.
    pub cpu: String,
    /// Price of a MiB of memory.
    pub memory: String,
    /// Price of a MiB of storage. Classes can have different prices: `0.001,beta2=0.002`.
    pub storage: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    nodes: Vec<String>,
    key: PathBuf,
    state: PathBuf,
    prices: Prices,
    provider: toml::Value,
}

impl DaemonSettings {
    /// Reads the settings file. Paths in the file are relative to its folder.
    ///
    /// # Errors
    /// The error names the file, the setting, and the expected value.
    pub fn read(path: &Path) -> Result<Self, DaemonError> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        let file: File = toml::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
        let provider =
            Config::read(file.provider).map_err(|error| format!("{name}: section provider: {error}"))?;
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        Ok(Self {
            nodes: file.nodes,
            key: folder.join(file.key),
            state: folder.join(file.state),
            prices: file.prices,
            provider,
        })
    }

    /// Reads the private key file. The key must belong to `account`.
    pub(crate) fn private_key(&self, account: &Address) -> Result<PrivateKey, DaemonError> {
        let name = self.key.display();
        let text = std::fs::read_to_string(&self.key).map_err(|error| format!("{name}: {error}"))?;
        let bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes());
        let bytes =
            bytes.map_err(|error| format!("{name}: {error}; write the key as 64 hexadecimal digits"))?;
        let key = PrivateKey::from_bytes(&bytes).map_err(|error| format!("{name}: {error}"))?;
        if key.address() == account {
            return Ok(key);
        }
        let other = key.address();
        Err(format!("{name}: key of {other} instead of {account}; change `provider` or `key`").into())
    }
}

impl Prices {
    pub(crate) fn scale(&self) -> Result<Scale, DaemonError> {
        let wrong = |name: &str, error: &dyn std::fmt::Display| format!("prices: {name}: {error}");
        let mut config = ScaleConfig::default();
        config.cpu = self.cpu.parse().map_err(|error| wrong("cpu", &error))?;
        config.memory = self.memory.parse().map_err(|error| wrong("memory", &error))?;
        config.storage = parse_storage_scales(&self.storage).map_err(|error| wrong("storage", &error))?;
        Ok(Scale::new(config)?)
    }
}
