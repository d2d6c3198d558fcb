//! Contestants around one store, with answers that come late or never, processes that stand still and records that
//! somebody deletes.

use super::*;
use proptest::prelude::*;

fn contestant(identity: &str) -> Contest {
    let me = Candidate {
        identity: identity.to_owned(),
        ..Candidate::default()
    };
    Contest::new(me, String::new(), Timing::default())
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The store: one record, and a version for each write.
#[derive(Debug, Default)]
struct Store {
    record: Option<Record>,
    version: u64,
}

impl Store {
    fn stored(&self) -> Option<Stored> {
        let record = self.record.clone()?;
        let version = self.version.to_string();
        Some(Stored { record, version })
    }

    /// A third party writes another term into the record, and another holder where it names one.
    fn forge(&mut self, forgery: &Forgery) {
        if let Some(record) = &mut self.record {
            record.term = forgery.term;
            if let Some(holder) = forgery.holder {
                record.holder = Some(format!("node-{holder}"));
            }
            self.version += 1;
        }
    }

    fn carry_out(&mut self, plan: &Plan, lease: Duration) -> Answer {
        let claim = match plan {
            Plan::Read => return Answer::Read(self.stored()),
            Plan::Create(claim) if self.record.is_none() => claim,
            Plan::Replace(claim, version)
                if self.record.is_some() && *version == self.version.to_string() =>
            {
                claim
            }
            Plan::Create(_) | Plan::Replace(..) => return Answer::Failed,
        };
        self.version += 1;
        self.record = Some(Record {
            holder: claim.holder.clone(),
            lease,
            term: claim.term,
            sign: self.version.to_string(),
            beside: claim.beside.clone(),
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

/// A call under way: it is carried out at a time, and answered at a later one.
#[derive(Debug)]
struct Flight {
    plan: Plan,
    begun: Duration,
    carried_out: u64,
    answered: u64,
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Node {
    contest: Contest,
    /// Its clock is so far ahead of ours.
    ahead: Duration,
    wakes: u64,
    flight: Option<Flight>,
    /// Requests that nobody waits for any more, with when they arrive all the same.
    late: Vec<(u64, Plan)>,
}

/// What the next call of a contestant meets.
#[derive(Debug, Clone, Copy)]
struct Luck {
    way_there: u64,
    way_back: u64,
    /// The request is lost, or its answer is.
    lost: u8,
    /// Then it arrives so much later.
    late: u64,
    /// It stands still for so long before it makes the next step.
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

const CALL_LIMIT: u64 = 5_000;

impl Node {
    fn now(&self, at: u64) -> Duration {
        ms(at) + self.ahead
    }

    fn leads(&self, at: u64) -> Option<u64> {
        self.contest.leads(self.now(at)).map(|(term, _)| term)
    }

    /// One moment of its life.
    fn step(&mut self, at: u64, store: &mut Store, mut luck: impl FnMut() -> Luck) {
        let lease = Timing::default().lease;
        for (_, plan) in self.late.extract_if(.., |(when, _)| *when <= at) {
            store.carry_out(&plan, lease);
        }
        if let Some(flight) = &mut self.flight {
            if flight.answer.is_none() && at >= flight.carried_out {
                flight.answer = Some(store.carry_out(&flight.plan, lease));
            }
            if at < flight.answered || at < self.wakes {
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
                Some(Answer::Failed) | None => self.contest.failed(),
            }
            self.wakes = at + u64::try_from(self.contest.pause(now).as_millis()).unwrap_or(0);
            return;
        }
        let luck = luck();
        let back = at + luck.way_there + luck.way_back;
        let plan = self.contest.plan(now);
        let is_answered = luck.lost > 1 && back <= at + CALL_LIMIT;
        if !is_answered && luck.lost != 1 {
            self.late.push((at + luck.way_there + luck.late, plan.clone()));
        }
        self.flight = Some(Flight {
            plan,
            begun: now,
            carried_out: at + luck.way_there,
            answered: if is_answered { back } else { at + CALL_LIMIT },
            // Of one that is not answered nothing is known.
            answer: (!is_answered).then_some(Answer::Failed),
        });
        self.wakes = at + luck.stands_still;
    }
}

fn nodes(count: u64) -> Vec<Node> {
    let node = |n: u64| Node {
        contest: contestant(&format!("node-{n}")),
        // Clocks need not agree about anything but how fast they go.
        ahead: ms(n * 7_777_777),
        wakes: n * 300,
        flight: None,
        late: Vec::new(),
    };
    (0..count).map(node).collect()
}

/// Nobody in 60 s of calm stays without a leader, never are there two, and none leads in a forged term.
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
        // A record that was deleted or forged does not show the last term to those that had not read it.
        if let (Some(term), true) = (leaders.first(), deletes.is_empty() && forgeries.is_empty()) {
            prop_assert!(*term >= last_term, "term {term} after {last_term}");
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
        "nobody leads: {nodes:?}"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn there_is_one_leader_at_most_whatever_is_late_lost_or_stands_still(
        lucks in prop::collection::vec(luck(), 20..60),
    ) {
        contested(&lucks, &[], &[])?;
    }

    #[test]
    fn a_record_that_is_deleted_makes_no_second_leader(
        lucks in prop::collection::vec(luck(), 20..60),
        deletes in prop::collection::vec(0u64..150, 1..6),
    ) {
        contested(&lucks, &deletes, &[])?;
    }

    #[test]
    fn a_forged_term_makes_no_second_leader_and_is_not_led_in(
        lucks in prop::collection::vec(luck(), 20..60),
        forgeries in prop::collection::vec(forgery(), 1..6),
    ) {
        contested(&lucks, &[], &forgeries)?;
    }
}

fn there(holder: Option<&str>, term: u64, sign: &str) -> Stored {
    let record = Record {
        holder: holder.map(str::to_owned),
        lease: Duration::from_secs(15),
        term,
        sign: sign.to_owned(),
        beside: Beside::default(),
    };
    Stored {
        record,
        version: format!("v{sign}"),
    }
}

#[test]
fn one_that_was_handed_over_is_taken_at_once_and_in_a_term_of_its_own() {
    let mut contest = contestant("me");
    assert_eq!(contest.plan(ms(0)), Plan::Read);
    contest.saw(Some(there(None, 7, "a")), ms(10));
    let Plan::Replace(claim, version) = contest.plan(ms(10)) else {
        panic!("it is free");
    };
    assert_eq!((claim.term, claim.begins, version.as_str()), (8, true, "va"));
    let plan = contest.plan(ms(10));
    contest.wrote(&plan, there(Some("me"), 8, "b"), ms(10), ms(12));
    assert_eq!(contest.leads(ms(20)), Some((8, ms(10_010))));
    assert_eq!(contest.leads(ms(10_010)), None, "it needs a sign of life");
}

#[test]
fn a_holder_that_lives_is_left_and_one_whose_labels_alone_change_is_not() {
    let mut contest = contestant("me");
    for second in 0..60 {
        contest.saw(
            Some(there(Some("other"), 1, &second.to_string())),
            ms(second * 1_000),
        );
        assert_eq!(contest.plan(ms(second * 1_000)), Plan::Read);
    }
    for second in 60..74 {
        let mut touched = there(Some("other"), 1, "59");
        touched.version = second.to_string();
        contest.saw(Some(touched), ms(second * 1_000));
        assert_eq!(contest.plan(ms(second * 1_000)), Plan::Read, "{second}");
    }
    assert!(
        matches!(contest.plan(ms(74_000)), Plan::Replace(claim, version) if claim.term == 2 && version == "73")
    );
}

#[test]
fn what_a_record_says_of_itself_has_bounds() {
    let mut absurd = there(Some("other"), u64::MAX - 1, "a");
    absurd.record.lease = Duration::from_secs(1 << 40);
    let mut contest = contestant("me");
    contest.saw(Some(absurd), ms(0));
    assert_eq!(contest.plan(DURATION_MAX - ms(1)), Plan::Read);
    assert!(matches!(contest.plan(DURATION_MAX), Plan::Replace(..)));
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
fn what_is_handed_over_is_ours() {
    let mut contest = contestant("me");
    assert_eq!(contest.release(), None);
    contest.saw(Some(there(None, 1, "a")), ms(0));
    let plan = contest.plan(ms(0));
    contest.wrote(&plan, there(Some("me"), 2, "b"), ms(0), ms(0));
    let released = contest.release();
    assert!(
        matches!(
            released,
            Some(Plan::Replace(
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
    assert_eq!(contest.leads(ms(1)), None, "from the moment it is handed over");
    assert_eq!(contest.release(), None);
}

/// A first look found no record, and the record that follows from it is made late: another one was there in between, and
/// whoever led by that one may not know yet that it was deleted.
#[test]
fn a_record_that_was_made_late_leads_nobody_before_everybody_else_has_stopped() {
    let late = || {
        let mut contest = contestant("me");
        contest.saw(None, ms(0));
        let plan = contest.plan(ms(0));
        assert!(matches!(plan, Plan::Create(_)));
        (contest, plan)
    };
    let lease = Timing::default().lease;
    let (mut answered, plan) = late();
    answered.wrote(&plan, there(Some("me"), 1, "b"), ms(59_000), ms(60_000));
    let (mut unanswered, _) = late();
    unanswered.failed();
    unanswered.saw(Some(there(Some("other"), 1, "a")), ms(30_000));
    unanswered.failed();
    unanswered.saw(Some(there(Some("me"), 1, "b")), ms(60_000));
    for mut contest in [answered, unanswered] {
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

fn with_settings(mut stored: Stored, settings: &[(&str, &str)]) -> Stored {
    let owned = |(name, hash): &(&str, &str)| ((*name).to_owned(), (*hash).to_owned());
    stored.record.beside.settings = settings.iter().map(owned).collect();
    stored
}

fn candidate(brings_settings: bool) -> Contest {
    let settings = [("provider", "1"), ("price", "2"), ("new", "3")];
    let settings = settings.map(|(name, hash)| (name.to_owned(), hash.to_owned()));
    let me = Candidate {
        identity: "me".to_owned(),
        address: "here:8443".to_owned(),
        settings: settings.into(),
        fixed: &["provider"],
        brings_settings,
    };
    Contest::new(me, "ours".to_owned(), Timing::default())
}

#[test]
fn with_other_settings_it_waits_for_those_who_have_the_same_and_leads_when_there_is_none() {
    let lease = Timing::default().lease;
    let begins = |contest: &mut Contest, at: Duration| matches!(contest.plan(at), Plan::Replace(..));
    let same = [("provider", "1"), ("price", "2"), ("gone", "9")];
    let other = [("provider", "1"), ("price", "8")];
    let foreign = [("provider", "7"), ("price", "2")];
    // Handed over, and left by one that died: from when on it is free for whom.
    for (holder, over) in [(None, Duration::ZERO), (Some("old"), lease)] {
        let free = [
            (&same[..], false, Some(over)),
            (&other, true, Some(over)),
            (&other, false, Some(over + lease)),
            (&foreign, false, None),
            (&foreign, true, None),
        ];
        for (settings, brings, from) in free {
            let mut contest = candidate(brings);
            contest.saw(Some(with_settings(there(holder, 4, "a"), settings)), ms(0));
            match from {
                Some(from) => {
                    assert!(
                        from.is_zero() || !begins(&mut contest, from - ms(1)),
                        "{settings:?}"
                    );
                    assert!(begins(&mut contest, from), "{settings:?} {holder:?}");
                }
                None => assert!(!begins(&mut contest, DURATION_MAX * 100), "another provider's"),
            }
        }
    }
}

#[test]
fn what_was_kept_goes_from_leader_to_leader_and_outlives_the_record() {
    let mut contest = candidate(false);
    assert!(!contest.keep_for_the_next("of a standby".to_owned()));
    let mut theirs = there(None, 4, "a");
    theirs.record.beside.kept = "theirs".to_owned();
    contest.saw(Some(theirs), ms(0));
    let plan = contest.plan(ms(0));
    let Plan::Replace(claim, _) = &plan else {
        panic!("it is free");
    };
    assert_eq!(
        (claim.beside.kept.as_str(), claim.beside.address.as_str()),
        ("theirs", "here:8443")
    );
    contest.wrote(&plan, there(Some("me"), 5, "b"), ms(0), ms(1));
    assert!(contest.keep_for_the_next("newer".to_owned()));
    // The record is gone, or says nothing of it: we still know.
    contest.saw(Some(there(Some("me"), 5, "c")), ms(2));
    contest.saw(None, ms(3));
    let Plan::Create(claim) = contest.plan(ms(3)) else {
        panic!("there is none");
    };
    assert_eq!((claim.beside.kept.as_str(), claim.term), ("newer", 6));
}

/// As after a fail-over to a server that lacks the last writes.
#[test]
fn a_record_that_is_an_older_one_again_begins_no_term_twice() {
    let mut contest = contestant("me");
    contest.saw(Some(there(Some("other"), 9, "b")), ms(0));
    contest.saw(Some(there(None, 4, "a")), ms(10));
    let Plan::Replace(claim, _) = contest.plan(ms(10)) else {
        panic!("it is free");
    };
    assert_eq!(claim.term, 10);
}

#[test]
fn a_forged_term_is_not_used_and_usurps_nobody() {
    let lease = Timing::default().lease;
    for (known, forged, plausible) in [
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
        let next = if plausible { forged + 1 } else { known + 1 };
        // A holder that lives is left, however long; after its last heartbeat the others wait for one lease.
        let mut contest = contestant("me").after_term(known);
        for second in 0..60 {
            contest.saw(
                Some(there(Some("other"), forged, &second.to_string())),
                ms(second * 1_000),
            );
            assert_eq!(
                contest.plan(ms(second * 1_000)),
                Plan::Read,
                "{forged} after {known}"
            );
        }
        assert_eq!(
            contest.implausible(),
            (!plausible).then_some(forged),
            "after {known}"
        );
        let free = ms(59_000) + lease;
        assert_eq!(contest.plan(free - ms(1)), Plan::Read);
        let plan = contest.plan(free);
        assert!(
            matches!(&plan, Plan::Replace(claim, _) if claim.term == next && claim.begins),
            "{plan:?}"
        );
        // A forged record that names ourselves is not ours.
        let mut contest = contestant("me").after_term(known);
        contest.saw(Some(there(Some("me"), forged, "a")), ms(0));
        assert_eq!(
            contest.plan(ms(0)) == Plan::Read,
            !plausible,
            "{forged} after {known}"
        );
    }
}

#[test]
fn a_leader_whose_term_is_forged_goes_on_in_its_own_and_repairs_the_record() {
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
            matches!(&plan, Plan::Replace(claim, _) if claim.term == 8 && !claim.begins),
            "{plan:?}"
        );
        // A store that gives a forged term of its own does not change ours either.
        contest.wrote(&plan, there(Some("me"), forged, "c"), ms(20), ms(21));
        assert_eq!(contest.leads(ms(30)).map(|(term, _)| term), Some(8));
        assert_eq!(contest.implausible(), Some(forged));
        contest.wrote(&plan, there(Some("me"), 8, "d"), ms(40), ms(41));
        assert_eq!((contest.implausible(), contest.highest_term()), (None, 8));
    }
    assert_eq!(
        contestant("me").after_term(u64::MAX).highest_term(),
        0,
        "a home may have stored one"
    );
}

#[test]
fn a_record_of_an_earlier_term_of_ours_is_waited_for_like_anybodys() {
    let mut contest = contestant("me");
    contest.saw(Some(there(Some("me"), 4, "a")), ms(0));
    assert!(
        matches!(contest.plan(ms(0)), Plan::Replace(claim, _) if claim.term == 4),
        "nothing later is known"
    );
    contest.saw(Some(there(Some("other"), 5, "b")), ms(1_000));
    contest.saw(Some(there(Some("me"), 4, "a")), ms(2_000));
    assert_eq!(contest.plan(ms(2_000)), Plan::Read);
    let over = ms(2_000) + Timing::default().lease;
    assert!(matches!(contest.plan(over), Plan::Replace(claim, _) if claim.term == 6));
}
