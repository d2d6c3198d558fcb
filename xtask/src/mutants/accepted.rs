//! The list of accepted mutants, one per line: the mutant, ` # `, and the reason why no test detects it.
//!
//! The list cannot become outdated: an entry is an error if a test catches its mutant, or if the mutant no
//! longer exists.

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

use crate::error::from_findings;

use super::mutant::{Mutant, MutantOutcome, Trial};

/// Separator between a mutant and its reason.
const BETWEEN: &str = " # ";
/// Minimum number of words of a reason.
const WORDS_MIN: usize = 2;

/// Names of accepted mutants.
#[derive(Debug, Default)]
pub(super) struct Accepted(BTreeSet<String>);

impl Accepted {
    /// Parses the list. Ignores empty lines and lines that start with `#`.
    ///
    /// # Errors
    /// Lists each line that has no reason, is repeated or is not in order.
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
                    "line {number}: `{line}` has no reason; write MUTANT{BETWEEN}REASON"
                ));
            }
            if name == before {
                findings.push(format!("line {number}: `{name}` is repeated"));
            } else if name < before {
                findings.push(format!(
                    "line {number}: `{name}` belongs before `{before}`: the list is sorted"
                ));
            }
            before = name;
            names.insert(name.to_owned());
        }
        from_findings("the list of accepted mutants", &findings)?;
        Ok(Self(names))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Returns an error if the list names a mutant that does not exist.
    pub(super) fn expect_known(&self, mutants: &[&Mutant]) -> Result<()> {
        let mutants: BTreeSet<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
        let gone: Vec<String> = self
            .0
            .iter()
            .filter(|name| !mutants.contains(name.as_str()))
            .cloned()
            .collect();
        from_findings(
            "accepted mutants that do not exist; remove them from the list",
            &gone,
        )
    }

    /// Returns unlisted survivors, and listed mutants that did not survive.
    pub(super) fn findings(&self, tried: &[Trial]) -> Vec<String> {
        // Sorted by name, so that two runs are comparable.
        let outcomes: BTreeMap<&str, MutantOutcome> = tried
            .iter()
            .map(|tried| (tried.name.as_str(), tried.outcome))
            .collect();
        outcomes
            .into_iter()
            .filter_map(|(name, outcome)| match (outcome, self.has(name)) {
                (MutantOutcome::Survived, false) => Some(format!("survived: {name}")),
                (MutantOutcome::Caught | MutantOutcome::TimedOut, true) => Some(format!(
                    "is caught, although accepted; remove it from the list: {name}"
                )),
                (MutantOutcome::Unviable, true) => Some(format!(
                    "does not compile, although accepted; remove it from the list: {name}"
                )),
                (MutantOutcome::Survived, true) | (_, false) => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(outcomes: &[(&str, MutantOutcome)]) -> Vec<Trial> {
        let tried = |(name, outcome): &(&str, MutantOutcome)| Trial {
            name: (*name).to_owned(),
            outcome: *outcome,
        };
        outcomes.iter().map(tried).collect()
    }

    #[test]
    fn entries_have_reasons_and_are_sorted() {
        let text =
            "# what this is\n\na.rs: replace < with <= in f # both ends are equal\nb.rs: x # one two\n";
        let list = Accepted::parse(text).unwrap();
        assert!(list.has("a.rs: replace < with <= in f") && list.has("b.rs: x"));
        for (wrong, why) in [
            ("a.rs: x\n", "line 1: `a.rs: x` has no reason"),
            ("a.rs: x # \n", "has no reason"),
            ("a.rs: x # because\n", "has no reason"),
            (
                "b.rs: x # one two\n\na.rs: x # one two\n",
                "line 3: `a.rs: x` belongs before",
            ),
            (
                "a.rs: x # one two\na.rs: x # one two\n",
                "line 2: `a.rs: x` is repeated",
            ),
        ] {
            let error = Accepted::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn unaccepted_survivor_is_reported() {
        let list = Accepted::parse("a # no difference\n").unwrap();
        let tried = tried(&[
            ("a", MutantOutcome::Survived),
            ("b", MutantOutcome::Survived),
            ("c", MutantOutcome::Caught),
            ("d", MutantOutcome::TimedOut),
            ("e", MutantOutcome::Unviable),
        ]);
        assert_eq!(list.findings(&tried), ["survived: b"]);
    }

    #[test]
    fn accepted_mutant_that_does_not_survive_is_reported_if_tried() {
        let list = Accepted::parse("a # one two\nb # one two\nc # one two\nd # one two\n").unwrap();
        let tried = tried(&[
            ("a", MutantOutcome::Caught),
            ("b", MutantOutcome::TimedOut),
            ("c", MutantOutcome::Unviable),
        ]);
        let findings = list.findings(&tried);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].contains("is caught") && findings[0].ends_with(": a"));
        assert!(findings[2].contains("does not compile") && findings[2].ends_with(": c"));
    }

    #[test]
    fn entry_without_mutant_is_an_error() {
        let mutant = Mutant {
            place: "a:1:1".to_owned(),
            name: "a".to_owned(),
        };
        let list = Accepted::parse("a # one two\n").unwrap();
        list.expect_known(&[&mutant]).unwrap();
        let error = list.expect_known(&[]).unwrap_err().to_string();
        assert!(error.ends_with("list:\n  a"), "{error}");
    }
}
