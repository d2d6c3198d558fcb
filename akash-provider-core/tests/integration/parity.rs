//! Compares `docs/parity.md` with the tests: every test that the page names exists, and the page names every
//! test of a known weakness.

use std::collections::BTreeSet;
use std::path::Path;

fn read_all(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

fn functions() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut text = String::new();
    let members = [
        "akash-provider-chain",
        "akash-provider-core",
        "akash-provider-k8s",
        "akash-provider-k8s/kernel",
        "akash-provider-k8s/model",
        "akash-provider-operators",
        "akash-provider-process",
        "provider-daemon",
        "provider-daemon/cli",
        "provider-daemon/dev",
        "provider-daemon/devnet",
        "provider-daemon/gateway",
        "provider-daemon/operate",
        "provider-daemon/provider",
        "provider-daemon/tenant",
    ];
    for member in members {
        for folder in ["src", "tests"].map(|part| root.join(member).join(part)) {
            if folder.is_dir() {
                read_all(&folder, &mut text);
            }
        }
    }
    let name = |rest: &str| rest.split(['(', '<']).next().unwrap_or_default().to_owned();
    let after_fn = text
        .lines()
        .filter_map(|line| line.split_once("fn "))
        .map(|(_, rest)| rest);
    after_fn.map(name).collect()
}

/// Returns the test names in `page`. The page contains each test name between backticks.
fn named(page: &str) -> BTreeSet<String> {
    let words = page.split('`').skip(1).step_by(2);
    let is_name = |word: &&str| {
        // Environment variables have capital letters.
        word.matches('_').count() >= 2
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && word.bytes().any(|b| b.is_ascii_lowercase())
    };
    words.filter(is_name).map(str::to_owned).collect()
}

fn is_of_a_weakness(name: &str) -> bool {
    let number = name.strip_prefix('w').and_then(|rest| rest.split_once('_'));
    number.is_some_and(|(n, _)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[test]
fn parity_page_matches_the_tests() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/parity.md");
    let Ok(page) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is absent", path.display());
        return;
    };
    let (named, functions) = (named(&page), functions());
    let missing: Vec<_> = named.difference(&functions).collect();
    assert!(missing.is_empty(), "named on the page but missing: {missing:?}");
    let missing_on_page: Vec<_> = functions
        .iter()
        .filter(|f| is_of_a_weakness(f) && !named.contains(*f))
        .collect();
    assert!(
        missing_on_page.is_empty(),
        "not named on the page: {missing_on_page:?}"
    );
    let entries: Vec<_> = (1..=50)
        .filter(|n| !page.contains(&format!("| W-{n} |")))
        .collect();
    assert!(entries.is_empty(), "entries without a row: {entries:?}");
    assert!(named.len() > 100, "{} names on the page", named.len());
}
