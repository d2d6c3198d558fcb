//! Commit of a checkout, read from the files in `.git`. The program `git` is not needed, and the files that
//! determine the commit are returned.

use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Hash of the commit, in hexadecimal.
    pub(crate) commit: String,
    /// Files from which the commit was read. A change of such a file may change the commit.
    pub(crate) files: Vec<PathBuf>,
}

/// Returns the commit of the checkout `folder`, or `None` if `folder` is not the root of a checkout.
pub(crate) fn of(folder: &Path) -> Option<Found> {
    let git = git_folder(&folder.join(".git"))?;
    let head = git.join("HEAD");
    let text = std::fs::read_to_string(&head).ok()?;
    let Some(reference) = text.trim().strip_prefix("ref: ") else {
        return found(text.trim(), vec![head]);
    };
    // A work tree beside the first one has its own head, and the branches are in the first.
    let shared = match std::fs::read_to_string(git.join("commondir")) {
        Ok(path) => git.join(path.trim()),
        Err(_) => git,
    };
    let (loose, packed) = (shared.join(reference), shared.join("packed-refs"));
    if let Ok(commit) = std::fs::read_to_string(&loose) {
        return found(commit.trim(), vec![head, loose]);
    }
    let all = std::fs::read_to_string(&packed).ok()?;
    let line = all.lines().find_map(|line| line.strip_suffix(reference))?;
    found(line.trim(), vec![head, packed])
}

/// Returns the folder with the Git data, also for a linked work tree, in which `.git` is a file.
fn git_folder(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_dir() {
        return Some(dot_git.to_owned());
    }
    let text = std::fs::read_to_string(dot_git).ok()?;
    let path = text.trim().strip_prefix("gitdir: ")?;
    Some(dot_git.parent()?.join(path))
}

fn found(commit: &str, files: Vec<PathBuf>) -> Option<Found> {
    let is_hash = commit.len() >= 40 && commit.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| Found {
        commit: commit.to_owned(),
        files,
    })
}
