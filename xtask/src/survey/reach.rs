//! Public types reachable from outside of their crate: types that other crates name, and the types in their
//! public fields, variants and methods. Parsed by lines in the layout of rustfmt.

use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Identifiers that occur in the public declarations, by type or function.
#[derive(Default)]
pub(super) struct Declarations<'a> {
    of_type: BTreeMap<&'a str, HashSet<&'a str>>,
    /// Identifiers in the declaration of each free function or constant.
    of_function: BTreeMap<&'a str, HashSet<&'a str>>,
}

struct ItemBlock<'a> {
    subject: &'a str,
    indent: usize,
    /// True if all items of the block are public, as in enums and traits.
    is_open: bool,
}

impl<'a> Declarations<'a> {
    /// Adds the declarations of a file.
    pub(super) fn read(&mut self, text: &'a str) {
        let mut block: Option<ItemBlock<'a>> = None;
        // Further lines of a signature belong to the item of its first line.
        let mut signature: Option<(&'a str, bool)> = None;
        // The derive of a custom resource creates a kind from the following spec.
        let mut kind: Option<&'a str> = None;
        for line in text.lines() {
            let code = line.trim_start();
            if code.starts_with("kind = \"") {
                kind = code.split('"').nth(1);
            }
            if code.starts_with("//") || code.starts_with("#[") {
                continue;
            }
            let indent = line.len() - code.len();
            if block
                .as_ref()
                .is_some_and(|b| indent == b.indent && code.starts_with('}'))
            {
                block = None;
                continue;
            }
            if let Some((owner, is_function)) = signature {
                self.add(owner, is_function, code);
                signature = continues(code).then_some((owner, is_function));
            } else if let Some(within) = &block {
                let is_signature = code.starts_with("pub ") || code.starts_with("type ");
                if is_signature || within.is_open && indent <= within.indent + 8 {
                    self.add(within.subject, false, code);
                    let is_call = is_signature && code.contains("fn ") && continues(code);
                    signature = is_call.then_some((within.subject, false));
                }
            } else if let Some(subject) = declared(code) {
                self.add(subject, false, code);
                if let Some(kind) = kind.take() {
                    self.add(kind, true, code);
                }
                let is_open = code.starts_with("pub enum ") || code.starts_with("pub trait ");
                block = code.ends_with('{').then_some(ItemBlock {
                    subject,
                    indent,
                    is_open,
                });
            } else if let Some(subject) = implemented(code) {
                self.add(subject, false, code);
                let is_open = false;
                block = code.ends_with('{').then_some(ItemBlock {
                    subject,
                    indent,
                    is_open,
                });
            } else if let Some(name) = function(code) {
                self.add(name, true, code);
                signature = continues(code).then_some((name, true));
            }
        }
    }

    fn add(&mut self, owner: &'a str, is_function: bool, code: &'a str) {
        let declarations = if is_function {
            &mut self.of_function
        } else {
            &mut self.of_type
        };
        declarations.entry(owner).or_default().extend(words(code));
    }

    /// Returns the types that other crates cannot reach. Types in `named` are reachable. Types in the
    /// declaration of a reachable name are reachable too.
    pub(super) fn unreached(&self, types: &[&'a str], named: &HashSet<&str>) -> Vec<&'a str> {
        let all: BTreeSet<&str> = types.iter().copied().collect();
        let functions = self.of_function.iter().filter(|(name, _)| named.contains(*name));
        let by_function = functions.flat_map(|(_, declarations)| declarations.iter().copied());
        let mut next: Vec<&str> = by_function.filter(|word| all.contains(word)).collect();
        next.extend(all.iter().copied().filter(|name| named.contains(*name)));
        let mut reached = BTreeSet::new();
        while let Some(name) = next.pop() {
            if reached.insert(name)
                && let Some(declarations) = self.of_type.get(name)
            {
                next.extend(declarations.iter().copied().filter(|word| all.contains(word)));
            }
        }
        all.difference(&reached).copied().collect()
    }
}

/// Returns the identifiers in a line.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// Returns the identifiers in the documentation examples of a file.
pub(super) fn examples(text: &str) -> impl Iterator<Item = &str> {
    let docs = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let mut is_within = false;
    let code = docs.filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_within ^= is_fence;
        is_within && !is_fence
    });
    code.flat_map(words)
}

/// Returns whether a signature continues on the next line.
fn continues(code: &str) -> bool {
    !code.ends_with('{') && !code.ends_with(';') && !code.ends_with('}')
}

fn after<'a>(code: &'a str, kinds: &[&str]) -> Option<&'a str> {
    let rest = code.strip_prefix("pub ")?;
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    words(rest).next()
}

/// Returns the type that a line declares as `pub`.
pub(super) fn declared(code: &str) -> Option<&str> {
    after(code, &["struct ", "enum ", "trait ", "type "])
}

fn function(code: &str) -> Option<&str> {
    after(code, &["fn ", "const fn ", "async fn ", "const ", "static "])
}

/// Returns the type of an `impl` block.
fn implemented(code: &str) -> Option<&str> {
    let rest = code.strip_prefix("impl")?;
    let subject = match rest.rsplit_once(" for ") {
        Some((_, subject)) => subject,
        None => rest.rsplit_once("> ").map_or(
            rest,
            |(generics, subject)| {
                if generics.starts_with('<') { subject } else { rest }
            },
        ),
    };
    words(subject).find(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"pub struct Known {
    pub part: Part,
    hidden: Hidden,
}
pub struct Part(pub u8);
pub struct Hidden;
impl Known {
    /// See also Spoken.
    /// ```
    /// use Exemplary;
    /// ```
    pub fn ask(
        &self,
        with: Question,
    ) -> Result<Answer, Hidden2> {
        Inner::new()
    }
    fn own(&self) -> Private {}
}
pub struct Question;
pub enum Answer {
    Yes(Deep),
}
pub struct Deep;
pub struct Hidden2;
pub struct Spoken;
pub struct Inner;
pub struct Private;
pub fn made() -> Made {}
pub struct Made;
impl<T: Bound> Iterator for Made {
    type Item = Given;
}
pub struct Given;
#[kube(
    kind = "Kind"
)]
pub struct KindSpec {}
pub struct Exemplary;
"#;

    #[test]
    fn types_are_reached_by_fields_variants_and_signatures_only() {
        let mut declarations = Declarations::default();
        declarations.read(TEXT);
        let types: Vec<&str> = TEXT.lines().filter_map(declared).collect();
        let mut named = HashSet::from(["Known", "Kind", "made"]);
        named.extend(examples(TEXT));
        let unreached = declarations.unreached(&types, &named);
        assert_eq!(unreached, ["Hidden", "Inner", "Private", "Spoken"]);
    }
}
