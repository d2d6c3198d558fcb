use super::*;

fn at(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

fn evidence(asked: Instant, definition: &str, records: &[&str]) -> AbsenceEvidence {
    AbsenceEvidence {
        asked,
        definition: definition.to_owned(),
        records: records.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn record(name: &str) -> MissingRecord {
    MissingRecord {
        key: name.to_owned(),
        has_reason: true,
    }
}

fn judge(guard: &mut Guard, names: &[String], declared: usize, now: Instant) -> Vec<String> {
    let mut gone = Vec::new();
    for name in names {
        if guard.judge(name, &record(name), declared, now).is_ok() {
            gone.push(name.clone());
        }
    }
    gone
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("n{number}")).collect()
}

/// Returns a guard that has observed these missing records at `start`.
fn guard(start: Instant, missing: &[String], declared: usize) -> Guard {
    let mut guard = Guard::default();
    guard.learn(evidence(start, "uid", &[]));
    assert_eq!(
        judge(&mut guard, missing, declared, start),
        [""; 0],
        "no record may be deleted immediately"
    );
    guard
}

#[test]
fn record_is_absent_only_by_a_later_list_of_an_established_kind() {
    let start = Instant::now();
    let one = names(1);
    for (read, goes) in [
        (evidence(at(start, 1), "uid", &[]), true),
        (evidence(at(start, 1), "uid", &["n0"]), false),
    ] {
        let mut guard = guard(at(start, 1), &one, 9);
        guard.learn(read);
        assert_eq!(judge(&mut guard, &one, 9, at(start, 4)).len(), usize::from(goes));
    }
    let mut guard = guard(start, &one, 9);
    guard.evidence = Some(evidence(start - Duration::from_secs(1), "uid", &[]));
    let wait = guard.judge("n0", &record("n0"), 9, at(start, 4)).unwrap_err();
    assert!(wait.reads && wait.again == Some(at(start, 9)), "{wait:?}");
    assert!(
        guard.fail("definition is missing".to_owned(), true),
        "the first problem is logged"
    );
    assert!(
        !guard.fail("definition is missing".to_owned(), true),
        "the same problem is logged once"
    );
    let wait = guard.judge("n0", &record("n0"), 9, at(start, 9)).unwrap_err();
    assert!(wait.why.contains("definition is missing"), "{wait:?}");
}

#[test]
fn many_records_missing_at_once_are_held() {
    for (missing, declared, held_count) in [
        (1, 0, 0),
        (2, 0, 2),
        (2, 1, 0),
        (5, 5, 0),
        (6, 5, 6),
        (6, 60, 0),
        (7, 60, 7),
        (10, 100, 0),
        (12, 100, 12),
        (200, 0, 200),
    ] {
        let start = Instant::now();
        let all = names(missing);
        let mut guard = guard(start, &all, declared);
        guard.learn(evidence(at(start, 1), "uid", &[]));
        let gone = judge(&mut guard, &all, declared, at(start, 3)).len();
        let found = guard.hold(at(start, 3)).map_or(0, |hold| hold.names);
        assert_eq!(
            (gone, found),
            (missing - held_count, held_count),
            "{missing} of {declared}"
        );
    }
}

#[test]
fn deletions_within_a_minute_count_together() {
    let start = Instant::now();
    for (pause, is_hold) in [(5, true), (20, false)] {
        let mut guard = guard(start, &[], 50);
        let mut now = start;
        let mut gone = 0;
        for name in names(9) {
            guard.judge(&name, &record(&name), 50, now).unwrap_err();
            guard.learn(evidence(now, "uid", &[]));
            if guard.judge(&name, &record(&name), 50, now + SETTLE).is_ok() {
                guard.clear(&name);
                gone += 1;
            }
            now += Duration::from_secs(pause);
        }
        assert_eq!(gone < 9, is_hold, "every {pause} s");
    }
}

#[test]
fn a_hold_ends_when_the_records_are_back_or_an_operator_confirms() {
    let start = Instant::now();
    let all = names(8);
    let guard_with_hold = || {
        let mut guard = guard(start, &all, 0);
        guard.learn(evidence(at(start, 1), "uid", &[]));
        assert_eq!(judge(&mut guard, &all, 0, at(start, 3)), [""; 0]);
        assert_eq!(
            judge(&mut guard, &all, 0, at(start, 7_200)),
            [""; 0],
            "a hold does not expire"
        );
        guard
    };
    let mut guard = guard_with_hold();
    all.iter().for_each(|name| guard.clear(name));
    assert_eq!((guard.hold(at(start, 9)), guard.confirm()), (None, 0));
    let mut guard = guard_with_hold();
    assert_eq!(guard.confirm(), 8);
    assert_eq!(judge(&mut guard, &all, 0, at(start, 9)), all);
    assert_eq!(guard.hold(at(start, 9)), None);
    // Later deletions are judged as before.
    let later = vec!["later".to_owned()];
    judge(&mut guard, &later, 9, at(start, 10));
    guard.learn(evidence(at(start, 11), "uid", &[]));
    assert_eq!(judge(&mut guard, &later, 9, at(start, 13)), later);
}

#[test]
fn records_missing_with_their_definition_are_held() {
    let start = Instant::now();
    let one = names(1);
    for absent in [false, true] {
        let mut guard = guard(start, &one, 9);
        if absent {
            guard.fail("definition is missing".to_owned(), true);
        }
        let restored = if absent { "uid" } else { "other" };
        guard.learn(evidence(at(start, 30), restored, &[]));
        assert_eq!(judge(&mut guard, &one, 9, at(start, 31)), [""; 0]);
        assert_eq!(
            guard
                .hold(at(start, 31))
                .map(|hold| (hold.names, hold.for_seconds)),
            Some((1, 31))
        );
    }
}

#[test]
fn record_missing_at_the_start_is_held_until_a_reason_or_a_confirmation() {
    let start = Instant::now();
    let unexplained = MissingRecord {
        has_reason: false,
        ..record("n0")
    };
    let guard_with_hold = || {
        let mut guard = guard(start, &[], 50);
        for seconds in [0, 3, 600] {
            guard.learn(evidence(at(start, seconds), "uid", &[]));
            let wait = guard
                .judge("n0", &unexplained, 50, at(start, seconds))
                .unwrap_err();
            assert!(wait.again.is_some(), "{seconds}: {wait:?}");
        }
        assert_eq!(guard.hold(at(start, 600)).map(|hold| hold.names), Some(1));
        guard
    };
    let mut guard = guard_with_hold();
    assert!(
        guard.judge("n0", &record("n0"), 50, at(start, 605)).is_ok(),
        "the Manifest no longer contains the name"
    );
    assert_eq!(guard.hold(at(start, 605)), None);
    let mut guard = guard_with_hold();
    assert_eq!(guard.confirm(), 1);
    assert!(guard.judge("n0", &unexplained, 50, at(start, 605)).is_ok());
    // Among many missing records, a name needs a confirmation even with a reason.
    let mut guard = guard_with_hold();
    for name in &names(9)[1..] {
        let _ = guard.judge(name, &record(name), 0, at(start, 30));
    }
    let _ = guard.judge("n8", &record("n8"), 0, at(start, 40));
    assert!(guard.judge("n0", &record("n0"), 0, at(start, 40)).is_err());
}
