//! Every direct dependency of the core has its reason in docs/dependencies.md, and no reason outlives its crate.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::workspace::{Workspace, read};

const PAGE: &str = "docs/dependencies.md";

/// Compares the page with the manifest of the core.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let page = read(&workspace.root.join(PAGE))?;
    let core = workspace
        .members()
        .filter(|member| member.name == "akash-provider-core");
    let wanted: BTreeSet<&str> = core.flat_map(|core| core.dependencies()).collect();
    Error::from_findings(PAGE, &differences(&wanted, &rows(&page)))
}

/// The crates named in the first column of the page's tables.
fn rows(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0))
        .collect()
}

fn differences(wanted: &BTreeSet<&str>, given: &BTreeSet<&str>) -> Vec<String> {
    let lacking = wanted
        .difference(given)
        .map(|name| format!("`{name}` has no reason"));
    let idle = given
        .difference(wanted)
        .map(|name| format!("`{name}` is no dependency of the core"));
    lacking.chain(idle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_the_first_column() {
        let page =
            "# `title`\n| crate | for |\n|---|---|\n| `serde` | `json` |\n| `sha2` | hashes |\n`uuid`\n";
        assert_eq!(rows(page), BTreeSet::from(["serde", "sha2"]));
    }

    #[test]
    fn both_directions_are_told() {
        let found = differences(
            &BTreeSet::from(["serde", "sha2"]),
            &BTreeSet::from(["serde", "uuid"]),
        );
        assert_eq!(
            found,
            ["`sha2` has no reason", "`uuid` is no dependency of the core"]
        );
    }
}
