//! Files for Prometheus and Grafana in `deploy/monitoring`.

use serde_json::Value;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Suffixes of samples in Prometheus for counters and histograms.
const SUFFIXES: [&str; 4] = ["_total", "_bucket", "_count", "_sum"];

fn file(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_name = |word: &&str| word.starts_with("akash_provider_") || word.starts_with("process_");
    words.filter(is_name).map(str::to_owned).collect()
}

fn rules() -> Value {
    serde_saphyr::from_str(&file("deploy/monitoring/rules.yaml")).unwrap()
}

#[test]
fn rules_and_dashboard_use_listed_metrics() {
    let listed = names(&file("docs/metrics.md"));
    assert!(listed.len() > 50, "{listed:?}");
    let is_listed = |name: &str| {
        let stems = SUFFIXES.iter().filter_map(|suffix| name.strip_suffix(suffix));
        stems.chain([name]).any(|stem| listed.contains(stem))
    };
    for path in ["deploy/monitoring/rules.yaml", "deploy/monitoring/dashboard.json"] {
        let used = names(&file(path));
        assert!(used.len() > 10, "{path}: {used:?}");
        let unknown: Vec<_> = used.iter().filter(|name| !is_listed(name)).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
}

#[test]
fn each_alert_has_a_severity_a_summary_and_a_remedy() {
    let rules = rules();
    let alerts = rules["groups"][0]["rules"].as_array().unwrap();
    for alert in alerts {
        let severity = alert["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("critical" | "warning")), "{alert}");
        for field in ["summary", "remedy"] {
            let text = alert["annotations"][field].as_str().unwrap_or_default();
            assert!(text.ends_with('.'), "{field}: {alert}");
        }
    }
}

#[test]
fn each_panel_of_the_dashboard_has_a_query_and_a_description() {
    let dashboard: Value = serde_json::from_str(&file("deploy/monitoring/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty() && panel["description"].is_string(), "{panel}");
        let is_filtered = |target: &Value| target["expr"].as_str().unwrap().contains("$instance");
        assert!(targets.iter().all(is_filtered), "{panel}");
    }
}

#[test]
fn each_alert_fires_in_a_unit_test_of_promtool() {
    let tests = file("deploy/monitoring/rules_test.yaml");
    let alerts = rules();
    for alert in alerts["groups"][0]["rules"].as_array().unwrap() {
        let name = alert["alert"].as_str().unwrap();
        assert!(
            tests.contains(&format!("alertname=\"{name}\"")),
            "no test of {name}"
        );
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/monitoring");
    for args in [
        ["check", "rules", "rules.yaml"],
        ["test", "rules", "rules_test.yaml"],
    ] {
        let output = match Command::new("promtool").args(args).current_dir(&folder).output() {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("skipped: promtool is not installed");
                return;
            }
            Err(error) => panic!("promtool: {error}"),
        };
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{printed}");
    }
}
