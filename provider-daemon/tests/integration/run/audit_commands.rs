//! The audit log of commands: transactions, certificates and keys.

use super::audit::{FAST, audit};
use crate::stage::{ADDRESS, Stage};
use akash_provider_core::types::Address;
use serde_json::{Value, json};

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
