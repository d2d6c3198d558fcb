use super::*;
use anyhow::Context;

#[test]
fn prints_the_remedy_of_a_cause_after_all_causes() {
    let failed = Err::<(), _>(WithHelp::new("no certificate", "run `tx cert publish client`"));
    let error = failed.context("cannot query the status").unwrap_err();
    assert_eq!(
        error_text(&error, &[]),
        "error: cannot query the status: no certificate\nhelp: run `tx cert publish client`"
    );
    assert_eq!(error_text(&anyhow::anyhow!("no space"), &[]), "error: no space");
}

#[test]
fn prints_the_remedy_of_a_context_or_of_an_io_error() {
    let missing = || Err::<(), _>(io::Error::from(io::ErrorKind::NotFound));
    let error = missing().context("cannot open a.yaml").unwrap_err();
    assert!(error_text(&error, &[]).ends_with("\nhelp: check the path"));
    let context = WithHelp::new("no provider runs", "set --home");
    let error = missing()
        .context(context)
        .context("cannot list leases")
        .unwrap_err();
    let text = error_text(&error, &[]);
    assert!(
        text.starts_with("error: cannot list leases: no provider runs: "),
        "{text}"
    );
    assert!(text.ends_with("\nhelp: set --home"), "{text}");
}

#[test]
fn json_error_has_the_message_the_remedy_and_the_causes() {
    let failed = Err::<(), _>(WithHelp::new(
        "no certificate\u{1b}",
        "run `tx cert publish client`",
    ));
    let error = failed.context("cannot query the status").unwrap_err();
    let mut messages = error.chain().map(ToString::to_string);
    let text = json_text(&messages.next().unwrap(), help(&error, &[]), messages);
    assert_eq!(
        text,
        r#"{"causes":["no certificate\u001b"],"error":"cannot query the status","help":"run `tx cert publish client`"}"#
    );
    assert!(json_text("a", None, std::iter::empty()).contains(r#""help":null"#));
}

#[test]
fn output_flag_before_the_arguments_of_a_command_selects_json_errors() {
    let is_json = |line: &str| is_json(line.split(' ').map(OsString::from));
    for line in [
        "x status -o json",
        "x q -ojson",
        "x -o=json",
        "x --output=json",
        "x --output text --output json",
    ] {
        assert!(is_json(line), "{line}");
    }
    for line in [
        "x status",
        "x -o text",
        "x -o json -o yaml",
        "x lease-shell web -- cat -o json",
        "x json --output",
    ] {
        assert!(!is_json(line), "{line}");
    }
}
