//! `explain` for an order on a chain predicts the decision of the running provider.

use crate::run::served::Served;
use crate::stage::{ADDRESS, PRICES, Running, Stage, TENANT, until};
use serde_json::Value;
use std::time::Duration;

const WEB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
const GPU: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/gpu.yaml");
/// Flags for a cluster that can run one order of the sample SDL.
const SMALL: [&str; 2] = ["--nodes=1", "--node-cpu=1200m"];

fn explained(stage: &Stage, more: &[&str]) -> (i32, Value) {
    let words = ["explain", "--from", ADDRESS, "--output=json"];
    let (code, out, err) = stage.ran(&[&words, &SMALL[..], &PRICES, more].concat());
    let verdict = serde_json::from_str(&out);
    (code, verdict.unwrap_or_else(|_| panic!("{code}: {out}\n{err}")))
}

#[test]
fn explanation_equals_bid() {
    let mut stage = Stage::new("explain", true);
    stage.start_node(Some(Duration::from_millis(250)));
    let id = stage.order(1);
    let order = format!("{TENANT}/1/1/1");
    let is_there = || stage.ran(&["query", "orders", "-o", "json"]).1.contains(TENANT);
    until("the order", String::new, is_there);
    let (code, before) = explained(&stage, &["--order", &order]);
    assert_eq!((code, &before["would_bid"]), (0, &Value::Bool(true)), "{before}");
    let (code, sdl) = explained(&stage, &[WEB]);
    assert_eq!((code, &sdl["price"]), (0, &before["price"]), "{sdl}");

    let provider: Running = stage.provider("provider", &SMALL);
    let bid = stage.bid(&id, &provider);
    assert_eq!(before["price"], serde_json::to_value(&bid.price).unwrap());

    // The bid retains its reservation, and there is no second bid.
    let (code, again) = explained(&stage, &[WEB]);
    assert_eq!(
        (code, &again["reason"]),
        (1, &"insufficient_capacity".into()),
        "{again}"
    );
    let (code, bid_on) = explained(&stage, &["--order", &order]);
    assert_eq!((code, &bid_on["reason"]), (1, &"already_bid".into()), "{bid_on}");
}

#[test]
fn unregistered_provider_and_missing_order_are_reported() {
    let mut stage = Stage::new("explain-nobody", false);
    stage.start_node(Some(Duration::from_millis(250)));
    let (code, verdict) = explained(&stage, &[WEB]);
    let message = verdict["message"].as_str().unwrap();
    assert!(code == 1 && message.contains("not registered"), "{verdict}");
    let order = format!("{TENANT}/7/1/1");
    let words = ["explain", "--from", ADDRESS, "--order", &order];
    let (code, _, err) = stage.ran(&[&words[..], &PRICES].concat());
    assert!(code == 1 && err.contains("no order "), "{err}");
    // The price comes from the operator's settings, not from the defaults of `dev`.
    let (code, _, err) = stage.ran(&["explain", "--from", ADDRESS, WEB]);
    assert!(code == 1 && err.contains("--bid-price"), "{err}");
}

#[test]
fn ignored_capacity_is_logged_and_explained() {
    let mut stage = Stage::new("explain-ignored", true);
    stage.start_node(Some(Duration::from_millis(250)));
    let unknown = "--node-gpus=intel/max=1";
    let (_, verdict) = explained(&stage, &[unknown, WEB]);
    let ignored = verdict["explanation"]["ignored"][0]["reason"].as_str().unwrap();
    assert!(
        ignored.contains("node1") && ignored.contains("intel"),
        "{verdict}"
    );
    let words = ["explain", "--from", ADDRESS, unknown, WEB];
    let (_, text, err) = stage.ran(&[&words[..], &SMALL, &PRICES].concat());
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("  ignored "));
    let at = at.unwrap_or_else(|| panic!("{text}{err}"));
    assert!(lines[at + 1].starts_with("  help "), "{text}");
    let provider = stage.provider("provider", &[&SMALL[..], &[unknown]].concat());
    let line = format!("provider does not offer this cluster resource to tenants resource={ignored:?}");
    until(
        "the ignored object is logged",
        || provider.dump(),
        || provider.dump().contains(&line),
    );
    let (code, out, err) = stage.ran(&["capacity", "--output=json"]);
    assert_eq!(code, 0, "{out}{err}");
    let capacity: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(capacity["ignored"], verdict["explanation"]["ignored"]);
    assert_eq!(
        (&capacity["known"], &capacity["nodes"][0]["name"]),
        (&true.into(), &"node1".into())
    );
    let (_, text, err) = stage.ran(&["capacity"]);
    assert!(
        text.contains(&format!("\nnot offered: {ignored}\n  help: ")),
        "{text}{err}"
    );
}

/// Asserts that the output contains the ignored GPU and the remedy.
fn assert_ignored_gpu(out: &str) {
    let lines: Vec<&str> = out.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("  ignored "));
    let at = at.unwrap_or_else(|| panic!("{out}"));
    assert!(
        lines[at].contains("intel") && lines[at + 1].starts_with("  help "),
        "{out}"
    );
}

#[test]
fn running_provider_explains_its_decision() {
    let unknown = ["--node-gpus=intel/max=1"];
    let served = Served::start("explain-asked", Some(Duration::from_millis(250)), &unknown);
    let words = ["explain", "--provider", ADDRESS, "--provider-url", &served.url];
    let asked = |more: &[&str]| served.stage.ran(&[&words[..], more].concat());
    let verdict = |more: &[&str]| -> (i32, Value) {
        let (code, out, err) = asked(&[&["--output=json"], more].concat());
        (
            code,
            serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code}: {out}\n{err}")),
        )
    };
    let (code, bid) = verdict(&[WEB]);
    // A simulated machine without leases.
    let words = [&["explain", "--accept-any", "--output=json", WEB], &PRICES[..]].concat();
    let local: Value = serde_json::from_str(&served.stage.ran(&words).1).unwrap();
    assert_eq!((code, &bid["would_bid"]), (0, &Value::Bool(true)), "{bid}");
    assert_eq!(
        (&bid["price"], &bid["maximum"]),
        (&local["price"], &local["maximum"])
    );
    let (code, none) = verdict(&[GPU]);
    let why = none["message"].as_str().unwrap();
    assert!(
        code == 1 && why.contains("no declared storage capability"),
        "{none}"
    );
    assert_eq!(none["reason"], "storage");
    let (code, out, err) = asked(&[GPU]);
    let explanation = format!(
        "response of provider {ADDRESS} at {}:\ngroup anywhere: would not bid: ",
        served.url
    );
    assert!(code == 1 && out.starts_with(&explanation), "{out}{err}");

    // Missing resources are reported by kind and node.
    let large = std::fs::read_to_string(WEB).unwrap().replace("512Mi", "100Gi");
    let file = served.stage.path("large.yaml");
    std::fs::write(&file, large).unwrap();
    let (_, out, _) = asked(&[file.to_str().unwrap()]);
    assert!(out.contains("memory, on 2 nodes: node1 for unit 1"), "{out}");
    assert!(out.contains("\n  gateway      node2 for unit 1"), "{out}");
    assert_ignored_gpu(&out);
    let (_, none) = verdict(&[file.to_str().unwrap()]);
    assert_eq!(none["reason"], "insufficient_capacity");
    assert_eq!(none["explanation"]["ignored"][0]["kind"], "gpu");

    // The gateway has no order, so the client adds the reasons that depend on the order.
    let windowed = std::fs::read_to_string(WEB).unwrap() + "reclamation:\n  min_window: 1h\n";
    std::fs::write(&file, windowed).unwrap();
    let (code, none) = verdict(&[file.to_str().unwrap()]);
    let why = "the order requires a reclamation window of at least 3600 s; this provider offers none";
    assert_eq!((code, &none["message"]), (1, &why.into()), "{none}");
    assert_eq!(none["reason"], "reclamation");

    let id = served.stage.order(77);
    let order = format!("{TENANT}/77/1/1");
    served.until("a bid", || !served.stage.bids(&id).is_empty());
    let (code, again) = verdict(&["--order", &order]);
    assert_eq!((code, &again["reason"]), (1, &"already_bid".into()), "{again}");

    // A response of another server is not accepted as the provider's.
    let words = [
        "explain",
        "--provider",
        TENANT,
        "--provider-url",
        &served.url,
        WEB,
    ];
    let (code, out, err) = served.stage.ran(&words);
    assert!(
        code == 1 && out.is_empty() && err.contains("cannot verify that"),
        "{err}"
    );
}
