//! Content and age of a record.

use super::settings::candidate;
use super::{contestant, ms, there};
use crate::election::contest::*;

#[test]
fn a_released_record_is_claimed_at_once_with_a_new_term() {
    let mut contest = contestant("me");
    assert_eq!(contest.plan(ms(0)), ElectionStep::Read);
    contest.saw(Some(there(None, 7, "a")), ms(10));
    let ElectionStep::Replace(claim, version) = contest.plan(ms(10)) else {
        panic!("the record is free");
    };
    assert_eq!((claim.term, claim.is_new_term, version.as_str()), (8, true, "va"));
    let plan = contest.plan(ms(10));
    contest.wrote(&plan, there(Some("me"), 8, "b"), ms(10), ms(12));
    assert_eq!(contest.leads(ms(20)), Some((8, ms(10_010))));
    assert_eq!(contest.leads(ms(10_010)), None, "the leader needs a heartbeat");
}

#[test]
fn a_holder_without_heartbeats_is_replaced_even_if_labels_change() {
    let mut contest = contestant("me");
    for second in 0..60 {
        contest.saw(
            Some(there(Some("other"), 1, &second.to_string())),
            ms(second * 1_000),
        );
        assert_eq!(contest.plan(ms(second * 1_000)), ElectionStep::Read);
    }
    for second in 60..74 {
        let mut touched = there(Some("other"), 1, "59");
        touched.version = second.to_string();
        contest.saw(Some(touched), ms(second * 1_000));
        assert_eq!(contest.plan(ms(second * 1_000)), ElectionStep::Read, "{second}");
    }
    assert!(
        matches!(contest.plan(ms(74_000)), ElectionStep::Replace(claim, version) if claim.term == 2 && version == "73")
    );
}

#[test]
fn values_of_a_record_are_bounded() {
    let mut absurd = there(Some("other"), u64::MAX - 1, "a");
    absurd.record.lease = Duration::from_secs(1 << 40);
    let mut contest = contestant("me");
    contest.saw(Some(absurd), ms(0));
    assert_eq!(contest.plan(LEASE_DURATION_MAX - ms(1)), ElectionStep::Read);
    assert!(matches!(
        contest.plan(LEASE_DURATION_MAX),
        ElectionStep::Replace(..)
    ));
    let timing = Timing {
        lease: Duration::ZERO,
        renew: Duration::from_secs(99),
        retry: Duration::ZERO,
    };
    let sane = timing.sane();
    assert!(
        sane.renew < sane.lease && sane.retry < sane.renew && !sane.retry.is_zero(),
        "{sane:?}"
    );
}

#[test]
fn only_an_own_record_is_released() {
    let mut contest = contestant("me");
    assert_eq!(contest.release(), None);
    contest.saw(Some(there(None, 1, "a")), ms(0));
    let plan = contest.plan(ms(0));
    contest.wrote(&plan, there(Some("me"), 2, "b"), ms(0), ms(0));
    let released = contest.release();
    assert!(
        matches!(
            released,
            Some(ElectionStep::Replace(
                Claim {
                    holder: None,
                    term: 2,
                    ..
                },
                _
            ))
        ),
        "{released:?}"
    );
    assert_eq!(contest.leads(ms(1)), None, "no leadership after the release");
    assert_eq!(contest.release(), None);
}

/// After the record was deleted, a delayed `create` call can arrive while the previous leader still leads.
#[test]
fn a_late_created_record_leads_only_after_all_others_have_stopped() {
    let late = || {
        let mut contest = contestant("me");
        contest.saw(None, ms(0));
        let plan = contest.plan(ms(0));
        assert!(matches!(plan, ElectionStep::Create(_)));
        (contest, plan)
    };
    let lease = Timing::default().lease;
    let (mut confirmed, plan) = late();
    confirmed.wrote(&plan, there(Some("me"), 1, "b"), ms(59_000), ms(60_000));
    let (mut unanswered, _) = late();
    unanswered.failed();
    unanswered.saw(Some(there(Some("other"), 1, "a")), ms(30_000));
    unanswered.failed();
    unanswered.saw(Some(there(Some("me"), 1, "b")), ms(60_000));
    for mut contest in [confirmed, unanswered] {
        let mut at = ms(60_000);
        while at < ms(60_000) + lease {
            assert_eq!(contest.leads(at), None, "{at:?}");
            let plan = contest.plan(at);
            contest.wrote(&plan, there(Some("me"), 1, &format!("{at:?}")), at, at);
            at += ms(1_000);
        }
        assert!(contest.leads(at).is_some());
    }
}

#[test]
fn stored_state_passes_between_leaders_and_survives_a_deleted_record() {
    let mut contest = candidate(false);
    assert!(!contest.set_state("of a standby".to_owned()));
    let mut theirs = there(None, 4, "a");
    theirs.record.payload.state = "theirs".to_owned();
    contest.saw(Some(theirs), ms(0));
    let plan = contest.plan(ms(0));
    let ElectionStep::Replace(claim, _) = &plan else {
        panic!("the record is free");
    };
    assert_eq!(
        (claim.payload.state.as_str(), claim.payload.address.as_str()),
        ("theirs", "here:8443")
    );
    contest.wrote(&plan, there(Some("me"), 5, "b"), ms(0), ms(1));
    assert!(contest.set_state("newer".to_owned()));
    // The value is still available without the record, or with a record that lacks it.
    contest.saw(Some(there(Some("me"), 5, "c")), ms(2));
    contest.saw(None, ms(3));
    let ElectionStep::Create(claim) = contest.plan(ms(3)) else {
        panic!("the record is missing");
    };
    assert_eq!((claim.payload.state.as_str(), claim.term), ("newer", 6));
}

/// The API server fails over to a replica that lacks the last writes.
#[test]
fn an_older_record_does_not_repeat_a_term() {
    let mut contest = contestant("me");
    contest.saw(Some(there(Some("other"), 9, "b")), ms(0));
    contest.saw(Some(there(None, 4, "a")), ms(10));
    let ElectionStep::Replace(claim, _) = contest.plan(ms(10)) else {
        panic!("the record is free");
    };
    assert_eq!(claim.term, 10);
}

#[test]
fn an_own_record_of_an_earlier_term_is_waited_for() {
    let mut contest = contestant("me");
    contest.saw(Some(there(Some("me"), 4, "a")), ms(0));
    assert!(
        matches!(contest.plan(ms(0)), ElectionStep::Replace(claim, _) if claim.term == 4),
        "no later term is known"
    );
    contest.saw(Some(there(Some("other"), 5, "b")), ms(1_000));
    contest.saw(Some(there(Some("me"), 4, "a")), ms(2_000));
    assert_eq!(contest.plan(ms(2_000)), ElectionStep::Read);
    let over = ms(2_000) + Timing::default().lease;
    assert!(matches!(contest.plan(over), ElectionStep::Replace(claim, _) if claim.term == 6));
}
