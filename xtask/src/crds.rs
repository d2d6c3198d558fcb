//! `cargo xtask crds`: writes the CustomResourceDefinitions in `deploy/crds` from the Rust types.

use crate::error::Result;
use crate::workspace::Workspace;

/// Writes the CustomResourceDefinition files. A test of `akash-provider-k8s` fails if the files are not
/// current.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo(&["test", "--locked", "-p", "akash-provider-k8s"])
        .args(["--test", "integration", "--", "crds::"])
        .env("BLESS_CRDS", "1")
        .run()
}
