//! Checks that the libraries can be packaged for a registry, and that the packaged core builds.
//!
//! The check finds packaging problems before a release: a manifest that names a file outside of its folder, a
//! missing readme, a dependency without a version, and excluded sources.

use crate::error::from_findings;
use crate::verify::Extent;
use crate::workspace::{Package, Workspace};
use anyhow::{Result, bail};

/// The only crate that is unpacked and built, as an embedder builds it. The other crates would take minutes
/// longer.
const BUILT: &str = "akash-provider-core";
/// Files that every archive must contain, besides sources.
const PARTS: [&str; 3] = ["Cargo.toml", "README.md", "LICENSE"];

/// Packages all published libraries in one call, because they depend on each other. The full check then builds the
/// unpacked core.
pub(crate) fn run(workspace: &Workspace, extent: Extent) -> Result<()> {
    let libraries: Vec<&Package> = libraries(workspace).collect();
    if !libraries.iter().any(|library| library.name == BUILT) {
        bail!("`{BUILT}` is not a published library");
    }
    let mut findings = Vec::new();
    for library in &libraries {
        let files = workspace
            .cargo(&["package", "--allow-dirty", "--list", "--package"])
            .args([&library.name])
            .lines()?;
        findings.extend(lacking(&library.name, &files));
    }
    from_findings("packages", &findings)?;
    let names = libraries.iter().flat_map(|library| ["--package", &library.name]);
    let pack = ["package", "--quiet", "--locked", "--allow-dirty"];
    workspace.cargo(&pack).args(["--no-verify"]).args(names).run()?;
    match extent {
        Extent::Full => workspace.cargo(&pack).args(["--package", BUILT]).run(),
        Extent::Quick => Ok(()),
    }
}

/// Published libraries.
pub(super) fn libraries(workspace: &Workspace) -> impl Iterator<Item = &Package> {
    workspace
        .members()
        .filter(|member| member.is_published() && member.is_library() && member.binaries().next().is_none())
}

/// Returns the required files that an archive does not contain.
fn lacking(name: &str, files: &[String]) -> Vec<String> {
    let lacks = PARTS
        .into_iter()
        .filter(|part| !files.iter().any(|file| file == part));
    lacks
        .map(|part| format!("the archive of `{name}` has no {part}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_contains_readme_and_licence() {
        let files = ["Cargo.toml", "README.md", "src/LICENSE"].map(str::to_owned);
        assert_eq!(lacking("a", &files), ["the archive of `a` has no LICENSE"]);
    }

    #[test]
    fn libraries_are_members_without_a_binary() {
        let workspace = Workspace::load().unwrap();
        let mut names: Vec<&str> = libraries(&workspace)
            .map(|library| library.name.as_str())
            .collect();
        names.sort_unstable();
        assert!(
            names.contains(&BUILT) && !names.contains(&"provider-daemon"),
            "{names:?}"
        );
    }
}
