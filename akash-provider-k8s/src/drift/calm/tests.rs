use super::*;
use proptest::prelude::*;

const HOME: &str = "a";

fn id(kind: Kind) -> Id {
    let name = "web".to_owned();
    Id { kind, name }
}

/// Puts right as soon as it may, for so long: the times, and how often a fight was told.
fn fought(kind: Kind, hours: u64) -> (Vec<Duration>, usize) {
    let (begin, id) = (Instant::now(), id(kind));
    let (mut calm, mut now) = (Calm::default(), begin);
    let (mut at, mut told) = (Vec::new(), 0);
    while now < begin + Duration::from_secs(hours * 3600) {
        calm.forget(now);
        if let Some(next) = calm.waits_until(HOME, &id, now) {
            now = next;
            continue;
        }
        at.push(now - begin);
        told += usize::from(calm.repaired(HOME, &id, now));
    }
    (at, told)
}

#[test]
fn a_fight_is_told_once_and_tried_ever_more_rarely() {
    let (at, told) = fought(Kind::Deployment, 48);
    assert_eq!(told, 1);
    let seconds: Vec<u64> = at.iter().take(7).map(Duration::as_secs).collect();
    assert_eq!(seconds, [0, 1, 3, 7, 15, 75, 195]);
    let waits: Vec<Duration> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(waits.is_sorted(), "{waits:?}");
    assert_eq!(waits.last(), Some(&LONGEST));
}

#[test]
fn a_policy_that_is_fought_over_is_never_left_open_for_longer_than_a_minute() {
    let (at, told) = fought(Kind::NetworkPolicy, 3);
    assert_eq!(told, 1);
    assert!(at.windows(2).all(|w| w[1] - w[0] <= Duration::from_secs(60)));
    assert!(at.len() > 150, "{}", at.len());
}

#[test]
fn changes_that_are_far_apart_are_no_fight() {
    let (mut calm, id, mut now) = (Calm::default(), id(Kind::Service), Instant::now());
    for _ in 0..50 {
        now += WINDOW / 4;
        calm.forget(now);
        assert_eq!(calm.waits_until(HOME, &id, now), None);
        assert!(!calm.repaired(HOME, &id, now));
    }
}

#[test]
fn what_nobody_changes_any_more_is_forgotten() {
    let (mut calm, id, mut now) = (Calm::default(), id(Kind::Service), Instant::now());
    for _ in 0..FIGHT {
        now = calm.waits_until(HOME, &id, now).unwrap_or(now);
        calm.repaired(HOME, &id, now);
    }
    assert_eq!(calm.waits_until(HOME, &id, now), Some(now + FOUGHT));
    calm.forget(now + FOUGHT + WINDOW - FIRST);
    assert_eq!(calm.objects.len(), 1);
    calm.forget(now + FOUGHT + WINDOW);
    assert_eq!(calm.objects.len(), 0);
}

#[test]
fn what_fails_is_tried_again_and_is_no_fight() {
    let (mut calm, id, mut now) = (Calm::default(), id(Kind::Deployment), Instant::now());
    for _ in 0..20 {
        calm.failed(HOME, &id, now);
        let next = calm.waits_until(HOME, &id, now).unwrap();
        assert!(next - now <= FOUGHT);
        now = next;
    }
    assert!(!calm.repaired(HOME, &id, now));
}

#[test]
fn each_object_of_each_lease_waits_by_itself() {
    let (mut calm, now) = (Calm::default(), Instant::now());
    calm.repaired(HOME, &id(Kind::Service), now);
    assert!(calm.waits_until(HOME, &id(Kind::Service), now).is_some());
    assert_eq!(calm.waits_until(HOME, &id(Kind::Deployment), now), None);
    assert_eq!(calm.waits_until("b", &id(Kind::Service), now), None);
}

proptest! {
    /// Whatever others do, no object is written more often than this.
    #[test]
    fn repairs_of_an_object_are_bounded(pauses in prop::collection::vec(0u64..900, 1..200)) {
        let (mut calm, id, begin) = (Calm::default(), id(Kind::Deployment), Instant::now());
        let (mut now, mut at) = (begin, Vec::new());
        for pause in pauses {
            now += Duration::from_secs(pause);
            calm.forget(now);
            if calm.waits_until(HOME, &id, now).is_none() {
                at.push(now);
                calm.repaired(HOME, &id, now);
            }
        }
        for from in &at {
            let within = at.iter().filter(|t| *t >= from && **t < *from + WINDOW);
            prop_assert!(within.count() <= FIGHT + 4);
        }
    }
}
