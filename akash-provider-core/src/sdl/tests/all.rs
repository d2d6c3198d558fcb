//! All errors are reported at once, and each error once.

use super::GOOD;
use crate::sdl::{ErrorKind, MAX_ERRORS, SdlErrors, parse, parse_all};

fn errors(slips: &[(&str, &str)]) -> Box<SdlErrors> {
    let text = slips.iter().fold(GOOD.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    parse_all(&text).expect_err(&text)
}

fn places(errors: &SdlErrors) -> Vec<(u32, &str)> {
    errors.iter().map(|e| (e.line, e.path.as_str())).collect()
}

#[test]
fn errors_in_one_part_do_not_hide_errors_in_others() {
    let slips = [
        ("image: nginx", "imagee: nginx"),
        ("port: 80", "port: 99999"),
        ("units: 100m", "units: much"),
        ("memory:\n          size: 512Mi", "memory:\n          size: none"),
        ("amount: 1000", "amount: -1"),
        ("count: 1", "count: 0"),
    ];
    let found = errors(&slips);
    assert_eq!(
        places(&found),
        [
            (3, "services.web"),
            (6, "services.web.expose[0].port"),
            (14, "profiles.compute.web.resources.cpu.units"),
            (16, "profiles.compute.web.resources.memory.size"),
            (24, "profiles.placement.akash.pricing.web.amount"),
            (29, "deployment.web.akash.count"),
        ]
    );
    assert_eq!(found.more, 0);
    assert!(found.to_string().ends_with("(and 5 more errors)"), "{found}");
    let text = slips
        .iter()
        .fold(GOOD.to_owned(), |t, (from, to)| t.replacen(from, to, 1));
    assert_eq!(parse(&text).unwrap_err(), found.first);
}

#[test]
fn references_to_invalid_parts_are_not_errors() {
    let slips: [(&str, &str, usize); 5] = [
        ("image: nginx", "image: [nginx]", 1),
        ("units: 100m", "units: much", 1),
        ("denom: uakt", "denom: \"\"", 1),
        ("services:\n  web:", "services: none\nother:\n  web:", 2),
        ("compute:\n    web:", "compute: none\n  other:\n    web:", 1),
    ];
    for (from, to, count) in slips {
        let found = errors(&[(from, to)]);
        assert_eq!(found.iter().count(), count, "{to}: {found:?}");
        assert!(found.iter().all(|e| e.kind != ErrorKind::Reference), "{found:?}");
    }
    // If the parts are valid, each unresolved name is one error.
    let found = errors(&[
        ("profile: web", "profile: big"),
        ("    akash:\n      profile", "    nowhere:\n      profile"),
    ]);
    let problems: Vec<&str> = found.iter().map(|e| e.problem.as_str()).collect();
    assert_eq!(
        problems,
        [
            "there is no compute profile `big`",
            "there is no placement `nowhere`"
        ]
    );
}

#[test]
fn limits_and_manifest_report_all_errors() {
    let found = errors(&[
        ("units: 100m", "units: 1m"),
        ("amount: 1000", "amount: 1000000000"),
    ]);
    assert!(found.iter().all(|e| e.kind == ErrorKind::Limit), "{found:?}");
    assert_eq!(places(&found).len(), 2);
    // The same host in three services: the second and the third are errors.
    let expose =
        "    expose:\n      - port: 80\n        accept: [a.example]\n        to:\n          - global: true\n";
    let service = |name: &str| format!("  {name}:\n    image: nginx\n{expose}");
    let placed = |name: &str| format!("  {name}: {{akash: {{profile: web, count: 1}}}}\n");
    let names = ["a", "b", "c"];
    let services: String = names.iter().map(|name| service(name)).collect();
    let rest = &GOOD[GOOD.find("profiles:").unwrap()..GOOD.find("deployment:").unwrap()];
    let deployment: String = names.iter().map(|name| placed(name)).collect();
    let text = format!("version: \"2.0\"\nservices:\n{services}{rest}deployment:\n{deployment}");
    let found = parse_all(&text).unwrap_err();
    assert_eq!(
        places(&found),
        [(10, "services.b"), (17, "services.c")],
        "{found:?}"
    );
}

#[test]
fn the_number_of_errors_is_limited() {
    let many: String = (0..MAX_ERRORS + 7).map(|n| format!("nonsense{n}: 1\n")).collect();
    let found = parse_all(&(GOOD.to_owned() + &many)).unwrap_err();
    assert_eq!((found.iter().count(), found.more), (MAX_ERRORS, 7));
    let one_less = &many[..many.rfind("nonsense").unwrap()];
    let found = parse_all(&(GOOD.to_owned() + one_less)).unwrap_err();
    assert_eq!((found.iter().count(), found.more), (MAX_ERRORS, 6));
    // A text that cannot be parsed further has exactly one error.
    assert_eq!(parse_all("services: }").unwrap_err().iter().count(), 1);
}
