//! `cargo xtask alone`: every crate compiles by itself.
//!
//! In a build of the whole workspace, features that one crate asks for leak into another that forgot to.

use crate::error::Result;
use crate::workspace::{Package, Workspace};

/// Libraries whose binary chooses the version of the Kubernetes API; their own tests choose it for themselves.
const WITH_TESTS: [&str; 1] = ["akash-provider-k8s"];

/// Folders of what nobody builds but this workspace. The commands are built alone whenever they run.
const TOOLS: [&str; 2] = ["testbed", "xtask"];

/// Checks every member that strangers build alone, then with no default features, then with each of its features.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let is_tool = |member: &&Package| {
        let of = |folder: &&str| {
            workspace
                .members_under(folder)
                .any(|tool| tool.name == member.name)
        };
        TOOLS.iter().any(of)
    };
    for member in workspace.members().filter(|member| !is_tool(member)) {
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

fn targets(member: &str) -> &'static [&'static str] {
    if WITH_TESTS.contains(&member) {
        &["--lib", "--tests"]
    } else {
        &[]
    }
}

fn variants(member: &Package) -> Vec<Vec<String>> {
    let mut variants = vec![vec![]];
    let features: Vec<&str> = member.features().collect();
    if !features.is_empty() {
        variants.push(vec!["--no-default-features".to_owned()]);
    }
    for feature in features {
        variants.push(
            ["--no-default-features", "--features", feature]
                .map(str::to_owned)
                .to_vec(),
        );
    }
    variants
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::described;

    #[test]
    fn a_crate_is_checked_bare_pure_and_with_each_feature() {
        let workspace = described(&[("core", "core", &[])], &[]);
        let flags: Vec<String> = workspace
            .members()
            .flat_map(variants)
            .map(|variant| variant.join(" "))
            .collect();
        assert_eq!(
            flags,
            [
                "",
                "--no-default-features",
                "--no-default-features --features extra"
            ]
        );
    }
}
