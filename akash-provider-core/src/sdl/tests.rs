use super::*;

mod all;
mod limits;
mod locations;

const GOOD: &str = r#"version: "2.0"
services:
  web:
    image: nginx
    expose:
      - port: 80
        to:
          - global: true
profiles:
  compute:
    web:
      resources:
        cpu:
          units: 100m
        memory:
          size: 512Mi
        storage:
          size: 512Mi
  placement:
    akash:
      pricing:
        web:
          denom: uakt
          amount: 1000
deployment:
  web:
    akash:
      profile: web
      count: 1
"#;

fn error(from: &str, to: &str) -> SdlError {
    assert!(GOOD.contains(from), "{from}");
    parse(&GOOD.replacen(from, to, 1)).expect_err(to)
}

fn warnings(from: &str, to: &str) -> Vec<String> {
    assert!(GOOD.contains(from), "{from}");
    let sdl = parse(&GOOD.replacen(from, to, 1)).unwrap_or_else(|e| panic!("{e}"));
    sdl.warnings.into_iter().map(|w| w.path).collect()
}

#[test]
fn a_valid_text_has_no_warnings() {
    let sdl = parse(GOOD).unwrap();
    assert_eq!((sdl.warnings, sdl.reclamation_min_window), (vec![], None));
    assert_eq!(sdl.hash, crate::manifest::hash(&sdl.manifest));
}

#[test]
fn booleans_have_all_forms_of_the_network() {
    let hash = parse(GOOD).unwrap().hash;
    for yes in ["Yes", "YES", "On", "ON", "\"on\""] {
        let sdl = parse(&GOOD.replacen("global: true", &format!("global: {yes}"), 1)).unwrap();
        assert_eq!(sdl.hash, hash, "{yes}");
    }
}

#[test]
fn empty_attribute_values_are_omitted() {
    for empty in ["\"\"", "''", ""] {
        let arch = format!("units: 100m\n          attributes:\n            arch: {empty}");
        let sdl = parse(&GOOD.replacen("units: 100m", &arch, 1)).unwrap();
        let json = serde_json::to_string(&sdl.manifest).unwrap();
        assert!(json.contains(r#""attributes":[{"key":"arch"}]"#), "{json}");
        // The manifest is the same with and without the attribute.
        for sent in [
            json.clone(),
            json.replace(r#"{"key":"arch"}"#, r#"{"key":"arch","value":""}"#),
        ] {
            let (manifest, hashes) = crate::manifest::parse(sent.as_bytes()).unwrap();
            assert_eq!(manifest, sdl.manifest);
            assert_eq!((hashes.known(), hashes.received()), (&sdl.hash, &sdl.hash));
        }
    }
}

#[test]
fn unknown_fields_below_the_top_level_are_ignored_with_a_warning() {
    let hash = parse(GOOD).unwrap().hash;
    for (from, to, path) in [
        (
            "image: nginx",
            "image: nginx\n    depends_on: [db]",
            "services.web.depends_on",
        ),
        (
            "port: 80",
            "port: 80\n        name: http",
            "services.web.expose[0].name",
        ),
        (
            "global: true",
            "global: true\n            servcie: db",
            "services.web.expose[0].to[0].servcie",
        ),
        (
            "size: 512Mi\n        storage",
            "size: 512Mi\n        disk: {}\n        storage",
            "profiles.compute.web.resources.disk",
        ),
        (
            "denom: uakt",
            "denom: uakt\n          unit: block",
            "profiles.placement.akash.pricing.web.unit",
        ),
        (
            "count: 1",
            "count: 1\n      replicas: 2",
            "deployment.web.akash.replicas",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let sdl = parse(&GOOD.replacen(from, to, 1)).unwrap();
        assert_eq!(sdl.hash, hash, "{path}");
        let [warning] = &sdl.warnings[..] else {
            panic!("{path}: {:?}", sdl.warnings)
        };
        assert!(
            warning.path == path && warning.problem.ends_with("is unknown and ignored"),
            "{warning}"
        );
    }
}

/// The Akash tools accept such texts, although YAML does not.
#[test]
fn quoted_texts_may_continue_without_indentation() {
    let with = |args: &str| GOOD.replacen("image: nginx", &format!("image: nginx\n    args:\n{args}"), 1);
    let args = |text: &str| {
        parse(text).unwrap().manifest.groups[0].services[0]
            .args
            .clone()
            .unwrap()
    };
    for quote in ['\'', '"'] {
        for lines in [
            "      a\n      b",
            "    a\n\n  b",
            "a\n b",
            "      it is\n      2",
        ] {
            let shallow = with(&format!(
                "      - {quote}echo 1;\n{lines}{quote}\n      - {quote}x\n    y{quote}"
            ));
            let deep = lines.replace('\n', "\n          ");
            let deep = with(&format!(
                "      - {quote}echo 1;\n          {deep}{quote}\n      - {quote}x y{quote}"
            ));
            assert_eq!(args(&shallow), args(&deep), "{shallow}");
        }
    }
    // Errors have the lines of the original text.
    let text = with("      - 'a\n      b\"\n      c'").replacen("port: 80", "port: 99999", 1);
    assert_eq!(parse(&text).unwrap_err().line, 10);
    // In bounded time.
    let many = "      - 'a\n    b'\n".repeat(33);
    assert_eq!(parse(&with(&many)).unwrap_err().kind, K::Syntax);
    let long = format!("      - 'a\n{}'", "b\n".repeat(200_000));
    assert_eq!(parse(&with(&long)).unwrap_err().kind, K::Syntax);
}

#[test]
fn errors_name_line_path_and_help() {
    let error = error("port: 80", "port: 99999");
    assert_eq!(
        error.to_string(),
        "line 6: services.web.expose[0].port: 99999 is out of range; use 1 to 65535, without quotes"
    );
}

use ErrorKind as K;

#[test]
fn unusual_parts_are_accepted_with_a_warning() {
    let cases = [
        (
            "denom: uakt",
            "denom: uxyz",
            "profiles.placement.akash.pricing.web.denom",
        ),
        (
            "image: nginx",
            "image: nginx\n    env: [A=b, null]",
            "services.web.env[1]",
        ),
        ("services:\n", "services:\n  idle: {image: x}\n", "services.idle"),
        ("services:\n", "include: [a.yaml]\nservices:\n", "include"),
        ("version: \"2.0\"", "version: \"2.9\"", "version"),
        ("count: 1\n", "count: 1\n---\nb: c\n", "document"),
        (
            "image: nginx",
            "image: nginx\n    params: {storage: {default: {mount: /x}}}",
            "services.web.params.storage.default",
        ),
    ];
    for (from, to, path) in cases {
        assert_eq!(warnings(from, to), [path], "{to}");
    }
}

#[test]
fn anchors_aliases_and_merges_equal_their_expansion() {
    let plain = parse(GOOD).unwrap();
    let aliased = GOOD.replacen("size: 512Mi", "size: &size 512Mi", 1).replacen(
        "          size: 512Mi",
        "          size: *size",
        1,
    );
    assert_eq!(parse(&aliased).unwrap(), plain);
    // Keys of the map take precedence over merged keys.
    let merged = GOOD.replacen(
        "  web:\n    image",
        "  web:\n    <<: &base {image: other, env: [A=b]}\n    image",
        1,
    );
    let sdl = parse(&merged).unwrap();
    let service = &sdl.manifest.groups[0].services[0];
    assert_eq!(
        (service.image.as_str(), service.env.as_deref()),
        ("nginx", Some(&["A=b".to_owned()][..]))
    );
    let root = GOOD.replacen("services:", "<<: {endpoints: {}}\nservices:", 1);
    assert_eq!(parse(&root).unwrap_err().kind, K::UnknownField);
}

#[test]
fn rules_between_parts_hold() {
    let gpu = "size: 512Mi\n        gpu: {units: 1}\n";
    assert_eq!(error("size: 512Mi\n", gpu).kind, ErrorKind::MissingField);
    let model = "size: 512Mi\n        gpu: {units: 0, attributes: {vendor: {nvidia: []}}}\n";
    assert_eq!(error("size: 512Mi\n", model).kind, ErrorKind::Limit);
    let tee = "image: nginx\n    params: {tee: cpu-gpu}";
    assert_eq!(error("image: nginx", tee).kind, ErrorKind::Reference);
    let tee = "image: nginx\n    params: {tee: sgx}";
    assert_eq!(error("image: nginx", tee).kind, ErrorKind::Invalid);
    let mount = "image: nginx\n    params: {storage: {nothing: {mount: /x}}}";
    assert_eq!(error("image: nginx", mount).kind, ErrorKind::Reference);
    let volume = "        storage:\n          size: 512Mi";
    let class = |attributes: &str| {
        let to = format!("        storage:\n          - {{size: 512Mi, attributes: {attributes}}}");
        error(volume, &to).kind
    };
    assert_eq!(class("{class: ram, persistent: true}"), ErrorKind::Invalid);
    assert_eq!(class("{class: beta2}"), ErrorKind::Invalid);
    assert_eq!(class("{class: gold, persistent: true}"), ErrorKind::Invalid);
    assert_eq!(class("{persistent: perhaps}"), ErrorKind::Invalid);
    assert_eq!(class("{persistent: true}"), ErrorKind::Reference);
    let twice = "        storage:\n          - {size: 512Mi}\n          - {size: 1Gi}";
    assert_eq!(error(volume, twice).kind, ErrorKind::DuplicateKey);
}

#[test]
fn a_leased_ip_has_each_port_once() {
    let exposes = |second: &str| {
        let to = format!(
            "to: [{{global: true, ip: front}}]\n      - {{port: 81, {second}, to: [{{global: true, ip: front}}]}}"
        );
        let text = GOOD.replacen("to:\n          - global: true", &to, 1);
        parse(&(text + "endpoints: {front: {kind: ip}}\n")).map(|sdl| sdl.groups[0].leased_ips())
    };
    assert_eq!(exposes("as: 80").unwrap_err().kind, ErrorKind::Reference);
    assert_eq!(exposes("as: 80, proto: udp"), Ok(1));
    assert_eq!(exposes("as: 0"), Ok(1));
}
