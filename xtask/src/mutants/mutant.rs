//! What `cargo-mutants` says: which changes there are, and what became of each.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::error::{Error, Result};

/// A change of the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mutant {
    /// Its name with line and column, `FILE:LINE:COLUMN: CHANGE in FUNCTION`: one in a tree, another after an edit.
    pub(super) place: String,
    /// `FILE: CHANGE in FUNCTION`, with `(2 of 3)` behind it where the function has several: it outlives edits elsewhere.
    pub(super) name: String,
}

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// A test failed.
    Caught,
    /// Every test passed.
    Survived,
    /// It ran for too long: it was noticed.
    TimedOut,
    /// It does not compile.
    Unviable,
}

/// A mutant that was tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) name: String,
    pub(super) fate: Fate,
}

#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    file: String,
}

#[derive(Debug, Deserialize)]
struct Report {
    outcomes: Vec<Outcome>,
}

#[derive(Debug, Deserialize)]
struct Outcome {
    scenario: Scenario,
    summary: String,
}

#[derive(Debug, Deserialize)]
enum Scenario {
    /// The tests without a change.
    Baseline,
    Mutant(Described),
}

/// Reads the answer to `--list --json`, in its order.
pub(super) fn list(text: &str) -> Result<Vec<Mutant>> {
    let described: Vec<Described> = serde_json::from_str(text)
        .map_err(|error| Error::new(format!("the list of cargo-mutants is not understood: {error}")))?;
    let names: Vec<String> = described.iter().map(lasting).collect::<Result<_>>()?;
    let mut totals = BTreeMap::<&str, usize>::new();
    for name in &names {
        *totals.entry(name).or_default() += 1;
    }
    let mut seen = BTreeMap::<&str, usize>::new();
    let mutants = described.iter().zip(&names).map(|(described, name)| {
        let number = seen.entry(name).or_default();
        *number += 1;
        let total = totals.get(name.as_str()).copied().unwrap_or(1);
        Mutant {
            place: described.name.clone(),
            name: if total == 1 {
                name.clone()
            } else {
                format!("{name} ({number} of {total})")
            },
        }
    });
    Ok(mutants.collect())
}

/// The name without line and column.
fn lasting(mutant: &Described) -> Result<String> {
    let change = mutant
        .name
        .strip_prefix(&mutant.file)
        .and_then(|rest| rest.split_once(": "));
    let Some((_, change)) = change else {
        let name = &mutant.name;
        return Err(Error::new(format!(
            "cargo-mutants names a mutant `{name}`: not FILE:LINE:COLUMN: CHANGE"
        )));
    };
    Ok(format!("{}: {change}", mutant.file))
}

/// Reads `outcomes.json`: the places that were tried, and what became of each.
pub(super) fn outcomes(text: &str) -> Result<Vec<(String, Fate)>> {
    let wrong = |error| {
        Error::new(format!(
            "outcomes.json of cargo-mutants is not understood: {error}"
        ))
    };
    let report: Report = serde_json::from_str(text).map_err(wrong)?;
    let mut found = Vec::new();
    for Outcome { scenario, summary } in report.outcomes {
        match scenario {
            Scenario::Baseline if summary == "Success" => {}
            Scenario::Baseline => {
                return Err(Error::new(
                    "the tests fail without a change; see the lines above and mend that first",
                ));
            }
            Scenario::Mutant(mutant) => {
                let fate = fate(&summary).ok_or_else(|| {
                    Error::new(format!(
                        "{}: cargo-mutants says `{summary}`, which is not known here",
                        mutant.name
                    ))
                })?;
                found.push((mutant.name, fate));
            }
        }
    }
    Ok(found)
}

fn fate(summary: &str) -> Option<Fate> {
    match summary {
        "CaughtMutant" => Some(Fate::Caught),
        "MissedMutant" => Some(Fate::Survived),
        "Timeout" => Some(Fate::TimedOut),
        "Unviable" => Some(Fate::Unviable),
        _ => None,
    }
}

/// What became of the mutants that were to be tried.
///
/// # Errors
/// When one of them was not: a run that was cut short proves nothing.
pub(super) fn matched(wanted: &[&Mutant], outcomes: &[(String, Fate)]) -> Result<Vec<Tried>> {
    let fates: BTreeMap<&str, Fate> = outcomes
        .iter()
        .map(|(place, fate)| (place.as_str(), *fate))
        .collect();
    let tried: Vec<Tried> = wanted
        .iter()
        .filter_map(|mutant| {
            let fate = *fates.get(mutant.place.as_str())?;
            Some(Tried {
                name: mutant.name.clone(),
                fate,
            })
        })
        .collect();
    if tried.len() < wanted.len() {
        return Err(Error::new(format!(
            "only {} of {} mutants were tried; see the lines above",
            tried.len(),
            wanted.len()
        )));
    }
    Ok(tried)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"[
        {"name": "a/x.rs:3:9: replace < with <= in late", "file": "a/x.rs", "genre": "BinaryOperator"},
        {"name": "a/x.rs:4:9: replace < with <= in late", "file": "a/x.rs", "genre": "BinaryOperator"},
        {"name": "a/x.rs:9:5: replace due -> bool with true", "file": "a/x.rs", "genre": "FnValue"}
    ]"#;

    fn place(at: &str) -> String {
        format!("a/x.rs:{at}")
    }

    #[test]
    fn names_outlive_an_edit_and_are_one_in_a_tree() {
        let names: Vec<String> = list(LIST).unwrap().into_iter().map(|m| m.name).collect();
        assert_eq!(
            names,
            [
                "a/x.rs: replace < with <= in late (1 of 2)",
                "a/x.rs: replace < with <= in late (2 of 2)",
                "a/x.rs: replace due -> bool with true",
            ]
        );
    }

    #[test]
    fn a_list_that_is_not_one_is_an_error() {
        assert!(list("{}").is_err());
        assert!(list(r#"[{"name": "replace all", "file": "a/x.rs"}]"#).is_err());
    }

    #[test]
    fn outcomes_are_read() {
        let text = r#"{"outcomes": [
            {"scenario": "Baseline", "summary": "Success", "log_path": "log"},
            {"scenario": {"Mutant": {"name": "a/x.rs:3:9: replace", "file": "a/x.rs"}}, "summary": "CaughtMutant"},
            {"scenario": {"Mutant": {"name": "a/x.rs:4:9: replace", "file": "a/x.rs"}}, "summary": "MissedMutant"},
            {"scenario": {"Mutant": {"name": "a/x.rs:5:9: replace", "file": "a/x.rs"}}, "summary": "Timeout"},
            {"scenario": {"Mutant": {"name": "a/x.rs:6:9: replace", "file": "a/x.rs"}}, "summary": "Unviable"}
        ], "total_mutants": 4}"#;
        assert_eq!(
            outcomes(text).unwrap(),
            [
                (place("3:9: replace"), Fate::Caught),
                (place("4:9: replace"), Fate::Survived),
                (place("5:9: replace"), Fate::TimedOut),
                (place("6:9: replace"), Fate::Unviable),
            ]
        );
    }

    #[test]
    fn tests_that_fail_without_a_change_and_words_nobody_knows_are_errors() {
        let failing = r#"{"outcomes": [{"scenario": "Baseline", "summary": "Failure"}]}"#;
        assert!(
            outcomes(failing)
                .unwrap_err()
                .to_string()
                .contains("without a change")
        );
        let unknown =
            r#"{"outcomes": [{"scenario": {"Mutant": {"name": "x", "file": "x"}}, "summary": "Maybe"}]}"#;
        assert!(outcomes(unknown).unwrap_err().to_string().contains("Maybe"));
    }

    #[test]
    fn a_run_that_was_cut_short_is_an_error() {
        let list = list(LIST).unwrap();
        let wanted: Vec<&Mutant> = list.iter().collect();
        let mut outcomes: Vec<_> = list.iter().map(|m| (m.place.clone(), Fate::Caught)).collect();
        assert_eq!(matched(&wanted, &outcomes).unwrap().len(), 3);
        outcomes.pop();
        let error = matched(&wanted, &outcomes).unwrap_err().to_string();
        assert!(error.contains("only 2 of 3"), "{error}");
    }
}
