//! The audit log of commands: transactions, certificates and keys.

use super::audit::{FAST, audit};
use super::doctor_machine::kubeconfig;
use crate::stage::{ADDRESS, Stage};
use akash_provider_core::types::Address;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// Makes the audit log unwritable during the call of `run`.
fn without_log(stage: &Stage, run: impl FnOnce()) {
    let (dir, moved) = (stage.path("audit"), stage.path("moved"));
    std::fs::rename(&dir, &moved).unwrap();
    std::fs::write(&dir, "").unwrap();
    run();
    std::fs::remove_file(&dir).unwrap();
    std::fs::rename(&moved, &dir).unwrap();
}

#[test]
fn transactions_of_commands_are_recorded_and_a_revocation_needs_the_log() {
    let mut stage = Stage::new("audit-tx", false);
    stage.start_node(FAST);
    let file = stage.path("provider.yaml");
    std::fs::write(&file, "host: https://provider.example.com:8443\n").unwrap();
    let file = file.to_str().unwrap();
    let owner: Address = ADDRESS.parse().unwrap();
    let certificates = || stage.chain.market(|market| market.certificates(&owner).to_vec());
    let succeed = |args: &[&str]| {
        let (code, output, problem) = stage.ran(args);
        assert_eq!(code, 0, "{args:?}: {output}{problem}");
        problem
    };
    let generate = ["tx", "cert", "generate", "server", "localhost"];
    succeed(&generate);
    for args in [
        &["tx", "provider", "create", file, "--yes"][..],
        &["tx", "provider", "update", file, "--yes"],
        &["tx", "cert", "publish", "server", "--yes"],
    ] {
        succeed(args);
    }
    let serial = certificates()[0].serial.clone();
    let revoke = ["tx", "cert", "revoke", "server", "--yes"];
    let pem = || std::fs::read(stage.path(&format!("{ADDRESS}.pem"))).unwrap();
    let before = pem();
    without_log(&stage, || {
        for args in [&revoke[..], &[&generate[..], &["--overwrite"]].concat()] {
            let (code, _, problem) = stage.ran(args);
            assert!(code == 1 && problem.contains("nothing was done"), "{problem}");
        }
        assert!(certificates()[0].valid && pem() == before);
        let problem = succeed(&["tx", "provider", "update", file, "--yes"]);
        let warnings = problem.matches("warning: cannot write the audit log").count();
        assert_eq!(warnings, 1, "{problem}");
    });
    succeed(&revoke);
    assert!(!certificates()[0].valid);
    let lines = audit(&stage, &[]);
    let acts: Vec<(&str, &str)> = lines
        .iter()
        .map(|line| (line["act"].as_str().unwrap(), line["stage"].as_str().unwrap()))
        .collect();
    let expected = [
        "certificate_generate",
        "provider_create",
        "provider_update",
        "certificate_publish",
        "certificate_revoke",
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .flat_map(|act| [(act, "intent"), (act, "outcome")])
        .collect();
    assert_eq!(acts, expected);
    for line in &lines {
        assert_eq!(line["actor"]["uid"], nix::unistd::getuid().as_raw(), "{line}");
        if line["act"] == "certificate_generate" {
            assert_eq!(line["subject"], format!("{ADDRESS}/{serial}"), "{line}");
        } else if line["stage"] == "outcome" {
            assert_eq!(line["outcome"]["result"], "committed", "{line}");
            assert!(
                line["outcome"]["tx_hash"].is_string() && line["outcome"]["fee"].is_string(),
                "{line}"
            );
        }
    }
    assert_eq!(lines[9]["subject"], format!("{ADDRESS}/{serial}"));
    let (code, _, problem) = stage.ran(&["audit", "--audit-log=none"]);
    assert!(code == 1 && problem.contains("no audit log to read"), "{problem}");
}

#[test]
fn changes_of_keys_are_recorded_and_a_deletion_needs_the_log() {
    let stage = Stage::new("audit-keys", false);
    let keys = |args: &[&str]| {
        let (code, _, problem) = stage.ran(&[&["keys", "--keyring-backend=test"], args].concat());
        (code, problem)
    };
    assert_eq!(keys(&["add", "spare"]).0, 0);
    assert_eq!(keys(&["add", "trial", "--dry-run"]).0, 0);
    without_log(&stage, || {
        let (code, problem) = keys(&["delete", "spare", "--yes"]);
        assert!(code == 1 && problem.contains("nothing was done"), "{problem}");
        assert_eq!(keys(&["show", "spare"]).0, 0);
    });
    assert_eq!(keys(&["delete", "spare", "--yes"]).0, 0);
    let lines = audit(&stage, &[]);
    let acts: Vec<_> = lines
        .iter()
        .map(|line| (&line["act"], &line["subject"], &line["outcome"]["result"]))
        .collect();
    let (spare, done, none) = (json!("spare"), json!("done"), Value::Null);
    let (add, delete) = (json!("keys_add"), json!("keys_delete"));
    let expected = [
        (&add, &spare, &none),
        (&add, &spare, &done),
        (&delete, &spare, &none),
        (&delete, &spare, &done),
    ];
    assert_eq!(acts, expected);
}

#[test]
fn commands_that_change_state_are_recorded_and_need_the_log_except_a_repair() {
    let mut stage = Stage::new("audit-state", true);
    stage.start_node(FAST);
    let mut provider = stage.provider("provider", &[]);
    provider.says("ready: bidding");
    provider.signal(Signal::SIGTERM);
    assert_eq!(provider.ended(), Some(0), "{}", provider.dump());
    let height = || {
        let (_, text, _) = stage.ran(&["state", "show", "-o", "json"]);
        serde_json::from_str::<Value>(&text).unwrap()["heights"][0]["height"].clone()
    };
    let stored = height();
    // No process listens on port 1.
    let config = kubeconfig(&stage, "http://127.0.0.1:1");
    let migrate = ["migrate", "run", &config];
    without_log(&stage, || {
        for args in [&["state", "reset-height"][..], &migrate] {
            let (code, _, problem) = stage.ran(args);
            assert!(code == 1 && problem.contains("nothing was done"), "{problem}");
        }
        assert_eq!(height(), stored);
    });
    assert_eq!(stage.ran(&["state", "reset-height"]).0, 0);
    assert_eq!(stage.ran(&migrate).0, 1);
    let words = stage.path("words");
    std::fs::set_permissions(&words, Permissions::from_mode(0o644)).unwrap();
    without_log(&stage, || {
        let (_, _, problem) = stage.ran(&["doctor", "--fix"]);
        assert!(
            problem.contains("warning: cannot write the audit log"),
            "{problem}"
        );
    });
    std::fs::set_permissions(&words, Permissions::from_mode(0o644)).unwrap();
    drop(stage.ran(&["doctor", "--fix"]));
    drop(stage.ran(&["doctor", "--fix"]));
    let lines = audit(&stage, &[]);
    let of = |act: &str| -> Vec<Value> {
        let lines = lines.iter().filter(|line| line["act"] == act);
        lines.cloned().collect()
    };
    let uid = nix::unistd::getuid().as_raw();
    for (act, result) in [
        ("state_reset_height", "done"),
        ("migrate_run", "failed"),
        ("doctor_fix", "done"),
    ] {
        let lines = of(act);
        assert_eq!(lines.len(), 2, "{act}: {lines:?}");
        assert_eq!(
            (&lines[0]["stage"], &lines[0]["actor"]["uid"]),
            (&json!("intent"), &json!(uid))
        );
        assert_eq!(lines[1]["outcome"]["result"], result, "{lines:?}");
    }
    let evidence = |act: &str| of(act)[0]["evidence"].clone();
    assert_eq!(evidence("state_reset_height"), json!({"height": stored}));
    assert_eq!(
        evidence("migrate_run"),
        json!({"request": "admit namespace akash-gateway to the leases in namespace lease"})
    );
    let change = evidence("doctor_fix")["request"].as_str().unwrap().to_owned();
    assert!(
        change.starts_with("restricted the modes of 1 path in "),
        "{change}"
    );
}
