//! Which public types a stranger can come by: those that are named outside of their crate, and what their public fields,
//! variants and methods show in turn. Read by lines, as rustfmt lays them out.

use std::collections::{BTreeMap, BTreeSet, HashSet};

/// What the public declarations of each type show: words, of which some are types.
#[derive(Default)]
pub(super) struct Shown<'a> {
    of_type: BTreeMap<&'a str, HashSet<&'a str>>,
    /// Free functions and constants, by name.
    of_function: BTreeMap<&'a str, HashSet<&'a str>>,
}

/// A block that is being read.
struct Block<'a> {
    subject: &'a str,
    indent: usize,
    /// All of it shows, not only what is `pub`: variants, and what a trait asks for or is answered with.
    is_open: bool,
}

impl<'a> Shown<'a> {
    /// Adds the declarations of one file.
    pub(super) fn read(&mut self, text: &'a str) {
        let mut block: Option<Block<'a>> = None;
        // Words of a signature that goes on over several lines belong to whom it began with.
        let mut signature: Option<(&'a str, bool)> = None;
        // A derive makes the kind of a custom resource from the spec that follows.
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
                block = code.ends_with('{').then_some(Block {
                    subject,
                    indent,
                    is_open,
                });
            } else if let Some(subject) = implemented(code) {
                self.add(subject, false, code);
                let is_open = false;
                block = code.ends_with('{').then_some(Block {
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
        let shown = if is_function {
            &mut self.of_function
        } else {
            &mut self.of_type
        };
        shown.entry(owner).or_default().extend(words(code));
    }

    /// The types of a crate that cannot be come by from what `named` names.
    pub(super) fn unreached(&self, types: &[&'a str], named: &HashSet<&str>) -> Vec<&'a str> {
        let all: BTreeSet<&str> = types.iter().copied().collect();
        let functions = self.of_function.iter().filter(|(name, _)| named.contains(*name));
        let by_function = functions.flat_map(|(_, shown)| shown.iter().copied());
        let mut next: Vec<&str> = by_function.filter(|word| all.contains(word)).collect();
        next.extend(all.iter().copied().filter(|name| named.contains(*name)));
        let mut reached = BTreeSet::new();
        while let Some(name) = next.pop() {
            if reached.insert(name)
                && let Some(shown) = self.of_type.get(name)
            {
                next.extend(shown.iter().copied().filter(|word| all.contains(word)));
            }
        }
        all.difference(&reached).copied().collect()
    }
}

/// The words of a line.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

/// The words of the examples in a file's docs: they are compiled as a stranger's program is.
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

/// A signature goes on in the next line.
fn continues(code: &str) -> bool {
    !code.ends_with('{') && !code.ends_with(';') && !code.ends_with('}')
}

fn after<'a>(code: &'a str, kinds: &[&str]) -> Option<&'a str> {
    let rest = code.strip_prefix("pub ")?;
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    words(rest).next()
}

/// The type that a line declares `pub`. What is visible in its crate alone is declared otherwise: the lint
/// `unreachable_pub` is set.
pub(super) fn declared(code: &str) -> Option<&str> {
    after(code, &["struct ", "enum ", "trait ", "type "])
}

fn function(code: &str) -> Option<&str> {
    after(code, &["fn ", "const fn ", "async fn ", "const ", "static "])
}

/// The type that an `impl` is for.
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
    fn a_type_is_reached_by_fields_variants_signatures_and_nothing_else() {
        let mut shown = Shown::default();
        shown.read(TEXT);
        let types: Vec<&str> = TEXT.lines().filter_map(declared).collect();
        let mut named = HashSet::from(["Known", "Kind", "made"]);
        named.extend(examples(TEXT));
        let unreached = shown.unreached(&types, &named);
        assert_eq!(unreached, ["Hidden", "Inner", "Private", "Spoken"]);
    }
}
