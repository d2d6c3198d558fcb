//! Files stay short enough to read in one sitting, or say in their module doc why they are longer.

use crate::error::Result;
use crate::report::Notes;
use crate::workspace::{Workspace, read};

/// Lines a file may have without a reason.
const LIMIT: usize = 600;
/// How the reason begins, on a line of the module doc.
const REASON: &str = "Length:";
/// How a file begins that a program wrote.
const GENERATED: &str = "// This file is @generated";

/// Returns the files to look at; a long file is a question and not an error.
pub(crate) fn run(workspace: &Workspace) -> Result<Notes> {
    let mut notes = Notes::new();
    for path in workspace.files("rs")? {
        let text = read(&path)?;
        if lacks_reason(&text) {
            let lines = text.lines().count();
            notes.push(format!(
                "{}: {lines} lines and no `//! {REASON} …` that says why it is over {LIMIT}",
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
    fn a_reason_stands_in_the_module_doc() {
        assert!(lacks_reason(&format!(
            "//! A table.\n{}//! Length: late.\n",
            "x\n".repeat(LIMIT)
        )));
    }
}
