//! Limits of a document, and sizes in its errors.

use super::*;

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
