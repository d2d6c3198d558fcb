//! Settings that differ from the record.

use super::{ms, there};
use crate::election::contest::*;

fn with_settings(mut stored: Stored, settings: &[(&str, &str)]) -> Stored {
    let owned = |(name, hash): &(&str, &str)| ((*name).to_owned(), (*hash).to_owned());
    stored.record.payload.settings = settings.iter().map(owned).collect();
    stored
}

pub(super) fn candidate(brings_settings: bool) -> Contest {
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
fn a_candidate_with_other_settings_leads_after_a_delay() {
    let lease = Timing::default().lease;
    let begins = |contest: &mut Contest, at: Duration| matches!(contest.plan(at), ElectionStep::Replace(..));
    let same = [("provider", "1"), ("price", "2"), ("gone", "9")];
    let other = [("provider", "1"), ("price", "8")];
    let foreign = [("provider", "7"), ("price", "2")];
    // A released record, and the record of a crashed leader: the time from which each candidate can lead.
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
                None => assert!(
                    !begins(&mut contest, LEASE_DURATION_MAX * 100),
                    "a candidate of another provider never leads"
                ),
            }
        }
    }
}

/// Returns the settings `provider` (always 1) and `price`.
fn all(price: &str) -> BTreeMap<String, String> {
    [("provider", "1"), ("price", price)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

fn heartbeat(at: u64, price: &str) -> Stored {
    with_settings(
        there(Some("old"), 4, &at.to_string()),
        &[("provider", "1"), ("price", price)],
    )
}

/// Returns the time of the takeover in milliseconds. `last` is the time of the leader's last heartbeat.
fn takes_over(edits: &[(u64, &str)], last: u64, price: &str) -> u64 {
    let mut contest = candidate(false);
    let mut at = 0;
    loop {
        for (_, price) in edits.iter().filter(|(edit, _)| *edit == at) {
            contest.set_settings(all(price), ms(at));
        }
        if at % 1_000 == 0 {
            let price = if at < last { "2" } else { price };
            contest.saw(Some(heartbeat(at.min(last), price)), ms(at));
        }
        if matches!(contest.plan(ms(at)), ElectionStep::Replace(..)) {
            return at;
        }
        at += 250;
    }
}

#[test]
fn equal_edits_on_both_sides_do_not_delay_a_takeover_and_different_edits_do() {
    let lease = 15_000;
    // The last heartbeat contains the leader's edit; the standby was edited before or after it.
    assert_eq!(takes_over(&[(3_000, "9")], 5_000, "9"), 5_000 + lease);
    assert_eq!(takes_over(&[(9_000, "9")], 5_000, "9"), 5_000 + lease);
    // The leader stopped between its edit and its next heartbeat.
    for edit in [4_250, 5_000, 9_000] {
        assert_eq!(takes_over(&[(edit, "9")], 5_000, "2"), 5_000 + lease, "{edit}");
    }
    // Only one side was edited.
    assert_eq!(takes_over(&[], 5_000, "9"), 5_000 + 2 * lease);
    assert_eq!(takes_over(&[(3_000, "9")], 60_000, "2"), 60_000 + 2 * lease);
    assert_eq!(
        takes_over(&[(3_000, "9"), (5_250, "8")], 5_000, "9"),
        5_000 + lease
    );
}

#[test]
fn a_leader_writes_its_settings_with_the_next_heartbeat() {
    let mut contest = candidate(false);
    contest.saw(Some(there(None, 4, "a")), ms(0));
    let plan = contest.plan(ms(0));
    contest.wrote(&plan, there(Some("me"), 5, "b"), ms(0), ms(1));
    assert!(contest.set_settings(all("9"), ms(2)));
    assert!(!contest.set_settings(all("9"), ms(3)));
    let ElectionStep::Replace(claim, _) = contest.plan(ms(4)) else {
        panic!("the candidate leads");
    };
    assert_eq!(claim.payload.settings, all("9"));
}
