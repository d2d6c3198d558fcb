//! The alias `provider-services`: the program, started by the name of the Go provider's program.

use super::{assert_contains, sample, text};
use std::path::Path;
use std::process::{Command, Output};

/// Commands of the Go provider. Its commands for other modules of the chain, such as `tx bank`, are not part of this
/// program.
const COMMANDS: [&str; 34] = [
    "run",
    "keys add",
    "keys delete",
    "keys export",
    "keys import",
    "keys list",
    "keys show",
    "query cert list",
    "query market bid list",
    "query market lease list",
    "query market order get",
    "query provider get",
    "query provider list",
    "tx cert generate server",
    "tx cert publish",
    "tx cert revoke",
    "tx provider create",
    "tx provider update",
    "operator hostname",
    "operator ip",
    "operator inventory",
    "tools psutil list",
    "tools psutil serve",
    "migrate run",
    "send-manifest",
    "get-manifest",
    "lease-status",
    "service-status",
    "lease-events",
    "lease-logs",
    "lease-shell",
    "status",
    "migrate-hostnames",
    "migrate-endpoints",
];

fn link(folder: &Path) -> impl Fn(&str) -> Output {
    let link = folder.join("provider-services");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_provider-daemon"), &link).unwrap();
    let home = folder.join("home");
    move |line| {
        let mut alias = Command::new(&link);
        alias.args(line.split(' ')).env("AKASH_HOME", &home);
        alias.env("AKASH_KEYRING_BACKEND", "test").output().unwrap()
    }
}

#[test]
fn alias_has_the_commands_of_the_go_provider_and_its_name_in_their_usage() {
    let folder = tempfile::tempdir().unwrap();
    let alias = link(folder.path());
    for command in COMMANDS {
        let output = alias(&format!("{command} --help"));
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        assert_contains(
            &text(&output.stdout),
            &[&format!("Usage: provider-services {command}")],
        );
    }
}

#[test]
fn command_lines_of_the_go_provider_run_under_the_alias() {
    let folder = tempfile::tempdir().unwrap();
    let alias = link(folder.path());
    let stdout = |line: &str| {
        let output = alias(line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(stdout("version"), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    stdout("keys add main");
    let address = stdout("keys show main -a");
    assert!(address.starts_with("akash1"), "{address}");
    let manifest = stdout(&format!("sdl-to-manifest {} -o json", sample("web.yaml")));
    assert_contains(&manifest, &["services"]);
    let lease = format!("--dseq 5 --owner {0} --provider {0}", address.trim());
    let namespace = stdout(&format!("show-cluster-ns {lease}"));
    assert_eq!(stdout(&format!("cluster-ns {lease}")), namespace);
    assert_contains(
        &stdout("completion bash"),
        &["-F _clap_complete_provider_services provider-services"],
    );
}
