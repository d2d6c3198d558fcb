//! A price policy that lies in a file and is read again when the file changes.

use crate::files;
use akash_provider_core::error::Error;
use akash_provider_core::pricing::policy::PolicyFile;
use akash_provider_core::pricing::{Policy, PriceRequest, PricingStrategy};
use akash_provider_core::types::DecCoin;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Largest file: a thousand rules with a hundred tenants each have room in it.
const BYTES_MAX: u64 = 8 << 20;
/// How old what is known of the file may be when a price is made.
const AGE_MAX: Duration = Duration::from_millis(500);

/// Prices by the policy of a file. A change counts for the next price that is asked for half a second later; a file that is no policy changes
/// nothing, and is told once.
#[derive(Debug)]
pub(crate) struct PolicyOfFile {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    policy: Arc<Policy>,
    /// Of the file when it was read.
    stamp: Option<Stamp>,
    looked_at: Instant,
}

/// What changes with a file: Kubernetes puts another file in its place, and an editor may keep it.
type Stamp = (u64, u64, i64, i64);

impl PolicyOfFile {
    /// The policy that lies there now.
    ///
    /// # Errors
    /// The file and what is wrong with it.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let stamp = stamp(path);
        let state = State {
            policy: Arc::new(read(path)?),
            stamp,
            looked_at: Instant::now(),
        };
        Ok(Self {
            path: path.to_owned(),
            state: Arc::new(Mutex::new(state)),
        })
    }

    /// The policy in force.
    async fn current(&self) -> Arc<Policy> {
        {
            let mut state = locked(&self.state);
            if state.looked_at.elapsed() < AGE_MAX {
                return Arc::clone(&state.policy);
            }
            // Set before the look, so that one price looks and the others go on with what is known.
            state.looked_at = Instant::now();
        }
        let (path, state) = (self.path.clone(), Arc::clone(&self.state));
        // A file on a disk that hangs must not hold the loop; the price then ends at its own limit.
        let looked = tokio::task::spawn_blocking(move || look(&path, &state)).await;
        if let Err(error) = looked {
            tracing::error!("the price policy could not be looked at: {error}");
        }
        Arc::clone(&locked(&self.state).policy)
    }
}

#[async_trait::async_trait]
impl PricingStrategy for PolicyOfFile {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        self.current().await.calculate_price(request).await
    }
}

/// Reads the file again where it is another than the one that was read.
fn look(path: &Path, state: &Mutex<State>) {
    let seen = stamp(path);
    if locked(state).stamp == seen {
        return;
    }
    let read = read(path);
    let mut state = locked(state);
    state.stamp = seen;
    match read {
        Ok(policy) => {
            state.policy = Arc::new(policy);
            tracing::info!(
                "the price policy {} was read again and counts from now on",
                path.display()
            );
        }
        Err(error) => tracing::warn!("the price policy stays as it was: {error}"),
    }
}

/// The policy in a file of YAML or JSON.
///
/// # Errors
/// The file, the line or key, and what is wrong there.
pub(crate) fn read(path: &Path) -> Result<Policy, String> {
    parse(path).and_then(|file| Policy::new(file).map_err(|error| format!("{}: {error}", path.display())))
}

/// The same as it is written.
///
/// # Errors
/// As [`read`], but for what a policy cannot be made of.
pub(crate) fn parse(path: &Path) -> Result<PolicyFile, String> {
    let shown = path.display();
    let text = files::text(path, BYTES_MAX).map_err(|error| format!("{shown}: {error}"))?;
    serde_saphyr::from_str(&text).map_err(|error| {
        let place = error.location().map(|at| format!("line {}: ", at.line()));
        let words = error.without_snippet().to_string();
        format!("{shown}: {}{words}", place.unwrap_or_default())
    })
}

fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

/// What is kept is whole whenever the lock is free.
fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::types::GroupSpec;

    const POLICY: &str =
        "version: 1\nper: block\ndenominations: {uact: 1}\nprices:\n  cpu: 1.5\n  storage: {ephemeral: 0}\n";

    fn request() -> PriceRequest {
        let sdl = "---\nversion: '2.0'\nservices: {web: {image: nginx, expose: [{port: 80, to: [{global: true}]}]}}\n\
                   profiles:\n  compute: {web: {resources: {cpu: {units: 2}, memory: {size: 1Gi}, storage: {size: 1Gi}}}}\n  \
                   placement: {here: {pricing: {web: {denom: uact, amount: 1000}}}}\n\
                   deployment: {web: {here: {profile: web, count: 1}}}\n";
        let group: GroupSpec = akash_provider_core::sdl::parse(sdl).unwrap().groups.remove(0);
        PriceRequest {
            owner: "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla".parse().unwrap(),
            group: Arc::new(group),
            allocated: None,
            precision: 6,
            utilization: None,
        }
    }

    #[tokio::test]
    async fn a_change_counts_and_what_is_no_policy_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.yaml");
        std::fs::write(&path, POLICY).unwrap();
        let policy = PolicyOfFile::open(&path).unwrap();
        let price = async || {
            let price = policy.calculate_price(&request()).await.unwrap();
            price.amount.to_plain()
        };
        assert_eq!(price().await, "3");
        let write = async |text: &str| {
            std::fs::write(&path, text).unwrap();
            tokio::time::sleep(AGE_MAX).await;
        };
        write(&POLICY.replace("1.5", "2")).await;
        assert_eq!(price().await, "4");
        write(&POLICY.replace("cpu: 1.5", "cpu: -7")).await;
        assert_eq!(price().await, "4", "an invalid file changes nothing");
        std::fs::remove_file(&path).unwrap();
        tokio::time::sleep(AGE_MAX).await;
        assert_eq!(price().await, "4", "nor does one that is gone");
        write(&POLICY.replace("1.5", "10")).await;
        assert_eq!(price().await, "20");
    }

    #[test]
    fn what_is_wrong_is_named_with_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.yaml");
        let wrong = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err();
            error
                .strip_prefix(&format!("{}: ", path.display()))
                .unwrap()
                .to_owned()
        };
        assert!(wrong(&POLICY.replace("1.5", "much")).starts_with("line 5: `much` is not a decimal number"));
        assert!(wrong(&POLICY.replace("cpu", "cpus")).starts_with("line 5: unknown field `cpus`"));
        assert!(wrong(&POLICY.replace("1.5", "-1")).starts_with("prices: the price of CPU is -0.001"));
        let empty = wrong("");
        assert!(!empty.is_empty(), "{empty}");
        assert!(read(Path::new("/dev/zero")).unwrap_err().contains("is a device"));
        let digits = POLICY.replace("1.5", "0.1234567890123456789");
        std::fs::write(
            &path,
            digits.replace("0.1234567890123456789", "'0.1234567890123456789'"),
        )
        .unwrap();
        assert!(read(&path).is_ok());
    }
}
