//! The small form of the operator benchmarks.

use std::path::Path;
use std::process::{Command, Stdio};
use testbed::{Component, Testbed, Tier};

const PARTS: [&str; 3] = ["hostname", "ip", "inventory"];

/// Objects that the benchmark leaves on the cluster, and that the test deletes.
const LEFT: [&[&str]; 5] = [
    &["nodes", "--selector=akash.network=true"],
    &["providerhosts.akash.network", "--namespace=lease", "--all"],
    &["providerleasedips.akash.network", "--namespace=lease", "--all"],
    &["manifests.akash.network", "--namespace=lease", "--all"],
    &["namespaces", "--selector=akash.network=true"],
];

/// Cluster without a running controller manager, so that only the benchmark creates objects.
struct Paused<'a>(&'a Testbed);

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        drop(self.0.resume(Component::ControllerManager));
        for left in LEFT {
            drop(self.0.kubectl(&[&["delete", "--wait=false"], left].concat()));
        }
    }
}

#[test]
fn the_operators_are_measured_in_a_small_form() {
    let Some((cluster, _alone)) = Testbed::exclusive_from_env(Tier::Api).unwrap() else {
        return;
    };
    cluster.pause(Component::ControllerManager).unwrap();
    let _paused = Paused(&cluster);
    let program = Path::new(env!("CARGO_BIN_EXE_operator-bench"));
    let scratch = tempfile::tempdir().unwrap();
    let measure = |part: &&str| {
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(cluster.kubeconfig());
        command
            .arg("--program")
            .arg(program.with_file_name("provider-daemon"));
        command.arg("--scratch").arg(scratch.path()).args([part, "rest"]);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // Side by side, because each waits for an election.
    let running = PARTS.each_ref().map(measure);
    for (part, child) in PARTS.iter().zip(running) {
        let output = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (figures, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{part}: {figures}{errors}");
        assert!(
            figures.contains(&format!("{part}_idle_calls_per_min")),
            "{figures}{errors}"
        );
    }
}
