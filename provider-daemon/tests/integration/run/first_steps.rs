//! Runs the commands of `docs/first-steps.md` unchanged.

use crate::environment::without_settings;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/first-steps.md");

/// Returns the command blocks of `docs/first-steps.md`, in order.
fn blocks() -> Vec<&'static str> {
    let parts = PAGE.split("```").collect::<Vec<_>>();
    let fenced = parts.iter().skip(1).step_by(2);
    fenced
        .map(|block| {
            block
                .strip_prefix("sh\n")
                .expect("a code block is not a shell block")
        })
        .collect()
}

#[test]
fn commands_of_first_steps_work() {
    let blocks = blocks();
    let (build, steps) = blocks.split_first().unwrap();
    assert!(build.starts_with("cargo build --release -p provider-daemon\n"));
    assert_eq!(steps.len(), 4, "steps: network, provider, tenant, clean-up");
    // The commands use fixed ports, so the script runs in its own network namespace.
    let alone = ["--user", "--map-root-user", "--net"];
    let can = Command::new("unshare")
        .args(alone)
        .args(["ip", "link", "set", "lo", "up"])
        .output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!("skipped: `unshare` and `ip` cannot create a network namespace here");
        return;
    }
    // Print the logs before the last step, which deletes them.
    let (end, before) = steps.split_last().unwrap();
    let script = format!(
        "set -eu\nip link set lo up\n{}\ncat \"$STEPS/provider.log\" \"$STEPS/network.log\"\n{end}",
        before.concat()
    );
    let program = Path::new(env!("CARGO_BIN_EXE_provider-daemon")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("unshare");
    without_settings(&mut command);
    let output = command
        .args(alone)
        .args(["timeout", "120", "sh", "-c", &script])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .env("PATH", format!("{}:{path}", program.display()))
        .env_remove("HOME")
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    for text in [
        "PASS",
        ".ingress.localhost",
        "\"available\": 2",
        "lease won",
        "docs/first-steps.md",
    ] {
        assert!(out.contains(text), "no `{text}` in {out}\n{err}");
    }
    for text in [
        "to accept a bid, run",
        "to send the manifest to the provider, run",
        "all replicas of every service are available",
    ] {
        assert!(err.contains(text), "no `{text}` in {err}");
    }
}
