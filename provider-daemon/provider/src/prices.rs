//! Price policy in a file that is reloaded when it changes.

use crate::files;
use akash_provider_core::error::Error;
use akash_provider_core::pricing::policy::{Line, PolicyFile};
use akash_provider_core::pricing::{Policy, PriceRequest, PricingStrategy};
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::types::{DecCoin, Height};
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum file size, in bytes; enough for a thousand rules with a hundred tenants each.
const BYTES_MAX: u64 = 8 << 20;
/// Minimum interval between two checks of the policy file.
const AGE_MAX: Duration = Duration::from_millis(500);
/// The price policy of each recent block is stored, for at most this number of blocks.
const BLOCKS: usize = 16;

/// Price policy from a file, reloaded after each change. While the file is invalid, the last valid policy
/// stays in force. Clones share the policy.
#[derive(Debug, Clone)]
pub struct FilePolicy {
    path: PathBuf,
    state: Arc<Mutex<PolicyState>>,
    /// Time at which the policy file was last checked. A running check holds the lock, so concurrent callers
    /// wait for the result.
    checked: Arc<tokio::sync::Mutex<Instant>>,
}

#[derive(Debug)]
struct PolicyState {
    policy: Arc<Policy>,
    /// Number of successful reloads.
    version: u64,
    /// Policy for each recent block. All orders of a block have the policy of the first priced order.
    block_policies: VecDeque<(Height, Arc<Policy>)>,
    /// File metadata at the last read; `None` after a failed read.
    stamp: Option<Stamp>,
    /// Error of the last check; logged once.
    error: Option<String>,
}

/// File metadata, including the ctime. Each change of the content changes this metadata.
pub(crate) type Stamp = (u64, u64, [i64; 4]);

impl FilePolicy {
    /// Opens the policy file.
    ///
    /// # Errors
    /// Returns an error with the file and the position of the mistake.
    pub fn open(path: &Path) -> Result<Self, String> {
        // Read before the content, so that a later change has another stamp.
        let stamp = stamp(path);
        let state = PolicyState {
            policy: Arc::new(read(path)?),
            version: 0,
            block_policies: VecDeque::new(),
            stamp,
            error: None,
        };
        Ok(Self {
            path: path.to_owned(),
            state: Arc::new(Mutex::new(state)),
            checked: Arc::new(tokio::sync::Mutex::new(Instant::now())),
        })
    }

    /// Reloads the file after each change. The provider then reconsiders the orders that were declined
    /// because of their price. Returns when the provider stops.
    pub(crate) async fn follow(self, handle: ProviderHandle) {
        let mut last_version = locked(&self.state).version;
        loop {
            tokio::time::sleep(AGE_MAX).await;
            let version = self.refresh().await;
            if version == last_version {
                continue;
            }
            last_version = version;
            if handle.prices_changed().await.is_err() {
                return;
            }
        }
    }

    /// Checks the file at most once per [`AGE_MAX`]. Returns the current version of the policy.
    async fn refresh(&self) -> u64 {
        let mut checked = self.checked.lock().await;
        if checked.elapsed() >= AGE_MAX {
            let (path, state) = (self.path.clone(), Arc::clone(&self.state));
            // A slow disk must not block the loop; the price calculation has its own timeout.
            let look = tokio::task::spawn_blocking(move || look(&path, &state)).await;
            if let Err(error) = look {
                tracing::error!(%error, "reading the price policy panicked, the previous policy applies; report this as a bug");
            }
            *checked = Instant::now();
        }
        locked(&self.state).version
    }

    /// Returns the policy for the block in `request`. All orders of a block get the same policy.
    fn policy_of(&self, request: &PriceRequest) -> Arc<Policy> {
        let mut state = locked(&self.state);
        let policy = Arc::clone(&state.policy);
        let Some(height) = request.height else {
            return policy;
        };
        if let Some((_, first)) = state.block_policies.iter().find(|(of, _)| *of == height) {
            return Arc::clone(first);
        }
        state.block_policies.truncate(BLOCKS - 1);
        state.block_policies.push_front((height, Arc::clone(&policy)));
        policy
    }
}

#[async_trait::async_trait]
impl PricingStrategy for FilePolicy {
    async fn calculate_price(&self, request: &PriceRequest) -> Result<DecCoin, Error> {
        self.refresh().await;
        self.policy_of(request).calculate_price(request).await
    }

    fn price_lines(&self, request: &PriceRequest) -> Option<Vec<Line>> {
        let policy = {
            let state = locked(&self.state);
            let of_block = request
                .height
                .and_then(|height| state.block_policies.iter().find(|(of, _)| *of == height));
            Arc::clone(of_block.map_or(&state.policy, |(_, policy)| policy))
        };
        policy.price_lines(request)
    }
}

/// Reads the file if it changed since the last successful read.
fn look(path: &Path, state: &Mutex<PolicyState>) {
    let seen = stamp(path);
    if !is_read(state, seen) {
        take(path, state, seen, text(path));
    }
}

fn is_read(state: &Mutex<PolicyState>, seen: Option<Stamp>) -> bool {
    seen.is_some() && locked(state).stamp == seen
}

/// Applies the result of a read. A failed read is repeated; an invalid file is read again only after a
/// change.
fn take(path: &Path, state: &Mutex<PolicyState>, seen: Option<Stamp>, text: Result<String, String>) {
    let has_text = text.is_ok();
    let read = text.and_then(|text| policy(path, &text));
    let mut state = locked(state);
    state.stamp = seen.filter(|_| has_text);
    match read {
        Ok(policy) => {
            state.policy = Arc::new(policy);
            state.version += 1;
            state.error = None;
            tracing::info!(path = %path.display(), "price policy reloaded");
        }
        Err(error) if state.error.as_ref() == Some(&error) => {}
        Err(error) => {
            tracing::warn!(%error, "cannot read the price policy, the previous policy applies; fix the file");
            state.error = Some(error);
        }
    }
}

/// Reads a policy in YAML or JSON.
///
/// # Errors
/// Returns an error with the file, the line or key, and the cause.
pub(crate) fn read(path: &Path) -> Result<Policy, String> {
    text(path).and_then(|text| policy(path, &text))
}

/// Parses the policy file without building the policy.
///
/// # Errors
/// Returns an error if the file cannot be read or does not have the format of a policy file. This function
/// does not detect semantic errors.
pub fn parse(path: &Path) -> Result<PolicyFile, String> {
    text(path).and_then(|text| parsed(path, &text))
}

fn text(path: &Path) -> Result<String, String> {
    files::text(path, BYTES_MAX).map_err(|error| format!("{}: {error}", path.display()))
}

fn policy(path: &Path, text: &str) -> Result<Policy, String> {
    Policy::new(parsed(path, text)?).map_err(|error| format!("{}: {error}", path.display()))
}

fn parsed(path: &Path, text: &str) -> Result<PolicyFile, String> {
    serde_saphyr::from_str(text).map_err(|error| format!("{}: {}", path.display(), files::yaml_error(&error)))
}

pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(path).ok()?;
    let times = [
        about.mtime(),
        about.mtime_nsec(),
        about.ctime(),
        about.ctime_nsec(),
    ];
    Some((about.ino(), about.len(), times))
}

// The state is consistent whenever the lock is free.
fn locked(state: &Mutex<PolicyState>) -> MutexGuard<'_, PolicyState> {
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
            height: None,
        }
    }

    #[tokio::test]
    async fn reloads_a_changed_policy_and_ignores_an_invalid_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.yaml");
        std::fs::write(&path, POLICY).unwrap();
        let policy = FilePolicy::open(&path).unwrap();
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
        assert_eq!(price().await, "4", "an invalid file must not change the price");
        std::fs::remove_file(&path).unwrap();
        tokio::time::sleep(AGE_MAX).await;
        assert_eq!(price().await, "4", "a deleted file must not change the price");
        write(&POLICY.replace("1.5", "10")).await;
        assert_eq!(price().await, "20");
    }

    #[tokio::test]
    async fn uses_one_policy_for_a_burst_and_for_a_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.yaml");
        std::fs::write(&path, POLICY).unwrap();
        let policy = FilePolicy::open(&path).unwrap();
        let burst = async |height| {
            let request = PriceRequest { height, ..request() };
            let prices = (0..50).map(|_| policy.calculate_price(&request));
            let prices = futures::future::join_all(prices).await.into_iter();
            let prices: std::collections::BTreeSet<_> =
                prices.map(|p| p.unwrap().amount.to_plain()).collect();
            prices.into_iter().collect::<Vec<_>>()
        };
        for round in 2..6 {
            let height = Some(round);
            let old = burst(height).await;
            std::fs::write(&path, POLICY.replace("1.5", &round.to_string())).unwrap();
            tokio::time::sleep(AGE_MAX).await;
            assert_eq!(
                burst(None).await,
                [(2 * round).to_string()],
                "after half a second"
            );
            assert_eq!(
                burst(height).await,
                old,
                "orders of a block from before the change"
            );
            assert_eq!(burst(Some(round + 100)).await, [(2 * round).to_string()]);
        }
    }

    /// A read can fail for a reason outside of the file, such as too many open files.
    #[test]
    fn after_a_failed_read_an_unchanged_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.yaml");
        std::fs::write(&path, POLICY).unwrap();
        let policy = FilePolicy::open(&path).unwrap();
        let (state, seen) = (&*policy.state, stamp(&path));
        assert!(is_read(state, seen));
        take(&path, state, seen, Err("too many open files".to_owned()));
        assert!(!is_read(state, seen));
        look(&path, state);
        let version = locked(state).version;
        assert_eq!((version, is_read(state, seen)), (1, true));
        take(&path, state, seen, Ok("version: 7".to_owned()));
        assert!(is_read(state, seen), "an invalid policy is reported once");
    }

    #[tokio::test]
    async fn retries_an_unreadable_file_and_detects_changes_without_an_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prices.yaml");
        std::fs::write(&path, POLICY).unwrap();
        let policy = FilePolicy::open(&path).unwrap();
        let look = async || {
            tokio::time::sleep(AGE_MAX).await;
            let version = policy.refresh().await;
            (version, locked(&policy.state).error.clone())
        };
        assert_eq!(look().await, (0, None));
        // Root can read a file with mode 000, so the file is moved instead.
        let aside = folder.path().join("aside");
        std::fs::rename(&path, &aside).unwrap();
        std::fs::create_dir(&path).unwrap();
        let (version, error) = look().await;
        assert_eq!(version, 0);
        assert!(error.unwrap().contains("prices.yaml"));
        std::fs::remove_dir(&path).unwrap();
        // The same file with the same content times.
        std::fs::rename(&aside, &path).unwrap();
        assert_eq!(look().await, (1, None));
        std::fs::write(&path, "version: 7\n").unwrap();
        let (version, error) = look().await;
        assert_eq!((version, error.is_some()), (1, true), "reported without a price");
        assert_eq!(look().await, (1, error));
    }

    #[test]
    fn reports_policy_errors_with_file_and_line() {
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
