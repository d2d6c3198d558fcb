//! Accepted and refused transactions.

use crate::stage::{ADDRESS, Stage};
use serde_json::Value;
use std::time::Duration;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Block time for transactions with a sequence, which expire after ten blocks.
const SLOWER: Option<Duration> = Some(Duration::from_secs(1));
const FILE: &str = "host: https://provider.example.com:8443\nattributes:\n  - key: region\n    value: us-west\ninfo:\n  \
                    email: ops@example.com\n  website: https://example.com\n";

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn apply_creates_the_record_and_updates_only_a_different_one() {
    let mut stage = Stage::new("record-apply", false);
    stage.start_node(FAST);
    let file = stage.path("provider.yaml");
    std::fs::write(&file, FILE).unwrap();
    let path = file.to_str().unwrap().to_owned();
    let apply = ["tx", "provider", "apply", &path, "--yes"];
    let messages = |out: &str| parsed(out)["height"].as_str().unwrap().parse::<u64>().unwrap();
    let (code, out, err) = stage.ran(&apply);
    assert!(code == 0 && messages(&out) > 0, "created: {out}\n{err}");
    let reordered = FILE.replace(
        "  - key: region",
        "  - {key: host, value: akash}\n  - key: region",
    );
    for (text, is_sent) in [(FILE, false), (&reordered, true), (&reordered, false)] {
        std::fs::write(&file, text).unwrap();
        let (code, out, err) = stage.ran(&apply);
        assert_eq!((code, out.is_empty()), (0, !is_sent), "{out}\n{err}");
        assert_eq!(err.contains("is up to date"), !is_sent, "{err}");
    }
    let (_, out, _) = stage.ran(&["query", "provider", "get", ADDRESS, "-o", "json"]);
    assert_eq!(parsed(&out)["attributes"].as_array().unwrap().len(), 2, "{out}");
}

#[test]
fn provider_is_registered_queried_and_updated() {
    let mut stage = Stage::new("record", false);
    stage.start_node(FAST);
    let file = stage.path("provider.yaml");
    std::fs::write(&file, FILE).unwrap();
    let file = file.to_str().unwrap();
    let (code, _, err) = stage.ran(&["query", "provider", "get", ADDRESS]);
    assert!(
        code == 1 && err.contains("is not registered on this chain"),
        "{err}"
    );
    let (code, _, err) = stage.ran(&["tx", "provider", "create", file]);
    assert!(
        code == 1 && err.contains("transaction not sent") && err.contains("--yes"),
        "{err}"
    );
    let (code, out, err) = stage.ran(&["tx", "provider", "create", file, "--yes"]);
    assert_eq!(code, 0, "{out}\n{err}");
    let answer = parsed(&out);
    let hash = answer["txhash"].as_str().unwrap();
    assert_eq!(
        (&answer["code"], hash.len(), &answer["raw_log"]),
        (&0.into(), 64, &"".into())
    );
    assert_ne!(answer["height"], "0");
    assert!(err.contains(hash) && err.contains("in block"), "{err}");
    let (code, found, err) = stage.ran(&["query", "tx", hash, "-o", "json"]);
    assert_eq!((code, &parsed(&found)["height"]), (0, &answer["height"]), "{err}");
    let (_, out, _) = stage.ran(&["query", "provider", "get", ADDRESS, "-o", "json"]);
    let record = parsed(&out);
    assert_eq!(record["info"]["website"], "https://example.com");
    assert_eq!(record["attributes"][0]["value"], "us-west");
    let (code, _, err) = stage.ran(&["query", "provider", "get", ADDRESS, "--height", "1"]);
    assert!(
        code == 1 && err.contains("is not registered on this chain"),
        "the provider existed before: {err}"
    );
    // Compares the registered with the new record, as the Helm chart does.
    let printed = [
        "tx",
        "provider",
        "update",
        file,
        "--offline",
        "--generate-only",
        "--from",
        ADDRESS,
    ];
    let mut message = parsed(&stage.ran(&printed).1)["body"]["messages"][0].clone();
    message.as_object_mut().unwrap().remove("@type");
    assert_eq!(message, record);
    std::fs::write(file, FILE.replace("us-west", "us-east")).unwrap();
    let (code, out, err) = stage.ran(&[
        "tx",
        "provider",
        "update",
        file,
        "--yes",
        "--gas=300000",
        "--fees=8000uakt",
    ]);
    assert_eq!(code, 0, "{out}\n{err}");
    assert_eq!(parsed(&out)["gas_wanted"], "300000");
    let (_, out, _) = stage.ran(&["query", "provider", "get", ADDRESS, "-o", "json"]);
    assert_eq!(parsed(&out)["attributes"][0]["value"], "us-east");
}

#[test]
fn events_are_printed_from_a_height_on() {
    let mut stage = Stage::new("events", false);
    stage.start_node(FAST);
    let file = stage.path("provider.yaml");
    std::fs::write(&file, FILE).unwrap();
    let (_, sent, err) = stage.ran(&["tx", "provider", "create", file.to_str().unwrap(), "--yes"]);
    let sent = parsed(&sent);
    let height = sent["height"].as_str().unwrap_or_else(|| panic!("{err}"));
    // The second block does not exist yet.
    let (code, out, err) = stage.ran(&["events", "--from-height", height, "--blocks", "2"]);
    assert_eq!(code, 0, "{err}");
    let event = parsed(&out);
    assert_eq!(event["height"].to_string(), height, "{out}");
    assert_eq!(event["type"], "akash.provider.v1beta4.EventProviderCreated");
    assert_eq!(event["attributes"]["owner"], ADDRESS);
}

#[test]
fn refused_transaction_is_reported_with_its_code() {
    let mut stage = Stage::new("refused", true);
    stage.start_node(FAST);
    let file = stage.path("provider.yaml");
    std::fs::write(&file, FILE).unwrap();
    let create = ["tx", "provider", "create", file.to_str().unwrap(), "--yes"];
    let of = |more: &[&str]| stage.ran(&[&create[..], more].concat());
    // The simulation reports the refusal before a fee is paid.
    let (code, out, err) = of(&[]);
    assert!(
        code == 1 && out.is_empty() && err.contains("transaction not sent, the simulation failed"),
        "{out}{err}"
    );
    // Without a simulation the fee is paid.
    let (code, out, err) = of(&["--gas=300000"]);
    let answer = parsed(&out);
    assert!(code == 1 && err.contains("the chain rejected"), "{err}");
    assert!(
        answer["code"].as_u64().unwrap() > 0 && answer["raw_log"] != "",
        "{out}"
    );
    let (code, out, _) = of(&["--gas=300000", "--fees=1uakt"]);
    assert_eq!(
        (code, &parsed(&out)["codespace"], &parsed(&out)["code"]),
        (1, &"sdk".into(), &13.into()),
        "{out}"
    );
    assert_eq!(parsed(&out)["height"], "0");
    let (code, _, err) = of(&["--chain-id=another"]);
    assert!(
        code == 1 && err.contains("`devnet`") && err.contains("`another`"),
        "{err}"
    );
    let stranger = stage.path("stranger");
    std::fs::write(&stranger, "zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo zoo wrong").unwrap();
    let (code, _, err) = of(&["--key-file", stranger.to_str().unwrap()]);
    assert!(
        code == 1 && err.contains("does not exist on chain `devnet`"),
        "{err}"
    );
}

#[test]
fn certificate_is_generated_published_listed_and_revoked() {
    let mut stage = Stage::new("cert", true);
    stage.start_node(FAST);
    let good = |words: &[&str]| {
        let (code, out, err) = stage.ran(words);
        assert_eq!(code, 0, "{words:?}\n{out}\n{err}");
        (out, err)
    };
    good(&["tx", "cert", "generate", "server", "provider.example.com"]);
    good(&["tx", "cert", "publish", "server", "--yes"]);
    let (_, err) = good(&["tx", "cert", "publish", "server", "--yes"]);
    assert!(err.contains("already published"), "{err}");
    let list = [
        "query", "cert", "list", "--owner", ADDRESS, "--state", "valid", "-o", "json",
    ];
    let listed = parsed(&good(&list).0);
    let serial = listed["certificates"][0]["serial"].as_str().unwrap().to_owned();
    assert_eq!(listed["certificates"][0]["certificate"]["state"], "valid");
    good(&["tx", "cert", "revoke", "server", "--yes"]);
    assert_eq!(parsed(&good(&list).0)["certificates"], serde_json::json!([]));
    let (_, err) = good(&["tx", "cert", "revoke", "server", "--serial", &serial, "--yes"]);
    assert!(err.contains("already revoked"), "{err}");
    let (code, _, err) = stage.ran(&["tx", "cert", "publish", "server", "--yes"]);
    assert!(code == 1 && err.contains("is revoked"), "{err}");
    let (code, _, err) = stage.ran(&["tx", "cert", "revoke", "client", "--serial", "77", "--yes"]);
    assert!(code == 1 && err.contains("no certificate 77"), "{err}");
}

#[test]
fn transactions_of_one_key_run_concurrently() {
    let mut stage = Stage::new("together", true);
    stage.start_node(FAST);
    let file = stage.path("provider.yaml");
    std::fs::write(&file, FILE).unwrap();
    let update = ["tx", "provider", "update", file.to_str().unwrap(), "--yes"];
    let all: Vec<_> = (0..4)
        .map(|_| {
            stage
                .command(&update)
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for one in all {
        let output = one.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[test]
fn chain_without_unordered_transactions_is_supported() {
    let mut stage = Stage::new("ordered", true);
    stage.start_node_with(SLOWER, |config| config.takes_unordered = false);
    let file = stage.path("provider.yaml");
    std::fs::write(&file, FILE).unwrap();
    let update = ["tx", "provider", "update", file.to_str().unwrap(), "--yes"];
    // With a simulation, which returns no code, and without one.
    let sequence = || {
        let account = ADDRESS.parse().unwrap();
        stage
            .chain
            .market(|market| market.account(&account).map(|a| a.sequence))
    };
    for more in [&[][..], &["--gas=300000"]] {
        let before = sequence().unwrap();
        let (code, out, err) = stage.ran(&[&update[..], more].concat());
        assert_eq!(code, 0, "{out}\n{err}");
        assert!(err.contains("does not support unordered transactions"), "{err}");
        assert_eq!(sequence(), Some(before + 1));
    }
    // A transaction that the chain always refuses is refused once, with its own reason.
    let create = ["tx", "provider", "create", file.to_str().unwrap(), "--yes"];
    let (code, _, err) = stage.ran(&create);
    assert!(
        code == 1 && err.contains("transaction not sent") && !err.contains("unordered"),
        "{err}"
    );
}

#[test]
fn printed_transaction_shows_whether_it_is_ordered() {
    let mut stage = Stage::new("consent", true);
    stage.start_node(FAST);
    let file = stage.path("provider.yaml");
    std::fs::write(&file, FILE).unwrap();
    let update = ["tx", "provider", "update", file.to_str().unwrap()];
    for (more, is_unordered) in [(&[][..], true), (&["--timeout-height=1000000"], false)] {
        // Standard input gives no confirmation.
        let (code, _, err) = stage.ran(&[&update[..], more].concat());
        assert!(code == 1 && err.contains("transaction not sent"), "{err}");
        let is_printed = err.contains(&format!("\"unordered\": {is_unordered}"));
        assert!(is_printed, "{more:?}: {err}");
    }
}

#[test]
fn memo_and_timeout_height_are_in_the_transaction() {
    let mut stage = Stage::new("note", true);
    stage.start_node(FAST);
    let file = stage.path("provider.yaml");
    std::fs::write(&file, FILE).unwrap();
    let update = ["tx", "provider", "update", file.to_str().unwrap(), "--yes"];
    let of = |more: &[&str]| stage.ran(&[&update[..], more].concat());
    let (_, out, _) = of(&[
        "--generate-only",
        "--offline",
        "--note=for the books",
        "--timeout-height=77",
    ]);
    let body = &parsed(&out)["body"];
    assert_eq!(
        (&body["memo"], &body["timeout_height"]),
        (&"for the books".into(), &"77".into()),
        "{out}"
    );
    let (code, out, err) = of(&["--note=for the books", "--timeout-height=1000000"]);
    assert_eq!(code, 0, "{out}\n{err}");
    let hash = parsed(&out)["txhash"].as_str().unwrap().to_owned();
    let (_, found, _) = stage.ran(&["query", "tx", &hash, "-o", "json"]);
    let body = &parsed(&found)["tx"]["body"];
    assert_eq!(
        (&body["memo"], &body["timeout_height"], &body["unordered"]),
        (&"for the books".into(), &"1000000".into(), &false.into()),
        "{found}"
    );
    let (code, out, err) = of(&["--timeout-height=1"]);
    assert!(
        code == 1 && format!("{out}{err}").contains("timeout height"),
        "the height has passed: {out}{err}"
    );
}
