//! Checks that every direct dependency of the workspace has a row with its weight in docs/dependencies.md,
//! and that no row is outdated.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};

use crate::error::from_findings;
use crate::workspace::{Workspace, read};

const PAGE: &str = "docs/dependencies.md";
/// Number of columns: crate, purpose, weight.
const COLUMNS: usize = 3;

/// Platform for the weights in the table. Different platforms require different crates.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Compares docs/dependencies.md with the dependencies of all members.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let page = read(&workspace.root.join(PAGE))?;
    let wanted = wanted(workspace);
    let mut found = findings(&wanted, &page);
    found.extend(stale(&page, &weights(&wanted)?));
    from_findings(PAGE, &found)
}

pub(crate) fn write_weights(workspace: &Workspace) -> Result<()> {
    let path = workspace.root.join(PAGE);
    let page = read(&path)?;
    let weights = weights(&wanted(workspace))?;
    let lines = page.lines().map(|line| weighed(line, &weights) + "\n");
    std::fs::write(&path, lines.collect::<String>()).with_context(|| path.display().to_string())
}

/// Returns the weight of each direct dependency. The weight is the number of crates that would not be built
/// without this dependency.
fn weights(wanted: &BTreeMap<&str, &str>) -> Result<BTreeMap<String, usize>> {
    let built = Workspace::load_for(PLATFORM)?;
    let all = built.packages_without("");
    let weigh = |name: &&str| ((*name).to_owned(), all - built.packages_without(name));
    Ok(wanted.keys().map(weigh).collect())
}

/// Updates the weight in the table row of a crate. Returns any other line unchanged.
fn weighed(line: &str, weights: &BTreeMap<String, usize>) -> String {
    let named = rows(line).first().and_then(|(name, _)| weights.get(*name));
    match (named, line.trim_end().trim_end_matches('|').rsplit_once('|')) {
        (Some(weight), Some((rest, _))) => format!("{rest}| {weight} |"),
        _ => line.to_owned(),
    }
}

fn stale(page: &str, weights: &BTreeMap<String, usize>) -> Vec<String> {
    let stale = |(name, columns): (&str, Vec<&str>)| {
        let (stated, weight) = (columns.last()?.to_owned(), weights.get(name)?);
        (stated != weight.to_string())
            .then(|| format!("`{name}` has weight {weight}, not {stated}; `cargo xtask fix` updates it"))
    };
    rows(page).into_iter().filter_map(stale).collect()
}

/// Returns the external dependencies by name, each with the first workspace member that uses it.
fn wanted(workspace: &Workspace) -> BTreeMap<&str, &str> {
    let ours: BTreeSet<&str> = workspace.members().map(|member| member.name.as_str()).collect();
    let mut wanted = BTreeMap::new();
    for member in workspace.members() {
        let strangers = member.all_dependencies().filter(|name| !ours.contains(name));
        strangers.for_each(|name| {
            wanted.entry(name).or_insert(member.name.as_str());
        });
    }
    wanted
}

/// Returns the rows of all tables, with crate name and columns.
fn rows(page: &str) -> Vec<(&str, Vec<&str>)> {
    page.lines()
        .filter_map(|line| {
            let name = line.strip_prefix("| `")?.split_once('`')?.0;
            let columns = line.trim().trim_matches('|').split('|').map(str::trim);
            Some((name, columns.collect()))
        })
        .collect()
}

fn findings(wanted: &BTreeMap<&str, &str>, page: &str) -> Vec<String> {
    let mut given = BTreeSet::new();
    let mut found = Vec::new();
    for (name, columns) in rows(page) {
        if !given.insert(name) {
            found.push(format!("`{name}` has two rows"));
        }
        if !wanted.contains_key(name) {
            found.push(format!("`{name}` is not a dependency of the workspace"));
        }
        if columns.len() != COLUMNS || columns.iter().any(|column| column.is_empty()) {
            found.push(format!("the row of `{name}` is incomplete: purpose, weight"));
        }
    }
    let lacking = wanted.iter().filter(|(name, _)| !given.contains(*name));
    found.extend(lacking.map(|(name, by)| format!("`{name}` of `{by}` has no row; add its purpose")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::workspace_of;

    #[test]
    fn rows_are_read_from_tables() {
        let page = "# `title`\n| crate | for |\n|---|---|\n| `serde` | `json` | why | MIT | 0 |\n`uuid`\n";
        assert_eq!(
            rows(page),
            [("serde", vec!["`serde`", "`json`", "why", "MIT", "0"])]
        );
    }

    #[test]
    fn outdated_weight_is_reported_and_fixed() {
        let weights = BTreeMap::from([("serde".to_owned(), 2), ("toml".to_owned(), 0)]);
        let page = "| crate | weight |\n| `serde` | a | b | c | 3 |\n| `toml` | a | b | c | 0 |\n";
        assert_eq!(
            stale(page, &weights),
            ["`serde` has weight 2, not 3; `cargo xtask fix` updates it"]
        );
        let written: Vec<_> = page.lines().map(|line| weighed(line, &weights)).collect();
        let mended = [
            "| crate | weight |",
            "| `serde` | a | b | c | 2 |",
            "| `toml` | a | b | c | 0 |",
        ];
        assert_eq!(written, mended);
    }

    #[test]
    fn missing_unused_repeated_and_empty_rows_are_reported() {
        let wanted = BTreeMap::from([("serde", "core"), ("sha2", "chain"), ("toml", "xtask")]);
        let page = "| `serde` | a | 0 |\n| `serde` | a | 0 |\n| `uuid` | a | 0 |\n| `toml` | | 0 |\n";
        assert_eq!(
            findings(&wanted, page),
            [
                "`serde` has two rows",
                "`uuid` is not a dependency of the workspace",
                "the row of `toml` is incomplete: purpose, weight",
                "`sha2` of `chain` has no row; add its purpose",
            ]
        );
    }

    #[test]
    fn dependencies_of_all_members_count_and_members_do_not() {
        let workspace = workspace_of(
            &[
                ("core", "core", &["serde"]),
                ("examples/a", "a", &["core", "toml"]),
            ],
            &[],
        );
        let names: Vec<_> = wanted(&workspace).into_iter().collect();
        assert_eq!(names, [("serde", "core"), ("toml", "a")]);
    }

    #[test]
    fn dependencies_of_this_workspace_have_reasons() {
        run(&Workspace::load().unwrap()).unwrap();
    }
}
