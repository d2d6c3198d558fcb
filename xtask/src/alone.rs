//! `cargo xtask alone`: compiles every crate separately.
//!
//! In a build of the whole workspace, a feature of a dependency that one crate enables is enabled for all
//! crates. Only a separate build shows that another crate needs the feature and does not enable it.

use crate::verify::Extent;
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

const EXAMPLES: &str = "examples";
/// Folder of the program's crates.
const PROGRAM: &str = "provider-daemon";
/// Crate in that folder that other programs use.
const GATEWAY: &str = "akash-provider-gateway";

/// Checks each crate with default features, without features, and with each single feature. Checks the examples
/// together, and skips the tools.
///
/// The quick check compiles the program as a user compiles it, and each library as an embedder does, both with default
/// features.
pub(crate) fn run(workspace: &Workspace, extent: Extent) -> Result<()> {
    let is_under = |member: &Package, folder: &str| {
        let mut members = workspace.members_under(folder);
        members.any(|found| found.name == member.name)
    };
    // No program depends on an example, so examples without features are checked together.
    let is_plain_example =
        |member: &&Package| is_under(member, EXAMPLES) && member.features().next().is_none();
    let (examples, others): (Vec<&Package>, Vec<&Package>) = workspace
        .members()
        .filter(|member| !workspace.tools().any(|tool| tool.name == member.name))
        .partition(is_plain_example);
    let is_of_program = |member: &&Package| member.name != GATEWAY && is_under(member, PROGRAM);
    let (program, libraries): (Vec<&Package>, Vec<&Package>) =
        others.iter().copied().partition(is_of_program);
    let separate = match extent {
        Extent::Full => {
            check_together(workspace, &examples)?;
            others
        }
        Extent::Quick => {
            check_together(workspace, &program)?;
            libraries
        }
    };
    for member in separate {
        for flags in variants(member, extent) {
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

fn check_together(workspace: &Workspace, members: &[&Package]) -> Result<()> {
    workspace
        .cargo(&["check", "--quiet", "--locked"])
        .args(members.iter().flat_map(|member| ["-p", &member.name]))
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
fn variants(member: &Package, extent: Extent) -> Vec<Vec<String>> {
    let default = member.default_features();
    let mut variants = vec![vec![]];
    if extent == Extent::Quick {
        return variants;
    }
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
        let flags = |extent| -> Vec<String> {
            let variants = workspace.members().flat_map(|member| variants(member, extent));
            variants.map(|variant| variant.join(" ")).collect()
        };
        // The sample has the features `extra` and an empty `default`.
        assert_eq!(
            flags(Extent::Full),
            ["", "--no-default-features --features extra"]
        );
        assert_eq!(flags(Extent::Quick), [""]);
    }
}
