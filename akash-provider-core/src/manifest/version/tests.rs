use super::*;
use crate::engine::input::RefusalKind;
use serde_json::json;

fn service(name: &str) -> Value {
    json!({
        "name": name, "image": "nginx:1", "command": null, "args": null, "env": null,
        "resources": {
            "id": 1,
            "cpu": {"units": {"val": "100"}},
            "memory": {"size": {"val": "1048576"}},
            "storage": [{"name": "default", "size": {"val": "5242880"}}],
            "gpu": {"units": {"val": "0"}},
            "endpoints": [{"sequence_number": 0}]
        },
        "count": 1,
        "expose": [{
            "port": 80, "externalPort": 0, "proto": "TCP", "service": "", "global": true, "hosts": null,
            "httpOptions": {
                "maxBodySize": 1048576, "readTimeout": 60000, "sendTimeout": 60000, "nextTries": 3,
                "nextTimeout": 0, "nextCases": ["error", "timeout"]
            },
            "ip": "", "endpointSequenceNumber": 0
        }],
        "credentials": null
    })
}

fn sent() -> Value {
    json!([{"name": "west", "services": [service("web")]}])
}

fn read(value: &Value) -> Result<(Manifest, Hashes), ManifestError> {
    parse(&serde_json::to_vec(value).unwrap())
}

fn with(pointer: &str, value: Value) -> Value {
    let mut tree = sent();
    *tree.pointer_mut(pointer).unwrap() = value;
    tree
}

#[test]
fn canonical_json_sorts_and_escapes_as_the_network() {
    let value = json!({"b": [1, -2, 0.5, true, null], "a": "<&> \u{2028}\u{2029} é € \" \\ / \n\r\t\u{8}\u{c}\u{1}\u{7f}", "B": {}});
    let expected = r#"{"B":{},"a":"\u003c\u0026\u003e \u2028\u2029 é € \" \\ / \n\r\t\b\f\u0001"#.to_owned()
        + "\u{7f}"
        + r#"","b":[1,-2,0.5,true,null]}"#;
    assert_eq!(String::from_utf8(canonical_json(&value)).unwrap(), expected);
}

#[test]
fn canonical_numbers_are_written_as_go_writes_floats() {
    for (number, text) in [
        (1e21, "1e+21"),
        (1.5e-7, "1.5e-7"),
        (0.000_001, "0.000001"),
        (1e20, "100000000000000000000"),
        (3.0, "3"),
    ] {
        assert_eq!(String::from_utf8(canonical_json(&json!(number))).unwrap(), text);
    }
    assert_eq!(canonical_json(&json!(u64::MAX)), b"18446744073709551615");
}

#[test]
fn the_order_of_keys_and_white_space_do_not_change_the_hash() {
    let (manifest, received) = read(&sent()).unwrap();
    assert_eq!(received, hash(&manifest).into());
    let pretty = serde_json::to_vec_pretty(&manifest).unwrap();
    assert_eq!(parse(&pretty).unwrap(), (manifest, received));
}

#[test]
fn null_and_empty_lists_hash_differently() {
    let null = read(&sent()).unwrap().1;
    let empty = read(&with("/0/services/0/env", json!([]))).unwrap().1;
    assert_ne!(null, empty);
}

#[test]
fn omitted_and_empty_fields_hash_equally() {
    let plain = read(&sent()).unwrap().1;
    let mut full = sent();
    let service = full
        .pointer_mut("/0/services/0")
        .unwrap()
        .as_object_mut()
        .unwrap();
    service.insert("params".into(), Value::Null);
    service.remove("env");
    service.remove("credentials");
    let options = full.pointer_mut("/0/services/0/expose/0/httpOptions").unwrap();
    options["proxyBufferSize"] = json!(0);
    full.pointer_mut("/0/services/0/resources/cpu").unwrap()["attributes"] = json!([]);
    full.pointer_mut("/0/services/0/resources/endpoints/0").unwrap()["kind"] = json!(0);
    assert_eq!(read(&full).unwrap().1, plain);
}

#[test]
fn unknown_fields_may_count_in_the_hash_and_are_otherwise_ignored() {
    let (manifest, plain) = read(&sent()).unwrap();
    assert_eq!(plain, Hashes::from(hash(&manifest)));
    let mut newer = sent();
    newer.pointer_mut("/0/services/0").unwrap()["newer"] = json!({"z": 1, "a": null});
    let (read_newer, hashes) = read(&newer).unwrap();
    assert_eq!(read_newer, manifest);
    let counted: [u8; 32] = Sha256::digest(canonical_json(&newer)).into();
    assert_eq!((hashes.received(), hashes.known()), (&counted, plain.known()));
    assert!(hashes.contain(&counted) && hashes.contain(plain.known()) && !hashes.contain(&[0; 32]));
}

#[test]
fn errors_name_the_location() {
    let cases = [
        (
            with("/0/services/0/expose/0/port", json!(70_000)),
            "[0].services[0].expose[0]",
        ),
        (
            with("/0/services/0/expose/0/proto", json!("HTTP")),
            "[0].services[0].expose[0]",
        ),
        (with("/0/services/0/count", json!(-1)), "[0].services[0]"),
        (
            with("/0/services/0/resources/cpu/units/val", json!("1.5")),
            "[0].services[0]",
        ),
        (with("/0/name", json!(7)), "[0]"),
        (json!({}), "manifest"),
    ];
    for (tree, place) in cases {
        let error = read(&tree).unwrap_err();
        assert!(
            matches!(&error, ManifestError::Shape { at, .. } if at == place),
            "{place}: {error}"
        );
        assert_eq!(error.kind(), RefusalKind::InvalidManifest);
        assert!(error.to_string().starts_with("invalid manifest: "), "{error}");
    }
}

#[test]
fn invalid_json_is_refused_with_line_and_column() {
    let deep = "[".repeat(100_000);
    let twice = r#"[{"name": "a", "name": "b", "services": []}]"#;
    for bad in ["", "[", "[]]", "nul", "[1,]", deep.as_str(), twice] {
        let error = parse(bad.as_bytes()).unwrap_err();
        assert!(matches!(error, ManifestError::NotJson { .. }), "{error}");
    }
    assert!(
        parse(twice.as_bytes())
            .unwrap_err()
            .to_string()
            .contains("duplicate key `name`")
    );
    assert!(matches!(
        parse(&[0xff, 0xfe]).unwrap_err(),
        ManifestError::NotJson { .. }
    ));
}

#[test]
fn a_manifest_over_the_limit_is_refused_unread() {
    let error = parse(&vec![b' '; MAX_BYTES + 1]).unwrap_err();
    let limit = MAX_BYTES;
    assert_eq!(
        error,
        ManifestError::TooLarge {
            bytes: limit + 1,
            limit
        }
    );
}

#[test]
fn a_parsed_manifest_has_passed_the_structural_rules() {
    let error = read(&with("/0/services/0/image", json!(""))).unwrap_err();
    assert!(matches!(error, ManifestError::Structure { .. }), "{error}");
}

#[test]
fn passwords_are_not_in_debug_output() {
    let login = json!({"host": "h", "email": "", "username": "u", "password": "hunter2"});
    let (manifest, _) = read(&with("/0/services/0/credentials", login)).unwrap();
    assert!(!format!("{manifest:?}").contains("hunter2"));
}
