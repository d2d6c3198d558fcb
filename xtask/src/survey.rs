//! `cargo xtask figures`: statistics of the code, one JSON object per line. The files in git are counted by
//! simple rules, so that the statistics of two commits are comparable.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;

use crate::error::from_findings;
use crate::figures::{Figure, json};
use crate::process::Process;
use crate::workspace::Workspace;

mod imports;
mod migrating;
mod reach;
mod structure;
mod types;
mod units;

/// Structs with methods in several files, with the folders of these files.
const SHARED: [(&str, &str); 6] = [
    ("Engine", "akash-provider-core/src"),
    ("Leases", "akash-provider-core/src/engine"),
    ("Market", "akash-provider-core/src/market"),
    ("Planner", "akash-provider-chain/src"),
    ("EndpointPool", "akash-provider-chain/src"),
    ("ClusterContext", "akash-provider-k8s/src"),
];

/// Maximum number of words in a filler comment. Such a short comment probably repeats the name.
const FILLER_WORDS: usize = 3;

/// Prints all figures.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let files = sources(&workspace.root)?;
    let surfaces = types::surfaces(&files);
    for figure in survey(&files, &surfaces)
        .into_iter()
        .chain(units::figures(workspace)?)
    {
        println!("{}", json(&figure)?);
    }
    Ok(())
}

/// Checks that every public type is reachable from outside of its crate, and that no figure of the structure is above
/// its limit.
pub(crate) fn structure(workspace: &Workspace) -> Result<()> {
    let files = sources(&workspace.root)?;
    let surfaces = types::surfaces(&files);
    let finding = |name| format!("{name} is public, but not reachable from outside of its crate");
    let mut findings: Vec<String> = surfaces
        .iter()
        .flat_map(types::Surface::unreached)
        .map(finding)
        .collect();
    let mut figures = structure::figures(&files);
    figures.extend(surfaces.iter().flat_map(types::Surface::figures));
    findings.extend(structure::findings(&files, &figures));
    from_findings("structure", &findings)
}

/// Compares `docs/migrating.md` with the crates. Each new name on this page must be declared in its crate.
pub(crate) fn migrating(workspace: &Workspace) -> Result<()> {
    let files = sources(&workspace.root)?;
    from_findings("migration tables", &migrating::findings(&files))
}

/// Path below the workspace, and text of a file.
type SourceFile = (String, String);

fn sources(root: &Path) -> Result<Vec<SourceFile>> {
    let listed = Process::new("git", root).args(["ls-files"]).quiet().lines()?;
    let wanted = listed
        .into_iter()
        .filter(|path| path.ends_with(".rs") || path.ends_with(".md"));
    let read = |path: String| {
        let text = std::fs::read_to_string(root.join(&path));
        let text = text.with_context(|| path.clone())?;
        Ok((path, text))
    };
    wanted.map(read).collect()
}

fn survey(files: &[SourceFile], surfaces: &[types::Surface<'_>]) -> Vec<Figure> {
    let mut figures = lines_by_kind(files);
    let product: Vec<&SourceFile> = files.iter().filter(|(path, _)| kind(path) == "source").collect();
    let text = || product.iter().flat_map(|(_, text)| text.lines());
    figures.push(count(
        "public_items",
        text().filter(|l| is_public_item(l)).count(),
        "items",
    ));
    figures.extend(surfaces.iter().flat_map(types::Surface::figures));
    figures.extend(structure::figures(files));
    let docs: Vec<usize> = product.iter().flat_map(|(_, text)| doc_lengths(text)).collect();
    let fillers = docs.iter().filter(|words| **words <= FILLER_WORDS).count();
    figures.push(tenths(
        "doc_fillers",
        share(fillers, docs.len()) * 100.0,
        "percent",
    ));
    let code = text().filter(|l| is_code(l)).count();
    let inline = text().filter(|l| is_inline_comment(l)).count();
    figures.push(tenths(
        "inline_comments",
        share(inline, code) * 1000.0,
        "per mille",
    ));
    let longest = product.iter().map(|(_, text)| text.lines().count()).max();
    figures.push(count("longest_file", longest.unwrap_or(0), "lines"));
    for (name, folder) in SHARED {
        let within: Vec<&SourceFile> = product
            .iter()
            .copied()
            .filter(|(p, _)| p.starts_with(folder))
            .collect();
        let fields = fields_of(&within, name);
        let prefix = name.to_lowercase();
        figures.push(count(&format!("{prefix}_fields"), fields.len(), "fields"));
        let uses = field_uses(&within, name, &fields);
        figures.push(count(
            &format!("{prefix}_field_uses"),
            uses,
            "pairs of file and field",
        ));
    }
    figures
}

fn tenths(name: &str, value: f64, unit: &str) -> Figure {
    Figure::new(name, (value * 10.0).round() / 10.0, unit)
}

fn count(name: &str, value: usize, unit: &str) -> Figure {
    Figure::new(name, value as f64, unit)
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn kind(path: &str) -> &'static str {
    let has = |folder: &str| path.contains(&format!("/{folder}/"));
    match path {
        p if p.ends_with(".md") => "docs",
        p if has("tests") || p.ends_with("/tests.rs") => "tests",
        _ if has("benches") => "benches",
        p if p.starts_with("examples/") => "examples",
        p if p.starts_with("xtask/") || p.starts_with("testbed/") => "tools",
        _ => "source",
    }
}

fn lines_by_kind(files: &[SourceFile]) -> Vec<Figure> {
    let kinds = ["source", "tests", "benches", "examples", "tools", "docs"];
    let lines = |of: &str| {
        let of_kind = files.iter().filter(|(path, _)| kind(path) == of);
        of_kind.map(|(_, text)| text.lines().count()).sum::<usize>()
    };
    kinds
        .iter()
        .map(|of| count(&format!("lines_{of}"), lines(of), "lines"))
        .collect()
}

fn is_public_item(line: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix("pub ") else {
        return false;
    };
    let words = [
        "fn ", "const ", "async ", "unsafe ", "struct ", "enum ", "trait ", "type ", "mod ", "static ",
    ];
    words.iter().any(|word| rest.starts_with(word))
}

fn is_code(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//")
}

fn is_inline_comment(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("// ") || line == "//"
}

/// Returns the number of words of each doc comment.
fn doc_lengths(text: &str) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut words = None;
    for line in text.lines() {
        if let Some(doc) = line.trim_start().strip_prefix("///") {
            *words.get_or_insert(0) += doc.split_whitespace().count();
        } else {
            lengths.extend(words.take());
        }
    }
    lengths
}

fn fields_of(files: &[&SourceFile], name: &str) -> Vec<String> {
    let start = format!("struct {name} {{\n");
    let body = files.iter().find_map(|(_, text)| text.split_once(&start));
    let body = body
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .map_or("", |(body, _)| body);
    let field = |line: &str| {
        let line = line.strip_prefix("    ")?;
        let line = line
            .rsplit_once(") ")
            .filter(|(v, _)| v.starts_with("pub("))
            .map_or(line, |(_, l)| l);
        let (name, _) = line.trim_start_matches("pub ").split_once(": ")?;
        let is_name = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        is_name.then(|| name.to_owned())
    };
    body.lines().filter_map(field).collect()
}

/// Counts, for each field of the struct `name`, the files with a method that uses the field. Returns the sum.
fn field_uses(files: &[&SourceFile], name: &str, fields: &[String]) -> usize {
    let start = format!("impl {name} {{\n");
    let mut pairs = BTreeSet::new();
    for (path, text) in files {
        for block in text.split(&start).skip(1) {
            let block = block.split_once("\n}").map_or(block, |(block, _)| block);
            let joined: String = block
                .split("self\n")
                .map(str::trim_start)
                .collect::<Vec<_>>()
                .join("self");
            let used = |field: &&String| names_field(&joined, field);
            pairs.extend(fields.iter().filter(used).map(|field| (path, field)));
        }
    }
    pairs.len()
}

fn names_field(block: &str, field: &str) -> bool {
    let wanted = format!("self.{field}");
    let mut after = block
        .match_indices(&wanted)
        .map(|(at, _)| &block[at + wanted.len()..]);
    after.any(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '('))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "/// Which.\npub struct One {\n    /// What it holds, in bytes.\n    pub(crate) size: u64,\n    name: String,\n}\n\nimpl One {\n    // It says why.\n    pub fn size(&self) -> u64 {\n        self.size + self\n            .name.len() + self.size()\n    }\n}\n";

    #[test]
    fn fields_and_their_uses_are_counted() {
        let files = [("a/src/one.rs".to_owned(), TEXT.to_owned())];
        let files: Vec<&SourceFile> = files.iter().collect();
        let fields = fields_of(&files, "One");
        assert_eq!(fields, ["size", "name"]);
        assert_eq!(field_uses(&files, "One", &fields), 2);
        assert!(!names_field("self.size()", "size"));
    }

    #[test]
    fn docs_and_comments_are_distinguished() {
        assert_eq!(doc_lengths(TEXT), [1, 5]);
        assert_eq!(TEXT.lines().filter(|l| is_inline_comment(l)).count(), 1);
        assert_eq!(TEXT.lines().filter(|l| is_public_item(l)).count(), 2);
        assert_eq!(
            (kind("a/tests/b.rs"), kind("a/src/b/tests.rs"), kind("a/src/b.rs")),
            ("tests", "tests", "source")
        );
    }
}
