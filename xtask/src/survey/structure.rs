//! Structure of the sources: import cycles among files, and type names with several meanings.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{arrows, cycles};
use super::reach::words;
use super::{SourceFile, count, kind};
use crate::figures::Figure;

/// Largest permitted values. `cargo xtask verify` fails above them; lower a value when the code improves.
const LIMITS: [(&str, usize); 4] = [
    ("shared_type_names", 4),
    ("import_cycles", 12),
    ("files_in_largest_cycle", 9),
    ("k8s_public_types", 29),
];
/// A type name with this number of declarations has several meanings.
const SHARED: usize = 3;

/// Returns the figures of the structure.
pub(super) fn figures(files: &[SourceFile]) -> Vec<Figure> {
    let product: Vec<&SourceFile> = files.iter().filter(|(path, _)| is_product(path)).collect();
    let cycles = cycles(&imports(&product));
    let largest = cycles.iter().map(BTreeSet::len).max().unwrap_or(0);
    vec![
        count("shared_type_names", shared_names(&product).len(), "names"),
        count("import_cycles", cycles.len(), "cycles"),
        count("files_in_largest_cycle", largest, "files"),
    ]
}

/// Returns a finding for each figure above its limit, with the names or files of the figure.
pub(super) fn findings(files: &[SourceFile], figures: &[Figure]) -> Vec<String> {
    let product: Vec<&SourceFile> = files.iter().filter(|(path, _)| is_product(path)).collect();
    let mut findings = Vec::new();
    for (name, limit) in LIMITS {
        let value = figures
            .iter()
            .find(|figure| figure.name == name)
            .map(|figure| figure.value);
        if value.is_none_or(|value| value > limit as f64) {
            findings.push(format!("{name}: {value:?}, at most {limit}"));
        }
    }
    if !findings.is_empty() {
        findings.extend(shared_names(&product));
        let cycle = |files: &BTreeSet<&str>| {
            let files: Vec<&str> = files.iter().copied().collect();
            format!("cycle: {}", files.join(" "))
        };
        findings.extend(cycles(&imports(&product)).iter().map(cycle));
    }
    findings
}

fn is_product(path: &str) -> bool {
    kind(path) == "source" && path.ends_with(".rs") && !path.contains("/generated/")
}

/// Returns each type name that is declared in several places, with their number.
fn shared_names(files: &[&SourceFile]) -> Vec<String> {
    let mut named = BTreeMap::<&str, usize>::new();
    let lines = files.iter().flat_map(|(_, text)| without_tests(text).lines());
    for name in lines.filter_map(type_name) {
        *named.entry(name).or_default() += 1;
    }
    let shared = named.into_iter().filter(|(_, times)| *times >= SHARED);
    shared
        .map(|(name, times)| format!("{name}: {times} types"))
        .collect()
}

/// Returns the type that a line declares, with any visibility.
fn type_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let code = line
        .split_once(") ")
        .filter(|(before, _)| before.starts_with("pub("));
    let code = code.map_or(line, |(_, code)| code);
    // An associated type has no meaning of its own.
    let kinds = [
        "struct ",
        "enum ",
        "trait ",
        "union ",
        "pub struct ",
        "pub enum ",
        "pub trait ",
        "pub type ",
    ];
    let kind = kinds.iter().find(|kind| code.starts_with(**kind))?;
    words(&code[kind.len()..]).next()
}

fn imports<'a>(files: &[&'a SourceFile]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    arrows(
        files
            .iter()
            .map(|(path, text)| (path.as_str(), without_tests(text))),
    )
}

/// Returns the text of a file up to its test module.
fn without_tests(text: &str) -> &str {
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_three_types_is_shared() {
        let text = "pub struct State;\npub(crate) enum State {}\nstruct Other;\n#[cfg(test)]\nmod tests {\n    struct Other;\n}\n";
        let files = [
            ("a/src/a.rs".to_owned(), text.to_owned()),
            ("a/src/b.rs".to_owned(), text.to_owned()),
        ];
        let files: Vec<&SourceFile> = files.iter().collect();
        assert_eq!(shared_names(&files), ["State: 4 types"]);
    }
}
