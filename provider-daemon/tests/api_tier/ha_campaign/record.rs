//! What the Lease said, version by version, and whether anybody wrote who it does not name.

use crate::ha_campaign::room::Sent;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use testbed::Cluster;

/// The Lease from this moment on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) at: Instant,
    /// As the instance names itself; empty where nobody holds it.
    pub(crate) holder: String,
    pub(crate) term: u64,
}

/// The API server tells of a write a moment after whoever wrote has its answer.
const LATE_NEWS: Duration = Duration::from_millis(300);
/// What was on its way when a daemon stood still or its wire was cut comes in so long after that ends.
const ON_ITS_WAY: Duration = Duration::from_millis(500);

/// Everything that the Lease said since this was made.
pub(crate) struct Watch {
    child: Child,
    held: Arc<Mutex<Vec<Held>>>,
}

impl Watch {
    pub(crate) fn start(cluster: &Cluster, name: &str) -> Self {
        let line =
            "jsonpath={.metadata.name} {.spec.leaseTransitions} holder={.spec.holderIdentity}{\"\\n\"}";
        let mut child = Command::new(cluster.program("kubectl"))
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .args([
                "get",
                "leases.coordination.k8s.io",
                "--namespace=lease",
                "--watch",
                "--output",
                line,
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let held = Arc::<Mutex<Vec<Held>>>::default();
        let (seen, name) = (Arc::clone(&held), format!("{name} "));
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Some((term, holder)) = line
                    .strip_prefix(&name)
                    .and_then(|rest| rest.split_once(" holder="))
                else {
                    continue;
                };
                let held = Held {
                    at: Instant::now(),
                    holder: holder.to_owned(),
                    term: term.parse().unwrap_or_default(),
                };
                let mut seen = seen.lock().unwrap();
                let is_news = seen
                    .last()
                    .is_none_or(|last| (&last.holder, last.term) != (&held.holder, held.term));
                if is_news {
                    seen.push(held);
                }
            }
        });
        Self { child, held }
    }

    pub(crate) fn held(&self) -> Vec<Held> {
        self.held.lock().unwrap().clone()
    }

    pub(crate) fn last(&self) -> Option<Held> {
        self.held.lock().unwrap().last().cloned()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A time in which a daemon stood still, or could not be heard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Away {
    pub(crate) who: usize,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

/// Moments with two writers, and writes that were given away before their writer was cut off and came in late.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) two_writers: Vec<String>,
    pub(crate) late: usize,
}

/// Holds what was sent against the record: nobody writes whom it does not name, terms only grow, and each has one holder.
pub(crate) fn judged(
    held: &[Held],
    sent: &[Sent],
    away: &[Away],
    is: impl Fn(usize, &str) -> bool,
) -> Judged {
    let mut judged = Judged::default();
    let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
    for (before, after) in held.iter().zip(held.iter().skip(1)) {
        if after.term < before.term {
            judged
                .two_writers
                .push(format!("term {} after {}", after.term, before.term));
        }
    }
    for one in held.iter().filter(|one| !one.holder.is_empty()) {
        let first = holders.entry(one.term).or_insert(&one.holder);
        if *first != one.holder {
            judged.two_writers.push(format!(
                "term {} is that of {first} and of {}",
                one.term, one.holder
            ));
        }
    }
    for write in sent {
        let before = held.iter().rfind(|one| one.at <= write.at);
        let is_leader = before.is_some_and(|one| is(write.by, &one.holder));
        let soon = held
            .iter()
            .filter(|one| one.at > write.at && one.at <= write.at + LATE_NEWS);
        if is_leader || soon.into_iter().any(|one| is(write.by, &one.holder)) {
            continue;
        }
        let was_on_its_way = away.iter().any(|away| {
            let came = (away.from..away.until + ON_ITS_WAY).contains(&write.at);
            away.who == write.by && came && write.connected <= away.from
        });
        if was_on_its_way {
            judged.late += 1;
        } else {
            let named = before.map_or("nobody", |one| one.holder.as_str());
            judged
                .two_writers
                .push(format!("daemon {} wrote while {named:?} led", write.by));
        }
    }
    judged
}

#[test]
fn a_write_of_whom_the_record_does_not_name_is_found_and_one_that_was_on_its_way_is_told_apart() {
    let begun = Instant::now();
    let at = |ms: u64| begun + Duration::from_millis(ms);
    let held = |ms, holder: &str, term| Held {
        at: at(ms),
        holder: holder.to_owned(),
        term,
    };
    let sent = |by, ms, connected| Sent {
        by,
        at: at(ms),
        connected: at(connected),
    };
    let is = |who: usize, holder: &str| holder.starts_with(["a", "b"][who]);
    let all = [held(0, "a-1", 1), held(10_000, "b-1", 2)];
    let fine = [sent(0, 5_000, 0), sent(1, 9_900, 0), sent(1, 11_000, 0)];
    assert!(judged(&all, &fine, &[], is).two_writers.is_empty());
    let wrong = [sent(0, 10_001, 0)];
    assert_eq!(judged(&all, &wrong, &[], is).two_writers.len(), 1);
    let away = [Away {
        who: 0,
        from: at(6_000),
        until: at(10_000),
    }];
    let told = judged(&all, &wrong, &away, is);
    assert_eq!((told.two_writers.len(), told.late), (0, 1));
    for wrong in [sent(0, 10_001, 9_000), sent(0, 12_000, 0)] {
        assert_eq!(
            judged(&all, &[wrong], &away, is).two_writers.len(),
            1,
            "{wrong:?}"
        );
    }
    let again = [held(0, "a-1", 3), held(1, "b-1", 3), held(2, "a-1", 2)];
    assert_eq!(judged(&again, &[], &[], is).two_writers.len(), 2);
}
