//! The commit in the output of `version`.

#[path = "../../../provider/build/commit.rs"]
mod commit;

use crate::cli::{run, text};
use serde_json::{Value, json};
use std::fs;

const ONE: &str = "0123456789abcdef0123456789abcdef01234567";
const TWO: &str = "89abcdef0123456789abcdef0123456789abcdef";

#[test]
fn version_prints_the_commit_or_unknown() {
    let stdout = text(&run(&["version"]).stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[0], concat!("provider-daemon ", env!("CARGO_PKG_VERSION")));
    let commit = lines[1].strip_prefix("commit ").unwrap();
    assert!(commit == "unknown" || commit.len() >= 7, "{stdout}");
}

#[test]
fn long_version_has_the_fields_of_the_go_provider() {
    let json = |args: &[&str]| -> Value { serde_json::from_str(&text(&run(args).stdout)).unwrap() };
    let fields = |found: &Value| {
        found
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let short = json(&["version", "-o", "json"]);
    assert_eq!(
        (fields(&short), &short["version"]),
        ("commit version".to_owned(), &json!(env!("CARGO_PKG_VERSION")))
    );
    let long = json(&["version", "--long", "--output=json"]);
    assert_eq!(fields(&long), "build_tags commit name server_name version");
    let yaml = text(&run(&["version", "--long"]).stdout);
    assert!(yaml.lines().any(|line| line == "name: provider-daemon"), "{yaml}");
}

#[test]
fn commit_is_that_of_the_branch_of_the_work_tree() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert_eq!(commit::of(root), None, "not a checkout");
    let git = root.join(".git");
    fs::create_dir_all(git.join("refs/heads")).unwrap();
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    assert_eq!(commit::of(root), None, "no commit yet");
    fs::write(
        git.join("packed-refs"),
        format!("# pack-refs\n{TWO} refs/heads/other\n{ONE} refs/heads/main\n"),
    )
    .unwrap();
    let packed = commit::of(root).unwrap();
    assert_eq!(packed.commit, ONE);
    assert_eq!(packed.files, [git.join("HEAD"), git.join("packed-refs")]);
    fs::write(git.join("refs/heads/main"), format!("{TWO}\n")).unwrap();
    let loose = commit::of(root).unwrap();
    assert_eq!(
        (loose.commit.as_str(), loose.files[1].clone()),
        (TWO, git.join("refs/heads/main"))
    );
    fs::write(git.join("HEAD"), format!("{ONE}\n")).unwrap();
    assert_eq!(commit::of(root).unwrap().commit, ONE, "a head of its own");

    // An additional work tree.
    let own = git.join("worktrees/side");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(own.join("commondir"), "../..\n").unwrap();
    let side = root.join("side");
    fs::create_dir_all(&side).unwrap();
    fs::write(side.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
    assert_eq!(commit::of(&side).unwrap().commit, TWO);
    // An invalid hash is not printed.
    fs::write(own.join("HEAD"), "nonsense\n").unwrap();
    assert_eq!(commit::of(&side), None);
}
