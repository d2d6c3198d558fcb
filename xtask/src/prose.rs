//! Measures how plainly the prose of the workspace is written.
//!
//! `docs/writing.md` lists words with better replacements. The score is the number of listed words per 10,000 words
//! of Markdown, comments and string literals. `xtask/prose-limit.txt` holds the highest score that `verify` accepts;
//! `cargo xtask fix` lowers it.

pub(crate) mod scan;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

use crate::report::Notes;
use crate::workspace::{Workspace, read};
use scan::{List, ProseLines};

const GUIDE: &str = "docs/writing.md";
const LIMIT: &str = "xtask/prose-limit.txt";
/// Path segments of files without a score.
const SKIPPED: [&str; 4] = ["generated", "proto", "fixtures", "CHANGELOG.md"];
/// Maximum number of printed findings.
const PRINTED: usize = 40;

/// Arguments of `cargo xtask prose`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files to examine, relative to the workspace [default: all]
    files: Vec<PathBuf>,
}

/// Number of words in some files, and findings for listed terms.
#[derive(Debug, Default)]
struct Survey {
    words: usize,
    findings: Vec<String>,
}

impl Survey {
    fn read(workspace: &Workspace, files: &[PathBuf]) -> Result<Self> {
        let list = List::from_guide(&read(&workspace.root.join(GUIDE))?)?;
        let mut survey = Self::default();
        for path in files {
            let name = workspace.relative(path);
            let text = read(path)?;
            for line in ProseLines::new(path, &text) {
                survey.words += scan::count_words(&line.prose);
                survey.findings.extend(
                    list.find(&line.prose)
                        .map(|(word, better)| format!("{name}:{}: {word} -> {better}", line.number)),
                );
            }
        }
        Ok(survey)
    }

    /// Returns the number of listed words per 10,000 words, rounded up.
    fn score(&self) -> usize {
        (self.findings.len() * 10_000).div_ceil(self.words.max(1))
    }
}

/// Prints location and replacement of each listed term, and then the score.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let files = if args.files.is_empty() {
        prose_files(workspace)?
    } else {
        args.files.iter().map(|file| workspace.root.join(file)).collect()
    };
    let survey = Survey::read(workspace, &files)?;
    for finding in &survey.findings {
        println!("{finding}");
    }
    println!(
        "{} words checked, {} terms to avoid per 10,000 words",
        survey.words,
        survey.score()
    );
    Ok(())
}

/// Fails if the score is above the recorded limit.
pub(crate) fn verify(workspace: &Workspace) -> Result<Notes> {
    let limit = recorded(workspace)?;
    let survey = Survey::read(workspace, &prose_files(workspace)?)?;
    let score = survey.score();
    if score > limit {
        let files = changed(workspace)?;
        let newest = Survey::read(workspace, &files)?.findings;
        let listed = newest
            .iter()
            .take(PRINTED)
            .fold(String::new(), |text, line| text + "\n  " + line);
        bail!(
            "score {score} is above {limit} ({LIMIT}); listed words in the files of the last change:{listed}"
        );
    }
    Ok(if score < limit {
        vec![format!(
            "score {score} is below {limit}; `cargo xtask fix` records it"
        )]
    } else {
        Notes::new()
    })
}

pub(crate) fn lower_limit(workspace: &Workspace) -> Result<()> {
    let score = Survey::read(workspace, &prose_files(workspace)?)?.score();
    if score < recorded(workspace)? {
        let path = workspace.root.join(LIMIT);
        std::fs::write(&path, format!("{score}\n")).with_context(|| format!("cannot write {LIMIT}"))?;
    }
    Ok(())
}

fn recorded(workspace: &Workspace) -> Result<usize> {
    let text = read(&workspace.root.join(LIMIT))?;
    text.trim()
        .parse()
        .with_context(|| format!("{LIMIT}: invalid score \"{}\"", text.trim()))
}

fn prose_files(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let mut files = workspace.files("rs")?;
    files.extend(workspace.files("md")?);
    files.retain(|path| is_prose(path));
    Ok(files)
}

fn is_prose(path: &Path) -> bool {
    !path.ends_with(GUIDE)
        && !path
            .components()
            .any(|part| SKIPPED.iter().any(|name| part.as_os_str() == *name))
}

/// Returns the prose files with changes in the current commit or in the work tree.
fn changed(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let names = crate::process::Process::new("git", &workspace.root)
        .args(["diff", "--name-only", "--diff-filter=d", "HEAD~1"])
        .quiet()
        .lines()?;
    let paths = names.iter().map(|name| workspace.root.join(name));
    let has_prose = |path: &PathBuf| path.extension().is_some_and(|end| end == "rs" || end == "md");
    Ok(paths.filter(|path| has_prose(path) && is_prose(path)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_counts_listed_words_per_ten_thousand() {
        let survey = Survey {
            words: 3,
            findings: vec!["a.rs:1: told -> reported".into()],
        };
        assert_eq!(survey.score(), 3_334);
        assert_eq!(Survey::default().score(), 0);
    }

    #[test]
    fn files_of_other_projects_and_of_the_past_are_skipped() {
        let is = |path: &str| is_prose(Path::new(path));
        assert!(is("/r/docs/ha.md"));
        assert!(!is("/r/docs/writing.md"));
        assert!(!is("/r/a/tests/fixtures/README.md"));
    }
}
