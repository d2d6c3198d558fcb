//! `doctor`: an installation without a failure, and each failure with its remedy.

use crate::stage::{ADDRESS, PRICES, Stage, WORDS};
use akash_provider_chain::cert::{CertUsage, KeyFile, KeyFiles, OwnCertificate};
use akash_provider_chain::keyring::{DEFAULT_PATH, derive_key};
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::market::MarketConfig;
use akash_provider_core::types::{Address, BlockTime, Coin, Msg, ProviderRecord};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};
use testbed::free_port;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Mnemonic of an account that has no funds and no provider record.
const OTHER_WORDS: &str = "zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo wrong";
/// Settings of an installation with a gateway.
pub(super) const SETTINGS: [&str; 2] = [
    "--gateway-listen-address=127.0.0.1:0",
    "--cluster-public-hostname=localhost",
];

fn now() -> Duration {
    UNIX_EPOCH.elapsed().unwrap()
}

/// Funds an account, and registers it as a provider.
fn equip(stage: &Stage, owner: &Address) {
    stage.chain.market(|market| {
        for denom in ["uact", "uakt"] {
            let coin = Coin::new(denom, 1_000_000_000);
            market.fund(owner, &coin);
        }
        let record = ProviderRecord {
            owner: owner.clone(),
            host_uri: "https://localhost:8443".to_owned(),
            attributes: Vec::new(),
            info: Default::default(),
        };
        market.execute(&Msg::CreateProvider(record)).unwrap();
    });
    // Queries read the state of the last block.
    stage.make_block();
}

/// Writes a certificate with the creation time `created`. If `is_published` is true, publishes the
/// certificate on the chain.
pub(super) fn certify(stage: &Stage, created: Duration, is_published: bool) {
    let key = derive_key(&WORDS.into(), &"".into(), DEFAULT_PATH).unwrap();
    let usage = CertUsage::Server {
        domains: vec!["localhost".to_owned()],
    };
    let own = OwnCertificate::make(key.address(), &usage, created).unwrap();
    let folder = stage.path("");
    KeyFiles::new(&folder, &key)
        .write(KeyFile::Current, &own)
        .unwrap();
    if is_published {
        stage
            .chain
            .market(|market| market.execute(&own.publish()))
            .unwrap();
        stage.make_block();
    }
}

/// Creates an installation with a current chain, a certificate, and private files.
pub(super) fn installation(name: &str) -> Stage {
    installation_at(name, Duration::ZERO)
}

/// Creates an [`installation`] on a chain with a clock that is ahead by `ahead`.
pub(super) fn installation_at(name: &str, ahead: Duration) -> Stage {
    let mut stage = Stage::new(name, false);
    let time = BlockTime(i64::try_from((now() + ahead).as_millis()).unwrap());
    stage.chain = MemoryChain::new(MarketConfig::new("devnet", time));
    stage.start_node(None);
    equip(&stage, &ADDRESS.parse().unwrap());
    certify(&stage, now(), true);
    close(&stage);
    stage
}

fn close(stage: &Stage) {
    let folder = stage.path("");
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        fs::set_permissions(entry.unwrap().path(), Permissions::from_mode(0o600)).unwrap();
    }
}

pub(super) struct Results {
    code: i32,
    report: Value,
}

impl Results {
    pub(super) fn new(stage: &Stage, more: &[&str]) -> Self {
        Self::after(stage, &[], more)
    }

    /// Runs `doctor` as [`Self::new`] does, with `before` as the command prefix.
    pub(super) fn after(stage: &Stage, before: &[&str], more: &[&str]) -> Self {
        let words = [&["doctor", "--output=json"], &SETTINGS[..], &PRICES, more].concat();
        let mut command = match before {
            [] => stage.command(&words),
            before => stage.command_after(before, &words),
        };
        Self::from_command(&mut command)
    }

    pub(super) fn from_command(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        Self {
            code: output.status.code().unwrap(),
            report,
        }
    }

    pub(super) const fn report(&self) -> &Value {
        &self.report
    }

    pub(super) fn checks(&self) -> impl Iterator<Item = &Value> {
        self.report["checks"].as_array().unwrap().iter()
    }

    /// Returns the result with the highest severity for a subject.
    #[track_caller]
    pub(super) fn check(&self, subject: &str) -> &Value {
        let order = ["ok", "skipped", "warning", "failure"];
        let rank = |check: &&Value| order.iter().position(|name| check["severity"] == *name);
        let all = self
            .checks()
            .filter(|check| check["subject"].as_str().unwrap().starts_with(subject));
        all.max_by_key(rank)
            .unwrap_or_else(|| panic!("no {subject}: {}", self.report))
    }

    #[track_caller]
    pub(super) fn expect(&self, subject: &str, severity: &str) {
        let check = self.check(subject);
        assert_eq!(check["severity"], severity, "{check}\n{}", self.report);
        let has_problem = ["warning", "failure"].contains(&severity);
        assert_eq!(check["help"].is_string(), has_problem, "{check}");
        assert_eq!(self.code == 3, self.report["failures"] != 0, "{}", self.report);
    }

    pub(super) fn seconds(&self) -> f64 {
        self.report["seconds"].as_f64().unwrap()
    }
}

#[test]
fn installation_without_a_failure_passes_and_files_are_fixed() {
    let stage = installation("doctor-fine");
    let fine = Results::new(&stage, &[]);
    assert_eq!(
        (fine.code, &fine.report["failures"]),
        (0, &0.into()),
        "{}",
        fine.report
    );
    for subject in [
        "settings",
        "key",
        "node ",
        "balance for deposits",
        "balance for fees",
        "provider record",
        "certificate",
        "certificate on the chain",
        "file modes",
        "audit log",
        "clock",
    ] {
        let ok = fine.checks().any(|check| {
            check["subject"].as_str().unwrap().starts_with(subject) && check["severity"] == "ok"
        });
        assert!(ok, "{subject}: {}", fine.report);
    }
    assert!(fine.seconds() < 5.0, "{}", fine.report);

    let words = stage.path("words");
    fs::set_permissions(&words, Permissions::from_mode(0o644)).unwrap();
    let missing = stage.path("recording");
    let record = format!("--record={}", missing.display());
    Results::new(&stage, &[]).expect("file modes", "failure");
    let fixed = Results::new(&stage, &["--fix", &record]);
    fixed.expect("file modes", "ok");
    assert_eq!(fs::metadata(words).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(missing.is_dir(), "{}", fixed.report);
}

#[test]
fn wrong_chain_and_dead_node_are_reported_in_time() {
    let stage = installation("doctor-nodes");
    // Accepts connections without a response, as a hanging node does.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let both = format!("--node={silent},{}", stage.url());
    let beside = Results::new(&stage, &[&both]);
    beside.expect(&format!("node {silent}"), "warning");
    beside.expect(&format!("node {}", stage.url()), "ok");
    beside.expect("balance for fees", "ok");
    assert_eq!(beside.code, 0, "{}", beside.report);
    assert!(beside.seconds() < 5.0, "{}", beside.report);
    let alone = Results::new(&stage, &[&format!("--node={silent}")]);
    alone.expect("node ", "failure");
    alone.expect("account", "skipped");
    let other = Results::new(&stage, &["--chain-id=other"]);
    other.expect("node ", "failure");
    assert!(
        other.check("node ")["detail"]
            .as_str()
            .unwrap()
            .contains("`devnet`")
    );
}

#[test]
fn old_block_is_a_failure_until_the_chain_continues() {
    let mut stage = Stage::new("doctor-halted", true);
    stage.start_node(None);
    Results::new(&stage, &[]).expect("node ", "failure");
    stage.chain.advance(Duration::from_secs(3600));
    Results::new(&stage, &[]).expect("node ", "ok");
}

#[test]
fn account_without_money_and_record_fails_until_it_has_both() {
    let stage = installation("doctor-account");
    let file = stage.path("other");
    fs::write(&file, OTHER_WORDS).unwrap();
    let key = format!("--key-file={}", file.display());
    let poor = Results::new(&stage, &[&key]);
    for subject in ["balance for deposits", "balance for fees", "provider record"] {
        poor.expect(subject, "failure");
    }
    let account = derive_key(&OTHER_WORDS.into(), &"".into(), DEFAULT_PATH).unwrap();
    equip(&stage, account.address());
    let rich = Results::new(&stage, &[&key]);
    for subject in ["balance for deposits", "balance for fees", "provider record"] {
        rich.expect(subject, "ok");
    }
    let deposit = Results::new(&stage, &["--bid-deposit=1uact"]);
    deposit.expect("balance for deposits", "failure");
    let help = deposit.check("balance for deposits")["help"]
        .as_str()
        .unwrap()
        .to_owned();
    let remedy = help.split_whitespace().last().unwrap();
    Results::new(&stage, &[remedy]).expect("balance for deposits", "ok");
}

#[test]
fn certificate_must_be_valid_and_published() {
    let stage = installation("doctor-certificate");
    certify(&stage, now() - DAY * 366, true);
    let expired = Results::new(&stage, &[]);
    expired.expect("certificate", "failure");
    assert!(
        expired.check("certificate")["detail"]
            .as_str()
            .unwrap()
            .contains("expired")
    );
    certify(&stage, now() - DAY * 355, true);
    let soon = Results::new(&stage, &[]);
    soon.expect("certificate", "warning");
    soon.expect("certificate on the chain", "ok");
    certify(&stage, now(), false);
    Results::new(&stage, &[]).expect("certificate on the chain", "failure");
    certify(&stage, now(), true);
    let valid = Results::new(&stage, &[]);
    valid.expect("certificate", "ok");
    fs::remove_file(stage.path(&format!("{ADDRESS}.pem"))).unwrap();
    Results::new(&stage, &[]).expect("certificate", "failure");
    Results::new(&stage, &["--certificate-domain=localhost"]).expect("certificate", "ok");
}

#[test]
fn record_and_settings_are_compared_with_the_files() {
    let stage = installation("doctor-files");
    let file = stage.path("provider.yaml");
    let write =
        |host: &str, attributes: &str| fs::write(&file, format!("host: {host}\n{attributes}")).unwrap();
    let config = format!("--provider-config={}", file.display());
    write(
        "https://localhost:8443",
        "attributes:\n  - key: region\n    value: eu\n",
    );
    let other = Results::new(&stage, &[&config]);
    other.expect("provider record", "warning");
    assert!(
        other.check("provider record")["detail"]
            .as_str()
            .unwrap()
            .contains("+region=eu")
    );
    write("https://localhost:8443", "");
    Results::new(&stage, &[&config]).expect("provider record", "ok");
    write("https://localhost:8443", "bidpricecpuscales: 1\n");
    Results::new(&stage, &[&config]).expect("settings", "failure");
    // A flag of the Go provider without effect.
    let go = Results::new(
        &stage,
        &["--minimum-balance=1", "--deployment-ingress-static-hosts=true"],
    );
    let is_reported = go
        .checks()
        .any(|check| check["detail"].as_str().unwrap().contains("--minimum-balance"));
    assert!(is_reported, "{}", go.report);
    let absent = Results::new(&stage, &["--kubeconfig=/nowhere/kubeconfig"]);
    absent.expect("cluster", "failure");
    absent.expect("capacity", "skipped");
}

#[test]
fn missing_key_is_a_failure_and_the_named_account_is_checked() {
    let stage = installation("doctor-key");
    let words = [
        &["doctor", "--output=json", "--from", ADDRESS],
        &SETTINGS[..],
        &PRICES,
    ]
    .concat();
    let mut command = stage.command(&words);
    let results = Results::from_command(command.env_remove("AKASH_KEY_FILE"));
    results.expect("key", "failure");
    results.expect("balance for deposits", "ok");
    results.expect("certificate", "skipped");
    assert!(
        !stage.path("keyring-file").exists(),
        "a check must not create a keyring"
    );
}

#[test]
fn passphrase_must_be_that_of_the_keyring() {
    let stage = installation("doctor-passphrase");
    let file = |name: &str, text: &str| {
        let path = stage.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path.display().to_string()
    };
    let right = format!("--keyring-passphrase-file={}", file("right", "correct horse"));
    let wrong = format!("--keyring-passphrase-file={}", file("wrong", "battery staple"));
    let source = format!("--source={}", stage.path("words").display());
    let keyring = ["--keyring-backend=file", &right];
    let add = [&["keys", "add", "provider", &source], &keyring[..]].concat();
    let (code, out, err) = stage.ran(&add);
    assert_eq!(code, 0, "{out}{err}");
    let doctor = |passphrase: &str| {
        let more = [
            "doctor",
            "--output=json",
            "--from=provider",
            "--keyring-backend=file",
            passphrase,
        ];
        let words = [&more[..], &SETTINGS, &PRICES].concat();
        Results::from_command(stage.command(&words).env_remove("AKASH_KEY_FILE"))
    };
    doctor(&wrong).expect("key", "failure");
    doctor(&right).expect("key", "ok");
}

#[test]
fn gateway_port_must_accept_connections_under_the_public_name() {
    let stage = installation("doctor-port");
    let [open, closed, open_grpc] = [(); 3].map(|()| free_port().unwrap());
    let grpc = |port: u16| format!("--gateway-grpc-listen-address=127.0.0.1:{port}");
    let listen = format!("--gateway-listen-address=127.0.0.1:{open}");
    let mut provider = stage.provider(
        "provider",
        &[
            &listen,
            &grpc(open_grpc),
            SETTINGS[1],
            "--certificate-domain=localhost",
        ],
    );
    provider.says("gateway at");
    let file = stage.path("provider.yaml");
    let config = format!("--provider-config={}", file.display());
    let words = [
        &["doctor", "--output=json", &listen, SETTINGS[1], &config],
        &PRICES[..],
    ]
    .concat();
    for (port, grpc_port, severity) in [(closed, closed, "warning"), (open, open_grpc, "ok")] {
        fs::write(&file, format!("host: https://localhost:{port}\n")).unwrap();
        let results = Results::from_command(stage.command(&words).arg(grpc(grpc_port)));
        results.expect("gateway port", severity);
        results.expect("gRPC port", severity);
    }
    assert!(provider.has_ended().is_none(), "{}", provider.dump());
}

#[test]
fn redis_must_respond() {
    let stage = installation("doctor-redis");
    let port = free_port().unwrap();
    let bus = format!("--bus=redis://127.0.0.1:{port}/0");
    Results::new(&stage, &[&bus]).expect("Redis of --bus", "failure");
    if let Some(_redis) = stage.redis(port, &[]) {
        Results::new(&stage, &[&bus]).expect("Redis of --bus", "ok");
    }
}

#[test]
fn running_provider_is_queried_and_keeps_its_lock() {
    let stage = installation("doctor-beside");
    let before = Results::new(&stage, &[]);
    before.expect("provider", "skipped");
    let mut provider = stage.provider("provider", &SETTINGS);
    provider.says("gateway at");
    let beside = Results::new(&stage, &[]);
    beside.expect("provider", "ok");
    beside.expect("balance for fees", "ok");
    assert!(provider.has_ended().is_none(), "{}", provider.dump());
}
