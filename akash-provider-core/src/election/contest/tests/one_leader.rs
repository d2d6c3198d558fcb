//! Candidates that share one store, with late or lost responses, suspended processes and deleted records.

use super::{contestant, ms};
use crate::election::contest::*;
use proptest::prelude::*;

/// An in-memory store of one record. Each write changes the version.
#[derive(Debug, Default)]
struct Store {
    record: Option<ElectionRecord>,
    version: u64,
}

impl Store {
    fn stored(&self) -> Option<Stored> {
        let record = self.record.clone()?;
        let version = self.version.to_string();
        Some(Stored { record, version })
    }

    fn forge(&mut self, forgery: &Forgery) {
        if let Some(record) = &mut self.record {
            record.term = forgery.term;
            if let Some(holder) = forgery.holder {
                record.holder = Some(format!("node-{holder}"));
            }
            self.version += 1;
        }
    }

    fn carry_out(&mut self, plan: &ElectionStep, lease: Duration) -> Answer {
        let claim = match plan {
            ElectionStep::Read => return Answer::Read(self.stored()),
            ElectionStep::Create(claim) if self.record.is_none() => claim,
            ElectionStep::Replace(claim, version)
                if self.record.is_some() && *version == self.version.to_string() =>
            {
                claim
            }
            ElectionStep::Create(_) | ElectionStep::Replace(..) => return Answer::Failed,
        };
        self.version += 1;
        self.record = Some(ElectionRecord {
            holder: claim.holder.clone(),
            lease,
            term: claim.term,
            sign: self.version.to_string(),
            payload: claim.payload.clone(),
        });
        self.stored().map_or(Answer::Failed, Answer::Written)
    }
}

/// A record that a third party writes.
#[derive(Debug, Clone)]
struct Forgery {
    second: u64,
    term: u64,
    holder: Option<u8>,
}

fn forgery() -> impl Strategy<Value = Forgery> {
    let terms = [u64::MAX, u64::MAX - 1, TERM_MAX + 99, TERM_MAX, 2 * TERM_LEAP];
    let holder = prop::option::of(0u8..3);
    (0u64..150, prop::sample::select(terms.to_vec()), holder).prop_map(|(second, term, holder)| Forgery {
        second,
        term,
        holder,
    })
}

#[derive(Debug, Clone)]
enum Answer {
    Read(Option<Stored>),
    Written(Stored),
    Failed,
}

/// A call in progress.
#[derive(Debug)]
struct Flight {
    plan: ElectionStep,
    begun: Duration,
    carried_out: u64,
    responds_at: u64,
    has_response: bool,
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Node {
    contest: Contest,
    /// Time by which the clock of this node is ahead of the clock of the test.
    ahead: Duration,
    wakes: u64,
    flight: Option<Flight>,
    /// Timed-out requests, each with its time of arrival at the store.
    late: Vec<(u64, ElectionStep)>,
}

/// Latencies and faults of the next call of a node.
#[derive(Debug, Clone, Copy)]
struct Luck {
    way_there: u64,
    way_back: u64,
    /// Lost message: 0 for the response, 1 for the request, otherwise none.
    lost: u8,
    /// Additional delay before a request without a response takes effect in the store.
    late: u64,
    /// Duration for which the instance is suspended before its next step.
    stands_still: u64,
}

fn luck() -> impl Strategy<Value = Luck> {
    let often = |short: u64, long: u64| prop_oneof![6 => 0..short, 1 => 0..long];
    let late = often(5_000, 60_000);
    (
        often(200, 9_000),
        often(200, 9_000),
        0u8..12,
        late,
        often(1, 40_000),
    )
        .prop_map(|(way_there, way_back, lost, late, stands_still)| Luck {
            way_there,
            way_back,
            lost,
            late,
            stands_still,
        })
}

impl Node {
    fn now(&self, at: u64) -> Duration {
        ms(at) + self.ahead
    }

    fn leads(&self, at: u64) -> Option<u64> {
        self.contest.leads(self.now(at)).map(|(term, _)| term)
    }

    fn step(&mut self, at: u64, store: &mut Store, mut luck: impl FnMut() -> Luck) {
        let lease = Timing::default().lease;
        for (_, plan) in self.late.extract_if(.., |(when, _)| *when <= at) {
            store.carry_out(&plan, lease);
        }
        if let Some(flight) = &mut self.flight {
            if flight.answer.is_none() && at >= flight.carried_out {
                flight.answer = Some(store.carry_out(&flight.plan, lease));
            }
            if at < flight.responds_at || at < self.wakes {
                return;
            }
        }
        if at < self.wakes {
            return;
        }
        let now = self.now(at);
        if let Some(flight) = self.flight.take() {
            match flight.answer {
                Some(Answer::Read(stored)) => self.contest.saw(stored, now),
                Some(Answer::Written(stored)) => self.contest.wrote(&flight.plan, stored, flight.begun, now),
                Some(Answer::Failed) if flight.has_response => self.contest.failed(),
                Some(Answer::Failed) | None => self.contest.got_no_response(now.saturating_sub(flight.begun)),
            }
            if flight.has_response {
                self.contest.got_response(now.saturating_sub(flight.begun));
            }
            self.wakes = at + u64::try_from(self.contest.pause(now).as_millis()).unwrap_or(0);
            return;
        }
        let luck = luck();
        let back = at + luck.way_there + luck.way_back;
        let plan = self.contest.plan(now);
        let limit = u64::try_from(self.contest.call_limit().as_millis()).unwrap_or(0);
        let has_response = luck.lost > 1 && back <= at + limit;
        if !has_response && luck.lost != 1 {
            self.late.push((at + luck.way_there + luck.late, plan.clone()));
        }
        self.flight = Some(Flight {
            plan,
            begun: now,
            carried_out: at + luck.way_there,
            responds_at: if has_response { back } else { at + limit },
            has_response,
            // The result of a call without a response is unknown.
            answer: (!has_response).then_some(Answer::Failed),
        });
        self.wakes = at + luck.stands_still;
    }
}

fn nodes(count: u64) -> Vec<Node> {
    let node = |n: u64| Node {
        contest: contestant(&format!("node-{n}")),
        // Clocks may differ by any offset, but must run at the same rate.
        ahead: ms(n * 7_777_777),
        wakes: n * 300,
        flight: None,
        late: Vec::new(),
    };
    (0..count).map(node).collect()
}

/// Checks that at most one node leads at any time, and that a node leads 60 s after the last fault. Also
/// checks that no leader uses a forged term.
fn contested(lucks: &[Luck], deletes: &[u64], forgeries: &[Forgery]) -> Result<(), TestCaseError> {
    let (mut store, mut nodes, mut next) = (Store::default(), nodes(3), 0);
    let mut last_term = 0;
    let calm = Luck {
        way_there: 5,
        way_back: 5,
        lost: 9,
        late: 0,
        stands_still: 0,
    };
    let trouble = 120_000;
    for at in (0..trouble + 90_000).step_by(50) {
        if deletes.contains(&(at / 1_000)) && at % 1_000 == 0 {
            store.record = None;
        }
        let now = |forgery: &&Forgery| at == forgery.second * 1_000;
        forgeries
            .iter()
            .filter(now)
            .for_each(|forgery| store.forge(forgery));
        for node in &mut nodes {
            node.step(at, &mut store, || {
                next += 1;
                if at < trouble {
                    lucks[next % lucks.len()]
                } else {
                    calm
                }
            });
        }
        let leaders: Vec<u64> = nodes.iter().filter_map(|node| node.leads(at)).collect();
        prop_assert!(
            leaders.len() <= 1,
            "at {at} ms there are {} leaders",
            leaders.len()
        );
        // A deleted or forged record hides the last term from nodes that had not read it.
        if let (Some(term), true) = (leaders.first(), deletes.is_empty() && forgeries.is_empty()) {
            prop_assert!(
                *term >= last_term,
                "election term {term} was used after {last_term}"
            );
            last_term = *term;
        }
        prop_assert!(
            leaders.first().is_none_or(|term| *term < TERM_LEAP),
            "a forged term: {leaders:?}"
        );
    }
    let at = trouble + 90_000;
    prop_assert!(
        nodes.iter().any(|node| node.leads(at).is_some()),
        "no node is the leader at the end: {nodes:?}"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn at_most_one_leader_exists_with_late_lost_or_suspended_calls(
        lucks in prop::collection::vec(luck(), 20..60),
    ) {
        contested(&lucks, &[], &[])?;
    }

    #[test]
    fn a_deleted_record_causes_no_second_leader(
        lucks in prop::collection::vec(luck(), 20..60),
        deletes in prop::collection::vec(0u64..150, 1..6),
    ) {
        contested(&lucks, &deletes, &[])?;
    }

    #[test]
    fn a_forged_term_causes_no_second_leader_and_is_not_used(
        lucks in prop::collection::vec(luck(), 20..60),
        forgeries in prop::collection::vec(forgery(), 1..6),
    ) {
        contested(&lucks, &[], &forgeries)?;
    }
}
