//! The list of survivors that are accepted, a line each: the mutant, ` # `, and why no test notices it.
//!
//! The list only shrinks by itself: an entry whose mutant a test catches, or that no code has any more, is a failure.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};

use super::mutant::{Fate, Mutant, Tried};

/// Between a mutant and its reason; no change has it in its name.
const BETWEEN: &str = " # ";
/// Fewer words are a shrug.
const WORDS_MIN: usize = 2;

/// Mutants that may survive.
#[derive(Debug, Default)]
pub(super) struct Accepted(BTreeSet<String>);

impl Accepted {
    /// Reads the list. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// Names each line without a reason, out of order, or there twice.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut names = BTreeSet::new();
        let mut findings = Vec::new();
        let mut before = "";
        for (line, number) in text.lines().zip(1_u32..) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, reason) = line.split_once(BETWEEN).unwrap_or((line, ""));
            if reason.split_whitespace().count() < WORDS_MIN {
                findings.push(format!(
                    "line {number}: `{line}` says no reason; write MUTANT{BETWEEN}WHY"
                ));
            }
            if name == before {
                findings.push(format!("line {number}: `{name}` stands there twice"));
            } else if name < before {
                findings.push(format!(
                    "line {number}: `{name}` belongs before `{before}`: the list is sorted"
                ));
            }
            before = name;
            names.insert(name.to_owned());
        }
        Error::from_findings("the list of accepted mutants", &findings)?;
        Ok(Self(names))
    }

    /// True when this mutant may survive.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Fails for entries that no code has (any more).
    pub(super) fn expect_known(&self, known: &[&Mutant]) -> Result<()> {
        let known: BTreeSet<&str> = known.iter().map(|mutant| mutant.name.as_str()).collect();
        let gone: Vec<String> = self
            .0
            .iter()
            .filter(|name| !known.contains(name.as_str()))
            .cloned()
            .collect();
        Error::from_findings(
            "accepted mutants that do not exist; take them off the list",
            &gone,
        )
    }

    /// What the list and the run do not agree about. Entries that were not tried are not judged.
    pub(super) fn findings(&self, tried: &[Tried]) -> Vec<String> {
        // By name, so that two runs are easy to compare.
        let fates: BTreeMap<&str, Fate> = tried
            .iter()
            .map(|tried| (tried.name.as_str(), tried.fate))
            .collect();
        fates
            .into_iter()
            .filter_map(|(name, fate)| match (fate, self.has(name)) {
                (Fate::Survived, false) => Some(format!("survived: {name}")),
                (Fate::Caught | Fate::TimedOut, true) => Some(format!(
                    "is caught, though accepted; take it off the list: {name}"
                )),
                (Fate::Unviable, true) => Some(format!(
                    "does not compile, though accepted; take it off the list: {name}"
                )),
                (Fate::Survived, true) | (_, false) => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(fates: &[(&str, Fate)]) -> Vec<Tried> {
        let tried = |(name, fate): &(&str, Fate)| Tried {
            name: (*name).to_owned(),
            fate: *fate,
        };
        fates.iter().map(tried).collect()
    }

    #[test]
    fn entries_have_a_reason_each_and_are_sorted() {
        let text =
            "# what this is\n\na.rs: replace < with <= in f # both ends are equal\nb.rs: x # one two\n";
        let list = Accepted::parse(text).unwrap();
        assert!(list.has("a.rs: replace < with <= in f") && list.has("b.rs: x"));
        for (wrong, why) in [
            ("a.rs: x\n", "line 1: `a.rs: x` says no reason"),
            ("a.rs: x # \n", "says no reason"),
            ("a.rs: x # because\n", "says no reason"),
            (
                "b.rs: x # one two\n\na.rs: x # one two\n",
                "line 3: `a.rs: x` belongs before",
            ),
            (
                "a.rs: x # one two\na.rs: x # one two\n",
                "line 2: `a.rs: x` stands there twice",
            ),
        ] {
            let error = Accepted::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_survivor_that_is_not_accepted_is_found() {
        let list = Accepted::parse("a # no difference\n").unwrap();
        let tried = tried(&[
            ("a", Fate::Survived),
            ("b", Fate::Survived),
            ("c", Fate::Caught),
            ("d", Fate::TimedOut),
            ("e", Fate::Unviable),
        ]);
        assert_eq!(list.findings(&tried), ["survived: b"]);
    }

    #[test]
    fn an_accepted_mutant_that_does_not_survive_is_found_and_one_that_was_not_tried_is_not() {
        let list = Accepted::parse("a # one two\nb # one two\nc # one two\nd # one two\n").unwrap();
        let tried = tried(&[("a", Fate::Caught), ("b", Fate::TimedOut), ("c", Fate::Unviable)]);
        let findings = list.findings(&tried);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].contains("is caught") && findings[0].ends_with(": a"));
        assert!(findings[2].contains("does not compile") && findings[2].ends_with(": c"));
    }

    #[test]
    fn an_entry_that_no_code_has_is_an_error() {
        let mutant = Mutant {
            place: "a:1:1".to_owned(),
            name: "a".to_owned(),
        };
        let list = Accepted::parse("a # one two\n").unwrap();
        assert_eq!(list.expect_known(&[&mutant]), Ok(()));
        let error = list.expect_known(&[]).unwrap_err().to_string();
        assert!(error.ends_with("list:\n  a"), "{error}");
    }
}
