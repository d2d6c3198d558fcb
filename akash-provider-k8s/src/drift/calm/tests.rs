use super::*;
use proptest::prelude::*;

const KEY: &str = "web";

/// Repairs an object as early as its back-off allows. Returns the times, and the number of fights that started.
fn fought(limit: Limit, hours: u64) -> (Vec<Duration>, usize) {
    let begin = Instant::now();
    let (mut calm, mut now) = (Calm::default(), begin);
    let (mut at, mut told) = (Vec::new(), 0);
    while now < begin + Duration::from_secs(hours * 3600) {
        calm.forget(now);
        if let Some(next) = calm.waits_until(&KEY, now) {
            now = next;
            continue;
        }
        at.push(now - begin);
        told += usize::from(calm.repaired(&KEY, limit, now));
    }
    (at, told)
}

#[test]
fn a_fight_is_told_once_and_tried_ever_more_rarely() {
    let (at, told) = fought(Limit::Other, 48);
    assert_eq!(told, 1);
    let seconds: Vec<u64> = at.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds[..FIGHT], [0; FIGHT], "before the fight nothing waits");
    assert_eq!(seconds[FIGHT..FIGHT + 2], [60, 180]);
    let waits: Vec<Duration> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(waits.is_sorted(), "{waits:?}");
    assert_eq!(waits.last(), Some(&LONGEST));
}

#[test]
fn a_policy_that_is_fought_over_is_never_left_open_for_longer_than_a_minute() {
    let (at, told) = fought(Limit::Isolation, 3);
    assert_eq!(told, 1);
    assert!(at.windows(2).all(|w| w[1] - w[0] <= Duration::from_secs(60)));
    assert!(at.len() > 150, "{}", at.len());
}

#[test]
fn changes_that_are_far_apart_are_no_fight() {
    let (mut calm, limit, mut now) = (Calm::default(), Limit::Other, Instant::now());
    for _ in 0..50 {
        now += WINDOW / 8;
        calm.forget(now);
        assert_eq!(calm.waits_until(&KEY, now), None);
        assert!(!calm.repaired(&KEY, limit, now));
    }
}

#[test]
fn what_nobody_changes_any_more_is_forgotten() {
    let (mut calm, limit, mut now) = (Calm::default(), Limit::Other, Instant::now());
    for _ in 0..FIGHT {
        now = calm.waits_until(&KEY, now).unwrap_or(now);
        calm.repaired(&KEY, limit, now);
    }
    assert_eq!(calm.waits_until(&KEY, now), Some(now + FOUGHT));
    calm.forget(now + FOUGHT + WINDOW - FIRST);
    assert_eq!(calm.objects.len(), 1);
    calm.forget(now + FOUGHT + WINDOW);
    assert_eq!(calm.objects.len(), 0);
}

#[test]
fn what_fails_is_tried_again_and_is_no_fight() {
    let (mut calm, limit, mut now) = (Calm::default(), Limit::Other, Instant::now());
    for _ in 0..20 {
        calm.failed(&KEY, limit, now);
        let next = calm.waits_until(&KEY, now).unwrap();
        assert!(next - now <= FOUGHT);
        now = next;
    }
    assert!(!calm.repaired(&KEY, limit, now));
}

#[test]
fn a_repair_after_a_failure_ends_the_back_off() {
    let (mut calm, now) = (Calm::default(), Instant::now());
    for _ in 0..3 {
        calm.failed(&KEY, Limit::Isolation, now);
    }
    assert_eq!(calm.waits_until(&KEY, now), Some(now + 4 * FIRST));
    calm.repaired(&KEY, Limit::Isolation, now + 4 * FIRST);
    assert_eq!(calm.waits_until(&KEY, now + 4 * FIRST), None);
}

#[test]
fn each_object_waits_by_itself() {
    let (mut calm, now) = (Calm::default(), Instant::now());
    calm.failed(&KEY, Limit::Other, now);
    assert!(calm.waits_until(&KEY, now).is_some());
    assert_eq!(calm.waits_until(&"db", now), None);
}

proptest! {
    /// Whatever others do, no object is written more often than this.
    #[test]
    fn repairs_of_an_object_are_bounded(pauses in prop::collection::vec(0u64..900, 1..200)) {
        let (mut calm, limit, begin) = (Calm::default(), Limit::Other, Instant::now());
        let (mut now, mut at) = (begin, Vec::new());
        for pause in pauses {
            now += Duration::from_secs(pause);
            calm.forget(now);
            if calm.waits_until(&KEY, now).is_none() {
                at.push(now);
                calm.repaired(&KEY, limit, now);
            }
        }
        for from in &at {
            let within = at.iter().filter(|t| *t >= from && **t < *from + WINDOW);
            prop_assert!(within.count() <= FIGHT + 4);
        }
    }
}
