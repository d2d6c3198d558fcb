//! The commands that `dev` prints for tenants work as printed.

use crate::clients::Client;
use crate::tenant::shell::{Pty, ended};
use crate::tenant::stage::until;
use akash_provider_cli::flags::Output;
use akash_provider_core::sdl;
use akash_provider_dev::{DevGateway, SimulatedTenant, World};
use akash_provider_service::printer::Printer;
use akash_provider_service::trial;
use clap::Parser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use provider_daemon::args::{self, Cli};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

pub(crate) struct Dev {
    child: Mutex<Child>,
    output: Arc<Mutex<String>>,
}

impl Dev {
    fn start(words: &[&str]) -> Self {
        Self::from_command(Self::command(words))
    }

    pub(crate) fn command(words: &[&str]) -> Command {
        let address = [
            "dev",
            "--gateway-listen-address",
            "127.0.0.1:0",
            "--block-time",
            "200ms",
        ];
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
        command.args(address).args(words);
        command
    }

    pub(crate) fn from_command(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let output = Arc::new(Mutex::new(String::new()));
        let collected = Arc::clone(&output);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                collected.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let child = Mutex::new(child);
        Self { child, output }
    }

    fn is_running(&self) -> bool {
        self.child.lock().unwrap().try_wait().unwrap().is_none()
    }

    pub(crate) fn line(&self, begin: &str) -> Option<String> {
        let output = self.output.lock().unwrap();
        let mut lines = output.lines().map(str::trim);
        lines.find(|line| line.starts_with(begin)).map(str::to_owned)
    }

    /// Environment variables that `dev` prints for a tenant.
    fn environment(&self) -> Vec<(String, String)> {
        let line = self.line("export ").unwrap();
        let pairs = line.trim_start_matches("export ").split(' ');
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap());
        pairs
            .map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned()))
            .collect()
    }

    pub(crate) fn ran(&self, words: &[&str]) -> (bool, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
        let output = command
            .args(words)
            .envs(self.environment())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    pub(crate) fn stops(&self) {
        let mut child = self.child.lock().unwrap();
        kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        drop(child.kill());
        drop(child.wait());
    }
}

fn assert_printed_commands_work(words: &[&str]) {
    let dev = Dev::start(words);
    until("the commands", || dev.line("curl").is_some());
    let ran = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], "provider-daemon");
        dev.ran(&words[1..])
    };
    let lease_status = dev.line("provider-daemon lease-status").unwrap();
    let mut last = String::new();
    until("a lease that runs", || {
        let (is_good, out, err) = ran(&lease_status);
        last = format!("{out}{err}");
        is_good && out.contains("\"uris\"") && out.contains("\"web\"")
    });
    assert!(dev.line("workloads are simulated").is_some());
    let (is_good, out, err) = ran("provider-daemon lease-logs");
    let simulated = "this workload is simulated: nothing of it runs";
    assert!(is_good && out.contains(simulated), "{out}{err}");
    let (is_good, _, err) = ran("provider-daemon lease-shell web ls");
    assert!(is_good && err.contains(simulated), "{err}");
    for (keys, code) in [("\x03", 130), ("\x04", 0), ("exit 7\r", 7)] {
        let pty = Pty::open();
        let mut shell = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
        shell
            .args(["lease-shell", "web", "sh", "--tty"])
            .envs(dev.environment());
        let mut child = pty.spawns(shell);
        until("the terminal is in raw mode", || !pty.is_canonical());
        pty.types(keys);
        assert_eq!(ended(&mut child), Some(code), "{keys:?}");
    }
    let (is_good, out, err) = ran(&dev.line("provider-daemon status").unwrap());
    assert!(is_good && out.contains("\"cluster\""), "{out}{err}");
    let (is_good, out, err) = ran(&dev.line("provider-daemon lease-events").unwrap());
    assert!(is_good, "{out}{err}\n{last}");
    let name = format!("dev-update-{}{}.yaml", std::process::id(), words.concat());
    let sdl = std::env::temp_dir().join(name);
    std::fs::write(&sdl, trial::SAMPLE.replace("nginx:1.27", "nginx:1.28")).unwrap();
    let sdl = sdl.to_str().unwrap();
    for line in [
        "provider-daemon tx escrow deposit deployment 3000000uact --yes".to_owned(),
        format!("provider-daemon tx deployment update {sdl} --yes"),
        format!("provider-daemon send-manifest {sdl}"),
        "provider-daemon lease-status --wait=1m".to_owned(),
        "provider-daemon tx deployment close --yes".to_owned(),
    ] {
        let (is_good, out, err) = ran(&line);
        assert!(is_good, "{line}: {out}{err}");
    }
    std::fs::remove_file(sdl).unwrap();
}

#[test]
fn printed_commands_of_dev_work() {
    assert_printed_commands_work(&[]);
}

#[test]
fn printed_commands_of_dev_work_with_wire_chain() {
    assert_printed_commands_work(&["--wire"]);
}

/// Runs the shell command `more`, and then `dev`, in a new network namespace. Returns the printed node
/// address and the output. Returns `None` without permission to create the namespace.
fn node_of(more: &str) -> Option<(String, String)> {
    let line = format!(
        "ip link set lo up && {more} exec {} dev --block-time 200ms",
        env!("CARGO_BIN_EXE_provider-daemon")
    );
    let mut command = Command::new("unshare");
    command
        .args([
            "--user",
            "--map-root-user",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
        ])
        .args(["sh", "-c", &line]);
    let dev = Dev::from_command(command);
    let ended = || !dev.is_running();
    until("the node", || dev.line("curl").is_some() || ended());
    let export = dev.line("export ")?;
    let node = export.split("AKASH_NODE=").nth(1)?.split(' ').next()?.to_owned();
    let all = dev.output.lock().unwrap().clone();
    Some((node, all))
}

#[test]
fn node_of_dev_keeps_its_port() {
    let Some((first, output)) = node_of("") else {
        println!("skipped: `unshare` and `ip` cannot create a network namespace here");
        return;
    };
    assert!(!output.contains("is in use"), "{output}");
    for more in ["", "true;"] {
        assert_eq!(node_of(more).unwrap().0, first);
    }
    // A port in use is reported, and another port is used.
    let other = format!(
        "{} dev --block-time 200ms > /dev/null & sleep 2;",
        env!("CARGO_BIN_EXE_provider-daemon")
    );
    let (next, output) = node_of(&other).unwrap();
    assert_ne!(next, first);
    let taken = first.trim_start_matches("http://");
    assert!(
        output.contains(&format!("{taken} is in use; the node is at")),
        "{output}"
    );
}

#[tokio::test]
async fn first_request_of_the_sdk_works() {
    let address = ["--gateway-listen-address", "127.0.0.1:0"];
    let line = [&["x", "dev", "--block-time", "10ms"][..], &address].concat();
    let args::Command::Dev(args) = Cli::parse_from(line).command else {
        panic!()
    };
    let printer = Arc::new(Printer::new(Output::Json));
    let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
    let sdl = ("sample".to_owned(), sdl::parse(trial::SAMPLE).unwrap());
    let sdls = [sdl.clone()];
    let world = World::start(&args, &sdls, &printer, shutdown.clone(), abort);
    let world = Arc::new(world.await.unwrap());
    let gateway = DevGateway::start(&args, &world, &printer, shutdown.clone()).await;
    let gateway = gateway.unwrap().unwrap();
    let tenant = SimulatedTenant::new(&world, &printer, 0, 1, sdl).unwrap();
    assert_eq!(tenant.play(false).await.problem, None);
    let client = Client::new(gateway.address()).bearer(gateway.token());
    let status = client.get("/lease/1/1/1/status").await;
    assert_eq!(status.status, 200, "{}", status.body);
    assert_eq!(client.get("/status").await.json()["cluster"]["leases"], 1);
    let version = &client.get("/version").await.json()["akash"];
    assert_eq!(version["server_name"], "provider-daemon");
    let grpc = Client::new(gateway.grpc_address().unwrap()).alpn(&["h2"]);
    let spoken = grpc.connect().await.unwrap();
    assert_eq!(spoken.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    shutdown.cancel();
    gateway.stop().await.unwrap();
    let Ok(world) = Arc::try_unwrap(world) else {
        panic!()
    };
    world.stop().await.unwrap();
}
