//! The manifest that a provider is sent.

use crate::stage::{ran, sample};
use std::process::Command;

fn converted(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
    ran(command.arg("sdl-to-manifest").args(words)).good()
}

#[test]
fn an_sdl_becomes_the_manifest_that_today_s_tool_prints_byte_for_byte() {
    let Some(folder) = testbed::recordings("peer/sdl") else {
        return;
    };
    let mut compared = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path
            .file_name()
            .and_then(|n| n.to_str())
            .and_then(|n| n.strip_suffix(".yaml"))
        else {
            continue;
        };
        let golden = std::fs::read_to_string(folder.join(format!("{name}.manifest.json"))).unwrap();
        assert_eq!(converted(&[path.to_str().unwrap()]), golden, "{name}");
        compared += 1;
    }
    assert!(compared >= 7, "{compared}");
}

#[test]
fn a_manifest_is_the_same_in_both_formats() {
    let sdl = sample("shop.yaml");
    let json: serde_json::Value = serde_json::from_str(&converted(&[&sdl, "-o", "json"])).unwrap();
    let yaml: serde_json::Value = serde_norway::from_str(&converted(&[&sdl, "-o", "yaml"])).unwrap();
    assert_eq!(json, yaml);
}
