//! Checks that a library has no breaking change compared with the last release, unless its version permits
//! one.
//!
//! `cargo-semver-checks` compares the public API with the newest tag `vX.Y.Z` that is an ancestor of this
//! commit. A pinned version is installed below the target folder once a release exists.

use ::semver::Version;
use anyhow::Result;

use super::packages::libraries;
use crate::process::Process;
use crate::report::Notes;
use crate::workspace::Workspace;

/// Version of cargo-semver-checks, which must support the compiler's rustdoc format.
const VERSION: &str = "0.51.0";
/// Libraries that compile only with a feature for a Kubernetes version.
const KUBERNETES: [&str; 4] = [
    "akash-provider-k8s",
    "akash-provider-kube-kernel",
    "akash-provider-kube-model",
    "akash-provider-operators",
];
const KUBERNETES_VERSION: &str = "k8s-openapi/v1_34";

/// Compares each library with its last release. If no release exists, the check passes.
pub(crate) fn run(workspace: &Workspace) -> Result<Notes> {
    let tags = Process::new("git", &workspace.root)
        .args(["tag", "--list", "--merged", "HEAD"])
        .quiet()
        .lines()?;
    let Some(release) = last(&tags) else {
        return Ok(vec![
            "no release to compare with: no ancestor has a tag vX.Y.Z".to_owned(),
        ]);
    };
    let program = workspace.tool("cargo-semver-checks", VERSION)?;
    for library in libraries(workspace) {
        let mut check = Process::new(&program, &workspace.root)
            .args(["semver-checks", "--baseline-rev", &release])
            .args(["--package", &library.name]);
        if KUBERNETES.contains(&library.name.as_str()) {
            check = check.args(["--features", KUBERNETES_VERSION]);
        }
        check.run()?;
    }
    Ok(vec![format!("compared with {release}")])
}

/// Returns the newest release among the tags, without pre-releases.
fn last(tags: &[String]) -> Option<String> {
    let releases = tags.iter().filter_map(|tag| {
        let version = Version::parse(tag.trim().strip_prefix('v')?).ok()?;
        version.pre.is_empty().then_some((version, tag.trim()))
    });
    releases.max().map(|(_, tag)| tag.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_release_is_compared() {
        let of = |tags: &[&str]| last(&tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["v0.9.0", "v0.10.0", "v0.2.11"]), Some("v0.10.0".to_owned()));
        assert_eq!(
            of(&["v0.1.0", "v0.2.0-rc.1", "nightly", "v2", "0.3.0"]),
            Some("v0.1.0".to_owned())
        );
        assert_eq!(of(&["nightly", "v1.0.0-rc.1"]), None);
        assert_eq!(of(&[]), None);
    }
}
