//! `dev --processes`: services run as programs on this machine, and the tenant connects to them.

use crate::tenant::dev::Dev;
use crate::tenant::stage::until;
use serde_json::Value;
use std::fs::{read_dir, write};
use std::path::Path;
use std::process::Command;

const SDL: &str = include_str!("../../../samples/processes.yaml");

fn refused(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
    let output = command
        .args(["dev", "--processes", "--once"])
        .args(words)
        .output()
        .unwrap();
    assert!(!output.status.success(), "{words:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn service_of_dev_runs_as_reachable_process() {
    let place = tempfile::tempdir().unwrap();
    let sdl = place.path().join("own.yaml");
    write(
        &sdl,
        SDL.replace("while date; do sleep 5; done", "echo I am $$; sleep 1000 & wait"),
    )
    .unwrap();
    let mut command = Dev::command(&["--processes", &sdl.to_string_lossy()]);
    command.env("XDG_CACHE_HOME", place.path());
    let dev = Dev::from_command(command);
    until("the commands", || dev.line("curl").is_some());
    assert!(dev.line("services run as processes of this machine").is_some());
    let mut port = Value::Null;
    until("the process runs", || {
        let (_, out, _) = dev.ran(&["lease-status", "--output", "json"]);
        let status: Value = serde_json::from_str(&out).unwrap_or_default();
        let status = &status[0]["status"];
        port = status["forwarded_ports"]["clock"][0]["externalPort"].clone();
        status["services"]["clock"]["available"] == 1
    });
    let greeting = format!("hello from port {port}");
    let mut logs = String::new();
    until("the output of the process", || {
        logs = dev.ran(&["lease-logs"]).1;
        logs.contains(&greeting) && logs.contains("I am ")
    });
    let process = logs.split("I am ").nth(1).unwrap();
    let process = Path::new("/proc").join(process.lines().next().unwrap().trim());
    assert!(process.exists(), "{logs}");
    let asked = [
        "lease-shell",
        "clock",
        "--",
        "sh",
        "-c",
        "echo $GREETING from port $PORT_8080",
    ];
    let (is_good, out, err) = dev.ran(&asked);
    assert!(is_good && out.contains(&greeting), "{out}{err}");
    dev.stops();
    assert!(!process.exists());
    let entries = read_dir(place.path().join("akash-provider/dev")).unwrap();
    let entries: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        !entries.iter().any(|name| name.starts_with("processes")),
        "{entries:?}"
    );
}

#[test]
fn sdl_unsuitable_for_processes_is_refused_with_remedy() {
    let web = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
    let stderr = refused(&[web]);
    assert!(
        stderr.contains("web: service `web` has no command") && stderr.contains("help: add a command"),
        "{stderr}"
    );
    let stderr = refused(&["--gateway-listen-address", "0.0.0.0:0"]);
    assert!(
        stderr.contains("third parties could run programs here\nhelp: set --gateway-listen-address"),
        "{stderr}"
    );
    for (flag, value) in [("--orders", "3"), ("--kubeconfig", "cluster.yaml")] {
        let stderr = refused(&[flag, value]);
        assert!(stderr.contains("cannot be used with"), "{stderr}");
    }
}

#[test]
fn order_with_unsupported_features_is_declined_with_remedy() {
    let place = tempfile::tempdir().unwrap();
    let played = |sdl: String| {
        let file = place.path().join("own.yaml");
        write(&file, sdl).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_provider-daemon"))
            .args(["dev", "--processes", "--once", "--block-time=50ms"])
            .arg(&file)
            .env("XDG_CACHE_HOME", place.path())
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (is_served, output) = played(SDL.to_owned());
    assert!(
        is_served && output.contains("1 of 1 served, 0 left over"),
        "{output}"
    );
    let (is_served, output) = played(SDL.replace("port: 8080", "port: 80"));
    assert!(
        !is_served && output.contains("declined (no_hostnames)"),
        "{output}"
    );
    assert!(output.contains("fix: processes have no hostnames"), "{output}");
    let leased = SDL.replace("global: true", "global: true, ip: own");
    let (is_served, output) = played(format!("{leased}endpoints: {{ own: {{ kind: ip }} }}\n"));
    assert!(
        !is_served && output.contains("processes have no IP addresses"),
        "{output}"
    );
}
