//! Checks the length of files: a long file states the reason in its module doc.

use crate::report::Notes;
use crate::workspace::{Workspace, read};
use anyhow::Result;

/// Maximum number of lines of a file. A longer file needs a reason in the module docs.
const LIMIT: usize = 600;
/// Prefix of the line with the reason for the length of a file. The line is in the module docs.
const REASON: &str = "Length:";
/// First line of generated files.
const GENERATED: &str = "// This file is @generated";

/// Returns a note for each file with more than [`LIMIT`] lines, unless the module docs give a reason for the
/// length.
pub(crate) fn run(workspace: &Workspace) -> Result<Notes> {
    let mut notes = Notes::new();
    for path in workspace.files("rs")? {
        let text = read(&path)?;
        if lacks_reason(&text) {
            let lines = text.lines().count();
            notes.push(format!(
                "{}: {lines} lines, above {LIMIT}, without a reason in a line `//! {REASON} …`",
                workspace.relative(&path)
            ));
        }
    }
    Ok(notes)
}

fn lacks_reason(text: &str) -> bool {
    let reasons = |line: &str| {
        line.strip_prefix("//!")
            .and_then(|doc| doc.trim().strip_prefix(REASON))
            .is_some_and(|why| !why.is_empty())
    };
    text.lines().count() > LIMIT
        && !text.starts_with(GENERATED)
        && !text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .any(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_files_need_a_reason() {
        let long = "x\n".repeat(LIMIT + 1);
        assert!(!lacks_reason(&"x\n".repeat(LIMIT)));
        assert!(lacks_reason(&long));
        assert!(!lacks_reason(&format!("{GENERATED} by prost-build.\n{long}")));
        assert!(lacks_reason(&format!("//! A table.\n//! Length:\n{long}")));
        assert!(!lacks_reason(&format!(
            "//! A table.\n//! Length: one row for each rule.\n{long}"
        )));
    }

    #[test]
    fn reason_is_read_from_the_module_doc() {
        assert!(lacks_reason(&format!(
            "//! A table.\n{}//! Length: late.\n",
            "x\n".repeat(LIMIT)
        )));
    }
}
