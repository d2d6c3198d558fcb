//! Checks all external packages for known vulnerabilities in the RustSec database.
//!
//! The check downloads or updates a copy of the database in the target folder. Then the check uses the newest
//! copy: this copy, or a copy of cargo-audit or cargo-deny. A copy lacks vulnerabilities that were published
//! later, so the output contains the age of the copy. If no copy exists, the output reports that the check
//! was skipped.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::error::from_findings;
use crate::process::Process;
use crate::report::Notes;
use crate::workspace::{Package, Workspace, entries, read};

const HOME: &str = "https://github.com/RustSec/advisory-db";
/// Environment variable with the folder of the database. If the variable is set, no other copy of the
/// database is used.
const VARIABLE: &str = "ADVISORY_DB";
/// Time limit of a download of about ten megabytes.
const FETCH_MAX: Duration = Duration::from_mins(1);
/// Maximum age of a copy of the database. An older copy is updated.
const FRESH: Duration = Duration::from_hours(6);
const DAY: Duration = Duration::from_hours(24);

/// Header of an advisory.
#[derive(Debug, Deserialize)]
struct AdvisoryHeader {
    advisory: Advisory,
    #[serde(default)]
    versions: Versions,
}

#[derive(Debug, Deserialize)]
struct Advisory {
    id: String,
    package: String,
    /// Category of an advisory, such as `unmaintained`; `None` for a vulnerability.
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

/// Settings for advisories in deny.toml.
#[derive(Debug, Default, Deserialize)]
struct AdvisoryPolicy {
    #[serde(default)]
    advisories: Accepted,
}

#[derive(Debug, Default, Deserialize)]
struct Accepted {
    #[serde(default)]
    ignore: Vec<Ignored>,
}

#[derive(Debug, Deserialize)]
struct Ignored {
    id: String,
    reason: String,
}

/// Findings of the advisory check. The check fails if `holes` is not empty. `notes` are only printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Findings {
    holes: Vec<String>,
    notes: Notes,
}

/// Looks up every external package in the advisories. The notes contain path and age of the database.
pub(crate) fn run(workspace: &Workspace) -> Result<Notes> {
    let Some(database) = Locations::for_workspace(workspace).newest(|own| fetch(HOME, own))? else {
        return Ok(vec![format!(
            "skipped, no package was looked up: no database of advisories, and {HOME} cannot be fetched; \
             name the folder of a copy in {VARIABLE}"
        )]);
    };
    let policy: AdvisoryPolicy =
        toml::from_str(&read(&workspace.root.join("deny.toml"))?).context("deny.toml")?;
    let findings = judge(&database, workspace.external_packages(), &policy)?;
    let mut notes = vec![format!("{}: {}", database.display(), age(&database))];
    notes.extend(findings.notes);
    from_findings("advisories", &findings.holes)?;
    Ok(notes)
}

/// Possible folders of the database.
struct Locations {
    /// Folder that the environment variable selects, if set.
    named: Option<PathBuf>,
    /// Folder of this check's own database copy.
    own: PathBuf,
    /// Home folder of cargo, with the copies of cargo-audit and cargo-deny.
    cargo: Option<PathBuf>,
}

impl Locations {
    fn for_workspace(workspace: &Workspace) -> Self {
        let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        Self {
            named: std::env::var_os(VARIABLE).map(PathBuf::from),
            own: workspace.target.join("advisory-db"),
            cargo: cargo.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))),
        }
    }

    /// Returns the database copy that the environment variable selects. Without this variable, first calls
    /// `fetch` if the copy in `own` is missing or old. Then returns the newest copy, or `None` if there is no
    /// copy.
    fn newest(self, fetch: impl FnOnce(&Path)) -> Result<Option<PathBuf>> {
        if let Some(named) = self.named {
            if !named.join("crates").is_dir() {
                let text = format!(
                    "{VARIABLE} is set to {}, which has no folder `crates`",
                    named.display()
                );
                bail!("{}", text);
            }
            return Ok(Some(named));
        }
        if written(&self.own).is_none_or(|age| age > FRESH) {
            fetch(&self.own);
        }
        let mut copies = vec![self.own];
        if let Some(cargo) = self.cargo {
            copies.push(cargo.join("advisory-db"));
            let copies_dir = std::fs::read_dir(cargo.join("advisory-dbs"));
            copies.extend(
                copies_dir
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path()),
            );
        }
        copies.retain(|copy| copy.join("crates").is_dir());
        Ok(copies
            .into_iter()
            .min_by_key(|copy| written(copy).unwrap_or(Duration::MAX)))
    }
}

/// Downloads or updates this check's copy of the database. If the download fails, only prints the error.
fn fetch(home: &str, own: &Path) {
    if let Err(error) = fetched(home, own) {
        eprintln!("cannot download the security advisories: {error:#}");
    }
}

fn fetched(home: &str, own: &Path) -> Result<()> {
    let git = |args: &[&str]| {
        let process = Process::new("git", Path::new("/")).args(args);
        // Git must not prompt for a password.
        let process = process.env("GIT_TERMINAL_PROMPT", "0").quiet().silent();
        process.limit(FETCH_MAX).lines().map(|_| ())
    };
    if own.join("crates").is_dir() {
        return git(&["-C", &own.display().to_string(), "pull", "--quiet", "--ff-only"]);
    }
    // Downloaded to a temporary folder, because an interrupted download would block all later ones.
    let failed = || own.display().to_string();
    let half = own.with_extension("half");
    for leftover in [own, &half] {
        if leftover.exists() {
            std::fs::remove_dir_all(leftover).with_context(failed)?;
        }
    }
    let folder = half.display().to_string();
    git(&["clone", "--quiet", "--depth", "1", home, &folder])?;
    std::fs::rename(&half, own).with_context(failed)
}

/// Returns the time since a database copy was fetched or unpacked.
fn written(copy: &Path) -> Option<Duration> {
    let of = |path: PathBuf| std::fs::metadata(path).ok()?.modified().ok();
    let at = of(copy.join(".git/FETCH_HEAD")).max(of(copy.join("crates")))?;
    Some(SystemTime::now().duration_since(at).unwrap_or_default())
}

/// Returns the age of the database as text. The age is the time since the newest commit. Without a Git clone,
/// the age is the time since the download.
fn age(copy: &Path) -> String {
    // In another folder git would use the surrounding repository.
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
        Some(days) => format!("{days} days old: later advisories are missing"),
    }
}

/// Returns the advisories that affect these packages, and the failures of the check. A vulnerability is a
/// failure unless the policy ignores the advisory. An ignored advisory without an affected package is also a
/// failure.
fn judge<'p>(
    database: &Path,
    packages: impl Iterator<Item = &'p Package>,
    policy: &AdvisoryPolicy,
) -> Result<Findings> {
    let mut findings = Findings::default();
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
            if entry.advisory.package != package.name || !affects(&entry, &package.version, &path)? {
                continue;
            }
            let Advisory {
                id, informational, ..
            } = &entry.advisory;
            unused.remove(id.as_str());
            let what = format!("{} {}: {id}", package.name, package.version);
            match (accepted.get(id.as_str()), informational) {
                (Some(reason), _) => findings.notes.push(format!("{what} is accepted: {reason}")),
                (None, Some(kind)) => findings.notes.push(format!("{what} ({kind})")),
                (None, None) => findings
                    .holes
                    .push(format!("{what}, a known vulnerability: update it")),
            }
        }
    }
    if looked_up == 0 {
        bail!("cargo lists no package to look up");
    }
    for id in unused.keys() {
        findings
            .holes
            .push(format!("deny.toml accepts {id}, which affects no package"));
    }
    Ok(findings)
}

fn advisories_of(database: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let folder = database.join("crates").join(name);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = entries(&folder)?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    Ok(found)
}

/// Parses the header of an advisory: TOML in a code fence.
fn entry(text: &str, path: &Path) -> Result<AdvisoryHeader> {
    let head = text
        .trim_start()
        .strip_prefix("```toml")
        .and_then(|rest| rest.split_once("\n```"));
    let (head, _) = head.with_context(|| format!("{}: no header", path.display()))?;
    toml::from_str(head).with_context(|| path.display().to_string())
}

fn affects(entry: &AdvisoryHeader, version: &str, path: &Path) -> Result<bool> {
    let failed = || path.display().to_string();
    let mut version = Version::parse(version).with_context(failed)?;
    if entry.advisory.withdrawn.is_some() {
        return Ok(false);
    }
    // A pre-release counts as its release, because version requirements do not match pre-releases.
    version.pre = semver::Prerelease::EMPTY;
    for requirement in entry.versions.patched.iter().chain(&entry.versions.unaffected) {
        if VersionReq::parse(requirement)
            .with_context(failed)?
            .matches(&version)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
