//! Output of `cargo-mutants`: the list of changes, and the outcome of each.

use anyhow::{Context, Result, anyhow, bail};
use std::collections::BTreeMap;

use serde::Deserialize;

/// A change of the code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mutant {
    /// Unique name: `FILE:LINE:COLUMN: CHANGE in FUNCTION`. An edit of the file can change the name.
    pub(super) place: String,
    /// Name `FILE: CHANGE in FUNCTION`, with `(2 of 3)` for repeated changes. Edits of other code do not
    /// change this name.
    pub(super) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MutantOutcome {
    /// A test failed.
    Caught,
    /// Every test passed.
    Survived,
    /// The tests exceeded their time limit. The mutant counts as detected.
    TimedOut,
    /// The mutant does not compile.
    Unviable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) name: String,
    pub(super) outcome: MutantOutcome,
}

#[derive(Debug, Deserialize)]
struct ListedMutant {
    name: String,
    file: String,
}

#[derive(Debug, Deserialize)]
struct MutationReport {
    outcomes: Vec<ReportEntry>,
}

#[derive(Debug, Deserialize)]
struct ReportEntry {
    scenario: Scenario,
    summary: String,
}

#[derive(Debug, Deserialize)]
enum Scenario {
    /// The tests run with the unchanged code.
    Baseline,
    Mutant(ListedMutant),
}

/// Parses the output of `--list --json`. The mutants have the same order as in the output.
pub(super) fn list(text: &str) -> Result<Vec<Mutant>> {
    let described: Vec<ListedMutant> =
        serde_json::from_str(text).context("cannot parse the list of cargo-mutants")?;
    let names: Vec<String> = described.iter().map(stable_name).collect::<Result<_>>()?;
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

/// Returns the name of a mutant without line and column.
fn stable_name(mutant: &ListedMutant) -> Result<String> {
    let change = mutant
        .name
        .strip_prefix(&mutant.file)
        .and_then(|rest| rest.split_once(": "));
    let Some((_, change)) = change else {
        let name = &mutant.name;
        bail!("unexpected mutant name `{name}`: expected FILE:LINE:COLUMN: CHANGE");
    };
    Ok(format!("{}: {change}", mutant.file))
}

/// Parses `outcomes.json` into the place and outcome of each mutant.
pub(super) fn outcomes(text: &str) -> Result<Vec<(String, MutantOutcome)>> {
    let report: MutationReport =
        serde_json::from_str(text).context("cannot parse outcomes.json of cargo-mutants")?;
    let mut found = Vec::new();
    for ReportEntry { scenario, summary } in report.outcomes {
        match scenario {
            Scenario::Baseline if summary == "Success" => {}
            Scenario::Baseline => {
                bail!("the tests fail in unchanged code; fix them first, see the lines above");
            }
            Scenario::Mutant(mutant) => {
                let outcome = parse_outcome(&summary).ok_or_else(|| {
                    anyhow!("{}: unknown outcome `{summary}` of cargo-mutants", mutant.name)
                })?;
                found.push((mutant.name, outcome));
            }
        }
    }
    Ok(found)
}

fn parse_outcome(summary: &str) -> Option<MutantOutcome> {
    match summary {
        "CaughtMutant" => Some(MutantOutcome::Caught),
        "MissedMutant" => Some(MutantOutcome::Survived),
        "Timeout" => Some(MutantOutcome::TimedOut),
        "Unviable" => Some(MutantOutcome::Unviable),
        _ => None,
    }
}

/// Returns the outcome of each requested mutant.
///
/// # Errors
/// Fails if a mutant was not tried.
pub(super) fn matched(wanted: &[&Mutant], outcomes: &[(String, MutantOutcome)]) -> Result<Vec<Trial>> {
    let by_place: BTreeMap<&str, MutantOutcome> = outcomes
        .iter()
        .map(|(place, outcome)| (place.as_str(), *outcome))
        .collect();
    let tried: Vec<Trial> = wanted
        .iter()
        .filter_map(|mutant| {
            let outcome = *by_place.get(mutant.place.as_str())?;
            Some(Trial {
                name: mutant.name.clone(),
                outcome,
            })
        })
        .collect();
    if tried.len() < wanted.len() {
        bail!(
            "only {} of {} mutants were tried; see the lines above",
            tried.len(),
            wanted.len()
        );
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
    fn names_survive_edits_and_are_unique() {
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
    fn invalid_list_is_an_error() {
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
                (place("3:9: replace"), MutantOutcome::Caught),
                (place("4:9: replace"), MutantOutcome::Survived),
                (place("5:9: replace"), MutantOutcome::TimedOut),
                (place("6:9: replace"), MutantOutcome::Unviable),
            ]
        );
    }

    #[test]
    fn failing_baseline_and_unknown_outcomes_are_errors() {
        let failing = r#"{"outcomes": [{"scenario": "Baseline", "summary": "Failure"}]}"#;
        assert!(
            outcomes(failing)
                .unwrap_err()
                .to_string()
                .contains("in unchanged code")
        );
        let unknown =
            r#"{"outcomes": [{"scenario": {"Mutant": {"name": "x", "file": "x"}}, "summary": "Maybe"}]}"#;
        assert!(outcomes(unknown).unwrap_err().to_string().contains("Maybe"));
    }

    #[test]
    fn incomplete_run_is_an_error() {
        let list = list(LIST).unwrap();
        let wanted: Vec<&Mutant> = list.iter().collect();
        let mut outcomes: Vec<_> = list
            .iter()
            .map(|m| (m.place.clone(), MutantOutcome::Caught))
            .collect();
        assert_eq!(matched(&wanted, &outcomes).unwrap().len(), 3);
        outcomes.pop();
        let error = matched(&wanted, &outcomes).unwrap_err().to_string();
        assert!(error.contains("only 2 of 3"), "{error}");
    }
}
