use super::*;
use proptest::prelude::*;

const KEY: &str = "web";

/// Repairs an object that another client edits after each repair. Returns the times of the repairs and the
/// number of reported conflicts.
fn conflict(limit: Limit, hours: u64) -> (Vec<Duration>, usize) {
    let begin = Instant::now();
    let (mut backoff, mut now) = (RepairBackoff::default(), begin);
    let (mut at, mut reports) = (Vec::new(), 0);
    while now < begin + Duration::from_secs(hours * 3600) {
        backoff.remove_old(now);
        if let Some(next) = backoff.waits_until(&KEY, now) {
            now = next;
            continue;
        }
        at.push(now - begin);
        reports += usize::from(backoff.repaired(&KEY, limit, now));
    }
    (at, reports)
}

#[test]
fn a_conflict_is_reported_once_and_slows_repairs() {
    let (at, reports) = conflict(Limit::Other, 48);
    assert_eq!(reports, 1);
    let seconds: Vec<u64> = at.iter().map(Duration::as_secs).collect();
    assert_eq!(
        seconds[..CONFLICT_REPAIRS],
        [0; CONFLICT_REPAIRS],
        "no delay before the conflict"
    );
    assert_eq!(seconds[CONFLICT_REPAIRS..CONFLICT_REPAIRS + 2], [60, 180]);
    let waits: Vec<Duration> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(waits.is_sorted(), "{waits:?}");
    assert_eq!(waits.last(), Some(&MAX_DELAY));
}

#[test]
fn isolation_is_restored_within_a_minute_in_a_conflict() {
    let (at, reports) = conflict(Limit::Isolation, 3);
    assert_eq!(reports, 1);
    assert!(at.windows(2).all(|w| w[1] - w[0] <= Duration::from_secs(60)));
    assert!(at.len() > 150, "{}", at.len());
}

#[test]
fn rare_changes_are_no_conflict() {
    let (mut backoff, limit, mut now) = (RepairBackoff::default(), Limit::Other, Instant::now());
    for _ in 0..50 {
        now += WINDOW / 8;
        backoff.remove_old(now);
        assert_eq!(backoff.waits_until(&KEY, now), None);
        assert!(!backoff.repaired(&KEY, limit, now));
    }
}

#[test]
fn an_object_without_changes_is_removed() {
    let (mut backoff, limit, mut now) = (RepairBackoff::default(), Limit::Other, Instant::now());
    for _ in 0..CONFLICT_REPAIRS {
        now = backoff.waits_until(&KEY, now).unwrap_or(now);
        backoff.repaired(&KEY, limit, now);
    }
    assert_eq!(backoff.waits_until(&KEY, now), Some(now + CONFLICT_DELAY));
    backoff.remove_old(now + CONFLICT_DELAY + WINDOW - FIRST_DELAY);
    assert_eq!(backoff.objects.len(), 1);
    backoff.remove_old(now + CONFLICT_DELAY + WINDOW);
    assert_eq!(backoff.objects.len(), 0);
}

#[test]
fn a_failed_repair_is_retried_and_is_no_conflict() {
    let (mut backoff, limit, mut now) = (RepairBackoff::default(), Limit::Other, Instant::now());
    for _ in 0..20 {
        backoff.failed(&KEY, limit, now);
        let next = backoff.waits_until(&KEY, now).unwrap();
        assert!(next - now <= CONFLICT_DELAY);
        now = next;
    }
    assert!(!backoff.repaired(&KEY, limit, now));
}

#[test]
fn a_successful_repair_resets_the_back_off() {
    let (mut backoff, now) = (RepairBackoff::default(), Instant::now());
    for _ in 0..3 {
        backoff.failed(&KEY, Limit::Isolation, now);
    }
    assert_eq!(backoff.waits_until(&KEY, now), Some(now + 4 * FIRST_DELAY));
    backoff.repaired(&KEY, Limit::Isolation, now + 4 * FIRST_DELAY);
    assert_eq!(backoff.waits_until(&KEY, now + 4 * FIRST_DELAY), None);
}

#[test]
fn each_object_has_its_own_back_off() {
    let (mut backoff, now) = (RepairBackoff::default(), Instant::now());
    backoff.failed(&KEY, Limit::Other, now);
    assert!(backoff.waits_until(&KEY, now).is_some());
    assert_eq!(backoff.waits_until(&"db", now), None);
}

proptest! {
    #[test]
    fn repairs_of_an_object_are_bounded(pauses in prop::collection::vec(0u64..900, 1..200)) {
        let (mut backoff, limit, begin) = (RepairBackoff::default(), Limit::Other, Instant::now());
        let (mut now, mut at) = (begin, Vec::new());
        for pause in pauses {
            now += Duration::from_secs(pause);
            backoff.remove_old(now);
            if backoff.waits_until(&KEY, now).is_none() {
                at.push(now);
                backoff.repaired(&KEY, limit, now);
            }
        }
        for from in &at {
            let within = at.iter().filter(|t| *t >= from && **t < *from + WINDOW);
            prop_assert!(within.count() <= CONFLICT_REPAIRS + 4);
        }
    }
}
