//! Known holes in the packages that others wrote.
//!
//! They are looked up in RustSec's database, a folder of files that cargo-audit and cargo-deny keep too. It is
//! brought up to date where its home can be reached; else the newest copy at hand is used and its age is said, and
//! without any copy the check is skipped and says so. Ours lies below the target folder and is never committed. The newest copy is of no use to somebody who does not see how old it
//! is: a hole is told of days after it is found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::process::Process;
use crate::report::Notes;
use crate::workspace::{Package, Workspace, read};

/// Where the database is from.
const HOME: &str = "https://github.com/RustSec/advisory-db";
/// Names the folder of a copy, which is then the only one that is used.
const VARIABLE: &str = "ADVISORY_DB";
/// Time for fetching it: it has some ten megabytes.
const FETCH_MAX: Duration = Duration::from_mins(1);
/// A copy that was fetched so recently is not fetched again.
const FRESH: Duration = Duration::from_hours(6);
const DAY: Duration = Duration::from_hours(24);

/// The head of an advisory.
#[derive(Debug, Deserialize)]
struct Entry {
    advisory: Advisory,
    #[serde(default)]
    versions: Versions,
}

#[derive(Debug, Deserialize)]
struct Advisory {
    id: String,
    package: String,
    /// A warning, such as that nobody looks after a package any more, and no hole.
    informational: Option<String>,
    withdrawn: Option<toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Versions {
    #[serde(default)]
    patched: Vec<String>,
    #[serde(default)]
    unaffected: Vec<String>,
}

/// What deny.toml says about advisories.
#[derive(Debug, Default, Deserialize)]
struct Policy {
    #[serde(default)]
    advisories: Accepted,
}

#[derive(Debug, Default, Deserialize)]
struct Accepted {
    #[serde(default)]
    ignore: Vec<Ignored>,
}

/// An advisory that does not concern us, and why.
#[derive(Debug, Deserialize)]
struct Ignored {
    id: String,
    reason: String,
}

/// What was found out about the packages.
#[derive(Debug, Default, PartialEq, Eq)]
struct Judged {
    holes: Vec<String>,
    notes: Notes,
}

/// Looks every package up; the notes say by which database, and how old it is.
pub(crate) fn run(workspace: &Workspace) -> Result<Notes> {
    let Some(database) = Places::of(workspace).newest(|own| fetch(HOME, own))? else {
        return Ok(vec![format!(
            "skipped, no package was looked up: there is no database of advisories, and {HOME} cannot be fetched; \
             name the folder of a copy in {VARIABLE}"
        )]);
    };
    let policy: Policy = toml::from_str(&read(&workspace.root.join("deny.toml"))?)
        .map_err(|error| Error::new(format!("deny.toml: {error}")))?;
    let judged = judge(&database, workspace.strangers(), &policy)?;
    let mut notes = vec![format!("{}: {}", database.display(), age(&database))];
    notes.extend(judged.notes);
    Error::from_findings("advisories", &judged.holes)?;
    Ok(notes)
}

/// Folders in which a database may be.
struct Places {
    /// The only one to be used, where somebody names one.
    named: Option<PathBuf>,
    /// Ours, below the target folder: in no commit, and there again after the next fetch.
    own: PathBuf,
    /// Cargo's, where cargo-audit and cargo-deny keep theirs.
    cargo: Option<PathBuf>,
}

impl Places {
    fn of(workspace: &Workspace) -> Self {
        let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        Self {
            named: std::env::var_os(VARIABLE).map(PathBuf::from),
            own: workspace.target.join("advisory-db"),
            cargo: cargo.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))),
        }
    }

    /// The newest copy, after ours was fetched where it is not fresh; nothing where there is none at all.
    fn newest(self, fetch: impl FnOnce(&Path)) -> Result<Option<PathBuf>> {
        if let Some(named) = self.named {
            if !named.join("crates").is_dir() {
                let text = format!(
                    "{VARIABLE} names {}, which has no folder `crates`",
                    named.display()
                );
                return Err(Error::new(text));
            }
            return Ok(Some(named));
        }
        if written(&self.own).is_none_or(|age| age > FRESH) {
            fetch(&self.own);
        }
        let mut copies = vec![self.own];
        if let Some(cargo) = self.cargo {
            copies.push(cargo.join("advisory-db"));
            let kept = std::fs::read_dir(cargo.join("advisory-dbs"));
            copies.extend(kept.into_iter().flatten().flatten().map(|entry| entry.path()));
        }
        copies.retain(|copy| copy.join("crates").is_dir());
        Ok(copies
            .into_iter()
            .min_by_key(|copy| written(copy).unwrap_or(Duration::MAX)))
    }
}

/// Brings our own copy up to date, or leaves it as it is.
fn fetch(home: &str, own: &Path) {
    if let Err(error) = fetched(home, own) {
        eprintln!("the advisories cannot be fetched: {error}");
    }
}

fn fetched(home: &str, own: &Path) -> Result<()> {
    let git = |args: &[&str]| {
        let process = Process::new("git", Path::new("/")).args(args);
        // Nobody is there to be asked for a password.
        let process = process.env("GIT_TERMINAL_PROMPT", "0").quiet().silent();
        process.limit(FETCH_MAX).lines().map(|_| ())
    };
    if own.join("crates").is_dir() {
        return git(&["-C", &own.display().to_string(), "pull", "--quiet", "--ff-only"]);
    }
    // Beside its place first: one that was ended halfway would be in the way of every one after it.
    let failed = |error: std::io::Error| Error::new(format!("{}: {error}", own.display()));
    let half = own.with_extension("half");
    for leftover in [own, &half] {
        if leftover.exists() {
            std::fs::remove_dir_all(leftover).map_err(failed)?;
        }
    }
    let folder = half.display().to_string();
    git(&["clone", "--quiet", "--depth", "1", home, &folder])?;
    std::fs::rename(&half, own).map_err(failed)
}

/// How long ago a copy was last written: fetched, or unpacked.
fn written(copy: &Path) -> Option<Duration> {
    let of = |path: PathBuf| std::fs::metadata(path).ok()?.modified().ok();
    let at = of(copy.join(".git/FETCH_HEAD")).max(of(copy.join("crates")))?;
    Some(SystemTime::now().duration_since(at).unwrap_or_default())
}

/// How old its newest advisory is, by git where it is a clone, else by the files themselves.
fn age(copy: &Path) -> String {
    // Elsewhere git would speak of the folder around it.
    let is_clone = copy.join(".git").exists();
    let seconds = is_clone.then(|| {
        let last = Process::new("git", copy).args(["log", "-1", "--format=%ct"]);
        last.quiet().silent().lines().ok()?.first()?.trim().parse().ok()
    });
    let changed = seconds
        .flatten()
        .map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
    let since = match changed {
        Some(at) => SystemTime::now().duration_since(at).ok(),
        None => written(copy),
    };
    match since.map(|since| since.as_secs() / DAY.as_secs()) {
        None => "of unknown age".to_owned(),
        Some(days @ 0..=14) => format!("{days} days old"),
        Some(days) => format!("{days} days old: what was found since is not known here"),
    }
}

/// Compares packages with the advisories about them.
fn judge<'p>(
    database: &Path,
    packages: impl Iterator<Item = &'p Package>,
    policy: &Policy,
) -> Result<Judged> {
    let mut judged = Judged::default();
    let mut unused: BTreeMap<&str, &str> = policy
        .advisories
        .ignore
        .iter()
        .map(|ignored| (ignored.id.as_str(), ignored.reason.as_str()))
        .collect();
    let accepted = unused.clone();
    let mut looked_up = 0;
    for package in packages {
        looked_up += 1;
        for path in advisories_of(database, &package.name)? {
            let entry = entry(&read(&path)?, &path)?;
            if entry.advisory.package != package.name || !concerns(&entry, &package.version, &path)? {
                continue;
            }
            let Advisory {
                id, informational, ..
            } = &entry.advisory;
            unused.remove(id.as_str());
            let what = format!("{} {}: {id}", package.name, package.version);
            match (accepted.get(id.as_str()), informational) {
                (Some(reason), _) => judged.notes.push(format!("{what} is accepted: {reason}")),
                (None, Some(kind)) => judged.notes.push(format!("{what} ({kind})")),
                (None, None) => judged.holes.push(format!("{what}, a known hole: update it")),
            }
        }
    }
    if looked_up == 0 {
        return Err(Error::new("cargo names no package to look up"));
    }
    for id in unused.keys() {
        judged
            .holes
            .push(format!("deny.toml accepts {id}, which concerns no package"));
    }
    Ok(judged)
}

fn advisories_of(database: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let folder = database.join("crates").join(name);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let failed = |error| Error::new(format!("{}: {error}", folder.display()));
    let mut found = Vec::new();
    for file in std::fs::read_dir(&folder).map_err(failed)? {
        let path = file.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the head of an advisory: TOML between two fences, at the beginning.
fn entry(text: &str, path: &Path) -> Result<Entry> {
    let head = text
        .trim_start()
        .strip_prefix("```toml")
        .and_then(|rest| rest.split_once("\n```"));
    let (head, _) = head.ok_or_else(|| Error::new(format!("{}: has no head", path.display())))?;
    toml::from_str(head).map_err(|error| Error::new(format!("{}: {error}", path.display())))
}

/// Whether an advisory is about this version.
fn concerns(entry: &Entry, version: &str, path: &Path) -> Result<bool> {
    let failed = |error: semver::Error| Error::new(format!("{}: {error}", path.display()));
    let mut version = Version::parse(version).map_err(failed)?;
    if entry.advisory.withdrawn.is_some() {
        return Ok(false);
    }
    // What is before a release is judged as that release: requirements name none of them.
    version.pre = semver::Prerelease::EMPTY;
    for requirement in entry.versions.patched.iter().chain(&entry.versions.unaffected) {
        if VersionReq::parse(requirement).map_err(failed)?.matches(&version) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
