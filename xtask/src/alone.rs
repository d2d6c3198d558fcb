//! `cargo xtask alone`: compiles every crate separately.
//!
//! In a build of the whole workspace, a feature of a dependency that one crate enables is enabled for all
//! crates. Only a separate build shows that another crate needs the feature and does not enable it.

use crate::workspace::{Package, Workspace};
use anyhow::Result;

/// Libraries that compile only with a dev-dependency, because the dev-dependency selects the Kubernetes API
/// version. For these libraries, the check includes the tests.
const WITH_TESTS: [&str; 4] = [
    "akash-provider-k8s",
    "akash-provider-kube-kernel",
    "akash-provider-kube-model",
    "akash-provider-operators",
];

/// Folders of the development tools, which this command does not check.
const TOOLS: [&str; 2] = ["testbed", "xtask"];
const EXAMPLES: &str = "examples";
/// Folder of the program's crates.
const PROGRAM: &str = "provider-daemon";
/// Crate in that folder that other programs use.
const GATEWAY: &str = "akash-provider-gateway";

/// Crates that are compiled separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All crates.
    All,
    /// The libraries. The crates of the program are compiled together, as in the program: separately, they take a
    /// third of the time of this check.
    Libraries,
}

/// Checks each crate of the scope with default features, without features, and with each single feature. Checks the
/// examples together, and skips the tools.
pub(crate) fn run(workspace: &Workspace, scope: Scope) -> Result<()> {
    let is_under = |member: &Package, folder: &str| {
        let mut members = workspace.members_under(folder);
        members.any(|found| found.name == member.name)
    };
    // No program depends on an example, so examples without features are checked together.
    let is_plain_example =
        |member: &&Package| is_under(member, EXAMPLES) && member.features().next().is_none();
    let (examples, others): (Vec<&Package>, Vec<&Package>) = workspace
        .members()
        .filter(|member| !TOOLS.iter().any(|folder| is_under(member, folder)))
        .partition(is_plain_example);
    check_together(workspace, &examples, &[])?;
    let is_of_program =
        |member: &&Package| scope == Scope::Libraries && member.name != GATEWAY && is_under(member, PROGRAM);
    let (program, others): (Vec<&Package>, Vec<&Package>) = others.into_iter().partition(is_of_program);
    if !program.is_empty() {
        check_together(workspace, &program, &[])?;
        check_together(workspace, &program, &["--no-default-features"])?;
    }
    for member in others {
        for flags in variants(member) {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            workspace
                .cargo(&["check", "--quiet", "--locked", "-p", &member.name])
                .args(flags)
                .args(targets(&member.name))
                .run()?;
        }
    }
    Ok(())
}

fn check_together(workspace: &Workspace, members: &[&Package], flags: &[&str]) -> Result<()> {
    workspace
        .cargo(&["check", "--quiet", "--locked"])
        .args(members.iter().flat_map(|member| ["-p", &member.name]))
        .args(flags)
        .run()
}

fn targets(member: &str) -> &'static [&'static str] {
    if WITH_TESTS.contains(&member) {
        &["--lib", "--tests"]
    } else {
        &[]
    }
}

/// Returns the flags of each check. No two checks enable the same features.
fn variants(member: &Package) -> Vec<Vec<String>> {
    let default = member.default_features();
    let mut variants = vec![vec![]];
    if !default.is_empty() {
        variants.push(vec!["--no-default-features".to_owned()]);
    }
    let others = member.features().filter(|feature| default != [*feature]);
    variants.extend(others.map(|feature| {
        ["--no-default-features", "--features", feature]
            .map(str::to_owned)
            .to_vec()
    }));
    variants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::workspace_of;

    #[test]
    fn crate_is_checked_once_per_set_of_features() {
        let workspace = workspace_of(&[("core", "core", &[])], &[]);
        let flags: Vec<String> = workspace
            .members()
            .flat_map(variants)
            .map(|variant| variant.join(" "))
            .collect();
        // The sample has the features `extra` and an empty `default`.
        assert_eq!(flags, ["", "--no-default-features --features extra"]);
    }
}
