//! Check of `docs/migrating.md`: each new name in its tables is declared in the sources of the crate in the heading.

use std::collections::{HashMap, HashSet};

use super::types::EMBEDDED;
use super::{SourceFile, kind};

const PAGE: &str = "docs/migrating.md";
/// Keywords before the name of an item.
const KEYWORDS: [&str; 11] = [
    "pub", "async", "const", "unsafe", "static", "fn", "struct", "enum", "trait", "type", "mod",
];

/// Checks the rows of the page. Returns a finding if the crate of a row is unknown or does not declare the
/// new name.
pub(super) fn findings(files: &[SourceFile]) -> Vec<String> {
    let page = files.iter().find(|(path, _)| path == PAGE);
    let Some((_, page)) = page else {
        return vec![format!("{PAGE} is missing")];
    };
    let crates: HashMap<&str, HashSet<&str>> = EMBEDDED
        .iter()
        .map(|(name, folder)| (*name, declared_in(folder, files)))
        .collect();
    rows(page).flat_map(|row| row.findings(&crates)).collect()
}

/// Row `| old | new |` in the table of one crate.
struct Row<'a> {
    package: &'a str,
    new: &'a str,
}

fn rows(page: &str) -> impl Iterator<Item = Row<'_>> {
    let mut package = "";
    page.lines().filter_map(move |line| {
        if let Some(heading) = line.strip_prefix("### ") {
            package = heading;
        }
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        let (old, new) = (cells.next()?, cells.next()?);
        let is_heading = old == "old" || old.starts_with('-');
        // A further change, such as a renamed variant, follows a semicolon.
        let new = new.split_once(';').map_or(new, |(new, _)| new);
        (!is_heading).then_some(Row { package, new })
    })
}

impl Row<'_> {
    /// Returns the findings of this row. `crates` has the declared names of each crate.
    fn findings(&self, crates: &HashMap<&str, HashSet<&str>>) -> Vec<String> {
        let package = self.package.trim_matches('`');
        let short = package.strip_prefix("akash-provider-").unwrap_or(package);
        let Some(declared) = crates.get(short) else {
            return vec![format!("{PAGE}: unknown crate `{package}`")];
        };
        quoted(self.new)
            .filter(|name| !declared.contains(last_segment(name)))
            .map(|name| format!("{PAGE}: `{name}` is not declared in {package}"))
            .collect()
    }
}

fn declared_in<'a>(folder: &str, files: &'a [SourceFile]) -> HashSet<&'a str> {
    let sources = files
        .iter()
        .filter(|(path, _)| path.starts_with(folder) && kind(path) == "source");
    sources
        .flat_map(|(_, text)| text.lines().filter_map(declared))
        .collect()
}

/// Returns the texts in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn last_segment(name: &str) -> &str {
    let end = name.find(['(', '<', '{', ' ']).unwrap_or(name.len());
    let path = name.get(..end).unwrap_or(name);
    path.rsplit([':', '.']).next().unwrap_or(path)
}

/// Returns the name of the item, public field, variant or method that a line declares.
fn declared(line: &str) -> Option<&str> {
    let mut code = line.trim_start();
    let is_public = code.starts_with("pub ");
    let mut has_keyword = false;
    while let Some((word, rest)) = code.split_once(' ').filter(|(word, _)| KEYWORDS.contains(word)) {
        code = rest;
        has_keyword |= word != "pub";
    }
    let end = code
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(code.len());
    let name = code.get(..end).filter(|name| !name.is_empty())?;
    let is_variant = name.starts_with(|c: char| c.is_ascii_uppercase());
    (is_public || has_keyword || is_variant).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_name_must_be_declared_in_its_crate() {
        let page = "### akash-provider-k8s\n\n| old | new |\n|---|---|\n\
                    | `task::kept` | `task::spawn`, `State.field` |\n\
                    | `x` | removed |\n\
                    | `y` | `Outcome::Missing`; `a` is now `b` |\n\n\
                    ### akash-provider-none\n\n| old | new |\n|---|---|\n\
                    | `z` | `Z` |\n";
        let source = "pub fn spawn(name: &str) {}\npub struct State {\n    pub field: u8,\n}\n";
        let files = [
            (PAGE.to_owned(), page.to_owned()),
            ("akash-provider-k8s/src/task.rs".to_owned(), source.to_owned()),
        ];
        assert_eq!(
            findings(&files),
            [
                "docs/migrating.md: `Outcome::Missing` is not declared in akash-provider-k8s",
                "docs/migrating.md: unknown crate `akash-provider-none`",
            ]
        );
    }
}
