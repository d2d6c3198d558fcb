//! The libraries can be packed for a registry, and what is packed of the core builds by itself.
//!
//! A manifest that names a file outside of its folder, a readme that is not there, a dependency without a version or a
//! source that is left out are found here, and not on the day of a release.

use crate::error::{Error, Result};
use crate::workspace::{Package, Workspace};

/// Unpacked and built as a stranger's cargo would: a minute and a half the first time, ten seconds after that. For the
/// others it would be many, and what can go wrong with packing alone goes wrong here too.
const BUILT: &str = "akash-provider-core";
/// What is in every archive, besides its sources.
const PARTS: [&str; 3] = ["Cargo.toml", "README.md", "LICENSE"];

/// Packs the libraries that are published, all at once since they need each other, and unpacks and builds the core.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let libraries: Vec<&Package> = libraries(workspace).collect();
    if !libraries.iter().any(|library| library.name == BUILT) {
        return Err(Error::new(format!("`{BUILT}` is no library that is published")));
    }
    let mut findings = Vec::new();
    for library in &libraries {
        let files = workspace
            .cargo(&["package", "--allow-dirty", "--list", "--package"])
            .args([&library.name])
            .lines()?;
        findings.extend(lacking(&library.name, &files));
    }
    Error::from_findings("packages", &findings)?;
    let names = libraries.iter().flat_map(|library| ["--package", &library.name]);
    let pack = ["package", "--quiet", "--locked", "--allow-dirty"];
    workspace.cargo(&pack).args(["--no-verify"]).args(names).run()?;
    workspace.cargo(&pack).args(["--package", BUILT]).run()
}

/// The libraries that strangers get from a registry.
pub(super) fn libraries(workspace: &Workspace) -> impl Iterator<Item = &Package> {
    workspace
        .members()
        .filter(|member| member.is_published() && member.is_library() && member.binaries().next().is_none())
}

/// What an archive with these files lacks.
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
    fn an_archive_has_its_readme_and_its_licence() {
        let files = ["Cargo.toml", "README.md", "src/LICENSE"].map(str::to_owned);
        assert_eq!(lacking("a", &files), ["the archive of `a` has no LICENSE"]);
    }

    #[test]
    fn the_libraries_are_those_that_have_no_program() {
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
