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
