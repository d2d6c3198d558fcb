//! The public types of the crates that are embedded: how many there are, and which of them nobody outside names.

use std::collections::HashSet;

use super::{Source, count};
use crate::figures::Figure;

/// The crates that strangers build on.
const EMBEDDED: [(&str, &str); 6] = [
    ("core", "akash-provider-core/src/"),
    ("chain", "akash-provider-chain/src/"),
    ("k8s", "akash-provider-k8s/src/"),
    ("process", "akash-provider-process/src/"),
    ("gateway", "provider-daemon/gateway/src/"),
    ("devnet", "provider-daemon/devnet/src/"),
];

/// Types and variants of each crate, and how many types no file outside of the crate's own source names.
pub(super) fn figures(files: &[Source]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (name, folder) in EMBEDDED {
        let within: Vec<&str> = files
            .iter()
            .filter(|(path, _)| path.starts_with(folder) && super::kind(path) == "source")
            .map(|(_, text)| text.as_str())
            .collect();
        let types: Vec<&str> = within.iter().flat_map(|text| public_types(text)).collect();
        let variants = within.iter().map(|text| public_variants(text)).sum();
        figures.push(count(&format!("{name}_public_types"), types.len(), "types"));
        figures.push(count(&format!("{name}_public_variants"), variants, "variants"));
        let unnamed = unnamed(&types, folder, files);
        figures.push(count(
            &format!("{name}_types_unnamed_outside"),
            unnamed.len(),
            "types",
        ));
    }
    figures
}

/// Types of the crates that no example, test outside of the crate, bench or other crate names, sorted.
pub(super) fn unnamed_outside(files: &[Source]) -> Vec<String> {
    let mut found: Vec<String> = EMBEDDED
        .iter()
        .flat_map(|(name, folder)| {
            let within = files
                .iter()
                .filter(|(path, _)| path.starts_with(folder) && super::kind(path) == "source");
            let types: Vec<&str> = within.flat_map(|(_, text)| public_types(text)).collect();
            unnamed(&types, folder, files)
                .into_iter()
                .map(move |found| format!("{name}: {found}"))
        })
        .collect();
    found.sort();
    found
}

fn unnamed<'a>(types: &[&'a str], folder: &str, files: &[Source]) -> Vec<&'a str> {
    let outside = files
        .iter()
        .filter(|(path, _)| path.ends_with(".rs") && !path.starts_with(folder));
    let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: HashSet<&str> = outside
        .flat_map(|(_, text)| text.split(|c: char| !is_in_name(c)))
        .collect();
    types
        .iter()
        .copied()
        .filter(|name| !words.contains(name))
        .collect()
}

/// Names of what a file declares `pub`. What is visible in its crate alone is declared otherwise: the lint
/// `unreachable_pub` is set.
fn public_types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("pub ")?;
        let kinds = ["struct ", "enum ", "trait ", "type "];
        let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .next()
    })
}

fn public_variants(text: &str) -> usize {
    let mut variants = 0;
    let mut within = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        match within {
            None if line.trim_start().starts_with("pub enum ") && line.ends_with('{') => {
                within = Some(indent);
            }
            Some(outer) if indent == outer && line.trim_start() == "}" => within = None,
            Some(outer) => {
                let begins = line.trim_start().starts_with(|c: char| c.is_ascii_uppercase());
                variants += usize::from(indent == outer + 4 && begins);
            }
            None => {}
        }
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "pub struct One(u8);\npub(crate) struct Two;\npub enum Three {\n    /// First.\n    A,\n    B {\n        C: u8,\n    },\n}\nenum Four {\n    D,\n}\n";

    #[test]
    fn types_and_variants_are_counted_and_what_nobody_names_is_found() {
        assert_eq!(public_types(TEXT).collect::<Vec<_>>(), ["One", "Three"]);
        assert_eq!(public_variants(TEXT), 2);
        let files = [
            ("akash-provider-core/src/a.rs".to_owned(), TEXT.to_owned()),
            (
                "akash-provider-core/src/b.rs".to_owned(),
                "use One, Three;".to_owned(),
            ),
            ("akash-provider-core/tests/c.rs".to_owned(), "use One;".to_owned()),
        ];
        assert_eq!(unnamed_outside(&files), ["core: Three"]);
    }
}
