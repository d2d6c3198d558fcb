//! Persisted state of the circuit breaker: a file that exists while the breaker is tripped for all owners or
//! for some owners. The next start reads the file. Only the command `breaker release` releases the breaker.
//! Deleting the file does not: the provider writes the file again while the breaker is tripped.
//!
//! ```text
//! # a remark
//! all
//! owner akash1…
//! ```
//! An empty file or a file with invalid content does not release the breaker: the breaker is then tripped for all
//! owners.

use akash_provider_chain::regular_file;
use akash_provider_cli::plain;
use akash_provider_core::error::ErrorKind as Kind;
use akash_provider_core::provider::{ProviderHandle, StateStore};
use akash_provider_core::types::Address;
use akash_provider_core::{Config, Error, RestartState};
use anyhow::Context;
use async_trait::async_trait;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const FOR_ALL: &str = "# The circuit breaker has tripped: this provider was about to close an unusual number of \
                       leases.\n";
const FOR_OWNERS: &str = "# The circuit breaker has tripped for the owners below: this provider was about to close an \
                          unusual\n# number of their leases. Leases of other owners are not affected.\n";
const HELP: &str = "# Check the log of the provider. If the closes are correct, start the provider and run\n\
                    # `provider-daemon breaker release`: the closes then continue.\n";
/// Maximum size of the circuit breaker file, in bytes; enough for 64 lease owners.
const BYTES_MAX: u64 = 16 * 1024;

#[derive(Debug, Clone)]
pub(super) struct BreakerFile {
    path: PathBuf,
    /// Lock during a write of the circuit breaker file.
    turn: Arc<Mutex<()>>,
}

impl BreakerFile {
    /// Returns the circuit breaker file in `home` for one provider on one chain.
    pub(super) fn new(home: &Path, chain_id: &str, provider: &Address) -> Self {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        // The chain ID is a setting and may contain `/` and `..`; the file must stay in the home directory.
        let chain: String = chain_id.chars().map(plain).collect();
        Self {
            path: home.join(format!("{provider}.{chain}.breaker-tripped")),
            turn: Arc::default(),
        }
    }

    /// Restores the file of a tripped circuit breaker if the file was deleted.
    pub(super) async fn rewrite_if_deleted(&self, shut: &RestartState, handle: &ProviderHandle) {
        if self.path.try_exists().is_ok_and(|is_there| !is_there) {
            tracing::warn!(
                file = %self.path.display(),
                "file of the tripped circuit breaker was deleted, writing it again; to release the breaker, run `provider-daemon breaker release`"
            );
            self.keep(shut);
            // The breaker may have been released in the meantime, and its file correctly deleted.
            let now = handle.try_status().await;
            if let Some(now) = now
                .map(|status| RestartState::from_status(&status))
                .filter(|now| now != shut)
            {
                self.keep(&now);
            }
        }
    }

    /// Copies the stored state of the circuit breaker into `config`.
    pub(super) fn restore(&self, config: &mut Config) -> RestartState {
        let shut = self.load();
        shut.apply_to(config);
        shut
    }

    fn load(&self) -> RestartState {
        let read = regular_file::read(&self.path, BYTES_MAX);
        let (shut, problem) = match read {
            Ok(bytes) => parse_file(&bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return RestartState::default(),
            Err(error) => {
                let for_all = RestartState::unknown();
                (for_all, Some(format!("cannot read the file: {error}")))
            }
        };
        if let Some(problem) = problem {
            tracing::warn!(
                file = %self.path.display(),
                problem,
                "invalid circuit breaker file, so the circuit breaker is tripped for all owners; check the leases and run \
                 `provider-daemon breaker release`"
            );
        }
        shut
    }

    /// Stores the state of the circuit breaker. Removes the file if the breaker has not tripped. Logs a
    /// failure.
    fn keep(&self, shut: &RestartState) {
        if let Err(error) = self.set(shut) {
            tracing::error!(error = %format_args!("{error:#}"), "cannot store the state of the circuit breaker for the next start; check the home directory");
        }
    }

    fn set(&self, shut: &RestartState) -> anyhow::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if shut.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                removed => removed
                    .and_then(|()| sync(self.folder()))
                    .with_context(|| format!("cannot remove {}", self.path.display())),
            };
        }
        let folder = self.folder();
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        // Written atomically: a partial file would release some owners.
        let fresh = self.path.with_extension("breaker-new");
        write(&fresh, &text(shut)).with_context(|| format!("cannot write {}", fresh.display()))?;
        fs::rename(&fresh, &self.path)
            .and_then(|()| sync(folder))
            .with_context(|| format!("cannot replace {}", self.path.display()))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or_else(|| Path::new("."))
    }
}

#[async_trait]
impl StateStore for BreakerFile {
    async fn save(&self, state: &RestartState) -> Result<(), Error> {
        let (file, state) = (self.clone(), state.clone());
        let failed = |message| Error::new(Kind::Unavailable, "store the circuit breaker", message);
        // A slow disk must not block the runtime.
        let written = tokio::task::spawn_blocking(move || file.set(&state)).await;
        match written {
            Ok(written) => written.map_err(|error| failed(format!("{error:#}"))),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// Flushes a directory, so that created and deleted files survive a crash.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    use io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    // Flushed before the rename: otherwise the new name could refer to an empty file after a crash.
    file.sync_all()
}

fn text(shut: &RestartState) -> String {
    let mut text = String::new();
    if shut.breaker_tripped {
        text.push_str(FOR_ALL);
    }
    if !shut.breaker_held_owners.is_empty() {
        text.push_str(FOR_OWNERS);
    }
    text.push_str(HELP);
    if shut.breaker_tripped {
        text.push_str("all\n");
    }
    let owners = shut
        .breaker_held_owners
        .iter()
        .map(|owner| format!("owner {owner}\n"));
    text.extend(owners);
    text
}

/// Parses the circuit breaker file. Also returns the first error.
fn parse_file(bytes: &[u8]) -> (RestartState, Option<String>) {
    let mut shut = RestartState::default();
    let mut problem = None;
    for (number, line) in (1..).zip(String::from_utf8_lossy(bytes).lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let owner = line.strip_prefix("owner ").map(|owner| owner.trim().parse());
        match owner {
            Some(Ok(owner)) => drop(shut.breaker_held_owners.insert(owner)),
            None if line == "all" => shut.breaker_tripped = true,
            _ => {
                let line = plain::line(line);
                problem.get_or_insert_with(|| {
                    format!("line {number}: expected `all` or `owner ADDRESS`, found `{line}`")
                });
            }
        }
    }
    if shut.is_empty() && problem.is_none() {
        problem = Some("the file names no owners".to_owned());
    }
    // An invalid file counts as tripped: a delayed close can still happen, but a wrong close cannot be undone.
    shut.breaker_tripped |= problem.is_some();
    (shut, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

    fn shut(for_all: bool, owners: &[&str]) -> RestartState {
        let owners = owners.iter().map(|owner| owner.parse().unwrap()).collect();
        RestartState {
            breaker_tripped: for_all,
            breaker_held_owners: owners,
        }
    }

    #[test]
    fn breaker_stays_tripped_after_restart() {
        let home = std::env::temp_dir().join(format!("breaker-{}", std::process::id()));
        let account: Address = OWNER.parse().unwrap();
        let breaker = BreakerFile::new(&home, "../odd chain", &account);
        assert!(breaker.path.starts_with(&home) && breaker.load().is_empty());
        breaker.set(&RestartState::default()).unwrap();
        for state in [shut(true, &[]), shut(false, &[OWNER]), shut(true, &[OWNER])] {
            breaker.set(&state).unwrap();
            let again = BreakerFile::new(&home, "../odd chain", &account);
            let mut config = Config::new(account.clone(), "here");
            assert_eq!(again.restore(&mut config), state);
            assert_eq!(config.breaker_tripped, state.breaker_tripped);
            assert_eq!(config.breaker_held_owners, state.breaker_held_owners);
        }
        assert!(BreakerFile::new(&home, "another", &account).load().is_empty());
        breaker.set(&RestartState::default()).unwrap();
        assert!(breaker.load().is_empty());
        fs::create_dir(&breaker.path).unwrap();
        assert!(
            breaker.load().breaker_tripped,
            "an unreadable file must not release the breaker"
        );
        fs::remove_dir(&breaker.path).unwrap();
        let left: Vec<_> = fs::read_dir(&home).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn does_not_release_the_breaker_for_an_invalid_file() {
        let owner = format!("# manual\n\n  owner {OWNER}  \n");
        assert_eq!(parse_file(owner.as_bytes()), (shut(false, &[OWNER]), None));
        let (half, problem) = parse_file(format!("owner {OWNER}\nowner akash1y37\nowned\n").as_bytes());
        assert_eq!(half, shut(true, &[OWNER]));
        let problem = problem.unwrap();
        assert!(
            problem.contains("line 2") && problem.contains("`owner akash1y37`"),
            "{problem}"
        );
        // Empty, only remarks, the format of earlier versions, and invalid UTF-8.
        for text in [
            &b""[..],
            b"# all\n",
            b"The circuit breaker has tripped: more\n",
            b"\xff\xfe",
        ] {
            let (shut, problem) = parse_file(text);
            assert!(shut.breaker_tripped && problem.is_some(), "{text:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let breaker = BreakerFile::new(folder.path(), "here", &OWNER.parse().unwrap());
        let loaded = |text: &str| {
            fs::write(&breaker.path, text).unwrap();
            breaker.load()
        };
        let line = format!("owner {OWNER}\n");
        let full = usize::try_from(BYTES_MAX).unwrap() / line.len();
        let mut long = line.repeat(full);
        long.push_str(&"\n".repeat(usize::try_from(BYTES_MAX).unwrap() - long.len()));
        assert_eq!(loaded(&long), shut(false, &[OWNER]));
        long.push('\n');
        assert!(loaded(&long).breaker_tripped);
    }
}
