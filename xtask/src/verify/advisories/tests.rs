//! Tests of the selection of a database copy, and of the findings from its advisories.

use super::*;
use crate::workspace::tests::workspace_of;
use anyhow::Result;

fn advisory(id: &str, package: &str, more: &str, versions: &str) -> String {
    format!(
        "```toml\n[advisory]\nid = \"{id}\"\npackage = \"{package}\"\ndate = \"2026-01-01\"\n{more}\n\
         [versions]\n{versions}\n```\n\n# A title\n\n```\ncode\n```\n"
    )
}

/// Checks two packages of version 1.0.0 against these advisories.
fn judged(name: &str, advisories: &[String], policy: &str) -> Result<Findings> {
    let folder = std::env::temp_dir().join(format!("advisories-{}-{name}", std::process::id()));
    let of_package = folder.join("crates/hole");
    std::fs::create_dir_all(&of_package).unwrap();
    for (number, text) in advisories.iter().enumerate() {
        std::fs::write(of_package.join(format!("{number}.md")), text).unwrap();
    }
    let workspace = workspace_of(&[], &[("hole", "MIT", "s"), ("other", "MIT", "s")]);
    let judged = judge(
        &folder,
        workspace.external_packages(),
        &toml::from_str(policy).unwrap(),
    );
    std::fs::remove_dir_all(&folder).unwrap();
    judged
}

#[test]
fn vulnerable_version_is_found_and_fixed_version_is_not() {
    let of = |id: &str, versions: &str| advisory(id, "hole", "", versions);
    let found = judged(
        "versions",
        &[
            of("A", "patched = [\">= 1.0.1\"]"),
            of("B", "patched = [\">= 0.9.1, < 0.10.0\", \">= 1.0.0\"]"),
            of("C", "patched = []\nunaffected = [\"< 2.0.0\"]"),
            of("D", "patched = []"),
            advisory("E", "hole", "withdrawn = \"2026-02-01\"", "patched = []"),
            advisory("F", "hole", "informational = \"unmaintained\"", "patched = []"),
        ],
        "",
    );
    let expected = Findings {
        holes: vec![
            "hole 1.0.0: A, a known vulnerability: update it".to_owned(),
            "hole 1.0.0: D, a known vulnerability: update it".to_owned(),
        ],
        notes: vec!["hole 1.0.0: F (unmaintained)".to_owned()],
    };
    assert_eq!(found.unwrap(), expected);
}

#[test]
fn accepted_advisory_has_a_reason_and_affects_a_package() {
    let policy = "[advisories]\nignore = [{ id = 'A', reason = 'not called' }, { id = 'Z', reason = 'old' }]";
    let found = judged("policy", &[advisory("A", "hole", "", "patched = []")], policy).unwrap();
    assert_eq!(found.notes, ["hole 1.0.0: A is accepted: not called"]);
    assert_eq!(found.holes, ["deny.toml accepts Z, which affects no package"]);
}

#[test]
fn unreadable_database_is_an_error() {
    for (name, text) in [
        ("headless", "# A title".to_owned()),
        ("nonsense", "```toml\n[advisory]\n```\n".to_owned()),
        ("requirement", advisory("A", "hole", "", "patched = [\"one\"]")),
    ] {
        assert!(judged(name, &[text], "").is_err(), "{name}");
    }
}

/// Creates a database copy with an age of `hours`.
fn copy(at: &Path, hours: u64) -> PathBuf {
    let crates = at.join("crates");
    std::fs::create_dir_all(&crates).unwrap();
    let then = SystemTime::now() - Duration::from_hours(hours);
    std::fs::File::open(&crates).unwrap().set_modified(then).unwrap();
    at.to_owned()
}

/// A temporary folder, deleted when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("advisory-places-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn places(&self) -> Locations {
        Locations {
            named: None,
            own: self.0.join("target/advisory-db"),
            cargo: Some(self.0.join("cargo")),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn newest_copy_is_used_and_outdated_copy_is_updated() {
    let folder = Folder::new("newest");
    let own = folder.places().own;
    let newest = |fetch: &dyn Fn(&Path)| {
        let mut asked = false;
        let found = folder.places().newest(|own| {
            asked = true;
            fetch(own);
        });
        (found.unwrap(), asked)
    };
    let unreachable = |_: &Path| {};
    assert_eq!(newest(&unreachable), (None, true), "no copy");
    let of_cargo = copy(&folder.0.join("cargo/advisory-db"), 90);
    assert_eq!(newest(&unreachable), (Some(of_cargo), true), "the copy of cargo");
    let of_deny = copy(&folder.0.join("cargo/advisory-dbs/github.com-x"), 80);
    assert_eq!(newest(&unreachable), (Some(of_deny), true));
    copy(&own, 70);
    assert_eq!(
        newest(&unreachable),
        (Some(own.clone()), true),
        "the copy of the last fetch"
    );
    let fetched = newest(&|own: &Path| drop(copy(own, 0)));
    assert_eq!(fetched, (Some(own.clone()), true));
    assert_eq!(newest(&unreachable), (Some(own), false), "fresh");
}

#[test]
fn configured_folder_is_the_only_one_used() {
    let folder = Folder::new("named");
    copy(&folder.places().own, 0);
    let named = copy(&folder.0.join("mine"), 9_000);
    let of = |named: PathBuf| {
        let places = Locations {
            named: Some(named),
            ..folder.places()
        };
        places.newest(|_| panic!("an unexpected fetch"))
    };
    assert_eq!(of(named.clone()).unwrap(), Some(named));
    let error = of(folder.0.join("cargo")).unwrap_err().to_string();
    assert!(error.contains("has no folder `crates`"), "{error}");
}

#[test]
fn interrupted_fetch_is_restarted() {
    let folder = Folder::new("halfway");
    let home = copy(&folder.0.join("home"), 0);
    std::fs::write(home.join("crates/one"), "").unwrap();
    for args in [
        &["init", "--quiet"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=n",
            "-c",
            "user.email=e",
            "commit",
            "--quiet",
            "-m",
            "m",
        ],
    ] {
        Process::new("git", &home).args(args).quiet().run().unwrap();
    }
    let own = folder.places().own;
    std::fs::create_dir_all(own.join(".git")).unwrap();
    std::fs::create_dir_all(own.with_extension("half")).unwrap();
    let home = format!("file://{}", home.display());
    fetched(&home, &own).unwrap();
    assert!(own.join("crates/one").is_file() && !own.with_extension("half").exists());
    fetched(&home, &own).unwrap();
    assert!(fetched("file:///nowhere", &folder.0.join("other")).is_err());
    assert!(!folder.0.join("other").exists());
}

#[test]
fn old_copy_reports_missing_advisories() {
    let folder = Folder::new("age");
    assert_eq!(age(&copy(&folder.0.join("new"), 25)), "1 days old");
    let old = age(&copy(&folder.0.join("old"), 24 * 20 + 1));
    assert_eq!(old, "20 days old: later advisories are missing");
}
