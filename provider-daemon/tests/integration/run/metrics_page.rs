//! Table of metrics in the documentation, compared with scrapes.

use crate::scrape::{get, scraped};
use crate::stage::Stage;
use std::collections::{BTreeMap, BTreeSet};
use testbed::free_port;

pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0";

/// Returns the rows of the documented metrics table. The metrics come from the scrape `text`. The labels come
/// from `text` and `page`: a metric without a value has no labels in `text`.
fn rows(text: &str, page: &str) -> Vec<String> {
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in page.lines() {
        let cells: Vec<&str> = row.split(" | ").collect();
        if let [name, _, listed, _] = cells[..] {
            let listed = listed.split(", ").map(|label| label.trim_matches('`'));
            let name = name.trim_start_matches("| ").trim_matches('`');
            labels.insert(name, listed.filter(|label| !label.is_empty()).collect());
        }
    }
    let mut described: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    let (mut name, mut help) = ("", "");
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            (name, help) = described.split_once(' ').unwrap();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            described.insert(name, (kind.split_once(' ').unwrap().1, help));
        } else if let Some((sample, _)) = line.rsplit_once("} ") {
            let (_, set) = sample.split_once('{').unwrap();
            let names = set
                .split("\",")
                .filter_map(|label| Some(label.split_once("=\"")?.0));
            labels
                .entry(name)
                .or_default()
                .extend(names.filter(|name| *name != "le"));
        }
    }
    let row = |(name, (kind, help)): (&str, (&str, &str))| {
        let of = labels.get(name).into_iter().flatten();
        let of: Vec<String> = of.map(|label| format!("`{label}`")).collect();
        format!("| `{name}` | {kind} | {} | {help} |", of.join(", "))
    };
    described.into_iter().map(row).collect()
}

/// Scrapes a provider with an unavailable Kubernetes cluster.
pub(crate) fn kubernetes_scrape() -> String {
    let stage = Stage::new("metrics-kubernetes", true);
    let config = stage.path("no-cluster");
    let cluster = r#"{"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}], "current-context": "c", "users": []}"#;
    std::fs::write(&config, cluster).unwrap();
    let port = free_port().unwrap();
    let flags = [
        format!("--metrics-listener=127.0.0.1:{port}"),
        format!("--kubeconfig={}", config.display()),
        "--cluster-public-hostname=provider.example.com".to_owned(),
    ];
    let provider = stage.provider("provider", &flags.each_ref().map(String::as_str));
    scraped(port, &provider, "an unavailable cluster", |values| {
        values.get("akash_provider_kubernetes_connected") == Some(&0.0)
    });
    get(port, OPEN_METRICS).unwrap().1
}

/// Compares the documented table with a scrape. If `UPDATE_SNAPSHOTS` is 1, updates the table and compares
/// nothing.
pub(crate) fn check_documentation(text: &str) {
    const BEGIN: &str = "<!-- table from a scrape -->\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, table) = page.split_once(BEGIN).unwrap();
    let rows = rows(text, table);
    let expected = format!(
        "{before}{BEGIN}\n| metric | type | labels | meaning |\n|---|---|---|---|\n{}\n",
        rows.join("\n")
    );
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1") {
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/metrics.md differs; run the test with UPDATE_SNAPSHOTS=1\n{expected}"
    );
}
