use super::*;

fn refusal_for(kind: ErrorKind, transient: bool) -> Refusal {
    not_recorded(&Failure {
        kind,
        transient,
        message: "record: service web: why".to_owned(),
    })
}

#[test]
fn suggests_retry_only_for_transient_failures() {
    let unavailable = refusal_for(ErrorKind::Unavailable, true);
    assert_eq!(unavailable.kind, RefusalKind::Unavailable);
    assert!(
        unavailable.message.ends_with("; submit again"),
        "{}",
        unavailable.message
    );
    let invalid = refusal_for(ErrorKind::Invalid, false);
    assert_eq!(invalid.kind, RefusalKind::Rejected);
    assert_eq!(
        invalid.message,
        "the cluster rejected the manifest: record: service web: why"
    );
    for kind in [
        ErrorKind::Denied,
        ErrorKind::Conflict,
        ErrorKind::NotFound,
        ErrorKind::Unavailable,
        ErrorKind::Internal,
    ] {
        let refused = refusal_for(kind, false);
        assert!(!refused.message.contains("why"), "{}", refused.message);
        assert_eq!(refused.kind, RefusalKind::Rejected);
        assert!(
            refused.message.contains("operator") && !refused.message.contains("again"),
            "{}",
            refused.message
        );
    }
}
