//! A library breaks no interface that a release promised, unless its version says so.
//!
//! `cargo-semver-checks` compares the public interface with that of the last release, which is a tag `vX.Y.Z` that this
//! state comes from. It is installed below the target folder, in one version, once there is a release to compare with.

use ::semver::Version;

use super::packages::libraries;
use crate::error::Result;
use crate::process::Process;
use crate::report::Notes;
use crate::workspace::Workspace;

/// A newer one reads what newer compilers say of an interface; it moves with the compiler.
const VERSION: &str = "0.51.0";
/// The library whose binary chooses the version of the Kubernetes API, and the one chosen here.
const CHOICE: (&str, &str) = ("akash-provider-k8s", "k8s-openapi/v1_34");

/// Compares each library with its state at the last release; without a release there is nothing to break.
pub(crate) fn run(workspace: &Workspace) -> Result<Notes> {
    let tags = Process::new("git", &workspace.root)
        .args(["tag", "--list", "--merged", "HEAD"])
        .quiet()
        .lines()?;
    let Some(release) = last(&tags) else {
        return Ok(vec![
            "there is no release to compare with: no tag vX.Y.Z leads here".to_owned(),
        ]);
    };
    let program = workspace.tool("cargo-semver-checks", VERSION)?;
    for library in libraries(workspace) {
        let mut check = Process::new(&program, &workspace.root)
            .args(["semver-checks", "--baseline-rev", &release])
            .args(["--package", &library.name]);
        if library.name == CHOICE.0 {
            check = check.args(["--features", CHOICE.1]);
        }
        check.run()?;
    }
    Ok(vec![format!("compared with {release}")])
}

/// The newest release among tags; what comes before a release promises nothing.
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
    fn the_newest_release_is_compared_with() {
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
