//! Restarts of the provider with missing or invalid Manifest records: the records are deleted or overwritten,
//! or the provider looks for them in a wrong namespace. No lease ends and no pod restarts. The provider uses
//! repaired records again.

use crate::daemon::Daemon;
use crate::fixture::{Stage, until};
use crate::network::{Account, Network};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

const SDL: &str = r#"
version: "2.0"
services:
  web:
    image: localhost/busybox:1
    command: [sh, -c]
    args: ["trap 'exit 0' TERM; while sleep 1; do :; done"]
    expose:
      - port: 8080
        to: [{ global: true }]
profiles:
  compute:
    small:
      resources:
        cpu: { units: 50m }
        memory: { size: 32Mi }
        storage: { size: 64Mi }
  placement:
    anywhere:
      pricing:
        small: { denom: uact, amount: 1000 }
deployment:
  web:
    anywhere: { profile: small, count: 1 }
"#;
const LEASES: [u64; 3] = [7, 8, 9];
/// Time for which the leases are observed. An incorrect close would happen within one second.
const WATCHED: Duration = Duration::from_secs(8);
/// Manifest timeouts of the first and the second start. The second is so short that leases without a record
/// would be closed.
const TIMEOUTS: [&str; 2] = ["--manifest-timeout=5m", "--manifest-timeout=1s"];
const PODS: &str =
    "jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}";

struct Fixture<'a> {
    stage: &'a Stage,
    network: &'a Network,
    tenant: Account<'a>,
    sdl: String,
    namespaces: Vec<String>,
}

#[test]
fn missing_and_unreadable_records_end_no_lease() {
    let Some(stage) = Stage::take() else { return };
    let network = Network::start("records");
    let mut provider = network.provider(&stage, "first");
    provider.says("\"is_ready\":true");
    let scene = Fixture::rent(&stage, &network);
    let pods = scene.pods();
    assert_eq!(pods.lines().count(), LEASES.len(), "{pods}");
    stop(&mut provider);

    for (n, timeout) in TIMEOUTS.into_iter().enumerate() {
        let place = ["--k8s-manifest-ns=elsewhere", timeout];
        let mut provider = network.provider_with(&stage, &format!("misplaced-{n}"), &place);
        provider.logs("cluster has no Manifest record of the leases on the chain");
        let asked = network.who("provider").good(&["breaker", "show"]);
        assert!(asked.contains("no record of any lease was found"), "{asked}");
        scene.nothing_ends(&provider);
        assert_eq!(scene.pods(), pods);
        stop(&mut provider);
    }

    let records: Vec<Value> = LEASES.iter().enumerate().map(|(n, _)| scene.record(n)).collect();
    scene.kubectl(&[
        "delete",
        "manifests.akash.network",
        "--namespace=lease",
        &scene.namespaces[0],
    ]);
    scene.damage(1, |service| service["expose"][0]["proto"] = json!("SCTP"));
    scene.damage(2, |service| service["resources"]["memory"]["size"] = json!("abc"));
    let mut provider = network.provider_with(&stage, "damaged", &TIMEOUTS[1..]);
    for namespace in &scene.namespaces {
        let is_report = |line: &str| line.contains("\"record_unusable\"") && line.contains(namespace);
        until("the missing records are reported", || {
            provider.output().lines().any(is_report)
        });
    }
    scene.nothing_ends(&provider);
    assert_eq!(scene.pods(), pods);
    let log = provider.log();
    let warnings = log
        .lines()
        .filter(|l| l.contains("Manifest record of the lease is unusable"));
    assert_eq!(warnings.count(), LEASES.len(), "one warning per lease:\n{log}");

    let asked = network.who("provider").good(&["leases"]);
    for namespace in &scene.namespaces {
        let is_report = |line: &str| line.contains("invalid record") && line.contains(namespace);
        assert!(asked.lines().any(is_report), "{asked}");
    }

    // The tenant submits one manifest again, and an operator restores the other records.
    let dseq = LEASES[0].to_string();
    scene.tenant.good(&["send-manifest", &scene.sdl, "--dseq", &dseq]);
    for record in &records[1..] {
        scene.replace(record);
    }
    until("the records are read", || {
        provider.output().matches("\"record_usable\"").count() == 2
    });
    until("all leases run", || LEASES.iter().all(|dseq| scene.runs(*dseq)));
    assert_eq!(scene.pods(), pods, "a pod restarted");
    stop(&mut provider);
}

fn stop(provider: &mut Daemon) {
    provider.signal(Signal::SIGTERM);
    provider.end();
}

impl<'a> Fixture<'a> {
    fn rent(stage: &'a Stage, network: &'a Network) -> Self {
        let tenant = network.who("tenant");
        let sdl = network.file("web.yaml", SDL);
        tenant.certify();
        let owner = tenant.good(&["keys", "show", "tenant", "-a"]);
        let mut scene = Self {
            stage,
            network,
            tenant,
            sdl,
            namespaces: Vec::new(),
        };
        for dseq in LEASES.map(|dseq| dseq.to_string()) {
            tenant.does(&["deploy", &scene.sdl, "--dseq", &dseq]);
            tenant.does(&["accept", &dseq]);
            tenant.good(&["send-manifest", &scene.sdl, "--dseq", &dseq]);
            let words = [
                "show-cluster-ns",
                "--dseq",
                &dseq,
                "--provider",
                &network.account,
                "--owner",
            ];
            let namespace = tenant.good(&[&words[..], &[owner.trim()]].concat());
            scene.namespaces.push(namespace.trim().to_owned());
        }
        until("everything runs", || LEASES.iter().all(|dseq| scene.runs(*dseq)));
        scene
    }

    fn kubectl(&self, args: &[&str]) -> String {
        self.stage.testbed.kubectl(args).unwrap()
    }

    fn pods(&self) -> String {
        let pods = |ns: &String| self.kubectl(&["get", "pods", "--namespace", ns, "--output", PODS]);
        self.namespaces.iter().map(pods).collect()
    }

    fn record(&self, lease: usize) -> Value {
        let name = &self.namespaces[lease];
        let args = [
            "get",
            "manifests.akash.network",
            "--namespace=lease",
            name,
            "--output=json",
        ];
        let mut record: Value = serde_json::from_str(&self.kubectl(&args)).unwrap();
        record["metadata"]["resourceVersion"].take();
        record
    }

    fn damage(&self, lease: usize, harm: impl Fn(&mut Value)) {
        let mut record = self.record(lease);
        harm(&mut record["spec"]["group"]["services"][0]);
        self.replace(&record);
    }

    fn replace(&self, record: &Value) {
        let replaced = self
            .stage
            .testbed
            .kubectl_input(&["replace", "--filename", "-"], &record.to_string());
        replaced.unwrap();
    }

    /// Asserts that every lease is still active after the time `WATCHED`.
    fn nothing_ends(&self, provider: &Daemon) {
        sleep(WATCHED);
        let output = provider.output();
        assert!(!output.contains("\"event\":\"ending\""), "{output}");
        let words = [
            "query",
            "leases",
            "--state",
            "active",
            "--provider",
            &self.network.account,
            "-o",
            "json",
        ];
        let leases: Value = serde_json::from_str(&self.tenant.good(&words)).unwrap();
        assert_eq!(
            leases["leases"].as_array().map(Vec::len),
            Some(LEASES.len()),
            "{leases}"
        );
        let labelled = self.stage.labelled();
        for namespace in &self.namespaces {
            assert!(labelled.contains(namespace), "{labelled}");
        }
    }

    fn runs(&self, dseq: u64) -> bool {
        let words = [
            "lease-status",
            "-o",
            "json",
            "--dseq",
            &dseq.to_string(),
            "--provider",
            &self.network.account,
        ];
        let (code, out, _) = self.tenant.ran(&words);
        let status: Value = serde_json::from_str(&out).unwrap_or_default();
        code == 0 && status["services"]["web"]["available"] == 1
    }
}
