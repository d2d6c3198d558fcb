//! Initial objects of every cluster.

use std::path::Path;
use std::time::Duration;

use crate::command::{Run, until};
use crate::error::{Error, Result};
use crate::layout::{Layout, NODE};
use crate::tier::Tier;

/// Time limit until the objects of a new cluster are ready.
const READY_WITHIN: Duration = Duration::from_mins(2);

/// Returns kubectl with the administrator's kubeconfig.
pub(super) fn kubectl(layout: &Layout) -> Run {
    Run::new(layout.program("kubectl"))
        .args(["--kubeconfig", &layout.kubeconfig().display().to_string()])
        // The default cache folder is in the caller's home.
        .env("KUBECACHEDIR", layout.config("kubectl-cache"))
}

/// Creates the objects that a provider expects.
pub(super) fn create(layout: &Layout) -> Result<()> {
    apply(layout, include_str!("../../manifests/base.yaml"))?;
    if layout.tier == Tier::Node {
        let dns = include_str!("../../manifests/dns.yaml")
            .replace(
                "PROGRAMS",
                &format!("{:?}", layout.programs.display().to_string()),
            )
            .replace("ADDRESS", &layout.addresses().dns.to_string());
        apply(layout, &dns)?;
        apply(layout, include_str!("../../manifests/storage.yaml"))?;
    }
    Ok(())
}

/// Applies the CustomResourceDefinitions in the folder `crds`. Does nothing if the folder has no YAML files.
pub(super) fn define(layout: &Layout, crds: &Path) -> Result<()> {
    if !holds_yaml(crds)? {
        return Ok(());
    }
    let folder = crds.display().to_string();
    // Overwrites fields of definitions that were applied manually.
    let apply = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager",
        "testbed",
        "-f",
        &folder,
    ];
    kubectl(layout).args(apply).done()?;
    let wait = [
        "wait",
        "--for",
        "condition=Established",
        "--timeout",
        "60s",
        "-f",
        &folder,
    ];
    kubectl(layout).args(wait).done()
}

fn apply(layout: &Layout, manifests: &str) -> Result<()> {
    kubectl(layout)
        .args(["apply", "--server-side", "--field-manager", "testbed", "-f", "-"])
        .input(manifests)
        .done()
}

fn holds_yaml(folder: &Path) -> Result<bool> {
    match std::fs::read_dir(folder) {
        Ok(entries) => Ok(entries
            .flatten()
            .any(|entry| entry.path().extension().is_some_and(|found| found == "yaml"))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::at(folder, error)),
    }
}

/// Waits until the cluster can run pods. In the node tier, also waits for the node and the cluster DNS.
pub(super) fn await_ready(layout: &Layout) -> Result<()> {
    // Pods are refused until their namespace has its service account.
    await_that(
        layout,
        "serviceaccount/default",
        "lease",
        "jsonpath={.metadata.uid}",
    )?;
    if layout.tier == Tier::Node {
        await_that(layout, &format!("node/{NODE}"), "default", "condition=Ready")?;
        await_that(layout, "deployment/coredns", "kube-system", "condition=Available")?;
    }
    Ok(())
}

/// Waits until an object meets `condition`. The object may be created during the wait.
fn await_that(layout: &Layout, what: &str, namespace: &str, condition: &str) -> Result<()> {
    until(what, READY_WITHIN, || {
        kubectl(layout)
            .args([
                "wait",
                what,
                "--namespace",
                namespace,
                "--for",
                condition,
                "--timeout",
                "10s",
            ])
            .done()
            .map_err(|error| error.to_string())
    })
}
