use super::*;

mod all;

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

/// Returns the error after one replacement in a valid text.
fn error(from: &str, to: &str) -> SdlError {
    assert!(GOOD.contains(from), "{from}");
    parse(&GOOD.replacen(from, to, 1)).expect_err(to)
}

/// Returns the warnings after one replacement in a valid text.
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

/// The tools of the Akash network accept quoted texts with continuation lines that are not indented deeper
/// than the list.
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

/// Part of a valid text, its replacement, and the resulting error.
const SLIPS: &[(&str, &str, K, u32, &str)] = &[
    (
        "units: 100m",
        "units: 100m\n          unit: 1",
        K::UnknownField,
        15,
        "profiles.compute.web.resources.cpu.unit",
    ),
    (
        "image: nginx",
        "image: NGINX:latest:oops",
        K::Invalid,
        4,
        "services.web.image",
    ),
    (
        "image: nginx",
        "image: nginx\n    image: x",
        K::DuplicateKey,
        5,
        "services.web",
    ),
    (
        "image: nginx",
        "image: [nginx]",
        K::WrongType,
        4,
        "services.web.image",
    ),
    (
        "image: nginx",
        "image: \"\"",
        K::MissingField,
        4,
        "services.web.image",
    ),
    (
        "image: nginx",
        "image: nginx\n    env: [1A=b]",
        K::Invalid,
        5,
        "services.web.env",
    ),
    (
        "image: nginx",
        "image: nginx\n    command: sh -c",
        K::WrongType,
        5,
        "services.web.command",
    ),
    (
        "port: 80",
        "port: \"80\"",
        K::WrongType,
        6,
        "services.web.expose[0].port",
    ),
    (
        "port: 80",
        "port: -80",
        K::Invalid,
        6,
        "services.web.expose[0].port",
    ),
    (
        "port: 80",
        "port: 80.5",
        K::WrongType,
        6,
        "services.web.expose[0].port",
    ),
    (
        "port: 80",
        "port: 0",
        K::Invalid,
        6,
        "services.web.expose[0].port",
    ),
    (
        "port: 80",
        "port: 80\n        as: 65536",
        K::Invalid,
        7,
        "services.web.expose[0].as",
    ),
    (
        "port: 80",
        "port: 80\n        accept: [A.com]",
        K::Invalid,
        7,
        "services.web.expose[0].accept[0]",
    ),
    (
        "global: true",
        "global: \"true\"",
        K::WrongType,
        8,
        "services.web.expose[0].to[0].global",
    ),
    ("global: true", "global: false", K::Invalid, 2, "services"),
    (
        "units: 100m",
        "units: 9m",
        K::Limit,
        13,
        "profiles.compute.web.resources.cpu",
    ),
    (
        "units: 100m",
        "units: 385",
        K::Limit,
        13,
        "profiles.compute.web.resources.cpu",
    ),
    (
        "units: 100m",
        "units: 99999999999",
        K::Invalid,
        14,
        "profiles.compute.web.resources.cpu.units",
    ),
    (
        "units: 100m",
        "units: lots",
        K::Invalid,
        14,
        "profiles.compute.web.resources.cpu.units",
    ),
    (
        "size: 512Mi",
        "size: 3Ti",
        K::Limit,
        15,
        "profiles.compute.web.resources.memory",
    ),
    (
        "size: 512Mi",
        "size: 99999999Ei",
        K::Invalid,
        16,
        "profiles.compute.web.resources.memory.size",
    ),
    (
        "amount: 1000",
        "amount: 0.1234567890123456789012345678901",
        K::Invalid,
        24,
        "profiles.placement.akash.pricing.web.amount",
    ),
    (
        "amount: 1000",
        "amount: -1",
        K::Invalid,
        24,
        "profiles.placement.akash.pricing.web.amount",
    ),
    (
        "amount: 1000",
        "amount: 0",
        K::Invalid,
        24,
        "profiles.placement.akash.pricing.web.amount",
    ),
    (
        "amount: 1000",
        "amount: 1e3",
        K::Invalid,
        24,
        "profiles.placement.akash.pricing.web.amount",
    ),
    (
        "amount: 1000",
        "amount: 10000001",
        K::Limit,
        22,
        "profiles.placement.akash.pricing.web",
    ),
    (
        "denom: uakt",
        "denom: \"$\"",
        K::Invalid,
        23,
        "profiles.placement.akash.pricing.web.denom",
    ),
    (
        "count: 1",
        "count: 0",
        K::Invalid,
        29,
        "deployment.web.akash.count",
    ),
    (
        "count: 1",
        "count: -1",
        K::Invalid,
        29,
        "deployment.web.akash.count",
    ),
    (
        "count: 1",
        "count: 4294967296",
        K::Invalid,
        29,
        "deployment.web.akash.count",
    ),
    (
        "count: 1",
        "count: 4294967295",
        K::Limit,
        20,
        "profiles.placement.akash",
    ),
    (
        "profile: web",
        "profile: other",
        K::Reference,
        27,
        "deployment.web.akash",
    ),
    ("version: \"2.0\"", "version: \"1.0\"", K::Version, 1, "version"),
    ("version: \"2.0\"", "version: two", K::Version, 1, "version"),
    ("version: \"2.0\"", "version: [2]", K::WrongType, 1, "version"),
    (
        "deployment:\n  web:",
        "deployment:\n  other:",
        K::Reference,
        26,
        "deployment.other",
    ),
    (
        "  web:\n    akash:\n      profile: web\n      count: 1\n",
        "",
        K::MissingField,
        1,
        "document",
    ),
    (
        "services:\n  web:",
        "services:\n  We_b:",
        K::Invalid,
        3,
        "services.We_b",
    ),
    ("services:", "services: &a [*a]", K::Syntax, 2, "services[0]"),
    ("services:", "services: !custom", K::Syntax, 2, "services"),
    ("services:", "services: }", K::Syntax, 2, "document"),
    ("count: 1\n", "count: [1\n", K::Syntax, 29, "document"),
];

#[test]
fn every_kind_of_error_has_its_location() {
    for &(from, to, kind, line, path) in SLIPS {
        let error = error(from, to);
        assert_eq!(
            (error.kind, error.line, error.path.as_str()),
            (kind, line, path),
            "{to}: {error}"
        );
        assert!(!error.help.is_empty() && !error.problem.is_empty());
    }
}

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
fn sizes_in_errors_are_in_the_unit_of_the_author() {
    let volume = "size: 512Mi\n        storage";
    for (from, to, problem, help) in [
        (
            "units: 100m",
            "units: 500",
            "`500` is more CPU than the network accepts",
            "use `0.01` to `384`",
        ),
        (
            "units: 100m",
            "units: 500000m",
            "`500000m` is more CPU than the network accepts",
            "use `10m` to `384000m`",
        ),
        (
            "units: 100m",
            "units: 0.001",
            "`0.001` is less CPU than the network accepts",
            "use `0.01` to `384`",
        ),
        (
            volume,
            "size: 4096Gi\n        storage",
            "`4096Gi` is more memory than the network accepts",
            "use `1Mi` to `2Ti`",
        ),
        (
            volume,
            "size: 512\n        storage",
            "`512` is less memory than the network accepts",
            "use `1Mi` to `2Ti`",
        ),
        (
            "storage:\n          size: 512Mi",
            "storage:\n          size: 1M",
            "`1M` is less storage than the network accepts",
            "use `5Mi` to `32Ti`",
        ),
        (
            volume,
            "size: 512Mi\n        gpu: {units: 25, attributes: {vendor: {nvidia: []}}}\n        storage",
            "`25` is more GPUs than the network accepts",
            "use `0` to `24`",
        ),
        (
            "count: 1",
            "count: 192001",
            "its services request 19200.1 CPU together",
            "use at most 19200 per placement",
        ),
    ] {
        let error = error(from, to);
        assert_eq!((error.problem.as_str(), error.help.as_str()), (problem, help));
    }
    let large = GOOD
        .replace("count: 1", "count: 101")
        .replacen("size: 512Mi", "size: 1Ti", 1);
    let error = parse(&large).unwrap_err();
    assert_eq!(error.problem, "its services request 101Ti of memory together");
    assert_eq!(error.help, "use at most 100Ti per placement");
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

#[test]
fn yaml_bombs_are_refused_without_expansion() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..30 {
        let p = n - 1;
        bomb.push_str(&format!(
            "a{n}: &a{n} [*a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}]\n"
        ));
    }
    assert_eq!(parse(&bomb).unwrap_err().kind, ErrorKind::TooLarge);
    let mut merges = String::from("a0: &a0 {k: v}\n");
    for n in 1..60 {
        let p = n - 1;
        merges.push_str(&format!("a{n}: &a{n} {{<<: [*a{p}, *a{p}], k{n}: *a{p}}}\n"));
    }
    assert_eq!(parse(&merges).unwrap_err().kind, ErrorKind::TooLarge);
}

#[test]
fn nesting_and_size_are_limited() {
    for deep in [
        "[".repeat(100_000),
        "- ".repeat(100_000),
        "{a: ".repeat(100_000),
        "? ".repeat(100_000),
    ] {
        let kind = parse(&deep).unwrap_err().kind;
        assert!(
            matches!(kind, ErrorKind::TooLarge | ErrorKind::Syntax),
            "{kind:?}"
        );
    }
    let many = format!("a: [{}]", "1,".repeat(MAX_NODES + 1));
    assert_eq!(parse(&many).unwrap_err().kind, ErrorKind::TooLarge);
    let key = format!("{}: 1", "k".repeat(MAX_KEY + 1));
    assert_eq!(parse(&key).unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(parse("").unwrap_err().kind, ErrorKind::MissingField);
    assert_eq!(parse("just text").unwrap_err().kind, ErrorKind::WrongType);
}

#[test]
fn warnings_are_limited() {
    let many = format!("image: nginx\n    env: [A=b{}]", ", null".repeat(1000));
    assert_eq!(warnings("image: nginx", &many).len(), 100);
}
