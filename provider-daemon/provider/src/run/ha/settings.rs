//! Settings that all instances of a provider must share, as short hashes. Other processes can read the election record.
//! The record shows which settings differ between instances, but not their values.

use crate::args::RunArgs;
use crate::prices::{Stamp, stamp};
use akash_provider_core::Config;
use akash_provider_core::election::Election;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Settings that must have the same values as in the election record. An instance with other values never
/// leads.
pub(super) const FIXED: [&str; 3] = ["provider", "chain-id", CLUSTER];
/// Setting that identifies the cluster. Instances with different clusters would duplicate or lose leases.
pub(super) const CLUSTER: &str = "cluster";
/// Length of a shortened hash, in hexadecimal digits.
const DIGITS: usize = 16;
/// Maximum number of bytes that are hashed per file.
const FILE_MAX: u64 = 8 << 20;
/// Interval of file checks; shorter than the heartbeat interval.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Default name of the election Lease. The Role in `deploy/rbac` contains the same name. One name is
/// sufficient, because a namespace with Manifest records belongs to one provider.
pub(super) const LEASE: &str = "akash-provider";

/// Returns the default name of the election in Redis. Providers can share a Redis server, so the name
/// contains account and chain.
pub(super) fn name(config: &Config) -> String {
    let mut chain = hash(config.chain_id.as_bytes());
    chain.truncate(8);
    format!("akash-provider-{}-{chain}", config.provider)
}

/// Returns the setting that identifies the cluster.
pub(super) fn cluster(uid: &str) -> (String, String) {
    (CLUSTER.to_owned(), hash(uid.as_bytes()))
}

/// Hashes of the settings that all instances must share, by flag name. Changed files are hashed again.
#[derive(Debug, Clone)]
pub(super) struct SharedSettings {
    hashes: BTreeMap<String, String>,
    files: Vec<WatchedFile>,
}

#[derive(Debug, Clone)]
struct WatchedFile {
    name: String,
    path: PathBuf,
    /// Metadata of the file when its content was hashed.
    stamp: Option<Stamp>,
}

impl SharedSettings {
    pub(super) fn new(args: &RunArgs, config: &Config) -> Self {
        let of_config = [
            ("provider", config.provider.to_string()),
            ("chain-id", config.chain_id.clone()),
            // From the file of `--provider-config`.
            ("attributes", format!("{:?}", config.required_attributes)),
        ];
        let of_flags = args.compared.values.iter();
        let of_flags = of_flags.map(|(name, text)| (name.as_str(), text.clone()));
        let hashes = of_config.into_iter().chain(of_flags);
        let hashes = hashes.map(|(name, text)| (name.to_owned(), hash(text.as_bytes())));
        let files = args.compared.files.iter().map(|(name, path)| WatchedFile {
            name: name.clone(),
            path: path.clone(),
            stamp: None,
        });
        let mut settings = Self {
            hashes: hashes.collect(),
            files: files.collect(),
        };
        settings.refresh();
        settings
    }

    pub(super) fn insert(&mut self, (name, hash): (String, String)) {
        self.hashes.insert(name, hash);
    }

    pub(super) const fn hashes(&self) -> &BTreeMap<String, String> {
        &self.hashes
    }

    /// Computes new hashes of the changed files. Returns true if a hash changed. The hash of an unreadable
    /// file is unchanged, because the program still uses the old content.
    fn refresh(&mut self) -> bool {
        let mut is_changed = false;
        for file in &mut self.files {
            let seen = stamp(&file.path);
            if seen.is_none() || seen == file.stamp {
                continue;
            }
            let Ok(bytes) = read(&file.path) else {
                continue;
            };
            file.stamp = seen;
            let hash = hash(&bytes);
            is_changed |= self.hashes.insert(file.name.clone(), hash.clone()) != Some(hash);
        }
        is_changed
    }

    /// Passes new hashes to the election when files change. Returns at once if there are no files.
    pub(super) async fn follow(mut self, election: Arc<Election>) {
        while !self.files.is_empty() {
            sleep(CHECK_INTERVAL).await;
            // A slow disk must not delay the heartbeats.
            let look = move || {
                let is_changed = self.refresh();
                (self, is_changed)
            };
            let Ok((settings, is_changed)) = tokio::task::spawn_blocking(look).await else {
                return;
            };
            self = settings;
            if is_changed {
                election.set_settings(self.hashes.clone());
            }
        }
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = akash_provider_chain::regular_file::open(path)?;
    file.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn hash(bytes: &[u8]) -> String {
    let mut digits = data_encoding::HEXLOWER.encode(&Sha256::digest(bytes));
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::run_line::RunLine;
    use akash_provider_core::election::{PAYLOAD_MAX, RecordPayload};

    fn settings(words: &[&str]) -> SharedSettings {
        let args = RunLine::trial(words).unwrap();
        let provider = akash_provider_core::types::Address::from_bytes(&[7; 20]).unwrap();
        let config = crate::run::config::config(&args, provider, "test").unwrap();
        SharedSettings::new(&args, &config)
    }

    fn differs(words: &[&str]) -> Vec<String> {
        let (plain, other) = (settings(&[]), settings(words));
        let differs = |(name, hash): &(&String, &String)| plain.hashes.get(*name) != Some(*hash);
        let other = other.hashes.iter().filter(differs);
        other.map(|(name, _)| name.clone()).collect()
    }

    #[test]
    fn matches_the_default_lease_name_with_the_role() {
        let role = include_str!("../../../../../deploy/rbac/provider.yaml");
        assert!(role.contains(&format!("resourceNames: [\"{LEASE}\"]")));
        let parsed = akash_provider_cli::values::dns_name(LEASE);
        assert!(parsed.is_ok());
    }

    #[test]
    fn reports_differing_settings_that_must_be_equal() {
        for (flag, value) in [
            ("bid-price-cpu-scale", "7"),
            ("bid-timeout", "1m"),
            ("k8s-manifest-ns", "other"),
            ("cluster-k8s", "true"),
            ("unhealthy-limit", "1h"),
            ("breaker-floor", "5"),
            ("breaker-warmup", "0"),
            ("cluster-node-port-quantity", "10"),
            ("plain-registry-passwords", "true"),
            ("storage-class", "beta2=1Gi"),
            ("ingress-class", "other"),
            ("gateway-name", "other"),
            ("gateway-namespace", "other"),
            ("docker-image-pull-secrets-name", "other"),
            ("ingress-proxy-namespace", "other"),
        ] {
            assert_eq!(differs(&[&format!("--{flag}={value}")]), [flag]);
        }
        let own = [
            "--gateway-listen-address=none",
            "--node=http://b:1",
            "--ha-lease=20s",
            "--log-level=debug",
            "--bid-timeout=300s",
        ];
        assert_eq!(differs(&own), [""; 0]);
        let mut one = settings(&[]);
        one.insert(cluster("3f9f"));
        assert!(FIXED.iter().all(|name| one.hashes.contains_key(*name)));
        assert!(one.hashes.values().all(|hash| hash.len() == DIGITS));
        let beside = RecordPayload {
            settings: one.hashes,
            ..RecordPayload::default()
        };
        assert!(
            beside.to_json().len() < PAYLOAD_MAX / 4,
            "the record is written with each heartbeat"
        );
    }

    #[test]
    fn compares_files_by_content_and_reads_changed_files() {
        let folder = tempfile::tempdir().unwrap();
        for (strategy, flag) in [
            ("shellScript", "bid-price-script-path"),
            ("policy", "bid-price-policy"),
        ] {
            let script = |name: &str, text: &str| {
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                let path = format!("--{flag}={}", path.display());
                settings(&[&format!("--bid-price-strategy={strategy}"), &path])
            };
            let mut one = script("a", "echo 1");
            assert_eq!(one.hashes, script("b", "echo 1").hashes);
            assert!(!one.refresh());
            let other = script("b", "echo 2");
            assert_ne!(one.hashes, other.hashes);
            std::fs::write(folder.path().join("a"), "echo 2").unwrap();
            assert!(one.refresh());
            assert_eq!(one.hashes, other.hashes);
            // A missing file changes nothing: the last content is still used.
            std::fs::remove_file(folder.path().join("a")).unwrap();
            assert!(!one.refresh());
            assert_eq!(one.hashes, other.hashes);
        }
    }
}
