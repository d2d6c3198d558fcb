//! `cargo xtask campaign mutants`: mutation tests of the decisions.
//!
//! `cargo-mutants` changes the pure decision functions (selected in `.cargo/mutants.toml`), one change at a
//! time, and runs their tests. It works on a copy of the workspace below `target`, so that an interrupted run
//! leaves no change in the checkout. A surviving mutant that is not in the list of accepted ones fails the
//! campaign.

mod accepted;
mod mutant;
mod tree;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args as Arguments;

use crate::error::from_findings;
use crate::figures::{self, Figure};
use crate::process::Process;
use crate::workspace::{Workspace, read};

use accepted::Accepted;
use mutant::{Mutant, MutantOutcome, Trial};

/// Version of `cargo-mutants`.
const VERSION: &str = "27.1.0";
/// File with the mutants that tests need not detect, each with a reason.
const ACCEPTED: &str = "xtask/mutants.accepted";
/// Time limit of a build, in seconds, including dependencies.
const BUILD_SECONDS: u64 = 900;
/// Time limit of a mutant's tests, in seconds.
const TEST_SECONDS: u64 = 120;
/// Time for the build and the tests of one mutant, in seconds. The time limit of a run is the sum of these
/// times, plus [`BUILD_SECONDS`].
const SECONDS_FOR_ONE: u64 = 180;

/// Crate, and the tests that run for each of its mutants.
struct MutationTarget {
    package: &'static str,
    /// Test binaries.
    targets: &'static [&'static str],
    /// Filters of test names; only matching tests run.
    tests: &'static [&'static str],
}

const SUBJECTS: [MutationTarget; 2] = [
    MutationTarget {
        package: "akash-provider-core",
        targets: &["--lib", "--test", "integration"],
        // Three seconds instead of thirty: skips tests of programs and clocks, which make no decisions, and
        // of the work for the largest inputs.
        tests: &[
            "--skip=flow::",
            "--skip=parity::",
            "--skip=parsers_never_panic::",
            "--skip=pricing::",
            "--skip=runtime::",
            "--skip=sdl::",
            "--skip=size::units_attributes_and_models_by_the_thousand",
            "--skip=size::a_manifest_with_thirty_thousand_hostnames",
            "--skip=names::ten_times_the_names",
            "--skip=recovery::w3_every_open_order",
        ],
    },
    MutationTarget {
        package: "akash-provider-chain",
        targets: &["--lib"],
        tests: &["tx::"],
    },
];

/// Selection of the mutants to try.
#[derive(Debug, Arguments)]
// The fields are flattened into those of the campaign, which has a group of the same name.
#[group(id = "mutants")]
pub(crate) struct Args {
    /// Number of mutants that the campaign `mutants` tries, equally many from each file; the seed selects the mutants
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Try all mutants in the campaign `mutants`, which takes a night
    #[arg(long, conflicts_with = "count")]
    all: bool,
}

/// Tries the mutants, compares survivors with those in [`ACCEPTED`], and prints the figures.
pub(crate) fn run(workspace: &Workspace, seed: u64, args: &Args) -> Result<()> {
    let begun = Instant::now();
    let accepted = Accepted::parse(&read(&workspace.root.join(ACCEPTED))?)?;
    let tool = Tool::installed(workspace)?;
    let lists = SUBJECTS
        .iter()
        .map(|subject| Ok((subject, tool.list(subject)?)))
        .collect::<Result<Vec<_>>>()?;
    let listed: Vec<&Mutant> = lists.iter().flat_map(|(_, list)| list).collect();
    // Checked first, because this check is cheap and the campaign takes an hour.
    accepted.expect_known(&listed)?;
    let shards = if args.all {
        1
    } else {
        shards(listed.len(), args.count)
    };
    let mut tried = Vec::new();
    for (subject, list) in &lists {
        let shard = Shard {
            index: seed % shards,
            of: shards,
        };
        tried.extend(tool.run(subject, list, &shard)?);
    }
    let findings = accepted.findings(&tried);
    for figure in summary(&tried, &accepted, begun.elapsed()) {
        println!("{}", figures::json(&figure)?);
    }
    from_findings(
        &format!("surviving mutants; write a test, or add the reason to {ACCEPTED}"),
        &findings,
    )
}

/// Returns the number of shards of about `count` mutants each.
fn shards(total: usize, count: u64) -> u64 {
    u64::try_from(total).unwrap_or(u64::MAX).div_ceil(count).max(1)
}

/// Part of a crate's mutants. With `index` 1 and `of` 4, these are the mutants 1, 5, 9 and so on.
struct Shard {
    index: u64,
    of: u64,
}

impl Shard {
    fn of<'a>(&self, list: &'a [Mutant]) -> Vec<&'a Mutant> {
        let here = |(at, mutant)| (at % self.of == self.index).then_some(mutant);
        (0..).zip(list).filter_map(here).collect()
    }
}

/// Installed `cargo-mutants`, with its copy of the workspace.
struct Tool {
    program: PathBuf,
    tree: PathBuf,
    scratch: PathBuf,
}

impl Tool {
    /// Installs `cargo-mutants` if the program is missing. Updates the copy of the workspace that
    /// `cargo-mutants` uses.
    fn installed(workspace: &Workspace) -> Result<Self> {
        let program = workspace.tool("cargo-mutants", VERSION)?;
        let scratch = workspace.scratch("mutants")?;
        let tree = workspace.scratch("mutants/tree")?;
        tree::copy(&workspace.root, &tree)?;
        Ok(Self {
            program,
            tree,
            scratch,
        })
    }

    fn process(&self, subject: &MutationTarget) -> Process {
        Process::new(&self.program, &self.tree)
            .args(["mutants", "--package", subject.package])
            .env("CARGO_TARGET_DIR", self.scratch.join("target"))
            // Builds take most of the time, and debug information is not needed.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
    }

    fn list(&self, subject: &MutationTarget) -> Result<Vec<Mutant>> {
        let lines = self.process(subject).args(["--list", "--json"]).lines()?;
        let list = mutant::list(&lines.join("\n"))?;
        if list.is_empty() {
            let package = subject.package;
            bail!("{package}: .cargo/mutants.toml selects no file of the crate");
        }
        Ok(list)
    }

    fn run(&self, subject: &MutationTarget, list: &[Mutant], shard: &Shard) -> Result<Vec<Trial>> {
        let wanted = shard.of(list);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let output = self.scratch.join(subject.package);
        let outcomes_file = output.join("mutants.out").join("outcomes.json");
        // Delete results of an earlier run.
        delete_outcomes(&outcomes_file)?;
        let limit = u64::try_from(wanted.len())
            .unwrap_or(u64::MAX)
            .saturating_mul(SECONDS_FOR_ONE)
            .saturating_add(BUILD_SECONDS);
        let ended = self
            .process(subject)
            // In place means one at a time. A second copy would need a second cold build.
            .args(["--in-place", "--all-features", "--colors=never"])
            .args([
                "--sharding=round-robin".to_owned(),
                format!("--shard={}/{}", shard.index, shard.of),
                format!("--timeout={TEST_SECONDS}"),
                format!("--build-timeout={BUILD_SECONDS}"),
            ])
            .args(subject.targets.iter().map(|arg| format!("--cargo-arg={arg}")))
            .args(["--cargo-test-arg=--"])
            .args(subject.tests.iter().map(|arg| format!("--cargo-test-arg={arg}")))
            .args([Path::new("--output"), &output])
            .limit(Duration::from_secs(limit))
            .follow();
        // The exit code also signals survivors. The written outcomes decide.
        let outcomes = match (read(&outcomes_file), ended) {
            (Ok(text), _) if !text.is_empty() => mutant::outcomes(&text)?,
            (_, Err(error)) | (Err(error), Ok(_)) => return Err(error),
            (Ok(_), Ok(_)) => Vec::new(),
        };
        mutant::matched(&wanted, &outcomes)
    }
}

fn delete_outcomes(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| file.display().to_string())
        }
        _ => Ok(()),
    }
}

fn summary(tried: &[Trial], accepted: &Accepted, took: Duration) -> [Figure; 6] {
    let count = |wanted: &dyn Fn(&Trial) -> bool| {
        let found = tried.iter().filter(|tried| wanted(tried)).count();
        u32::try_from(found).unwrap_or(u32::MAX).into()
    };
    let mutants = |name: &str, value| Figure::new(name, value, "mutants");
    let survived = |tried: &Trial| tried.outcome == MutantOutcome::Survived;
    [
        // Mutants that do not compile do not test the tests.
        mutants(
            "mutants_tested",
            count(&|tried| tried.outcome != MutantOutcome::Unviable),
        ),
        mutants(
            "mutants_caught",
            count(&|tried| tried.outcome == MutantOutcome::Caught),
        ),
        mutants("mutants_survived", count(&survived)),
        mutants(
            "mutants_accepted",
            count(&|tried| survived(tried) && accepted.has(&tried.name)),
        ),
        mutants(
            "mutants_timed_out",
            count(&|tried| tried.outcome == MutantOutcome::TimedOut),
        ),
        Figure::new("mutants_seconds", took.as_secs_f64().round(), "s"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_is_in_one_shard_of_requested_size() {
        assert_eq!(shards(2000, 200), 10);
        assert_eq!(shards(2001, 200), 11);
        assert_eq!(shards(3, 200), 1);
        assert_eq!(shards(0, 200), 1);
        let list: Vec<Mutant> = (0..7)
            .map(|n| Mutant {
                place: n.to_string(),
                name: n.to_string(),
            })
            .collect();
        let mut found: Vec<&str> = (0..3)
            .flat_map(|index| Shard { index, of: 3 }.of(&list))
            .map(|mutant| mutant.name.as_str())
            .collect();
        found.sort_unstable();
        assert_eq!(found, ["0", "1", "2", "3", "4", "5", "6"]);
    }

    #[test]
    fn figures_count_compiled_mutants() {
        let tried = [
            ("a", MutantOutcome::Caught),
            ("b", MutantOutcome::Survived),
            ("c", MutantOutcome::Survived),
            ("d", MutantOutcome::TimedOut),
            ("e", MutantOutcome::Unviable),
        ]
        .map(|(name, outcome)| Trial {
            name: name.to_owned(),
            outcome,
        });
        let accepted = Accepted::parse("b # no difference\n").unwrap();
        let values = summary(&tried, &accepted, Duration::from_secs(3)).map(|figure| figure.value);
        assert_eq!(values, [4.0, 1.0, 2.0, 1.0, 1.0, 3.0]);
    }

    #[test]
    fn list_of_this_repository_is_valid() {
        let workspace = Workspace::load().unwrap();
        Accepted::parse(&read(&workspace.root.join(ACCEPTED)).unwrap()).unwrap();
    }
}
