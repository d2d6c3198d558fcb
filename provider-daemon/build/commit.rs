//! The commit that a checkout is at, read from git's own files: no git is needed, and every file that says it is known.

use std::path::{Path, PathBuf};

/// A commit, and the files that say so.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// In hexadecimal.
    pub(crate) commit: String,
    /// Where one of them changes, or comes, it is another commit.
    pub(crate) files: Vec<PathBuf>,
}

/// The commit of the checkout that `folder` is the root of; `None` where it is none.
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

/// `.git`, or where the file of this name in a further work tree leads.
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
