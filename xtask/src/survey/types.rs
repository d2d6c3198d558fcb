//! Public types of the embeddable crates: their number, and the unreachable ones.

use std::collections::HashSet;

use super::reach::{Declarations, declared, examples, words};
use super::{SourceFile, count};
use crate::figures::Figure;

/// Crates for embedders.
pub(super) const EMBEDDED: [(&str, &str); 15] = [
    ("core", "akash-provider-core/src/"),
    ("chain", "akash-provider-chain/src/"),
    ("k8s", "akash-provider-k8s/src/"),
    ("kube-kernel", "akash-provider-k8s/kernel/src/"),
    ("kube-model", "akash-provider-k8s/model/src/"),
    ("operators", "akash-provider-operators/src/"),
    ("redis", "akash-provider-redis/src/"),
    ("process", "akash-provider-process/src/"),
    ("gateway", "provider-daemon/gateway/src/"),
    ("devnet", "provider-daemon/devnet/src/"),
    ("service", "provider-daemon/provider/src/"),
    ("operate", "provider-daemon/operate/src/"),
    ("dev", "provider-daemon/dev/src/"),
    ("cli", "provider-daemon/cli/src/"),
    ("tenant", "provider-daemon/tenant/src/"),
];

/// Public surface of a crate.
pub(super) struct Surface<'a> {
    name: &'static str,
    types: usize,
    variants: usize,
    /// Public types that no other crate, example, test or bench can reach.
    unreached: Vec<&'a str>,
}

pub(super) fn surfaces(files: &[SourceFile]) -> Vec<Surface<'_>> {
    let of = |(name, folder): (&'static str, &str)| {
        let within: Vec<&str> = files
            .iter()
            .filter(|(path, _)| path.starts_with(folder) && super::kind(path) == "source")
            .map(|(_, text)| text.as_str())
            .collect();
        let types: Vec<&str> = within.iter().flat_map(|text| public_types(text)).collect();
        let mut declarations = Declarations::default();
        within.iter().for_each(|text| declarations.read(text));
        Surface {
            name,
            types: types.len(),
            variants: within.iter().map(|text| public_variants(text)).sum(),
            unreached: declarations.unreached(&types, &named_outside(folder, files)),
        }
    };
    EMBEDDED.map(of).into()
}

impl Surface<'_> {
    /// Returns the numbers of types, variants and unreachable types.
    pub(super) fn figures(&self) -> [Figure; 3] {
        let name = self.name;
        [
            count(&format!("{name}_public_types"), self.types, "types"),
            count(&format!("{name}_public_variants"), self.variants, "variants"),
            count(&format!("{name}_types_unreached"), self.unreached.len(), "types"),
        ]
    }

    /// Returns the sorted unreachable types, with their crate.
    pub(super) fn unreached(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .unreached
            .iter()
            .map(|of| format!("{}: {of}", self.name))
            .collect();
        all.sort();
        all
    }
}

/// Returns the identifiers in files outside of the folder of a crate, and in the documentation examples of
/// the crate.
fn named_outside<'a>(folder: &str, files: &'a [SourceFile]) -> HashSet<&'a str> {
    let outside = files
        .iter()
        .filter(|(path, _)| path.ends_with(".rs") && !path.starts_with(folder));
    let own = files.iter().filter(|(path, _)| path.starts_with(folder));
    let examples = own.flat_map(|(_, text)| examples(text));
    outside
        .flat_map(|(_, text)| words(text))
        .chain(examples)
        .collect()
}

/// Returns the types that a file declares as `pub`.
fn public_types(text: &str) -> impl Iterator<Item = &str> {
    // A guide with compiled examples is a type for tests only.
    let mut is_for_tests = false;
    text.lines().filter_map(move |line| {
        is_for_tests |= line.trim() == "#[cfg(doctest)]";
        let name = declared(line.trim_start())?;
        (!std::mem::take(&mut is_for_tests)).then_some(name)
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
    fn types_and_variants_are_counted_and_unreachable_types_found() {
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
        let core = &surfaces(&files)[0];
        assert_eq!(core.unreached(), ["core: Three"]);
    }
}
