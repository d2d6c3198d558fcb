//! What passes, counted by owner.

use super::*;
use crate::types::{DeploymentId, GroupId, OrderId};
use proptest::prelude::*;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(600);
const MINUTE: Duration = Duration::from_secs(60);

fn owner(number: u8) -> Address {
    Address::from_bytes(&[number; 20]).unwrap()
}

fn lease(number: u8, dseq: u64) -> LeaseId {
    let owner = owner(number);
    LeaseId {
        order: OrderId {
            group: GroupId {
                deployment: DeploymentId { owner, dseq },
                gseq: 1,
            },
            oseq: 1,
        },
        provider: self::owner(200),
    }
}

/// So many may pass.
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

fn wants(breaker: &mut Breaker, config: &Config, now: Mono, lease: &LeaseId, destroys_nothing: bool) -> Pass {
    let wanted = Wanted {
        lease,
        is_over: false,
        destroys_nothing,
    };
    let now = Now {
        mono: now,
        ..Now::default()
    };
    breaker.ask(config, now, 0, &wanted)
}

/// What these owners get, one after the other.
fn of(allowed: u32, owners: &[u8]) -> Vec<Pass> {
    let config = config(allowed);
    let mut breaker = open(&config);
    let one = |(dseq, number): (u64, &u8)| {
        let lease = lease(*number, dseq);
        wants(&mut breaker, &config, Mono(0), &lease, false)
    };
    (0..).zip(owners).map(one).collect()
}

#[test]
fn one_owner_shuts_it_for_himself_and_two_for_all() {
    use Pass::{Granted, Held, Tripped, TrippedFor};
    let three = [Granted; 3];
    assert_eq!(of(3, &[1; 5])[3..], [TrippedFor(4), Held]);
    assert_eq!(
        of(3, &[1, 1, 1, 1, 2, 1]),
        [&three[..], &[TrippedFor(4), Granted, Held]].concat()
    );
    assert_eq!(of(3, &[1, 1, 1, 2, 2, 3])[3..], [Granted, Tripped(5), Held]);
    assert_eq!(of(3, &[1, 2, 1, 2])[2..], [Granted, Tripped(4)]);
    assert_eq!(
        of(3, &[1, 2, 3, 4])[2..],
        [Granted, Tripped(4)],
        "as of one owner"
    );
    // He has had his half, the other has not: the other's only end is not turned against him.
    assert_eq!(of(3, &[1, 1, 2, 1, 3])[2..], [Granted, TrippedFor(3), Tripped(4)]);
    let ten = of(10, &[[1; 11], [2; 11]].concat());
    assert_eq!(ten.iter().filter(|p| **p == Granted).count(), 15);
    assert_eq!((ten[10], ten[16]), (TrippedFor(11), Tripped(16)));
    assert_eq!(of(0, &[1, 2])[..], [TrippedFor(1), TrippedFor(1)]);
    assert_eq!(of(1, &[1, 1, 2])[1..], [TrippedFor(2), Tripped(2)]);
}

#[test]
fn the_release_of_an_owner_is_for_him_alone() {
    let config = config(3);
    let mut breaker = open(&config);
    for number in [1, 2] {
        let now = Mono(0).plus(WINDOW * u32::from(number));
        for dseq in 0..5 {
            wants(&mut breaker, &config, now, &lease(number, dseq), false);
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
    let why = breaker.waits_because(now, &lease(2, 3)).unwrap();
    assert!(why.contains(&owner(2).to_string()), "{why}");
    assert_eq!(breaker.shut_because(now), None);
    // Where nothing at all passes, he waits with all.
    breaker.miss_records("here".to_owned());
    assert_eq!(breaker.release_owner(now, &owner(2)), Some(vec![]));
    assert!(breaker.take_due(now).is_empty());
    assert!(breaker.find_records());
    assert_eq!(breaker.take_due(now), [lease(2, 3), lease(2, 4)]);
    let mut breaker = Breaker::new(true, BTreeSet::from([owner(1)]));
    breaker.start(&config, Mono(0));
    assert_eq!(wants(&mut breaker, &config, now, &lease(1, 1), false), Pass::Held);
    assert_eq!(
        breaker.release_owner(now, &owner(1)),
        Some(vec![]),
        "it is shut for all"
    );
    assert_eq!(breaker.release(), [lease(1, 1)]);
}

#[test]
fn so_many_owners_are_held_alone_and_with_one_more_it_is_shut_for_all() {
    let config = config(0);
    let mut breaker = open(&config);
    for number in 0..64 {
        let pass = wants(&mut breaker, &config, Mono(0), &lease(number, 1), false);
        assert_eq!(pass, Pass::TrippedFor(1));
    }
    let kept = Breaker::new(false, breaker.held_owners().clone());
    assert!(!kept.is_tripped() && kept.held_owners().len() == HELD_OWNERS_MAX);
    let pass = wants(&mut breaker, &config, Mono(0), &lease(100, 1), false);
    assert_eq!((pass, breaker.is_tripped()), (Pass::Tripped(1), true));
    let more = (0..65).map(owner).collect();
    assert!(Breaker::new(false, more).is_tripped());
}

proptest! {
    #[test]
    fn nobody_shuts_it_for_all_by_himself_and_never_pass_more_than_half_as_many_again(
        allowed in 0..12_u32,
        asks in proptest::collection::vec((0..4_u8, 0..4_u32, any::<bool>()), 1..120),
    ) {
        let config = config(allowed);
        let mut breaker = open(&config);
        let (mut now, mut passed) = (Mono(0), Vec::new());
        for (dseq, (number, minutes, bare)) in (0..).zip(asks) {
            now = now.plus(MINUTE * minutes);
            let before = breaker.clone();
            let pass = wants(&mut breaker, &config, now, &lease(number, dseq), bare);
            passed.retain(|(at, _)| now.since(*at) < WINDOW);
            if bare {
                prop_assert_eq!(pass, Pass::Granted);
                prop_assert_eq!((breaker.is_tripped(), breaker.held_owners()), (before.is_tripped(), before.held_owners()));
                continue;
            }
            let of = |who: u8| {
                let count = passed.iter().filter(|(_, n)| *n == who).count();
                u32::try_from(count).unwrap()
            };
            let all = u32::try_from(passed.len()).unwrap();
            match pass {
                Pass::Granted => {
                    prop_assert!(of(number) < allowed && all < allowed + allowed / 2);
                    passed.push((now, number));
                }
                // Those who are left when any one of them is taken away wanted half of it.
                Pass::Tripped(wanted) => {
                    prop_assert_eq!(wanted, all + 1);
                    for one in 0..4 {
                        let rest = all - of(one) + u32::from(one != number);
                        prop_assert!(rest >= (allowed / 2).max(1), "{rest} without {one}");
                    }
                }
                Pass::TrippedFor(wanted) => {
                    prop_assert_eq!(wanted, of(number) + 1);
                    prop_assert!(of(number) >= allowed.div_ceil(2));
                }
                Pass::Held => {
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
fn a_tenth_of_a_thousand_leases_is_no_small_number() {
    let config = Config::new(owner(200), "local");
    let allowed = [1, 30, 50, 100, 1_000, usize::MAX].map(|n| Breaker::allowed(&config, n));
    assert_eq!(allowed, [3, 3, 5, 10, 10, 10]);
}
