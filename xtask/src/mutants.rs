//! `cargo xtask campaign mutants`: does a test notice when a decision is changed?
//!
//! `cargo-mutants` changes the pure decisions (`.cargo/mutants.toml` says which files), one change at a time, and runs
//! the tests that judge them. It works on a copy of the workspace below `target`, so that a run that is killed leaves
//! no change in the checkout. What survives and is not in the list of accepted survivors fails the campaign.

mod accepted;
mod mutant;
mod tree;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args as Arguments;

use crate::error::{Error, Result};
use crate::figures::{self, Figure};
use crate::process::Process;
use crate::workspace::{Workspace, read};

use accepted::Accepted;
use mutant::{Fate, Mutant, Tried};

/// The version whose names for mutants the list of accepted survivors is written in.
const VERSION: &str = "27.1.0";
/// Survivors that no test can tell from the code, or that none shall.
const ACCEPTED: &str = "xtask/mutants.accepted";
/// What one build may take; the first is a cold one.
const BUILD_SECONDS: u64 = 900;
/// What the tests of one mutant may take: many times what they take without one.
const TEST_SECONDS: u64 = 120;
/// What one mutant is expected to take at most, build and tests; a run that takes longer as a whole is ended.
const SECONDS_FOR_ONE: u64 = 180;

/// A crate and the tests that judge its decisions: those that find most in the seconds they take.
struct Subject {
    package: &'static str,
    /// The test binaries.
    targets: &'static [&'static str],
    /// Which of their tests.
    tests: &'static [&'static str],
}

const SUBJECTS: [Subject; 2] = [
    Subject {
        package: "akash-provider-core",
        targets: &["--lib", "--test", "integration"],
        // Three seconds instead of thirty: programs and clocks, which decide nothing, and what counts the work of the
        // largest inputs.
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
    Subject {
        package: "akash-provider-chain",
        targets: &["--lib"],
        tests: &["tx::"],
    },
];

/// How many mutants.
#[derive(Debug, Arguments)]
// Its fields stand among those of the campaign, whose group has the same name.
#[group(id = "mutants")]
pub(crate) struct Args {
    /// Mutants: how many are tried, evenly from all files. The seed says which; the next seed tries others.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Mutants: every one is tried. Takes a night.
    #[arg(long, conflicts_with = "count")]
    all: bool,
}

/// Tries the mutants, holds the survivors against the list and prints the figures.
pub(crate) fn run(workspace: &Workspace, seed: u64, args: &Args) -> Result<()> {
    let begun = Instant::now();
    let accepted = Accepted::parse(&read(&workspace.root.join(ACCEPTED))?)?;
    let tool = Tool::installed(workspace)?;
    let lists = SUBJECTS
        .iter()
        .map(|subject| Ok((subject, tool.list(subject)?)))
        .collect::<Result<Vec<_>>>()?;
    let known: Vec<&Mutant> = lists.iter().flat_map(|(_, list)| list).collect();
    // Asked before anything is tried: it costs nothing, and the rest costs an hour.
    accepted.expect_known(&known)?;
    let shards = if args.all {
        1
    } else {
        shards(known.len(), args.count)
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
    for figure in outcome(&tried, &accepted, begun.elapsed()) {
        println!("{}", figures::json(&figure)?);
    }
    Error::from_findings(
        &format!("mutants; write a test, or say in {ACCEPTED} why none can tell"),
        &findings,
    )
}

/// How many parts of `total` mutants have about `count` each.
fn shards(total: usize, count: u64) -> u64 {
    u64::try_from(total).unwrap_or(u64::MAX).div_ceil(count).max(1)
}

/// One part of the mutants of a crate: every `of`-th, from the one at `index`.
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

/// The program, and the copy of the workspace that it works on.
struct Tool {
    program: PathBuf,
    tree: PathBuf,
    scratch: PathBuf,
}

impl Tool {
    /// Installs the program below `target` where it is not there, and brings the copy up to date.
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

    fn process(&self, subject: &Subject) -> Process {
        Process::new(&self.program, &self.tree)
            .args(["mutants", "--package", subject.package])
            .env("CARGO_TARGET_DIR", self.scratch.join("target"))
            // Building is most of the time, and nobody debugs a mutant.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
    }

    fn list(&self, subject: &Subject) -> Result<Vec<Mutant>> {
        let said = self.process(subject).args(["--list", "--json"]).lines()?;
        let list = mutant::list(&said.join("\n"))?;
        if list.is_empty() {
            let package = subject.package;
            return Err(Error::new(format!(
                "{package}: .cargo/mutants.toml names no file of it"
            )));
        }
        Ok(list)
    }

    fn run(&self, subject: &Subject, list: &[Mutant], shard: &Shard) -> Result<Vec<Tried>> {
        let wanted = shard.of(list);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let output = self.scratch.join(subject.package);
        let told = output.join("mutants.out").join("outcomes.json");
        // What an earlier run left must not be taken for this one's.
        forget(&told)?;
        let limit = u64::try_from(wanted.len())
            .unwrap_or(u64::MAX)
            .saturating_mul(SECONDS_FOR_ONE)
            .saturating_add(BUILD_SECONDS);
        let ended = self
            .process(subject)
            // In place is one at a time: a second copy would cost a second cold build.
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
        // It ends with a failure when something survives, too: what it has written says how it went.
        let outcomes = match (read(&told), ended) {
            (Ok(text), _) if !text.is_empty() => mutant::outcomes(&text)?,
            (_, Err(error)) | (Err(error), Ok(_)) => return Err(error),
            (Ok(_), Ok(_)) => Vec::new(),
        };
        mutant::matched(&wanted, &outcomes)
    }
}

fn forget(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::new(format!("{}: {error}", file.display())))
        }
        _ => Ok(()),
    }
}

fn outcome(tried: &[Tried], accepted: &Accepted, took: Duration) -> [Figure; 6] {
    let count = |wanted: &dyn Fn(&Tried) -> bool| {
        let found = tried.iter().filter(|tried| wanted(tried)).count();
        u32::try_from(found).unwrap_or(u32::MAX).into()
    };
    let mutants = |name: &str, value| Figure::new(name, value, "mutants");
    let survived = |tried: &Tried| tried.fate == Fate::Survived;
    [
        // What does not compile says nothing about the tests.
        mutants("mutants_tested", count(&|tried| tried.fate != Fate::Unviable)),
        mutants("mutants_caught", count(&|tried| tried.fate == Fate::Caught)),
        mutants("mutants_survived", count(&survived)),
        mutants(
            "mutants_accepted",
            count(&|tried| survived(tried) && accepted.has(&tried.name)),
        ),
        mutants("mutants_timed_out", count(&|tried| tried.fate == Fate::TimedOut)),
        Figure::new("mutants_seconds", took.as_secs_f64().round(), "s"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_is_in_one_part_and_parts_are_as_large_as_asked_for() {
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
    fn the_figures_count_what_compiled() {
        let tried = [
            ("a", Fate::Caught),
            ("b", Fate::Survived),
            ("c", Fate::Survived),
            ("d", Fate::TimedOut),
            ("e", Fate::Unviable),
        ]
        .map(|(name, fate)| Tried {
            name: name.to_owned(),
            fate,
        });
        let accepted = Accepted::parse("b # no difference\n").unwrap();
        let values = outcome(&tried, &accepted, Duration::from_secs(3)).map(|figure| figure.value);
        assert_eq!(values, [4.0, 1.0, 2.0, 1.0, 1.0, 3.0]);
    }

    #[test]
    fn the_list_of_this_repository_is_well_formed() {
        let workspace = Workspace::load().unwrap();
        Accepted::parse(&read(&workspace.root.join(ACCEPTED)).unwrap()).unwrap();
    }
}
