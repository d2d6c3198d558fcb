//! History of the election record, and a check that each write came from the holder of the record at that
//! time.

use crate::ha::redis_says;
use crate::ha_campaign::Way;
use crate::ha_campaign::room::{Sent, To};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use testbed::Testbed;

/// Holder and term in the election record, with the time of the read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObservedHolder {
    pub(crate) at: Instant,
    /// Identity of the holder; empty without a holder.
    pub(crate) holder: String,
    pub(crate) term: u64,
}

/// Maximum delay from a write of the election record to its observation.
const LATE_NEWS: Duration = Duration::from_secs(1);
/// Maximum duration of a write over a working link on a busy machine.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

/// Observer that stores every new state of the election record.
pub(crate) struct Watch {
    /// The `kubectl` process that watches the Lease.
    child: Option<Child>,
    ends: Arc<AtomicBool>,
    holders: Arc<Mutex<Vec<ObservedHolder>>>,
}

impl Watch {
    pub(crate) fn start(cluster: &Testbed, name: &str) -> Self {
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
        let holders = Arc::<Mutex<Vec<ObservedHolder>>>::default();
        let (seen, name) = (Arc::clone(&holders), format!("{name} "));
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Some((term, holder)) = line
                    .strip_prefix(&name)
                    .and_then(|rest| rest.split_once(" holder="))
                else {
                    continue;
                };
                saw(&seen, holder, term);
            }
        });
        Self {
            child: Some(child),
            ends: Arc::default(),
            holders,
        }
    }

    /// Starts an observer of the election record `name` in Redis.
    pub(crate) fn of_redis(port: u16, name: &str) -> Self {
        const BOTH: &str = "return (redis.call('HGET', KEYS[1], 'term') or '0')..' '..(redis.call('HGET', KEYS[1], 'holder') or '')";
        let (holders, ends) = (
            Arc::<Mutex<Vec<ObservedHolder>>>::default(),
            Arc::<AtomicBool>::default(),
        );
        let (seen, until) = (Arc::clone(&holders), Arc::clone(&ends));
        let key = format!("{{akash-provider}}:election:{name}");
        thread::spawn(move || {
            while !until.load(Ordering::SeqCst) {
                let (_, both) = redis_says(port, &["EVAL", BOTH, "1", &key]);
                if let Some((term, holder)) = both.split_once(' ') {
                    saw(&seen, holder, term);
                }
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self {
            child: None,
            ends,
            holders,
        }
    }

    pub(crate) fn observed(&self) -> Vec<ObservedHolder> {
        self.holders.lock().unwrap().clone()
    }

    pub(crate) fn last(&self) -> Option<ObservedHolder> {
        self.holders.lock().unwrap().last().cloned()
    }
}

/// Stores a changed state of the election record.
fn saw(seen: &Mutex<Vec<ObservedHolder>>, holder: &str, term: &str) {
    let current = ObservedHolder {
        at: Instant::now(),
        holder: holder.to_owned(),
        term: term.parse().unwrap_or_default(),
    };
    let mut seen = seen.lock().unwrap();
    let is_another = |last: &ObservedHolder| (&last.holder, last.term) != (&current.holder, current.term);
    if seen.last().is_none_or(is_another) {
        seen.push(current);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Time during which a daemon was suspended or disconnected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Away {
    pub(crate) who: usize,
    pub(crate) way: Way,
    pub(crate) from: Instant,
    pub(crate) until: Instant,
}

impl Away {
    /// Returns the latest arrival time of a write that was sent before the fault.
    fn latest_arrival(&self, to: To) -> Instant {
        let last = match (self.way, to) {
            // The fence is the last step before a transaction is sent, so a process that continues sends none.
            (Way::Kill | Way::Term, _) | (Way::Pause, To::Chain) => self.from,
            // Calls in the queue of a connection leave the process when it continues.
            (Way::Pause | Way::Deaf, _) => self.until,
            // The kernel doubles the time between retransmissions, so the next one may be as late as the cut was long.
            (Way::Cut, _) => self.until + (self.until - self.from),
        };
        last + ON_ITS_WAY
    }
}

/// Writes of daemons that were not the leader, and the number of late writes. A late write was sent before a
/// fault of the daemon, and arrived after the fault started.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) two_writers: Vec<String>,
    pub(crate) late: usize,
}

fn described(observed: &[ObservedHolder], write: &Sent) -> String {
    let before = observed.iter().rfind(|one| one.at <= write.at);
    let after = observed.iter().find(|one| one.at > write.at);
    let named = |one: Option<&ObservedHolder>, time: &dyn Fn(Instant) -> Duration| {
        one.map_or_else(
            || "none".to_owned(),
            |one| format!("{:?} ({:?})", one.holder, time(one.at)),
        )
    };
    format!(
        "daemon {} wrote to the {:?} while the holder was {}, and the next holder was {}",
        write.by,
        write.to,
        named(before, &|at| write.at - at),
        named(after, &|at| at - write.at),
    )
}

/// Checks that each writer holds the election record, that terms only increase, and that each term has one
/// holder.
pub(crate) fn judged(
    observed: &[ObservedHolder],
    sent: &[Sent],
    away: &[Away],
    is: impl Fn(usize, &str) -> bool,
) -> Judged {
    let mut judged = Judged::default();
    let mut holders: BTreeMap<u64, &str> = BTreeMap::new();
    for (before, after) in observed.iter().zip(observed.iter().skip(1)) {
        if after.term < before.term {
            judged.two_writers.push(format!(
                "the election term fell to {} after {}",
                after.term, before.term
            ));
        }
    }
    for one in observed.iter().filter(|one| !one.holder.is_empty()) {
        let first = holders.entry(one.term).or_insert(&one.holder);
        if *first != one.holder {
            judged.two_writers.push(format!(
                "election term {} has two holders: {first} and {}",
                one.term, one.holder
            ));
        }
    }
    for write in sent {
        let before = observed.iter().rfind(|one| one.at <= write.at);
        let is_leader = before.is_some_and(|one| is(write.by, &one.holder));
        let soon = observed
            .iter()
            .filter(|one| one.at > write.at && one.at <= write.at + LATE_NEWS);
        if is_leader || soon.into_iter().any(|one| is(write.by, &one.holder)) {
            continue;
        }
        let was_on_its_way = away.iter().any(|away| {
            let came = (away.from..away.latest_arrival(write.to)).contains(&write.at);
            // A publication is repeated on a new connection. Readers of the bus drop an event with a known id.
            away.who == write.by && came && (write.to == To::Bus || write.connected <= away.from)
        });
        if was_on_its_way {
            judged.late += 1;
        } else {
            judged.two_writers.push(described(observed, write));
        }
    }
    judged
}

#[test]
fn write_of_an_instance_without_the_record_is_found_and_a_write_on_its_way_counts_as_late() {
    let begun = Instant::now();
    let at = |ms: u64| begun + Duration::from_millis(ms);
    let holder_at = |ms, holder: &str, term| ObservedHolder {
        at: at(ms),
        holder: holder.to_owned(),
        term,
    };
    let sent = |by, ms, connected| Sent {
        by,
        to: To::Chain,
        at: at(ms),
        connected: at(connected),
    };
    let is = |who: usize, holder: &str| holder.starts_with(["a", "b"][who]);
    let all = [holder_at(0, "a-1", 1), holder_at(10_000, "b-1", 2)];
    let fine = [sent(0, 5_000, 0), sent(1, 9_900, 0), sent(1, 11_000, 0)];
    assert!(judged(&all, &fine, &[], is).two_writers.is_empty());
    let wrong = [sent(0, 10_001, 0)];
    assert_eq!(judged(&all, &wrong, &[], is).two_writers.len(), 1);
    let away = [Away {
        who: 0,
        way: Way::Deaf,
        from: at(6_000),
        until: at(10_000),
    }];
    let judgement = judged(&all, &wrong, &away, is);
    assert_eq!((judgement.two_writers.len(), judgement.late), (0, 1));
    for wrong in [sent(0, 10_001, 9_000), sent(0, 12_000, 0)] {
        assert_eq!(
            judged(&all, &[wrong], &away, is).two_writers.len(),
            1,
            "{wrong:?}"
        );
    }
    let paused = away.map(|away| Away {
        way: Way::Pause,
        ..away
    });
    for (to, two_writers, late) in [(To::Chain, 1, 0), (To::Cluster, 0, 1), (To::Bus, 0, 1)] {
        let wrong = wrong.map(|sent| Sent { to, ..sent });
        let judgement = judged(&all, &wrong, &paused, is);
        assert_eq!(
            (judgement.two_writers.len(), judgement.late),
            (two_writers, late),
            "{to:?}"
        );
    }
    let again = [
        holder_at(0, "a-1", 3),
        holder_at(1, "b-1", 3),
        holder_at(2, "a-1", 2),
    ];
    assert_eq!(judged(&again, &[], &[], is).two_writers.len(), 2);
}
