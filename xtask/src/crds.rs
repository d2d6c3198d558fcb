//! `cargo xtask crds`: the definitions of our Kubernetes kinds in `deploy/crds`, written from the types.

use crate::error::Result;
use crate::workspace::Workspace;

/// Writes the files. That they are current is a test of the crate.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo(&["test", "--locked", "-p", "akash-provider-k8s"])
        .args(["--test", "integration", "--", "crds::"])
        .env("BLESS_CRDS", "1")
        .run()
}
