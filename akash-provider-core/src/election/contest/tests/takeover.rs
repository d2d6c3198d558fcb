//! Duration of a fail-over, from the last heartbeat of the old leader until the next leader starts. Some
//! calls get no response.

use super::{ms, there};
use crate::election::contest::*;

const LEASE: Duration = Duration::from_secs(12);
/// Documented maximum duration of a fail-over at the default lease duration.
const PROMISE: Duration = Duration::from_secs(15);

/// A call without a response.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lost {
    Request,
    Response,
}

/// Simulated fail-over. The last heartbeat is at `last`, and the standby starts at time zero.
#[derive(Debug, Clone, Copy)]
struct Run {
    last: Duration,
    /// One-way latency of a call.
    latency: Duration,
    /// Index of a call that gets no response, and the lost message of this call.
    lost: Option<(usize, Lost)>,
}

impl Run {
    fn stored(self, at: Duration) -> Stored {
        let sign = if at < self.last { "before" } else { "last" };
        let mut stored = there(Some("leader"), 1, sign);
        stored.record.lease = LEASE;
        stored
    }

    /// Returns the time from the last heartbeat until the standby leads.
    fn takeover(self) -> Duration {
        let me = Candidate {
            identity: "standby".to_owned(),
            ..Candidate::default()
        };
        let mut contest = Contest::new(me, String::new(), Timing::for_lease(LEASE));
        let (mut now, mut written) = (Duration::ZERO, None);
        for call in 0.. {
            let plan = contest.plan(now);
            let lost = self.lost.filter(|(at, _)| *at == call).map(|(_, lost)| lost);
            let begun = now;
            if lost != Some(Lost::Request)
                && let ElectionStep::Replace(claim, version) = &plan
            {
                let before = written.clone().unwrap_or_else(|| self.stored(now + self.latency));
                let mut after = there(claim.holder.as_deref(), claim.term, "standby");
                after.record.lease = LEASE;
                written = (before.version == *version).then_some(after).or(written);
            }
            let stored = written.clone().unwrap_or_else(|| self.stored(now + self.latency));
            if lost.is_some() {
                let took = contest.call_limit();
                now += took;
                contest.got_no_response(took);
            } else {
                now += self.latency * 2;
                contest.got_response(self.latency * 2);
                match &plan {
                    ElectionStep::Read => contest.saw(Some(stored), now),
                    _ => contest.wrote(&plan, stored, begun, now),
                }
            }
            if contest.leads(now).is_some() {
                break;
            }
            let claims = plan == ElectionStep::Read && !matches!(contest.plan(now), ElectionStep::Read);
            if lost.is_some() || !claims {
                now += contest.pause(now);
            }
        }
        now - self.last
    }
}

#[test]
fn a_takeover_is_in_time_with_one_call_without_a_response() {
    let mut longest = Duration::ZERO;
    for last in (0..3_000).step_by(25).map(ms) {
        for latency in [2, 50].map(ms) {
            let lost = (0..16).flat_map(|at| [(at, Lost::Request), (at, Lost::Response)].map(Some));
            for lost in lost.chain([None]) {
                let run = Run { last, latency, lost };
                let took = run.takeover();
                assert!(took >= LEASE, "{run:?} took {took:?}");
                longest = longest.max(took);
                assert!(took <= PROMISE, "{run:?} took {took:?}");
            }
        }
    }
    assert!(longest > LEASE + ms(1_500), "{longest:?}");
}

#[test]
fn a_slow_store_gets_longer_timeouts_and_an_unreachable_store_fewer_calls() {
    let timing = Timing::for_lease(LEASE);
    let mut contest = Contest::new(Candidate::default(), String::new(), timing);
    assert_eq!(contest.call_limit(), ms(1_000));
    let pauses: Vec<Duration> = (0..5)
        .map(|_| {
            contest.got_no_response(ms(5));
            assert_eq!(contest.call_limit(), LEASE / 3);
            contest.pause(ms(0))
        })
        .collect();
    assert_eq!(pauses, [370, 745, 1_495, 1_495, 1_495].map(ms));
    contest.got_no_response(ms(1_000));
    assert_eq!(
        contest.pause(ms(0)),
        ms(500),
        "the time of the call counts as delay"
    );
    contest.got_response(ms(1_200));
    assert_eq!(
        (contest.call_limit(), contest.pause(ms(0))),
        (ms(2_400), timing.retry)
    );
    contest.got_response(ms(3));
    assert_eq!(contest.call_limit(), ms(1_000));
    let short = Contest::new(Candidate::default(), String::new(), Timing::for_lease(ms(3_000)));
    assert_eq!(short.call_limit(), ms(1_000), "a store under load");
}
