//! Tests of the circuit breaker's limits per owner.

use super::*;
use crate::types::DeploymentId;
use proptest::prelude::*;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(600);
const MINUTE: Duration = Duration::from_secs(60);

fn owner(number: u8) -> Address {
    Address::from_bytes(&[number; 20]).unwrap()
}

fn lease(number: u8, dseq: u64) -> LeaseId {
    let owner = owner(number);
    DeploymentId::new(owner, dseq)
        .group(1)
        .order(1)
        .bid(self::owner(200))
}

fn config(allowed: u32) -> Config {
    let mut config = Config::new(owner(200), "here");
    config.breaker_window = WINDOW;
    config.breaker_warmup = Duration::ZERO;
    (config.breaker_floor, config.breaker_percent) = (allowed, 0);
    config
}

fn open(config: &Config) -> Breaker {
    let mut breaker = Breaker::new(false, BTreeSet::new());
    breaker.start(config, Mono(0));
    breaker
}

fn request(
    breaker: &mut Breaker,
    config: &Config,
    now: Mono,
    lease: &LeaseId,
    destroys_nothing: bool,
) -> BreakerDecision {
    let request = CloseRequest {
        lease,
        is_over: false,
        destroys_nothing,
    };
    let now = Now {
        mono: now,
        ..Now::default()
    };
    breaker.request(config, now, 0, &request)
}

fn decisions(allowed: u32, owners: &[u8]) -> Vec<BreakerDecision> {
    let config = config(allowed);
    let mut breaker = open(&config);
    let decide = |(dseq, number): (u64, &u8)| {
        let lease = lease(*number, dseq);
        request(&mut breaker, &config, Mono(0), &lease, false)
    };
    (0..).zip(owners).map(decide).collect()
}

#[test]
fn trips_for_one_owner_alone_and_for_all_after_second_owner() {
    use BreakerDecision::{Granted, Held, Tripped, TrippedFor};
    let three = [Granted; 3];
    assert_eq!(decisions(3, &[1; 5])[3..], [TrippedFor(4), Held]);
    assert_eq!(
        decisions(3, &[1, 1, 1, 1, 2, 1]),
        [&three[..], &[TrippedFor(4), Granted, Held]].concat()
    );
    assert_eq!(
        decisions(3, &[1, 1, 1, 2, 2, 3])[3..],
        [Granted, Tripped(5), Held]
    );
    assert_eq!(decisions(3, &[1, 2, 1, 2])[2..], [Granted, Tripped(4)]);
    assert_eq!(
        decisions(3, &[1, 2, 3, 4])[2..],
        [Granted, Tripped(4)],
        "as of one owner"
    );
    // The first owner reached half and the second did not, so the second is not affected.
    assert_eq!(
        decisions(3, &[1, 1, 2, 1, 3])[2..],
        [Granted, TrippedFor(3), Tripped(4)]
    );
    let ten = decisions(10, &[[1; 11], [2; 11]].concat());
    assert_eq!(ten.iter().filter(|p| **p == Granted).count(), 15);
    assert_eq!((ten[10], ten[16]), (TrippedFor(11), Tripped(16)));
    assert_eq!(decisions(0, &[1, 2])[..], [TrippedFor(1), TrippedFor(1)]);
    assert_eq!(decisions(1, &[1, 1, 2])[1..], [TrippedFor(2), Tripped(2)]);
}

#[test]
fn release_of_one_owner_affects_that_owner_only() {
    let config = config(3);
    let mut breaker = open(&config);
    for number in [1, 2] {
        let now = Mono(0).plus(WINDOW * u32::from(number));
        for dseq in 0..5 {
            request(&mut breaker, &config, now, &lease(number, dseq), false);
        }
    }
    assert_eq!(breaker.held_owners().len(), 2);
    let now = Mono(0).plus(WINDOW * 4);
    assert_eq!(breaker.release_owner(now, &owner(3)), None);
    assert_eq!(
        breaker.release_owner(now, &owner(1)),
        Some(vec![lease(1, 3), lease(1, 4)])
    );
    assert_eq!(breaker.waiting().len(), 2);
    let why = breaker.hold_reason_for(now, &lease(2, 3)).unwrap();
    assert!(why.contains(&owner(2).to_string()), "{why}");
    assert_eq!(breaker.hold_reason(now), None);
    // While records are missing, the requests of the released owner stay held.
    breaker.set_records_missing("here".to_owned());
    assert_eq!(breaker.release_owner(now, &owner(2)), Some(vec![]));
    assert!(breaker.take_due(now).is_empty());
    assert!(breaker.clear_records_missing());
    assert_eq!(breaker.take_due(now), [lease(2, 3), lease(2, 4)]);
    let mut breaker = Breaker::new(true, BTreeSet::from([owner(1)]));
    breaker.start(&config, Mono(0));
    assert_eq!(
        request(&mut breaker, &config, now, &lease(1, 1), false),
        BreakerDecision::Held
    );
    assert_eq!(
        breaker.release_owner(now, &owner(1)),
        Some(vec![]),
        "tripped for all owners"
    );
    assert_eq!(breaker.release(), [lease(1, 1)]);
}

#[test]
fn trips_for_all_when_too_many_owners_are_held() {
    let config = config(0);
    let mut breaker = open(&config);
    for number in 0..64 {
        let decision = request(&mut breaker, &config, Mono(0), &lease(number, 1), false);
        assert_eq!(decision, BreakerDecision::TrippedFor(1));
    }
    let restarted = Breaker::new(false, breaker.held_owners().clone());
    assert!(!restarted.is_tripped() && restarted.held_owners().len() == HELD_OWNERS_MAX);
    let decision = request(&mut breaker, &config, Mono(0), &lease(100, 1), false);
    assert_eq!(
        (decision, breaker.is_tripped()),
        (BreakerDecision::Tripped(1), true)
    );
    let more = (0..65).map(owner).collect();
    assert!(Breaker::new(false, more).is_tripped());
}

proptest! {
    #[test]
    fn one_owner_never_trips_for_all_and_limit_is_exceeded_by_half_at_most(
        allowed in 0..12_u32,
        asks in proptest::collection::vec((0..4_u8, 0..4_u32, any::<bool>()), 1..120),
    ) {
        let config = config(allowed);
        let mut breaker = open(&config);
        let (mut now, mut passed) = (Mono(0), Vec::new());
        for (dseq, (number, minutes, bare)) in (0..).zip(asks) {
            now = now.plus(MINUTE * minutes);
            let before = breaker.clone();
            let decision = request(&mut breaker, &config, now, &lease(number, dseq), bare);
            passed.retain(|(at, _)| now.since(*at) < WINDOW);
            if bare {
                prop_assert_eq!(decision, BreakerDecision::Granted);
                prop_assert_eq!((breaker.is_tripped(), breaker.held_owners()), (before.is_tripped(), before.held_owners()));
                continue;
            }
            let of = |who: u8| {
                let count = passed.iter().filter(|(_, n)| *n == who).count();
                u32::try_from(count).unwrap()
            };
            let all = u32::try_from(passed.len()).unwrap();
            match decision {
                BreakerDecision::Granted => {
                    prop_assert!(of(number) < allowed && all < allowed + allowed / 2);
                    passed.push((now, number));
                }
                // Without any single owner, the remaining owners still requested half.
                BreakerDecision::Tripped(wanted) => {
                    prop_assert_eq!(wanted, all + 1);
                    for one in 0..4 {
                        let rest = all - of(one) + u32::from(one != number);
                        prop_assert!(rest >= (allowed / 2).max(1), "{rest} without {one}");
                    }
                }
                BreakerDecision::TrippedFor(wanted) => {
                    prop_assert_eq!(wanted, of(number) + 1);
                    prop_assert!(of(number) >= allowed.div_ceil(2));
                }
                BreakerDecision::Held => {
                    prop_assert!(before.is_tripped() || before.held_owners().contains(&owner(number)));
                }
            }
        }
        let waiting = breaker.waiting().len();
        prop_assert_eq!(breaker.release().len(), waiting);
        prop_assert!(!breaker.is_tripped() && breaker.held_owners().is_empty());
    }
}

#[test]
fn limit_is_bounded_for_many_leases() {
    let config = Config::new(owner(200), "local");
    let allowed = [1, 30, 50, 100, 1_000, usize::MAX].map(|n| Breaker::allowed(&config, n));
    assert_eq!(allowed, [3, 3, 5, 10, 10, 10]);
}
