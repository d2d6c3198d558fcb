//! The calls of the scripts in the Helm chart of the Go provider: commands, variables, exit codes, and the parts of the
//! output that the scripts read.

use super::chart::SET;
use crate::http::curl;
use crate::stage::{ADDRESS, Running, Stage, WORDS, until};
use akash_provider_core::types::{Address, Certificate};
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const PASSPHRASE: &str = "pass of the key";
/// Variables of the scripts, except those of the [`Stage`].
const VARIABLES: [(&str, &str); 9] = [
    ("AP_YES", "true"),
    ("AKASH_YES", "true"),
    ("AKASH_KEYRING_BACKEND", "test"),
    ("AKASH_BROADCAST_MODE", "block"),
    ("AKASH_GAS", "auto"),
    ("AKASH_GAS_PRICES", "0.025uakt"),
    ("AKASH_GAS_ADJUSTMENT", "1.5"),
    ("AP_MINIMUM_GAS_PRICES", "0.0025uakt"),
    ("AKASH_LOG_LEVEL", "info"),
];

/// Output that a script reads.
#[derive(Clone, Copy)]
enum Reads {
    Nothing,
    /// The address of the account, alone.
    Address,
    /// The record of the provider in the format of `provider.yaml`, in any order.
    Record,
    /// The valid certificates of the account on the chain, the newest first. The script sets `AKASH_OUTPUT=json`.
    Certificates,
}

/// One command of a script. The exit codes are those at the first start of the pod, at a later start, and after a
/// change of the values; the script does not call the command if the code is `None`.
struct Call {
    command: &'static str,
    codes: [Option<i32>; 3],
    reads: Reads,
}

const fn call(command: &'static str, codes: [Option<i32>; 3], reads: Reads) -> Call {
    Call {
        command,
        codes,
        reads,
    }
}

const ALWAYS: [Option<i32>; 3] = [Some(0), Some(0), Some(0)];
const FIRST: [Option<i32>; 3] = [Some(0), None, None];
const CHANGED: [Option<i32>; 3] = [None, None, Some(0)];
/// `FROM`, `HOME`, `ADDRESS` and `SERIAL` are replaced.
const CALLS: [Call; 12] = [
    // The home directory is a volume, so a later start finds the key.
    call(
        "--home=HOME keys import --keyring-backend=test FROM key.txt",
        [Some(0), Some(1), Some(1)],
        Reads::Nothing,
    ),
    call("keys show FROM -a", ALWAYS, Reads::Address),
    call(
        "query provider get ADDRESS -o json",
        [Some(1), Some(0), Some(0)],
        Reads::Nothing,
    ),
    call("tx provider create provider.yaml", FIRST, Reads::Nothing),
    call("tx provider update provider.yaml", CHANGED, Reads::Nothing),
    call("query provider get ADDRESS -o text", ALWAYS, Reads::Record),
    call("keys show FROM -a", ALWAYS, Reads::Address),
    call(
        "query cert list --owner ADDRESS --state valid --serial SERIAL --reverse",
        [None, Some(0), Some(0)],
        Reads::Certificates,
    ),
    call(
        "query cert list --owner ADDRESS --state valid --reverse",
        ALWAYS,
        Reads::Certificates,
    ),
    call(
        "tx cert generate server provider.example.com",
        FIRST,
        Reads::Nothing,
    ),
    call("tx cert publish server", FIRST, Reads::Nothing),
    call(
        "query cert list --owner ADDRESS --state valid --reverse",
        FIRST,
        Reads::Certificates,
    ),
];

/// Pod of the chart: home directory, files of the scripts, and the name of the key (`from` in the values).
struct Pod<'a> {
    stage: &'a Stage,
    home: PathBuf,
    from: &'static str,
}

impl<'a> Pod<'a> {
    fn new(stage: &'a Stage, from: &'static str) -> Self {
        let home = stage.path("home");
        std::fs::create_dir_all(&home).unwrap();
        // The script creates this link to the file in the volume of the configuration before it creates the file.
        symlink(stage.path("provider.pem"), home.join(format!("{ADDRESS}.pem"))).unwrap();
        let pod = Self { stage, home, from };
        let words = stage.path("words");
        std::fs::write(&words, WORDS).unwrap();
        let keyring = format!(
            "--keyring-backend=test --keyring-dir={}",
            stage.path("elsewhere").display()
        );
        let add = format!("keys add k --source={} {keyring}", words.display());
        assert_eq!(pod.run(&add, "").0, 0);
        let (code, key) = pod.run(&format!("keys export k {keyring}"), PASSPHRASE);
        assert_eq!(code, 0);
        std::fs::write(stage.path("key.txt"), key).unwrap();
        pod
    }

    /// Returns a command with the variables of the scripts.
    fn command(&self, line: &str) -> Command {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.stage.command(&words);
        command
            .env_remove("AKASH_KEY_FILE")
            .env("AKASH_FROM", self.from)
            .env("AKASH_HOME", &self.home)
            .envs(VARIABLES)
            .current_dir(self.stage.path(""));
        command
    }

    /// Runs a command. Returns exit code and standard output.
    fn run(&self, line: &str, input: &str) -> (i32, String) {
        let mut command = self.command(line);
        if line.starts_with("query cert") {
            command.env("AKASH_OUTPUT", "json");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A command without input may have closed the pipe.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
        )
    }

    fn certificates(&self) -> Vec<Certificate> {
        let owner: Address = ADDRESS.parse().unwrap();
        self.stage
            .chain
            .market(|market| market.certificates(&owner).to_vec())
    }

    /// Executes the calls of one start of the pod, by the index of the exit code.
    fn start(&self, index: usize) {
        for Call {
            command,
            codes,
            reads,
        } in &CALLS
        {
            let Some(expected) = codes[index] else { continue };
            let certificates = self.certificates();
            let serial = certificates.first().map_or("", |one| &one.serial);
            let line = command
                .replace("FROM", self.from)
                .replace("HOME", &self.home.display().to_string())
                .replace("ADDRESS", ADDRESS)
                .replace("SERIAL", serial);
            let (code, output) = self.run(&line, &format!("{PASSPHRASE}\n"));
            assert_eq!(code, expected, "{line}: {output}");
            self.check(*reads, &output, &certificates);
        }
    }

    fn check(&self, reads: Reads, output: &str, on_chain: &[Certificate]) {
        match reads {
            Reads::Nothing => {}
            Reads::Address => assert_eq!(output.trim_end(), ADDRESS),
            Reads::Record => {
                let file = std::fs::read_to_string(self.stage.path("provider.yaml")).unwrap();
                // The script moves the attributes two columns to the left, and renames the host.
                let file = file
                    .replace("\n  - key", "\n- key")
                    .replace("\n    value", "\n  value");
                let output = output.replace('"', "").replace("host_uri:", "host:");
                assert_eq!(sorted(&output), sorted(&file));
            }
            Reads::Certificates => {
                let list: Value = serde_json::from_str(output).unwrap();
                let first = &list["certificates"][0]["certificate"];
                let Some(on_chain) = on_chain.first() else {
                    assert_eq!(*first, Value::Null);
                    return;
                };
                assert_eq!(first["state"], "valid");
                let found = data_encoding::BASE64
                    .decode(first["cert"].as_str().unwrap().as_bytes())
                    .unwrap();
                assert_eq!(found, on_chain.cert);
                // `openssl x509` reads the first certificate in a file.
                let file = std::fs::read_to_string(self.stage.path("provider.pem")).unwrap();
                assert!(file.starts_with(std::str::from_utf8(&found).unwrap()), "{file}");
            }
        }
    }

    fn values(&self, region: &str) {
        let text = format!(
            "host: https://provider.example.com:8443\nattributes:\n  - key: region\n    value: {region}\n  - key: \
             feat\n    value: true\ninfo:\n  email: ops@example.com\n  website: \nowner: {ADDRESS}\n"
        );
        std::fs::write(self.stage.path("provider.yaml"), text).unwrap();
    }
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Executes the calls of three starts. The record of the provider changes before the third one.
fn start_three_times<'a>(stage: &'a Stage, from: &'static str) -> Pod<'a> {
    let pod = Pod::new(stage, from);
    pod.values("us-west");
    pod.start(0);
    pod.start(1);
    pod.values("us-east");
    pod.start(2);
    assert_eq!(pod.certificates().len(), 1);
    pod
}

fn stage(name: &str) -> Stage {
    let mut stage = Stage::new(name, false);
    stage.start_node(Some(Duration::from_millis(250)));
    stage
}

#[test]
fn init_script_calls_work_with_a_named_key() {
    drop(start_three_times(&stage("chart-calls-name"), "provider"));
}

/// Price script: stores input and variables, then prints a price.
const PRICE: &str = "#!/bin/sh\ncat > DIR/input\nenv > DIR/environment\nprintf 1.234567\n";

/// Starts the provider with the arguments of `run.sh`.
fn run(pod: &Pod<'_>) -> Running {
    let stage = pod.stage;
    let script = stage.path("price_script.sh");
    let folder = stage.path("").display().to_string();
    std::fs::write(&script, PRICE.replace("DIR", folder.trim_end_matches('/'))).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o744)).unwrap();
    let issuer = "run --cert-issuer-enabled=true --cert-issuer-email=ops@example.com \
                  --cert-issuer-ca-dir-url=https://acme.example/directory --cert-issuer-http-challenge-port=5002";
    let mut command = pod.command(issuer);
    command.envs(SET).envs([
        // No cluster, and free ports on loopback.
        ("AKASH_CLUSTER_K8S", "false"),
        ("AKASH_GATEWAY_LISTEN_ADDRESS", "127.0.0.1:0"),
        ("AKASH_OUTPUT", "json"),
        ("AKASH_BID_PRICE_STRATEGY", "shellScript"),
        ("PRICE_TARGET_CPU", "1.6"),
        ("PRICE_TARGET_GPU_MAPPINGS", "a100=120,t4=80"),
        ("WHITELIST_URL", "https://example.com/whitelist"),
    ]);
    command.env("AKASH_BID_PRICE_SCRIPT_PATH", &script);
    stage.started("provider", command)
}

/// `from` is the address of the account, as guides recommend, and not the name of the key.
#[test]
fn init_run_liveness_and_price_script_calls_work_with_the_address_as_key_name() {
    let stage = stage("chart-calls");
    let pod = start_three_times(&stage, ADDRESS);
    let provider = run(&pod);
    let url = super::tenant::url(&provider);
    until(
        "a provider that bids",
        || provider.dump(),
        || provider.output().contains("\"is_ready\":true"),
    );
    if let Some((status, _)) = curl(&[&format!("{url}/status")]) {
        assert_eq!(status, 200, "the liveness script fails at 400 and above");
        let line = provider.output();
        let line = line.lines().find(|line| line.contains("\"event\":\"gateway\""));
        let gateway: Value = serde_json::from_str(line.unwrap()).unwrap();
        let grpc = format!("https://{}", gateway["grpc"].as_str().unwrap());
        let (_, head) = curl(&["--http2-prior-knowledge", "--include", &grpc]).unwrap();
        assert!(head.contains("content-type: application/grpc"), "{head}");
    }
    let bid = stage.bid(&stage.order(1), &provider);
    assert_eq!(bid.price.to_string(), "1.234567uact");
    let input: Value = serde_json::from_str(&read(&stage, "input")).unwrap();
    for field in [
        "/price/denom",
        "/price/amount",
        "/price_precision",
        "/resources/0/count",
        "/resources/0/cpu",
        "/resources/0/memory",
        "/resources/0/storage/0/class",
        "/resources/0/storage/0/size",
        "/resources/0/endpoint_quantity",
        "/resources/0/ip_lease_quantity",
        "/resources/0/gpu/units",
    ] {
        assert!(input.pointer(field).is_some(), "{field}: {input}");
    }
    let environment = read(&stage, "environment");
    for name in [
        "AKASH_OWNER",
        "PRICE_TARGET_CPU",
        "PRICE_TARGET_GPU_MAPPINGS",
        "WHITELIST_URL",
    ] {
        assert!(
            environment.contains(&format!("\n{name}=")),
            "{name}: {environment}"
        );
    }
}

fn read(stage: &Stage, name: &str) -> String {
    std::fs::read_to_string(stage.path(name)).unwrap()
}
