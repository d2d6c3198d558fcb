//! Metadata of this workspace from cargo: members with targets and features, and all dependencies.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::process::Process;
use crate::version::version;

/// The workspace of this program.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// Folder of the workspace's Cargo.toml.
    pub(crate) root: PathBuf,
    /// Target folder.
    pub(crate) target: PathBuf,
    /// All packages of the dependency graph, including members.
    packages: Vec<Package>,
    members: Vec<String>,
    graph: Graph,
    /// If true, cargo runs with the lowest priority.
    is_in_background: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// SPDX expression.
    pub(crate) license: Option<String>,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) repository: Option<String>,
    #[serde(default)]
    pub(crate) readme: Option<String>,
    #[serde(default)]
    pub(crate) keywords: Vec<String>,
    #[serde(default)]
    pub(crate) categories: Vec<String>,
    /// Metadata for programs other than cargo.
    #[serde(default)]
    metadata: serde_json::Value,
    #[serde(default)]
    /// Minimum Rust version of the package.
    pub(crate) rust_version: Option<String>,
    /// Registries for publishing the package: `None` for any, empty for none.
    #[serde(default)]
    publish: Option<Vec<String>>,
    /// Registry or Git URL of the package; `None` for a local package.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
    features: BTreeMap<String, Vec<String>>,
    targets: Vec<CargoTarget>,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, Deserialize)]
struct CargoTarget {
    name: String,
    kind: Vec<String>,
    /// Root file of the target.
    #[serde(default)]
    src_path: PathBuf,
    /// True unless the manifest disables tests of the target.
    #[serde(default = "tested")]
    test: bool,
}

const fn tested() -> bool {
    true
}

impl CargoTarget {
    fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|found| found == kind)
    }
}

#[derive(Debug, Clone, Deserialize)]
struct Dependency {
    name: String,
    /// Kind of the dependency, such as `dev`; `None` for a normal dependency.
    kind: Option<String>,
    /// Folder of a path dependency.
    #[serde(default)]
    path: Option<PathBuf>,
    /// Version requirement.
    #[serde(default)]
    req: String,
}

/// Resolved dependencies of each package.
#[derive(Debug, Clone, Default, Deserialize)]
struct Graph {
    nodes: Vec<PackageNode>,
}

#[derive(Debug, Clone, Deserialize)]
struct PackageNode {
    id: String,
    deps: Vec<Link>,
}

#[derive(Debug, Clone, Deserialize)]
struct Link {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Clone, Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    #[serde(default)]
    resolve: Graph,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

impl Workspace {
    /// Loads the metadata from cargo.
    pub(crate) fn load() -> Result<Self> {
        Self::load_with(&[])
    }

    /// Loads the workspace as [`Self::load`] does, with only the packages of `platform`.
    pub(crate) fn load_for(platform: &str) -> Result<Self> {
        Self::load_with(&["--filter-platform", platform])
    }

    fn load_with(more: &[&str]) -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let usual = [
            "metadata",
            "--format-version",
            "1",
            "--all-features",
            "--locked",
            "--quiet",
        ];
        let args: Vec<&str> = usual.iter().chain(more).copied().collect();
        Self::from_json(&Process::cargo(here, &args).quiet().lines()?.join("\n"))
    }

    pub(crate) fn from_json(text: &str) -> Result<Self> {
        let metadata: Metadata =
            serde_json::from_str(text).context("cannot parse the output of `cargo metadata`")?;
        Ok(Self {
            root: metadata.workspace_root,
            target: metadata.target_directory,
            packages: metadata.packages,
            members: metadata.workspace_members,
            graph: metadata.resolve,
            is_in_background: false,
        })
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.members.contains(&package.id))
    }

    pub(crate) fn external_packages(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| !self.members.contains(&package.id))
    }

    /// Returns the package with this name and version.
    pub(crate) fn package(&self, name: &str, version: &str) -> Option<&Package> {
        let mut packages = self.packages.iter();
        packages.find(|package| package.name == name && package.version == version)
    }

    /// Returns the number of external packages that remain if no member depends on `without`.
    pub(crate) fn packages_without(&self, without: &str) -> usize {
        let dropped: BTreeSet<&str> = self
            .packages
            .iter()
            .filter(|package| package.name == without)
            .map(|package| package.id.as_str())
            .collect();
        let members: BTreeSet<&str> = self.members.iter().map(String::as_str).collect();
        let is_taken =
            |from: &str, link: &Link| !(members.contains(from) && dropped.contains(link.pkg.as_str()));
        self.reached(members.iter().copied().collect(), is_taken).len() - members.len()
    }

    /// Returns the lowest Rust version that all dependencies of `member` support, and the dependency that
    /// requires this version. Excludes dev-dependencies.
    pub(crate) fn newest_compiler_of(&self, member: &Package) -> Option<(String, String)> {
        let is_built = |_: &str, link: &Link| link.dep_kinds.iter().any(|k| k.kind.as_deref() != Some("dev"));
        let reached = self.reached(vec![&member.id], is_built);
        let packages = self
            .packages
            .iter()
            .filter(|package| reached.contains(package.id.as_str()));
        let needs = packages.filter_map(|p| Some((p.rust_version.clone()?, p.name.clone())));
        needs
            .filter(|(_, name)| *name != member.name)
            .max_by_key(|(needed, _)| version(needed))
    }

    /// Returns the packages reachable from `from` through dependencies that `is_taken` accepts, including
    /// `from`.
    fn reached<'a>(
        &'a self,
        from: Vec<&'a str>,
        is_taken: impl Fn(&str, &Link) -> bool,
    ) -> BTreeSet<&'a str> {
        let nodes = self.graph.nodes.iter().map(|node| (node.id.as_str(), node));
        let nodes: BTreeMap<&str, &PackageNode> = nodes.collect();
        let (mut seen, mut open) = (BTreeSet::new(), from);
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let links = nodes.get(id).into_iter().flat_map(|node| &node.deps);
            open.extend(
                links
                    .filter(|link| is_taken(id, link))
                    .map(|link| link.pkg.as_str()),
            );
        }
        seen
    }

    /// Members in a folder below the root.
    pub(crate) fn members_under(&self, folder: &str) -> impl Iterator<Item = &Package> {
        let folder = self.root.join(folder);
        self.members()
            .filter(move |package| package.manifest_path.starts_with(&folder))
    }

    /// Returns the development tools.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Package> {
        let folders = ["testbed", "xtask"];
        folders.into_iter().flat_map(|folder| self.members_under(folder))
    }

    /// Returns the path of a binary in the dev profile.
    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.target
            .join("debug")
            .join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a binary that was built for a platform with a profile.
    pub(crate) fn built(&self, platform: &str, profile: &str, name: &str) -> PathBuf {
        self.target.join(platform).join(profile).join(name)
    }

    pub(crate) fn released(&self, name: &str) -> PathBuf {
        self.target
            .join("release")
            .join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }

    /// Returns a folder below the target folder for a command's files.
    pub(crate) fn scratch(&self, name: &str) -> Result<PathBuf> {
        let folder = self.target.join(name);
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// Returns the path of a program of this version. Installs a missing program.
    pub(crate) fn tool(&self, name: &str, version: &str) -> Result<PathBuf> {
        let root = self.scratch(&format!("tools/{name}-{version}"))?;
        let program = root
            .join("bin")
            .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
        if !program.exists() {
            self.cargo(&["install", name, "--locked", "--version"])
                .args([&format!("={version}"), "--root"])
                .args([&root])
                // The build settings and the target folder of this workspace do not apply to the program.
                .env("CARGO_TARGET_DIR", root.join("build"))
                .run()?;
            // Half a gigabyte that is not needed again.
            let _ = std::fs::remove_dir_all(root.join("build"));
        }
        Ok(program)
    }

    pub(crate) fn cargo(&self, args: &[&str]) -> Process {
        if self.is_in_background {
            Process::cargo_in_background(&self.root, args)
        } else {
            Process::cargo(&self.root, args)
        }
    }

    /// Returns this workspace with cargo at the lowest priority.
    pub(crate) fn in_background(&self) -> Self {
        Self {
            is_in_background: true,
            ..self.clone()
        }
    }

    /// Returns the sorted paths of repository files with this extension. Skips build output and hidden
    /// folders.
    pub(crate) fn files(&self, extension: &str) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for path in entries(&folder)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if path.is_dir() {
                    if path != self.target && name != "target" && !name.starts_with('.') {
                        folders.push(path);
                    }
                } else if path.extension().is_some_and(|found| found == extension) {
                    found.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Path relative to the root.
    pub(crate) fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.root)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}

impl Package {
    /// Returns the licence as an SPDX expression. Old packages separate alternatives by `/`.
    pub(crate) fn licence_expression(&self) -> Option<String> {
        self.license.as_ref().map(|licence| licence.replace('/', " OR "))
    }

    /// Returns the names of the features, except `default`.
    pub(crate) fn features(&self) -> impl Iterator<Item = &str> {
        self.features
            .keys()
            .map(String::as_str)
            .filter(|name| *name != "default")
    }

    /// Returns the features that are enabled by default.
    pub(crate) fn default_features(&self) -> &[String] {
        self.features.get("default").map_or(&[], Vec::as_slice)
    }

    /// Names of the normal dependencies.
    pub(crate) fn dependencies(&self) -> impl Iterator<Item = &str> {
        self.dependencies
            .iter()
            .filter(|dep| dep.kind.is_none())
            .map(|dep| dep.name.as_str())
    }

    /// Returns the names of all dependencies, including those of tests and build scripts.
    pub(crate) fn all_dependencies(&self) -> impl Iterator<Item = &str> {
        self.dependencies.iter().map(|dep| dep.name.as_str())
    }

    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|to| !to.is_empty())
    }

    pub(crate) fn is_library(&self) -> bool {
        self.targets.iter().any(|target| target.is("lib"))
    }

    pub(crate) fn has_docs_metadata(&self) -> bool {
        self.metadata
            .pointer("/docs/rs")
            .is_some_and(|metadata| !metadata.is_null())
    }

    /// Returns path dependencies without a version requirement, except dev-dependencies.
    pub(crate) fn loose_paths(&self) -> impl Iterator<Item = &str> {
        let built = self
            .dependencies
            .iter()
            .filter(|dep| dep.kind.as_deref() != Some("dev"));
        let loose = built.filter(|dep| dep.path.is_some() && matches!(dep.req.as_str(), "" | "*"));
        loose.map(|dep| dep.name.as_str())
    }

    pub(crate) fn binaries(&self) -> impl Iterator<Item = &str> {
        self.targets
            .iter()
            .filter(|target| target.is("bin"))
            .map(|t| t.name.as_str())
    }

    /// Returns the library and binary targets with `test = false`: their folders if all targets have this
    /// setting, otherwise their root files.
    pub(crate) fn untested(&self) -> impl Iterator<Item = &Path> {
        let programs = || self.targets.iter().filter(|t| t.is("lib") || t.is("bin"));
        let is_whole = programs().all(|target| !target.test);
        let untested = programs().filter(|target| !target.test);
        // A folder with a tested target is tested as a whole.
        untested.filter_map(move |target| match is_whole {
            true => target.src_path.parent(),
            false => Some(target.src_path.as_path()),
        })
    }
}

/// Returns the sorted paths in a folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = || folder.display().to_string();
    let entries = std::fs::read_dir(folder).with_context(unreadable)?;
    let paths: std::io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.with_context(unreadable)?;
    paths.sort();
    Ok(paths)
}

pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates a workspace with `members` and external packages.
    pub(crate) fn workspace_of(
        members: &[(&str, &str, &[&str])],
        external_packages: &[(&str, &str, &str)],
    ) -> Workspace {
        let dependency = |name: &&str| serde_json::json!({"name": name, "kind": null});
        let mut packages = Vec::new();
        for (folder, name, dependencies) in members {
            packages.push(serde_json::json!({
                "id": name, "name": name, "version": "0.1.0", "license": "Apache-2.0", "source": null,
                "manifest_path": format!("/w/{folder}/Cargo.toml"),
                "features": {"default": [], "extra": []},
                "targets": [{"name": name, "kind": ["bin"]}, {"name": "explore", "kind": ["test"]}],
                "dependencies": dependencies.iter().map(dependency).collect::<Vec<_>>(),
            }));
        }
        for (name, license, source) in external_packages {
            packages.push(serde_json::json!({
                "id": format!("x {name}"), "name": name, "version": "1.0.0", "license": license,
                "source": source, "manifest_path": format!("/r/{name}/Cargo.toml"),
                "features": {}, "targets": [], "dependencies": [],
            }));
        }
        let text = serde_json::json!({
            "packages": packages,
            "workspace_members": members.iter().map(|member| member.1).collect::<Vec<_>>(),
            "workspace_root": "/w",
            "target_directory": "/w/target",
        });
        Workspace::from_json(&text.to_string()).unwrap()
    }

    #[test]
    fn members_and_external_packages_are_distinguished() {
        let workspace = workspace_of(
            &[("core", "core", &[]), ("examples/a", "example-a", &["core"])],
            &[("x", "MIT", "s")],
        );
        assert_eq!(
            workspace.members().map(|p| p.name.as_str()).collect::<Vec<_>>(),
            ["core", "example-a"]
        );
        assert_eq!(
            workspace
                .external_packages()
                .map(|p| p.name.as_str())
                .collect::<Vec<_>>(),
            ["x"]
        );
        let examples: Vec<_> = workspace
            .members_under("examples")
            .flat_map(Package::binaries)
            .collect();
        assert_eq!(examples, ["example-a"]);
    }

    #[test]
    fn default_is_not_listed_as_a_feature() {
        let workspace = workspace_of(&[("core", "core", &[])], &[]);
        let features: Vec<_> = workspace.members().flat_map(Package::features).collect();
        assert_eq!(features, ["extra"]);
    }

    #[test]
    fn invalid_output_of_cargo_is_an_error() {
        assert!(Workspace::from_json("{}").is_err());
    }

    #[test]
    fn this_workspace_is_read() {
        let workspace = Workspace::load().unwrap();
        assert!(workspace.members().any(|package| package.name == "xtask"));
        assert!(
            workspace
                .files("rs")
                .unwrap()
                .iter()
                .any(|path| path.ends_with("xtask/src/workspace.rs"))
        );
    }
}
