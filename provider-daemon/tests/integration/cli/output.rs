//! `--output json`: errors on stderr, and results that are text by default.

use crate::cli::{json, run_line, text};
use serde_json::Value;

#[test]
fn errors_are_json_objects_with_the_same_exit_code() {
    for (line, code, error, help) in [
        ("explain /no/such.yaml", 1, "/no/such.yaml", "check the path"),
        ("sdl hash /no/such.yaml", 1, "/no/such.yaml", "check the path"),
        ("status --offline", 2, "required arguments", "Usage:"),
        ("version --longg", 2, "'--longg'", "'--long'"),
        ("run --config=/no/such.yaml", 1, "/no/such.yaml", ""),
    ] {
        let plain = run_line(line);
        let output = run_line(&format!("{line} -o json"));
        assert_eq!(output.status.code(), Some(code), "{line}");
        assert_eq!(plain.status.code(), Some(code), "{line}");
        let stderr = text(&output.stderr);
        let object: Value = serde_json::from_str(&stderr).unwrap_or_else(|_| panic!("{line}: {stderr}"));
        assert!(object["error"].as_str().unwrap().contains(error), "{stderr}");
        assert!(
            object["help"].as_str().unwrap_or_default().contains(help),
            "{stderr}"
        );
        assert!(object["causes"].is_array(), "{stderr}");
        assert!(text(&plain.stderr).starts_with("error: "), "{line}");
    }
}

#[test]
fn results_that_are_text_by_default_are_json_on_request() {
    let owner = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
    let line = format!(
        "show-cluster-ns --owner={owner} --dseq=7 --provider=akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
    );
    let namespace = text(&run_line(&line).stdout);
    assert_eq!(
        json(&run_line(&format!("{line} -o json")))["namespace"],
        namespace.trim()
    );
    let web = crate::cli::sample("web.yaml");
    let hash = text(&run_line(&format!("sdl hash {web}")).stdout);
    assert_eq!(
        json(&run_line(&format!("sdl hash {web} -o json")))["hash"],
        hash.trim()
    );
    assert!(text(&run_line(&format!("sdl manifest {web} -o text")).stdout).starts_with("- name: "));
}
