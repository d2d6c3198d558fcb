//! The program on the command line.
//!
//! Length: many short cases, all with the same helpers to start the program and to read its output.

mod alias;
mod completions;
mod man_pages;
pub(crate) mod operator;
mod operator_hostname;
mod operator_inventory;
mod operator_ip;
mod operators_program;
mod output;
mod version;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn daemon(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
    command.args(args);
    command
}

fn run(args: &[&str]) -> Output {
    daemon(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the command of a line, split at its spaces.
fn run_line(line: &str) -> Output {
    run(&line.split(' ').collect::<Vec<_>>())
}

/// Returns the lines of output in the JSON format.
fn events(output: &Output) -> Vec<Value> {
    let stdout = text(&output.stdout);
    stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
}

fn samples() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    files(&folder)
}

fn files(folder: &Path) -> Vec<String> {
    let mut all: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    all.sort();
    assert!(!all.is_empty(), "{} has no SDL", folder.display());
    all
}

fn sample(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("samples")
        .join(name)
        .to_string_lossy()
        .into_owned()
}

/// A temporary file, deleted when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("provider-daemon-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn every_sample_runs_to_its_end_without_leftovers() {
    let samples = samples();
    let dev = "dev --once --accept-any --block-time 50ms --output json";
    let output = run_line(&format!("{dev} {}", samples.join(" ")));
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", text(&output.stderr));
    let lines = events(&output);
    let last = lines.last().unwrap();
    assert_eq!(last["served"], samples.len(), "{last}");
    assert_eq!(last["left_over"], serde_json::json!([]));
    let of = |event: &str| lines.iter().filter(|l| l["event"] == event).count();
    // two-regions has two groups. If the machine stalls for a few of these short blocks, the provider reads
    // the market again: it adopts a lease before the event of the lease arrives, and may deploy it twice.
    let groups = samples.len() + 1;
    let leases = of("lease_won") + of("lease_adopted");
    assert_eq!(
        (of("bid_placed"), leases, of("lease_closed")),
        (groups, groups, groups)
    );
    // Every lease is deployed for its manifest and for its update.
    assert!(of("deployed") >= 2 * groups, "{stdout}");
    assert!(lines.iter().all(|l| l["event"].is_string()));
    let workloads = lines.iter().find(|l| l["event"] == "workloads").unwrap();
    assert_eq!(workloads["are"], "simulated");
}

#[test]
fn steps_are_printed_in_order_of_the_lease_life_cycle() {
    let output = run(&["dev", "--once", "--block-time", "50ms", &sample("web.yaml")]);
    let stdout = text(&output.stdout);
    let printed_steps = stdout
        .lines()
        .filter_map(|line| line.split_once("s  web")?.1.trim_start().split_once("  "));
    // Another task prints the actions of the tenant, which may appear slightly earlier or later.
    let tenants = ["ordered", "updated", "closed"];
    let printed_steps: Vec<&str> = printed_steps
        .map(|(step, _)| step)
        .filter(|s| !tenants.contains(s))
        .collect();
    let once = ["manifest", "deployed", "running"];
    let steps = [
        &["order seen", "bid placed", "lease won"],
        &once[..],
        &once[..],
        &["lease closed"],
    ]
    .concat();
    assert_eq!(printed_steps, steps, "{stdout}");
}

#[test]
fn unsatisfiable_order_is_declined_with_reason() {
    let output = run(&["dev", "--once", "--block-time", "50ms", &sample("gpu.yaml")]);
    let stdout = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{stdout}");
    let parts = [
        "declined (gpu)",
        "the node has none",
        "0 of 1 served, 0 left over",
    ];
    assert_contains(&stdout, &parts);
}

#[test]
fn generated_tenants_are_all_served() {
    let output = run_line("dev --once --orders 40 --rate 200 --block-time 50ms --output json");
    assert!(output.status.success(), "{}", text(&output.stdout));
    // Events of the provider may follow the summary.
    let mut finished = events(&output);
    finished.retain(|event| event["event"] == "finished");
    assert_eq!(finished.len(), 1, "{finished:?}");
    let counts = (&finished[0]["served"], &finished[0]["failed"]);
    assert_eq!(counts, (&40.into(), &0.into()));
}

#[test]
fn orders_beyond_capacity_are_served_in_turns_and_counted() {
    let dev = "dev --once --rate=500 --nodes=1 --block-time=50ms";
    let output = run_line(&format!("{dev} --orders=40 --node-cpu=2 --output=json"));
    let lines = events(&output);
    let totals = lines.iter().find(|l| l["event"] == "totals").unwrap();
    assert!(output.status.success(), "{totals}");
    assert_eq!((&totals["orders"], &totals["served"]), (&40.into(), &40.into()));
    assert!(totals["waited"].as_u64().unwrap() > 0, "{totals}");
    for what in ["order_to_bid_ms", "lease_to_running_ms", "wait_for_room_ms"] {
        let of = |share: &str| totals[what][share].as_u64().unwrap();
        assert!(
            of("p50") <= of("p90") && of("p90") <= of("p99") && of("p99") <= of("max"),
            "{totals}"
        );
    }
    // An order that never fits is declined with its reason and does not delay the end of the run.
    let output = run_line(&format!("{dev} --orders=5 --node-cpu=50m"));
    assert_eq!(output.status.code(), Some(1));
    let parts = [
        "5 generated orders: 0 served",
        "5 declined (insufficient_capacity)",
    ];
    assert_contains(&text(&output.stdout), &parts);
}

#[test]
fn decline_suggests_flags_that_lead_to_a_bid() {
    let sdl = sample("gpu.yaml");
    let dev = format!("dev --once --block-time 50ms {sdl}");
    let stdout = text(&run_line(&dev).stdout);
    let mend = stdout.split("; fix: ").nth(1).unwrap().lines().next().unwrap();
    let flags = mend.strip_suffix(", or --accept-any").unwrap();
    assert!(flags.contains("--node-gpus nvidia/a100=1"), "{flags}");
    let output = run_line(&format!("{dev} {flags}"));
    assert!(output.status.success(), "{flags}\n{}", text(&output.stdout));
}

#[test]
fn eight_hundred_tenants_are_served() {
    let output = run_line("dev --once --orders 800 --rate 1000 --nodes 250 --block-time 50ms");
    let stdout = text(&output.stdout);
    let end = stdout.lines().last().unwrap_or_default();
    assert!(output.status.success(), "{end}");
    assert_eq!(end, "800 of 800 served, 0 left over");
}

/// Starts the program and waits for a line with `word`. Returns the process, its further output, and the
/// line.
fn started(mut command: Command, word: &str) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the program ended");
    }
    (child, stdout, line)
}

fn serving() -> (Child, BufReader<std::process::ChildStdout>) {
    let (child, stdout, _) = started(daemon(&["dev", "--block-time", "50ms"]), "serving");
    (child, stdout)
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// Script that starts two background processes: a child of the script, and an orphan. Each process has a
/// separate session and no environment.
const LEAVING: &str = "
left() { env -i setsid /bin/bash -c \"echo \\$\\$ > '$1'; exec sleep 300\" >/dev/null 2>&1 </dev/null & }
left DIR/child
(left DIR/orphan)
sleep 300
";

#[test]
fn price_script_ends_with_all_its_processes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let body = LEAVING.replace("DIR", folder.path().to_str().unwrap());
    std::fs::write(at("script.body"), body).unwrap();
    // A symlink, because a program that is open for writing cannot be executed.
    let runner = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../akash-provider-core/tests/data/run.sh"
    );
    std::os::unix::fs::symlink(runner, at("script")).unwrap();
    let script = format!("--bid-price-script-path={}", at("script").display());
    let flags = [
        "--bid-price-strategy=shellScript",
        &script,
        "--bid-price-script-process-timeout=2s",
    ];
    let web = sample("web.yaml");
    let output = run(&[&["explain", "--accept-any", &web][..], &flags].concat());
    let output_text = text(&output.stdout) + &text(&output.stderr);
    assert!(output_text.contains("was killed after 2s"), "{output_text}");
    for name in ["child", "orphan"] {
        let pid = std::fs::read_to_string(at(name)).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim().parse::<u32>().unwrap());
        let began = Instant::now();
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z")) {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "process {name} still runs after its script has ended"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn first_signal_drains() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (mut child, mut stdout) = serving();
        assert!(
            child.try_wait().unwrap().is_none(),
            "the program does not keep serving"
        );
        let begun = Instant::now();
        send(&child, signal);
        let status = child.wait().unwrap();
        assert!(status.success(), "{signal}: {status}");
        assert!(begun.elapsed() < Duration::from_secs(10));
        let mut rest = String::new();
        while stdout.read_line(&mut rest).unwrap() > 0 {}
        assert!(rest.contains("shutting down"), "{rest}");
    }
}

#[test]
fn second_signal_stops_at_once() {
    // The bid is sent in one block, and its outcome arrives with the next.
    let (mut child, mut stdout, _) = started(daemon(&["dev", "--block-time", "5s"]), "order seen");
    std::thread::sleep(Duration::from_millis(300));
    // A terminal and a supervisor may both send the signal, so signals within a second count as one.
    send(&child, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    send(&child, Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(1_100));
    assert!(
        child.try_wait().unwrap().is_none(),
        "the program does not wait for the outcome of the bid"
    );
    let begun = Instant::now();
    send(&child, Signal::SIGINT);
    let status = child.wait().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(status.code(), Some(1), "{status}");
    let mut rest = String::new();
    while stdout.read_line(&mut rest).unwrap() > 0 {}
    assert!(rest.contains("aborting"), "{rest}");
}

#[test]
fn sdl_files_of_the_core_run_to_their_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../akash-provider-core/tests/data/sdl");
    let sdls = files(&folder);
    let dev = "dev --once --accept-any --block-time 50ms";
    let output = run_line(&format!("{dev} {}", sdls.join(" ")));
    assert!(output.status.success(), "{}", text(&output.stdout));
    for sdl in &sdls {
        let stdout = text(&run(&["explain", "--accept-any", sdl]).stdout);
        assert!(!stdout.contains("volumes; at most"), "{stdout}");
    }
}

/// The SDL requests a reclamation window below the chain's minimum for bids.
#[test]
fn sdl_with_short_reclamation_window_gets_a_bid() {
    let folder = tempfile::tempdir().unwrap();
    let sdl = folder.path().join("short.yaml");
    let web = std::fs::read_to_string(sample("web.yaml")).unwrap();
    std::fs::write(&sdl, format!("{web}reclamation:\n  min_window: 20s\n")).unwrap();
    let sdl = sdl.to_str().unwrap();
    let runs: [&[&str]; 2] = [
        &["explain", "--accept-any", sdl],
        &["dev", "--once", "--accept-any", "--block-time", "20ms", sdl],
    ];
    for args in runs {
        let output = run(args);
        assert!(output.status.success(), "{}", text(&output.stdout));
    }
}

#[test]
fn closed_output_pipe_does_not_panic() {
    let web = sample("web.yaml");
    let runs: [&[&str]; 4] = [
        &["dev", "--once", "--block-time", "20ms"],
        &["explain", &web],
        &["sdl", "manifest", &web],
        &["completions", "bash"],
    ];
    for args in runs {
        let mut child = daemon(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn sdl_validate_reports_all_errors_with_file_and_line() {
    let web = std::fs::read_to_string(sample("web.yaml")).unwrap();
    let wrong = web
        .replacen("port: 80", "port: 99999", 1)
        .replacen("image:", "imagee:", 1);
    let file = Scratch::new("wrong.yaml", wrong.as_bytes());
    let path = file.path();
    let line = |what: &str| wrong.lines().position(|l| l.contains(what)).unwrap() + 1;
    let output = run(&["sdl", "validate", &path]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let unknown_field = "warning: services.web.imagee: the field `imagee` is unknown and ignored";
    for (what, message) in [
        ("imagee:", unknown_field),
        (
            "port: 99999",
            "services.web.expose[0].port: 99999 is out of range; use 1",
        ),
    ] {
        let message = format!("{path}:{}: {message}", line(what));
        assert!(
            stderr.lines().any(|l| l.starts_with(&message)),
            "`{message}`: {stderr}"
        );
    }
    let end = format!("invalid SDL {path}: 2 errors\nhelp: fix the errors above\n");
    assert!(stderr.ends_with(&end), "{stderr}");
    let output = run(&["sdl", "validate", &path, "-o", "json"]);
    let message = json(&output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(message["is_valid"], false);
    assert_eq!(message["errors"].as_array().unwrap().len(), 2, "{message}");
    let last = &message["errors"][1];
    assert_eq!(last["line"], line("port: 99999"));
    assert_eq!(last["path"], "services.web.expose[0].port");
    assert_eq!(last["message"], "99999 is out of range");
    assert_eq!(last["mend"], "use 1 to 65535, without quotes");
    let right = json(&run(&["sdl", "validate", &sample("web.yaml"), "-o", "json"]));
    assert_eq!(right["is_valid"], true);
    assert_eq!(right["errors"], Value::Array(vec![]));
    // Commands that require a valid SDL report only the first error and the number of further errors.
    let first = text(&run(&["sdl", "hash", &path]).stderr);
    assert_contains(&first, &["error: invalid SDL", "line 4", "(and 1 more error)"]);
}

#[test]
fn sdl_warnings_are_refused_only_with_strict() {
    let web = std::fs::read_to_string(sample("web.yaml")).unwrap();
    let odd = web.replacen("image:", "restart: always\n    image:", 1);
    let file = Scratch::new("odd.yaml", odd.as_bytes());
    let path = file.path();
    for part in ["validate", "hash"] {
        let output = run(&["sdl", part, &path]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let output = run(&["sdl", part, "--strict", &path]);
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), ""));
        let ends = format!(
            "invalid SDL {path}: 1 warning, rejected by --strict\nhelp: fix the warnings above, or remove --strict\n"
        );
        assert!(
            stderr.contains("services.web.restart") && stderr.ends_with(&ends),
            "{stderr}"
        );
    }
    let validated = run(&["sdl", "validate", "--strict", &path, "-o", "json"]);
    assert_eq!(validated.status.code(), Some(1));
    assert_eq!(json(&validated)["is_valid"], false);
}

#[test]
fn sdl_commands_print_manifest_groups_and_hash() {
    let web = sample("web.yaml");
    let manifest = json(&run(&["sdl", "manifest", &web]));
    assert_eq!(manifest[0]["services"][0]["image"], "nginx:1.27");
    let groups = text(&run(&["sdl", "groups", &web, "--output", "yaml"]).stdout);
    assert!(groups.starts_with("- name: anywhere\n"), "{groups}");
    let hash = text(&run(&["sdl", "hash", &web]).stdout);
    assert_eq!(hash.trim().len(), 64);
    let valid = text(&run(&["sdl", "validate", &web]).stdout);
    assert_eq!(
        valid,
        format!("valid: 1 group, 1 service, 0 warnings, hash {}\n", hash.trim())
    );
}

#[test]
fn standard_input_is_accepted_as_file() {
    let mut child = daemon(&["sdl", "hash", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let sdl = std::fs::read(sample("web.yaml")).unwrap();
    child.stdin.take().unwrap().write_all(&sdl).unwrap();
    let piped = text(&child.wait_with_output().unwrap().stdout);
    assert_eq!(piped, text(&run(&["sdl", "hash", &sample("web.yaml")]).stdout));
}

#[test]
fn explain_prints_price_or_reason_per_node() {
    let no = run(&["explain", &sample("gpu.yaml")]);
    let stdout = text(&no.stdout);
    assert_eq!(no.status.code(), Some(1), "{stdout}");
    assert_contains(&stdout, &["would not bid", "node1", "node2"]);
    let gpus = "--node-gpus=nvidia/h100/80Gi/SXM5=1";
    let yes = run(&["explain", "--output=json", gpus, &sample("gpu.yaml")]);
    let verdict = json(&yes);
    assert!(yes.status.success(), "{verdict}");
    assert_eq!(verdict["would_bid"], true);
    assert_eq!(verdict["price"]["amount"], "11.839760000000000000");
    let whose = run(&["explain", &sample("gpu.yaml"), "--kubeconfig=/nowhere"]);
    assert_eq!(whose.status.code(), Some(1));
    assert_contains(&text(&whose.stderr), &["--from"]);
    let nobody = run(&["explain", &sample("gpu.yaml"), "--from="]);
    assert!(text(&nobody.stderr).contains("missing value of --from"));
    let order = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1/1/1";
    let whose = run(&["explain", "--order", order]);
    assert!(text(&whose.stderr).contains("--order requires --provider"));
    let help = text(&run(&["explain", "--help"]).stdout);
    let flags = ["--from", "--kubeconfig", "--order", "--provider-url", "Examples:"];
    assert_contains(&help, &flags);
    assert_contains(&help, &["--bid-price-script-path"]);
    assert!(!help.contains("--gateway-listen-address"), "{help}");
}

#[test]
fn invalid_files_are_clear_errors() {
    let huge = Scratch::new("huge.yaml", &vec![b'a'; 10 << 20]);
    let deep = Scratch::new("deep.yaml", "[".repeat(100_000).as_bytes());
    let garbage = Scratch::new("garbage.yaml", &[0xff, 0xfe, 0x00, 0x80]);
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n\
                d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\n";
    let bomb = Scratch::new("bomb.yaml", bomb.as_bytes());
    for (file, word) in [
        (&huge, "larger than"),
        (&deep, "deep"),
        (&garbage, "invalid UTF-8"),
        (&bomb, "values here"),
    ] {
        let begun = Instant::now();
        for command in [vec!["sdl", "validate"], vec!["explain"], vec!["dev", "--once"]] {
            let path = file.path();
            let output = run(&[command, vec![path.as_str()]].concat());
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{stderr}");
            assert!(stderr.contains("error: ") && stderr.contains(word), "{stderr}");
            assert!(!stderr.contains("panicked"), "{stderr}");
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", file.path());
    }
    let missing = run(&["sdl", "hash", "/nowhere/at/all.yaml"]);
    assert!(text(&missing.stderr).contains("cannot open /nowhere/at/all.yaml"));
}

#[test]
fn invalid_flags_report_expected_values() {
    for (line, word) in [
        ("dev --block-time 0s", "greater than zero"),
        ("dev --node-gpus a100=2", "nvidia/a100"),
        ("dev --rate 0", "greater than 0"),
        ("dev --bid-price-strategy shellScript", "--bid-price-script-path"),
        ("dev --bid-price-strategy policy", "--bid-price-policy"),
        ("dev --once --bid-price-storage-scale beta2=x", "beta2=x"),
    ] {
        let output = run_line(line);
        assert!(!output.status.success(), "{line}");
        assert_contains(&text(&output.stderr), &[word]);
    }
}

#[test]
fn price_policy_is_checked_and_applied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prices.yaml");
    let file = path.to_str().unwrap();
    let policy =
        "version: 1\nper: block\ndenominations: {uact: 1}\nprices: {cpu: 1, storage: {ephemeral: 0}}\n";
    std::fs::write(&path, policy).unwrap();
    let checked = run(&["price", "check", file]);
    assert!(checked.status.success());
    let stdout = text(&checked.stdout);
    assert!(stdout.contains("note: prices: memory is free\n"), "{stdout}");
    assert!(stdout.ends_with("prices.yaml is valid: 0 rules\n"), "{stdout}");

    let flags = ["--bid-price-strategy", "policy", "--bid-price-policy", file];
    let explained = run(&[&["explain", &sample("web.yaml"), "--output", "json"], &flags[..]].concat());
    assert!(explained.status.success(), "{}", text(&explained.stdout));

    let rule = "rules: [{name: nobody, deny: true}]\n";
    std::fs::write(&path, format!("{policy}{rule}")).unwrap();
    let denied = run(&[&["explain", &sample("web.yaml")], &flags[..]].concat());
    assert_contains(&text(&denied.stdout), &["rule `nobody` denies this order"]);

    std::fs::write(&path, policy.replace("cpu: 1", "cpu: one")).unwrap();
    let wrong = run(&["price", "check", file, "--output", "json"]);
    let found = json(&wrong);
    assert!(!wrong.status.success() && found["is_valid"] == false, "{found}");
    let error = found["error"].as_str().unwrap();
    assert_contains(error, &["line 4: `one` is not a decimal number"]);
    // No command starts with the invalid file, and the message names it.
    let refused = run(&[&["explain", &sample("web.yaml")], &flags[..]].concat());
    assert_contains(&text(&refused.stderr), &["prices.yaml: line 4"]);
}

#[test]
fn version_is_printed() {
    assert!(text(&run(&["version"]).stdout).starts_with("provider-daemon "));
}

#[test]
fn recorded_sdl_files_are_served() {
    let inputs = testbed::recordings::files(&testbed::recordings::folder("peer/sdl"), ".yaml");
    assert!(inputs.len() >= 8, "{inputs:?}");
    let inputs: Vec<&str> = inputs.iter().filter_map(|path| path.to_str()).collect();
    let dev = "dev --once --accept-any --block-time 20ms";
    let output = run_line(&format!("{dev} {}", inputs.join(" ")));
    assert!(output.status.success(), "{}", text(&output.stdout));
}

/// Kills `dev` at random times. Asserts that the next start continues, and that nothing remains at the end.
#[test]
fn dev_continues_after_every_kill() {
    let folder = std::env::temp_dir().join(format!("dev-state-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let state = folder.join("market.state");
    let state = state.to_str().unwrap();
    let args = ["dev", "--once", "--block-time", "100ms", "--state", state];
    for pause in [120, 30, 170, 60, 230, 90] {
        let mut child = daemon(&args).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        // On a slow machine, the state may be stored later than all pauses. The last kill waits for it.
        let is_last = pause == 90;
        while is_last && !std::fs::exists(state).unwrap() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let last = run(&args);
    let stdout = text(&last.stdout);
    assert!(last.status.success(), "{stdout}");
    assert!(stdout.contains("goes on"), "{stdout}");
    assert!(stdout.contains("1 of 1 served, 0 left over"), "{stdout}");
    std::fs::remove_dir_all(&folder).unwrap();
}
