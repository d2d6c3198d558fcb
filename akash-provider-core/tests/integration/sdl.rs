//! SDL texts with their manifests and groups: cases written for this repository, and cases recorded from a
//! live chain.
//!
//! `BLESS_SDL=1` rewrites the expected output of the cases in this repository. Review the diff before a
//! commit.

use akash_provider_core::manifest;
use akash_provider_core::sdl::{self, ErrorKind, Sdl};
use std::fs;
use std::path::{Path, PathBuf};
use testbed::recordings::{self, files, json};

fn data(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(folder)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn parse(path: &Path) -> Sdl {
    sdl::parse(&text(path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Asserts that the manifest matches the groups of the SDL and is unchanged by serialization.
fn is_consistent(sdl: &Sdl, name: &Path) {
    let groups: Vec<_> = sdl.groups.iter().collect();
    manifest::cross_validate(&sdl.manifest, &groups).unwrap_or_else(|e| panic!("{}: {e}", name.display()));
    let sent = serde_json::to_vec(&sdl.manifest).unwrap();
    assert_eq!(
        manifest::parse(&sent).unwrap(),
        (sdl.manifest.clone(), sdl.hash.into()),
        "{}",
        name.display()
    );
    let groups = serde_json::to_vec(&sdl.groups).unwrap();
    let back: Vec<akash_provider_core::types::GroupSpec> = serde_json::from_slice(&groups).unwrap();
    assert_eq!(back, sdl.groups, "{}", name.display());
}

#[test]
fn cases_produce_expected_groups_and_manifests() {
    let cases = ["sdl", "sdl/parse-only"].map(|folder| files(&data(folder), ".yaml"));
    assert!(cases[0].len() >= 6 && cases[1].len() >= 2, "{cases:?}");
    for case in cases.into_iter().flatten() {
        let sdl = parse(&case);
        is_consistent(&sdl, &case);
        let made = serde_json::json!({
            "groups": sdl.groups,
            "hash": hex(&sdl.hash),
            "manifest": sdl.manifest,
            "reclamation_seconds": sdl.reclamation_min_window.map(|window| window.as_secs()),
            "warnings": sdl.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        let expected = case.with_extension("json");
        if std::env::var_os("BLESS_SDL").is_some() {
            fs::write(&expected, serde_json::to_string_pretty(&made).unwrap() + "\n").unwrap();
        }
        assert_eq!(made, json(&expected), "{}", case.display());
    }
}

#[test]
fn manifest_hashes_match_a_live_chain() {
    // The hashes that the chain stored for these deployments.
    let recorded = [
        (
            "two-groups",
            "9f8ad8771b8dc11172b08bbbc399f82f023261da3bd697b2bd2397e4bc63ada9",
        ),
        (
            "web",
            "d9c4fcf585cbf73f8932ec79b9c053415d29d6efea49372f7c7bc54b3bec54eb",
        ),
        (
            "web-escapes",
            "4abe2e6b4edff831e113e763355451de87fec920afda980e4da6c16ebcd55511",
        ),
        (
            "web-reclaim",
            "d9c4fcf585cbf73f8932ec79b9c053415d29d6efea49372f7c7bc54b3bec54eb",
        ),
        (
            "web-updated",
            "ca293cc2aa365f90bd9221c320d1d9d08d2c3e550c1d307f6eb4b961483a7ea0",
        ),
    ];
    for (name, hash) in recorded {
        let name = recordings::folder("chain/sdl").join(name).with_extension("yaml");
        assert_eq!(hex(&parse(&name).hash), hash, "{}", name.display());
    }
    let canonicals = files(&recordings::folder("chain/sdl"), ".manifest.canonical.json");
    assert_eq!(canonicals.len(), recorded.len());
    for canonical in canonicals {
        let name = canonical
            .to_string_lossy()
            .replace(".manifest.canonical.json", ".yaml");
        let name = Path::new(&name);
        let sdl = parse(name);
        is_consistent(&sdl, name);
        let expected = text(&canonical);
        let value = serde_json::to_value(&sdl.manifest).unwrap();
        let ours = String::from_utf8(manifest::canonical_json(&value)).unwrap();
        assert_eq!(ours, expected, "{}", name.display());
        let read = manifest::parse(expected.as_bytes()).unwrap();
        assert_eq!(read, (sdl.manifest, sdl.hash.into()));
    }
}

/// Name of an SDL file, old text, new text, and the line and path of the expected error.
const MISTAKES: [(&str, &str, &str, u32, &str); 14] = [
    (
        "parse-only/private-registry",
        "      host: https://registry.example.com\n",
        "",
        6,
        "services.trainer.credentials",
    ),
    (
        "parse-only/private-registry",
        "min_window: 24h",
        "min_window: 0s",
        45,
        "reclamation.min_window",
    ),
    (
        "shared-ip",
        "  mail_1: {kind: ip}\n",
        "  mail_1: {kind: ip}\n  unused: {kind: ip}\n",
        6,
        "endpoints.unused",
    ),
    (
        "shared-ip",
        "  front: {kind: ip}\n",
        "  front: {kind: ip}\n  Front: {kind: ip}\n",
        5,
        "endpoints.Front",
    ),
    (
        "shared-ip",
        "proto: UDP",
        "proto: HTTP",
        11,
        "services.dns.expose[0].proto",
    ),
    (
        "shared-ip",
        "global: true\n            ip: mail_1",
        "ip: mail_1",
        31,
        "services.web.expose[1].to[0]",
    ),
    ("shared-ip", "version: \"2.1\"\n", "", 2, "document"),
    (
        "volumes",
        "memory: {size: 2Gi}",
        "memory: {}",
        20,
        "profiles.compute.store.resources.memory",
    ),
    (
        "volumes",
        "image: minio:1",
        "command: [minio]",
        4,
        "services.store",
    ),
    (
        "volumes",
        "port: 9000",
        "port: 0",
        7,
        "services.store.expose[0].port",
    ),
    (
        "volumes",
        "port: 9000",
        "port: 99999",
        7,
        "services.store.expose[0].port",
    ),
    (
        "volumes",
        "cpu: {units: 2}",
        "cpu: {units: -100m}",
        19,
        "profiles.compute.store.resources.cpu.units",
    ),
    (
        "volumes",
        "count: 2",
        "count: 0",
        34,
        "deployment.store.any.count",
    ),
    ("volumes", "services:", "servces: {}\nservices:", 3, "servces"),
];

#[test]
fn mistakes_are_rejected_with_their_line() {
    for (case, from, to, line, path) in MISTAKES {
        let valid = text(&data("sdl").join(case).with_extension("yaml"));
        let error = sdl::parse(&valid.replacen(from, to, 1)).expect_err(to);
        assert_eq!((error.line, error.path.as_str()), (line, path), "{to}: {error}");
        assert!(!error.help.is_empty(), "{to}");
    }
}

#[test]
fn manifests_match_the_running_network() {
    for (part, count) in [("chain/sdl", 5), ("peer/sdl", 8)] {
        let manifests = files(&recordings::folder(part), ".manifest.json");
        assert_eq!(manifests.len(), count, "{part}");
        for manifest_file in manifests {
            let name = manifest_file.to_string_lossy().replace(".manifest.json", ".yaml");
            let sdl = parse(Path::new(&name));
            is_consistent(&sdl, Path::new(&name));
            assert_eq!(
                serde_json::to_value(&sdl.manifest).unwrap(),
                json(&manifest_file),
                "{name}"
            );
        }
    }
}

#[test]
fn parsing_has_no_state() {
    let cases = files(&data("sdl"), ".yaml");
    for a in &cases {
        for b in &cases {
            let first = parse(a);
            let _ = parse(b);
            assert_eq!(parse(a), first, "{} after {}", a.display(), b.display());
        }
    }
}

#[test]
fn text_of_ten_megabytes_is_rejected_at_once() {
    let error = sdl::parse(&"a: b\n".repeat(2_000_000)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
}
