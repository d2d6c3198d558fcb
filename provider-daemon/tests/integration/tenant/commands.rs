//! Lease commands of a tenant, with a token and with a certificate.

use crate::tenant::stage::{RunningProvider, Stage, TENANT, read, sample, until};
use akash_provider_core::types::LeaseId;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const TWO_GROUPS: &str = r#"
version: "2.0"
services:
  far:
    image: nginx:1.27
    expose: [{port: 80, to: [{global: true}]}]
  near:
    image: nginx:1.27
    expose: [{port: 80, to: [{global: true}]}]
profiles:
  compute:
    small: {resources: {cpu: {units: 100m}, memory: {size: 128Mi}, storage: {size: 512Mi}}}
  placement:
    east: {pricing: {small: {denom: uact, amount: 50}}}
    west: {pricing: {small: {denom: uact, amount: 50}}}
deployment:
  far: {east: {profile: small, count: 1}}
  near: {west: {profile: small, count: 1}}
"#;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn lease_commands_work_with_token_and_certificate() {
    let stage = Stage::new("life");
    let provider = stage.provider(31);
    let sdl = sample("web.yaml");
    let lease = stage.lease(7, &sdl, &[&provider]).remove(0);
    let address = provider.address.as_str();
    for auth in ["jwt", "mtls"] {
        let of = ["--dseq", "7", "--provider", address, "--auth-type", auth];
        let ran = |words: &[&str]| stage.ran(&[words, &of].concat());
        let sent = ran(&["send-manifest", &sdl]).good();
        assert_eq!(
            sent,
            format!("provider: {address}\n\tstatus:       PASS\n"),
            "{auth}"
        );
        provider.runs(&lease);
        let back = json(&ran(&["get-manifest", "-o", "json"]).good());
        assert_eq!(back, serde_json::to_value(&read(&sdl).manifest).unwrap());
        let yaml = ran(&["get-manifest"]).good();
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), back);
        let status = ran(&["lease-status", "-o", "json"]).good();
        assert!(
            status.starts_with("{\n  \"services\": {\n    \"web\": {\n"),
            "{status}"
        );
        assert_eq!(json(&status)["services"]["web"]["name"], "web");
        let service = json(&ran(&["service-status", "--service", "web"]).good());
        assert_eq!(service, json(&status)["services"]["web"]);
        ran(&["service-status", "--service", "nope"])
            .failed(&["status 404", "check the names of lease and service"]);
    }
    let status = json(&stage.ran(&["status", address]).good());
    assert_eq!(
        (&status["cluster"]["leases"], &status["address"]),
        (&1.into(), &address.into())
    );
    let namespace = stage.ran(&[
        "show-cluster-ns",
        "--owner",
        TENANT,
        "--dseq",
        "7",
        "--provider",
        address,
    ]);
    assert_eq!(namespace.good().trim(), lease.namespace());
    let hosts = "migrate-hostnames";
    let moved = stage.ran(&[hosts, "web.example.com", "--dseq", "8", "--provider", address]);
    moved.failed(&["status 400", "destination deployment does not exist"]);
}

#[test]
fn hostnames_move_between_deployments() {
    let stage = Stage::new("move");
    let provider = stage.provider(32);
    let sdl = std::fs::read_to_string(sample("web.yaml")).unwrap();
    let with = |host: &str| sdl.replace("port: 80\n", &format!("port: 80\n        accept: [{host}]\n"));
    let (first, second) = (
        stage.file("a.yaml", &with("a.example.com, shared.example.com")),
        stage.file("b.yaml", &with("b.example.com, shared.example.com")),
    );
    assert!(
        std::fs::read_to_string(&first).unwrap().contains("a.example.com"),
        "{sdl}"
    );
    let leases = [
        stage.lease(1, &first, &[&provider]).remove(0),
        stage.lease(2, &second, &[&provider]).remove(0),
    ];
    let holder = |name: &str| provider.cluster.contents().hostnames.get(name).cloned();
    for (dseq, file) in [("1", &first), ("2", &second)] {
        stage.ran(&["send-manifest", file, "--dseq", dseq]).good();
    }
    until("both hostnames", || {
        holder("a.example.com").is_some() && holder("b.example.com").is_some()
    });
    let to = ["--dseq", "2", "--provider", provider.address.as_str()];
    // The second deployment does not list this hostname.
    let refused = stage.ran(&[&["migrate-hostnames", "a.example.com"], &to[..]].concat());
    refused.failed(&["status 400", "is not used by this deployment"]);
    assert_eq!(holder("a.example.com").as_ref(), Some(&leases[0]));
    let moved = stage.ran(&[&["migrate-hostnames", "b.example.com"], &to[..]].concat());
    assert!(
        moved.err.contains("moved to deployment 2: b.example.com"),
        "{}",
        moved.err
    );
    assert_eq!(moved.good(), "");
    // Both deployments list this hostname, and the first one has it.
    let is_at = |lease: &LeaseId| holder("shared.example.com").as_ref() == Some(lease);
    assert!(is_at(&leases[0]));
    let moved = stage.ran(&[&["migrate-hostnames", "shared.example.com"], &to[..]].concat());
    moved.good();
    until("the hostname is at the other deployment", || is_at(&leases[1]));
    assert_eq!(
        holder("a.example.com").as_ref(),
        Some(&leases[0]),
        "no other hostname moves"
    );
    // Move the hostname back.
    let back = ["--dseq", "1", "--provider", provider.address.as_str()];
    let moved = stage.ran(&[&["migrate-hostnames", "shared.example.com"], &back[..]].concat());
    moved.good();
    until("the hostname is back", || is_at(&leases[0]));
}

const TWO_ADDRESSES: &str = r#"
version: "2.1"
endpoints: {ep: {kind: ip}, other: {kind: ip}}
services:
  web:
    image: nginx:1.27
    expose:
      - {port: 80, to: [{global: true, ip: ep}]}
      - {port: 81, to: [{global: true, ip: other}]}
profiles:
  compute:
    small: {resources: {cpu: {units: 100m}, memory: {size: 128Mi}, storage: {size: 512Mi}}}
  placement:
    here: {pricing: {small: {denom: uact, amount: 50000}}}
deployment:
  web: {here: {profile: small, count: 1}}
"#;

#[test]
fn endpoints_move_between_deployments() {
    let stage = Stage::new("move-ip");
    let provider = stage.provider(36);
    let sdl = stage.file("ip.yaml", TWO_ADDRESSES);
    let leases = [1, 2].map(|dseq| stage.lease(dseq, &sdl, &[&provider]).remove(0));
    let names = |lease: &LeaseId| {
        let ips = provider.cluster.contents().ips.remove(lease).unwrap_or_default();
        let mut keys: Vec<String> = ips.into_iter().map(|ip| ip.sharing_key).collect();
        keys.sort();
        keys
    };
    stage.ran(&["send-manifest", &sdl, "--dseq", "1"]).good();
    until("the addresses", || names(&leases[0]).len() == 2);
    // The second deployment is declared while the first one has the endpoints.
    stage.ran(&["send-manifest", &sdl, "--dseq", "2"]).good();
    provider.runs(&leases[1]);
    let to = ["--dseq", "2", "--provider", provider.address.as_str()];
    let moving = |name: &str| stage.ran(&[&["migrate-endpoints", name], &to[..]].concat());
    moving("nope").failed(&[
        "status 400",
        "\"nope\" does not exist in the destination deployment",
    ]);
    let moved = moving("ep");
    assert!(moved.err.contains("moved to deployment 2: ep"), "{}", moved.err);
    assert_eq!(moved.good(), "");
    let (left, there) = (names(&leases[0]), names(&leases[1]));
    assert_eq!((left.len(), there.len()), (1, 1), "{left:?} {there:?}");
    assert!(
        there[0].ends_with("-ip-ep") && left[0].ends_with("-ip-other"),
        "{left:?} {there:?}"
    );
    let nowhere = ["--dseq", "3", "--provider", provider.address.as_str()];
    let refused = stage.ran(&[&["migrate-endpoints", "ep"], &nowhere[..]].concat());
    refused.failed(&["status 400", "destination deployment does not exist"]);
}

/// Creates a deployment with two leases at different providers, and sends the manifest. Returns the
/// providers, the leases and the SDL path.
fn at_two_providers(stage: &Stage) -> (RunningProvider, RunningProvider, Vec<LeaseId>, String) {
    let (first, second) = (stage.provider(33), stage.provider(34));
    let sdl = stage.file("two.yaml", TWO_GROUPS);
    let leases = stage.lease(3, &sdl, &[&first, &second]);
    let sent = stage.ran(&["send-manifest", &sdl, "-o", "json", "--dseq", "3"]);
    let mut expected = [&first, &second].map(|provider| provider.address.as_str());
    expected.sort_unstable();
    let passed = expected.map(|address| format!("{{\"provider\":\"{address}\",\"status\":\"PASS\"}}"));
    assert_eq!(sent.good(), format!("[{}]\n", passed.join(",")));
    first.runs(&leases[0]);
    second.runs(&leases[1]);
    (first, second, leases, sdl)
}

#[test]
fn every_provider_of_a_deployment_is_queried_and_unavailable_one_reported() {
    let stage = Stage::new("several");
    let (first, mut second, leases, sdl) = at_two_providers(&stage);
    let ran = |words: &[&str]| stage.ran(&[words, &["--dseq", "3"]].concat());
    let statuses = json(&ran(&["lease-status", "-o", "json"]).good());
    assert_eq!(statuses.as_array().unwrap().len(), 2);
    assert!(
        statuses[0]["lease_id"]["dseq"] == 3 && statuses[1]["status"]["services"].is_object(),
        "{statuses}"
    );
    assert!(
        first
            .cluster
            .log(&leases[0], &service_of(&first, &leases[0]), 0, "from the first")
    );
    assert!(
        second
            .cluster
            .log(&leases[1], &service_of(&second, &leases[1]), 0, "from the second")
    );
    let logs = ran(&["lease-logs"]).good();
    assert!(
        logs.contains("from the first") && logs.contains("from the second"),
        "{logs}"
    );
    ran(&["lease-shell", "web", "ls"]).failed(&["several leases", "--provider"]);

    second.stop_gateway(&stage);
    let half = ran(&["send-manifest", &sdl, "-o", "yaml"]).failed(&[]);
    let half: Value = serde_saphyr::from_str(&half).unwrap();
    let failed = half
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["status"] == "FAIL")
        .unwrap();
    assert_eq!(failed["provider"], second.address.as_str());
    assert!(
        failed["error"].as_str().unwrap().contains("cannot reach"),
        "{failed}"
    );
    assert_eq!(
        half.as_array()
            .unwrap()
            .iter()
            .filter(|s| s["status"] == "PASS")
            .count(),
        1
    );
    let statuses = json(&ran(&["lease-status", "-o", "json"]).failed(&["cannot reach", second.url.as_str()]));
    assert_eq!(
        statuses
            .as_array()
            .unwrap()
            .iter()
            .filter(|s| s.get("error").is_some())
            .count(),
        1
    );
    let logs = ran(&["lease-logs"]).failed(&["cannot reach"]);
    assert!(
        logs.contains("from the first") && !logs.contains("from the second"),
        "{logs}"
    );
}

fn service_of(provider: &RunningProvider, lease: &LeaseId) -> String {
    let running = provider.cluster.contents().running;
    running[lease].group.services[0].name.clone()
}

#[test]
fn logs_and_events_are_printed_and_followed() {
    let stage = Stage::new("streams");
    let provider = stage.provider(35);
    let sdl = sample("web.yaml");
    let lease = stage.lease(4, &sdl, &[&provider]).remove(0);
    stage.ran(&["send-manifest", &sdl, "--dseq", "4"]).good();
    provider.runs(&lease);
    for line in ["one", "two", "[three]"] {
        assert!(provider.cluster.log(&lease, "web", 0, line));
    }
    assert!(
        provider
            .cluster
            .event(&lease, "web", "Pulled", "the image is <here>")
    );
    let ran = |words: &[&str]| stage.ran(&[words, &["--dseq", "4"]].concat());
    let logs = ran(&["lease-logs"]).good();
    let lines: Vec<&str> = logs.lines().collect();
    assert!(
        lines[0].starts_with(&format!("[{lease}][web")) && lines[0].ends_with("] one"),
        "{logs}"
    );
    assert!(lines.len() == 3 && lines[2].ends_with("] [three]"), "{logs}");
    assert_eq!(ran(&["lease-logs", "--tail", "1"]).good().lines().count(), 1);
    assert_eq!(ran(&["lease-logs", "-t", "0"]).good(), "");
    let line = json(&ran(&["lease-logs", "--tail=1", "-o", "json", "--service", "web"]).good());
    assert_eq!(
        (&line["message"], &line["lease_id"]["dseq"]),
        (&"[three]".into(), &4.into())
    );
    ran(&["lease-logs", "--service", "nope"]).failed(&["closed the stream"]);
    let events = ran(&["lease-events"]).good();
    assert!(
        events.contains("\"note\": \"the image is \\u003chere\\u003e\""),
        "{events}"
    );
    let mut events = serde_json::Deserializer::from_str(&events).into_iter::<Value>();
    assert!(events.all(|event| event.unwrap()["lease_id"]["owner"] == TENANT));

    let mut follower = stage.command(&["lease-logs", "--dseq", "4", "-f"]);
    let mut follower = follower.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().ends_with("one"));
    assert!(lines.nth(1).unwrap().unwrap().ends_with("[three]"));
    assert!(provider.cluster.log(&lease, "web", 0, "four"));
    assert!(lines.next().unwrap().unwrap().ends_with("four"));
    follower.kill().unwrap();
    follower.wait().unwrap();
}
