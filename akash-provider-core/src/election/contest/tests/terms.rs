//! Election terms forged by a third party.

use super::{contestant, ms, there};
use crate::election::contest::*;

#[test]
fn a_forged_term_is_not_used_and_replaces_no_leader() {
    let lease = Timing::default().lease;
    for (last_term, forged, plausible) in [
        (0, TERM_LEAP, true),
        (0, TERM_LEAP + 1, false),
        (7, u64::MAX, false),
        (7, u64::MAX - 1, false),
        (7, TERM_MAX, false),
        (7, 2_147_483_647, false),
        (TERM_MAX - 1, TERM_MAX, true),
        (TERM_MAX, TERM_MAX + 1, true),
        (TERM_MAX, TERM_MAX + 2, false),
    ] {
        let next = if plausible { forged + 1 } else { last_term + 1 };
        // An active holder stays the leader. After its last heartbeat a standby waits for one lease.
        let mut contest = contestant("me").after_term(last_term);
        for second in 0..60 {
            contest.saw(
                Some(there(Some("other"), forged, &second.to_string())),
                ms(second * 1_000),
            );
            assert_eq!(
                contest.plan(ms(second * 1_000)),
                ElectionStep::Read,
                "{forged} after {last_term}"
            );
        }
        assert_eq!(
            contest.implausible(),
            (!plausible).then_some(forged),
            "after {last_term}"
        );
        let free = ms(59_000) + lease;
        assert_eq!(contest.plan(free - ms(1)), ElectionStep::Read);
        let plan = contest.plan(free);
        assert!(
            matches!(&plan, ElectionStep::Replace(claim, _) if claim.term == next && claim.is_new_term),
            "{plan:?}"
        );
        // A forged record with this instance as the holder is not a leadership of this instance.
        let mut contest = contestant("me").after_term(last_term);
        contest.saw(Some(there(Some("me"), forged, "a")), ms(0));
        assert_eq!(
            contest.plan(ms(0)) == ElectionStep::Read,
            !plausible,
            "{forged} after {last_term}"
        );
    }
}

#[test]
fn a_leader_continues_its_term_and_repairs_a_forged_record() {
    for forged in [u64::MAX, TERM_MAX, 9 + TERM_LEAP] {
        let mut contest = contestant("me");
        contest.saw(Some(there(None, 7, "a")), ms(0));
        let plan = contest.plan(ms(0));
        contest.wrote(&plan, there(Some("me"), 8, "b"), ms(0), ms(1));
        contest.failed();
        contest.saw(Some(there(Some("me"), forged, "forged")), ms(10));
        assert_eq!(contest.leads(ms(20)).map(|(term, _)| term), Some(8));
        let plan = contest.plan(ms(20));
        assert!(
            matches!(&plan, ElectionStep::Replace(claim, _) if claim.term == 8 && !claim.is_new_term),
            "{plan:?}"
        );
        // A store that returns a forged term does not change the term of the leader.
        contest.wrote(&plan, there(Some("me"), forged, "c"), ms(20), ms(21));
        assert_eq!(contest.leads(ms(30)).map(|(term, _)| term), Some(8));
        assert_eq!(contest.implausible(), Some(forged));
        contest.wrote(&plan, there(Some("me"), 8, "d"), ms(40), ms(41));
        assert_eq!((contest.implausible(), contest.highest_term()), (None, 8));
    }
    assert_eq!(
        contestant("me").after_term(u64::MAX).highest_term(),
        0,
        "a stored state may contain a forged term"
    );
}
