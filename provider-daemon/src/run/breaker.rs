//! The circuit breaker's state over restarts: a file that is there while it is tripped, for all or for some owners. It
//! is a note for the next start and no switch: the command `breaker release` releases the breaker, and what is removed
//! by hand is written again while it is tripped.
//!
//! ```text
//! # a remark
//! all
//! owner akash1…
//! ```
//! A file that says something else, or nothing, is never taken for a release: the breaker has then tripped for all.

use crate::plain;
use akash_provider_chain::regular_file;
use akash_provider_core::error::ErrorKind as Kind;
use akash_provider_core::provider::{Keeper, ProviderHandle};
use akash_provider_core::types::Address;
use akash_provider_core::{Config, Error, Kept};
use anyhow::Context;
use async_trait::async_trait;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const FOR_ALL: &str = "# The circuit breaker has tripped: more leases were about to be closed by this provider than \
                       is usual.\n";
const FOR_OWNERS: &str = "# The circuit breaker has tripped for the owners below: more leases of each of them were about \
                          to be closed\n# than is usual. Leases of others are closed as ever.\n";
const MEND: &str = "# Look at the provider's log. When that is how it should be, let the provider run and release it \
                    with\n# `provider-daemon breaker release`: the closes then go on.\n";
/// Longest file in bytes; the longest that is written has a line for each of 64 owners.
const BYTES_MAX: u64 = 16 * 1024;

/// Where it is kept.
#[derive(Debug, Clone)]
pub(super) struct Breaker {
    path: PathBuf,
    /// Who writes does so alone.
    turn: Arc<Mutex<()>>,
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
        // The chain id is a setting and may hold `/` and `..`: the file must stay in the home.
        let chain: String = chain_id.chars().map(plain).collect();
        Self {
            path: home.join(format!("{provider}.{chain}.breaker-tripped")),
            turn: Arc::default(),
        }
    }

    /// Writes the file again when it is gone although the breaker of this provider is `shut`.
    pub(super) async fn renew(&self, shut: &Kept, handle: &ProviderHandle) {
        if self.path.try_exists().is_ok_and(|is_there| !is_there) {
            tracing::warn!(
                file = %self.path.display(),
                "the file of the tripped circuit breaker was removed, which releases nothing: it is written again"
            );
            self.keep(shut);
            // It may have been released just before, and its file rightly removed.
            let now = handle.known_status().await;
            if let Some(now) = now.map(|status| Kept::of(&status)).filter(|now| now != shut) {
                self.keep(&now);
            }
        }
    }

    /// What was kept, given to the provider that starts.
    pub(super) fn remind(&self, config: &mut Config) -> Kept {
        let shut = self.kept();
        shut.give(config);
        shut
    }

    fn kept(&self) -> Kept {
        let read = regular_file::read(&self.path, BYTES_MAX);
        let (shut, problem) = match read {
            Ok(bytes) => parsed(&bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return Kept::default(),
            Err(error) => {
                let for_all = Kept::doubtful();
                (for_all, Some(format!("it cannot be read: {error}")))
            }
        };
        if let Some(problem) = problem {
            tracing::warn!(
                file = %self.path.display(),
                "{problem}: the circuit breaker counts as tripped for all; release it with `provider-daemon breaker \
                 release` when its leases may be closed"
            );
        }
        shut
    }

    /// Keeps what the engine says; the engine goes on where that fails.
    fn keep(&self, shut: &Kept) {
        if let Err(error) = self.set(shut) {
            tracing::error!("the state of the circuit breaker was not kept: {error:#}");
        }
    }

    fn set(&self, shut: &Kept) -> anyhow::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if shut.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                removed => removed
                    .and_then(|()| sync(self.folder()))
                    .with_context(|| format!("removing {}", self.path.display())),
            };
        }
        let folder = self.folder();
        fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        // Half of it would release some owners.
        let fresh = self.path.with_extension("breaker-new");
        write(&fresh, &text(shut)).with_context(|| format!("writing {}", fresh.display()))?;
        fs::rename(&fresh, &self.path)
            .and_then(|()| sync(folder))
            .with_context(|| format!("replacing {}", self.path.display()))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or_else(|| Path::new("."))
    }
}

#[async_trait]
impl Keeper for Breaker {
    async fn keep(&self, kept: &Kept) -> Result<(), Error> {
        let (file, kept) = (self.clone(), kept.clone());
        let failed = |message| Error::new(Kind::Unavailable, "keep the circuit breaker", message);
        // A disk may take its time, and the runtime has other things to do.
        let written = tokio::task::spawn_blocking(move || file.set(&kept)).await;
        match written {
            Ok(written) => written.map_err(|error| failed(format!("{error:#}"))),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// What is in a folder, and what no longer is, is so after a crash of the machine too.
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
    // On disk before the rename: after a crash the new name could otherwise stand for an empty file.
    file.sync_all()
}

fn text(shut: &Kept) -> String {
    let mut text = String::new();
    if shut.breaker_tripped {
        text.push_str(FOR_ALL);
    }
    if !shut.breaker_held_owners.is_empty() {
        text.push_str(FOR_OWNERS);
    }
    text.push_str(MEND);
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

/// What a file says, and what is wrong with it.
fn parsed(bytes: &[u8]) -> (Kept, Option<String>) {
    let mut shut = Kept::default();
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
                    format!("line {number} says neither `all` nor `owner ADDRESS`: `{line}`")
                });
            }
        }
    }
    if shut.is_empty() && problem.is_none() {
        problem = Some("it does not say for whom".to_owned());
    }
    // In doubt it has tripped: a lease that is closed late can still be closed, one that is closed wrongly is gone.
    shut.breaker_tripped |= problem.is_some();
    (shut, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm";

    fn shut(for_all: bool, owners: &[&str]) -> Kept {
        let owners = owners.iter().map(|owner| owner.parse().unwrap()).collect();
        Kept {
            breaker_tripped: for_all,
            breaker_held_owners: owners,
        }
    }

    #[test]
    fn breaker_stays_tripped_after_restart() {
        let home = std::env::temp_dir().join(format!("breaker-{}", std::process::id()));
        let account: Address = OWNER.parse().unwrap();
        let breaker = Breaker::of(&home, "../odd chain", &account);
        assert!(breaker.path.starts_with(&home) && breaker.kept().is_empty());
        breaker.set(&Kept::default()).unwrap();
        for kept in [shut(true, &[]), shut(false, &[OWNER]), shut(true, &[OWNER])] {
            breaker.set(&kept).unwrap();
            let again = Breaker::of(&home, "../odd chain", &account);
            let mut config = Config::new(account.clone(), "here");
            assert_eq!(again.remind(&mut config), kept);
            assert_eq!(config.breaker_tripped, kept.breaker_tripped);
            assert_eq!(config.breaker_held_owners, kept.breaker_held_owners);
        }
        assert!(Breaker::of(&home, "another", &account).kept().is_empty());
        breaker.set(&Kept::default()).unwrap();
        assert!(breaker.kept().is_empty());
        fs::create_dir(&breaker.path).unwrap();
        assert!(
            breaker.kept().breaker_tripped,
            "what cannot be read is no release"
        );
        fs::remove_dir(&breaker.path).unwrap();
        let left: Vec<_> = fs::read_dir(&home).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn a_file_that_makes_no_sense_is_no_release() {
        let owner = format!("# by hand\n\n  owner {OWNER}  \n");
        assert_eq!(parsed(owner.as_bytes()), (shut(false, &[OWNER]), None));
        let (half, problem) = parsed(format!("owner {OWNER}\nowner akash1y37\nowned\n").as_bytes());
        assert_eq!(half, shut(true, &[OWNER]));
        let problem = problem.unwrap();
        assert!(
            problem.contains("line 2") && problem.contains("`owner akash1y37`"),
            "{problem}"
        );
        // Nothing, only remarks, what versions before wrote, and no text at all.
        for text in [
            &b""[..],
            b"# all\n",
            b"The circuit breaker has tripped: more\n",
            b"\xff\xfe",
        ] {
            let (shut, problem) = parsed(text);
            assert!(shut.breaker_tripped && problem.is_some(), "{text:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let breaker = Breaker::of(folder.path(), "here", &OWNER.parse().unwrap());
        let kept = |text: &str| {
            fs::write(&breaker.path, text).unwrap();
            breaker.kept()
        };
        let line = format!("owner {OWNER}\n");
        let full = usize::try_from(BYTES_MAX).unwrap() / line.len();
        let mut long = line.repeat(full);
        long.push_str(&"\n".repeat(usize::try_from(BYTES_MAX).unwrap() - long.len()));
        assert_eq!(kept(&long), shut(false, &[OWNER]));
        long.push('\n');
        assert!(kept(&long).breaker_tripped);
    }
}
