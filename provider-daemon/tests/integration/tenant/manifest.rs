//! Manifests sent to a provider.

use crate::tenant::stage::{Stage, ran, read, sample};
use std::process::Command;

fn converted(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider-daemon"));
    ran(command.arg("sdl-to-manifest").args(words)).good()
}

#[test]
fn sdl_becomes_the_manifest_of_the_go_tool_byte_for_byte() {
    let folder = testbed::recordings::folder("peer/sdl");
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
fn manifest_is_the_same_in_both_formats() {
    let sdl = sample("shop.yaml");
    let json: serde_json::Value = serde_json::from_str(&converted(&[&sdl, "-o", "json"])).unwrap();
    let yaml: serde_json::Value = serde_saphyr::from_str(&converted(&[&sdl, "-o", "yaml"])).unwrap();
    assert_eq!(json, yaml);
}

#[test]
fn refusal_of_a_service_shows_its_line_in_the_sdl() {
    let stage = Stage::new("lines");
    let provider = stage.provider(61);
    let text = std::fs::read_to_string(sample("web.yaml")).unwrap();
    let larger = text.replace("size: 512Mi", "size: 256Mi");
    assert_ne!(larger, text);
    let sdl = stage.file("larger.yaml", &larger);
    // The chain has the hash of one SDL and the groups of another.
    let mut mixed = read(&sample("web.yaml"));
    mixed.hash = read(&sdl).hash;
    stage.lease_of(7, mixed, &[&provider]);
    let line = 1 + text.lines().position(|line| line == "  web:").unwrap();
    let ran = |words: &[&str]| stage.ran(&[&["send-manifest", "--dseq", "7"], words].concat());
    let refusal = ran(&[&sdl]).failed(&[]);
    let place = format!("\tsdl:          {sdl}:{line}, service `web`\n");
    assert!(
        refusal.contains("cross-validation error") && refusal.contains(&place),
        "{refusal}"
    );
    // The JSON output for scripts is unchanged.
    let refusal = ran(&[&sdl, "-o", "json"]).failed(&[]);
    let refusal: serde_json::Value = serde_json::from_str(&refusal).unwrap();
    let fields: Vec<&String> = refusal[0].as_object().unwrap().keys().collect();
    assert_eq!(fields.len(), 4, "{fields:?}");
}

#[test]
fn hashes_in_errors_are_short_in_text_and_complete_in_json() {
    let stage = Stage::new("hashes");
    let provider = stage.provider(62);
    let first = sample("web.yaml");
    stage.lease(7, &first, &[&provider]);
    let other = std::fs::read_to_string(&first)
        .unwrap()
        .replace("count: 2", "count: 3");
    let sdl = stage.file("other.yaml", &other);
    let hashes = [&first, &sdl].map(|path| data_encoding::HEXLOWER.encode(&read(path).hash));
    let sent = |words: &[&str]| {
        let sent = stage.ran(&[&["send-manifest", &sdl, "--dseq", "7"], words].concat());
        sent.failed(&[])
    };
    let (text, json) = (sent(&[]), sent(&["-o", "json"]));
    for hash in &hashes {
        assert!(
            text.contains(&hash[..12]) && !text.contains(&hash[..13]),
            "{text}"
        );
        assert!(json.contains(hash), "{json}");
    }
}
