//! `cargo xtask crds`: writes the CustomResourceDefinitions in `deploy/crds` from the Rust types.

use crate::workspace::Workspace;
use anyhow::Result;

/// Writes the CustomResourceDefinition files.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo(&["test", "--locked", "-p", "akash-provider-kube-model"])
        .args(["--test", "integration", "--", "crds::"])
        .env("BLESS_CRDS", "1")
        .run()
}
