//! SDL texts and what they make: cases of our own, cases of a live chain and, in ignored tests, the test data of
//! the public chain SDK.
//!
//! `BLESS_SDL=1` writes what our own cases make; read the difference before keeping it.

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

/// An SDL checks against its own groups, and its manifest survives being sent.
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
fn own_cases_make_exactly_their_groups_and_manifests() {
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
fn manifests_hash_as_a_live_chain_recorded_them() {
    // The hashes the chain stored for these deployments.
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

#[test]
#[ignore = "reads the chain SDK's test data in AKASH_FIXTURES"]
fn golden_cases_of_the_network_are_equal() {
    let folder = recordings::sdk("sdl");
    let mut cases = 0;
    for version in ["v2.0", "v2.1"] {
        for input in fs::read_dir(folder.join(version)).unwrap() {
            let case = input.unwrap().path();
            let sdl = parse(&case.join("input.yaml"));
            is_consistent(&sdl, &case);
            let groups = serde_json::to_value(&sdl.groups).unwrap();
            assert_eq!(groups, json(&case.join("group-specs.json")), "{}", case.display());
            let manifest = serde_json::to_value(&sdl.manifest).unwrap();
            assert_eq!(manifest, json(&case.join("manifest.json")), "{}", case.display());
            assert_eq!(sdl.warnings, [], "{}", case.display());
            cases += 1;
        }
    }
    assert!(cases >= 9, "{cases}");
}

#[test]
#[ignore = "reads the chain SDK's test data in AKASH_FIXTURES"]
fn golden_invalid_cases_are_refused_with_their_line() {
    let folder = recordings::sdk("sdl");
    let cases = files(&folder.join("invalid"), ".yaml");
    assert!(!cases.is_empty());
    for case in cases {
        let error = sdl::parse(&text(&case)).expect_err(&case.to_string_lossy());
        println!("{}: {error}", case.file_name().unwrap().to_string_lossy());
        assert!(error.line >= 1 && !error.path.is_empty() && !error.mend.is_empty());
    }
}

#[test]
fn mistakes_of_own_cases_are_refused_with_their_line() {
    // What is replaced in a case, by what, and the line and the path of the error.
    let registry = "parse-only/private-registry";
    let unused = "  mail_1: {kind: ip}\n  unused: {kind: ip}\n";
    let capital = "  front: {kind: ip}\n  Front: {kind: ip}\n";
    let mistakes = [
        (
            registry,
            "      host: https://registry.example.com\n",
            "",
            6,
            "services.trainer.credentials",
        ),
        (
            registry,
            "min_window: 24h",
            "min_window: 0s",
            45,
            "reclamation.min_window",
        ),
        (
            "shared-ip",
            "  mail_1: {kind: ip}\n",
            unused,
            6,
            "endpoints.unused",
        ),
        (
            "shared-ip",
            "  front: {kind: ip}\n",
            capital,
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
    ];
    for (case, from, to, line, path) in mistakes {
        let valid = text(&data("sdl").join(case).with_extension("yaml"));
        let error = sdl::parse(&valid.replacen(from, to, 1)).expect_err(to);
        assert_eq!((error.line, error.path.as_str()), (line, path), "{to}: {error}");
        assert!(!error.mend.is_empty(), "{to}");
    }
}

#[test]
#[ignore = "reads the chain SDK's test data in AKASH_FIXTURES"]
fn cases_only_the_schema_refuses_are_accepted_with_a_warning() {
    let folder = recordings::sdk("sdl");
    let cases = files(&folder.join("schema-only-invalid"), ".yaml");
    assert!(!cases.is_empty());
    for case in cases {
        let sdl = parse(&case);
        assert!(!sdl.warnings.is_empty(), "{}", case.display());
        for warning in sdl.warnings {
            println!("{}: {warning}", case.file_name().unwrap().to_string_lossy());
        }
    }
}

#[test]
fn manifests_of_the_running_network_are_equal() {
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
#[ignore = "reads the chain SDK's test data in AKASH_FIXTURES"]
fn manifests_have_the_hashes_of_the_network() {
    // SHA-256 of canonical JSON, computed with the network's own encoder.
    let vectors = [
        (
            "v2.0/simple",
            "8f8bac7161953993f3288189e3e76093a51d33f9cdff1c8242eb9ab506981737",
        ),
        (
            "v2.0/gpu-basic",
            "b388e6d97d15c37fc87ba0e9a555250941f7e1a04be768984cfa829a9500be47",
        ),
        (
            "v2.0/http-options",
            "0f9e29adabc263d07fa70a66bbd4da42d7b36f323f775ea2adcabea865c77d30",
        ),
        (
            "v2.0/ip-endpoint",
            "aa2046c89e083b0fd7a6b7c47246a6bc5f53f254a5dacd3ac3ec5150e992560d",
        ),
        (
            "v2.0/multiple-services",
            "27bca68b1c45773b3a9ee6b2d4938d48c784abe068d3e2c6ba143c5f79b209e0",
        ),
        (
            "v2.0/persistent-storage",
            "b6fc0503f97fd6dbf581ed7fbb98e9a73dc7058318d5c714e43baf6e0eeb7ce3",
        ),
        (
            "v2.0/placement",
            "4fb78efa60477b1859498b9d2d09bc1d55ec4cf5450da5560acc6d294da86b4e",
        ),
        (
            "v2.0/port-ranges",
            "d776416f4651ce8279a63905135ec87e6cde1aa8413af735bebfb9adfdf294f2",
        ),
        (
            "v2.0/pricing",
            "a024307ec1445576274beab37fc46a7f2a3ee32921e03be3d26798472f4bff25",
        ),
        (
            "v2.0/storage-classes",
            "77227e370844c081af3e291af16f900488792837ee43da340e962f469d2d30cc",
        ),
        (
            "v2.1/credentials",
            "9b7070ebba84bcfe5f2cc00c53b2fc3a8fe6466fb688dc33c0eef5e0095c79ac",
        ),
        (
            "v2.1/shared-ip",
            "4d7c14fc64377c78220ed54eb0a1ddbeac5f79f19edac7dc1a3306acbfa1d999",
        ),
    ];
    let folder = recordings::sdk("sdl");
    let mut checked = 0;
    for (case, expected) in vectors {
        let case = folder.join(case);
        if !case.is_dir() {
            println!("skipped: {} is absent", case.display());
            continue;
        }
        assert_eq!(
            hex(&parse(&case.join("input.yaml")).hash),
            expected,
            "{}",
            case.display()
        );
        let (_, hashes) = manifest::parse(text(&case.join("manifest.json")).as_bytes()).unwrap();
        assert_eq!(hex(hashes.known()), expected, "{}", case.display());
        checked += 1;
    }
    assert!(checked >= 7, "{checked}");
}

#[test]
fn a_then_b_then_a_equals_a() {
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
fn ten_megabytes_are_refused_at_once() {
    let error = sdl::parse(&"a: b\n".repeat(2_000_000)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
}
