use super::*;

fn told(kind: ErrorKind, transient: bool) -> Refusal {
    not_recorded(&Failure {
        kind,
        transient,
        message: "record: service web: why".to_owned(),
    })
}

#[test]
fn a_tenant_is_told_to_submit_again_only_where_that_may_help() {
    let away = told(ErrorKind::Unavailable, true);
    assert_eq!(away.kind, RefusalKind::Unavailable);
    assert!(away.message.ends_with("; submit again"), "{}", away.message);
    let invalid = told(ErrorKind::Invalid, false);
    assert_eq!(invalid.kind, RefusalKind::Rejected);
    assert_eq!(
        invalid.message,
        "the cluster does not take the manifest: record: service web: why"
    );
    for kind in [
        ErrorKind::Denied,
        ErrorKind::Conflict,
        ErrorKind::NotFound,
        ErrorKind::Unavailable,
        ErrorKind::Internal,
    ] {
        let refused = told(kind, false);
        assert!(!refused.message.contains("why"), "{}", refused.message);
        assert_eq!(refused.kind, RefusalKind::Rejected);
        assert!(
            refused.message.contains("operator") && !refused.message.contains("again"),
            "{}",
            refused.message
        );
    }
}
