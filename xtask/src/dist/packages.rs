//! Packages in a program, as cargo resolves them for its features and its platform.

use super::PROGRAM;
use crate::workspace::{Package, Workspace, read};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Name and version of a package.
pub(super) type Key = (String, String);

/// Package in a program.
#[derive(Debug)]
pub(super) struct LinkedPackage<'a> {
    pub(super) package: &'a Package,
    /// Direct dependencies.
    pub(super) dependencies: BTreeSet<Key>,
}

/// Returns the packages that a build of the daemon compiles, including the daemon.
pub(super) fn components<'a>(workspace: &'a Workspace, triple: &str) -> Result<Vec<LinkedPackage<'a>>> {
    let tree = workspace
        .cargo(&["tree", "--locked", "--package", PROGRAM, "--edges", "no-dev"])
        .args(["--target", triple, "--prefix", "depth", "--format", " {p}"])
        .quiet()
        .lines()?;
    let found = dependencies(&tree).into_iter().map(|(key, dependencies)| {
        let package = workspace.package(&key.0, &key.1);
        let package = package.with_context(|| format!("cargo has no metadata of {} {}", key.0, key.1))?;
        Ok(LinkedPackage {
            package,
            dependencies,
        })
    });
    found.collect()
}

/// Reads the output of `cargo tree`: each line has a depth, a name and a version. The dependencies of a repeated
/// package are listed once.
fn dependencies(tree: &[String]) -> BTreeMap<Key, BTreeSet<Key>> {
    let mut found: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
    let mut path: Vec<Key> = Vec::new();
    for line in tree {
        let mut words = line.split_whitespace();
        let depth = words.next().and_then(|depth| depth.parse().ok());
        let (Some(depth), Some(name), Some(version)) = (depth, words.next(), words.next()) else {
            continue;
        };
        let key = (name.to_owned(), version.trim_start_matches('v').to_owned());
        path.truncate(depth);
        if let Some(above) = path.last() {
            found.entry(above.clone()).or_default().insert(key.clone());
        }
        found.entry(key.clone()).or_default();
        path.push(key);
    }
    found
}

/// Returns the SHA-256 checksums in Cargo.lock.
pub(super) fn checksums(workspace: &Workspace) -> Result<BTreeMap<Key, String>> {
    let lock: toml::Table =
        toml::from_str(&read(&workspace.root().join("Cargo.lock"))?).context("Cargo.lock")?;
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let checksum = |package: &toml::Value| {
        let field = |name| Some(package.get(name)?.as_str()?.to_owned());
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    Ok(packages.into_iter().flatten().filter_map(checksum).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_the_depths_of_the_tree() {
        let tree = [
            "0 a v1.0.0 (/w/a)",
            "1 b v2.0.0",
            "2 c v3.0.0 (proc-macro)",
            "1 c v3.0.0 (proc-macro) (*)",
        ];
        let found = dependencies(&tree.map(str::to_owned));
        let names = |name: &str| -> Vec<String> {
            let found = found.iter().find(|(key, _)| key.0 == name).unwrap();
            found.1.iter().map(|key| format!("{} {}", key.0, key.1)).collect()
        };
        assert_eq!(names("a"), ["b 2.0.0", "c 3.0.0"]);
        assert_eq!(names("b"), ["c 3.0.0"]);
        assert!(names("c").is_empty());
    }
}
