//! Periodic checks of hostnames within a budget of checks per minute, with jitter, so that the checks of many
//! hostnames and many operators spread over time.

use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Maximum number of concurrent checks.
const AT_ONCE: usize = 8;
/// Rate of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckRate {
    /// Interval between two checks of a hostname.
    pub every: Duration,
    /// Maximum number of checks per minute, for all hostnames in total.
    pub per_minute: u32,
}

#[derive(Debug, Default)]
struct Schedule {
    due: BTreeMap<String, Instant>,
    asked: BTreeSet<String>,
}

impl Schedule {
    /// Returns the next hostname to check, new hostnames first. If no check is due, the error is the time of
    /// the next check. `None` means that no check is scheduled.
    fn next(&mut self, wanted: &BTreeSet<String>, now: Instant) -> Result<String, Option<Instant>> {
        let free = wanted.iter().filter(|name| !self.asked.contains(*name));
        let due = free.map(|name| (self.due.get(name).copied(), name));
        let (when, name) = due.min().ok_or(None)?;
        if when.is_some_and(|when| when > now) {
            return Err(when);
        }
        self.asked.insert(name.clone());
        Ok(name.clone())
    }

    fn keep(&mut self, wanted: &BTreeSet<String>) {
        self.due.retain(|name, _| wanted.contains(name));
    }

    fn again(&mut self, name: String, at: Instant) {
        self.asked.remove(&name);
        self.due.insert(name, at);
    }
}

/// Checks hostnames until `until` is cancelled. `ask` checks one hostname and returns the delay until its
/// next check. `wanted` is called again only after a notification of `changes`.
pub(super) async fn run<F: Future<Output = Duration>>(
    per_minute: u32,
    mut changes: watch::Receiver<()>,
    wanted: impl Fn() -> BTreeSet<String>,
    ask: impl Fn(String) -> F,
    until: CancellationToken,
) {
    let pause = Duration::from_secs(60) / per_minute.max(1);
    let mut rounds = Schedule::default();
    let mut open = FuturesUnordered::new();
    let mut names = BTreeSet::new();
    changes.mark_changed();
    // Earliest time of the next check within the budget.
    let mut allowed = Instant::now() + spread(pause);
    // Time of the next look at the schedule; `None` until a change.
    let mut look = Some(allowed);
    loop {
        tokio::select! {
            () = until.cancelled() => return,
            Some((name, again)) = open.next(), if !open.is_empty() => {
                rounds.again(name, Instant::now() + spread(again));
                look = Some(allowed);
            }
            Ok(()) = changes.changed(), if look.is_none_or(|at| at > allowed) => {
                changes.mark_changed();
                look = Some(allowed.max(Instant::now() + pause));
                allowed = look.unwrap_or(allowed);
            }
            () = sleep_until(look.unwrap_or(allowed)), if look.is_some() && open.len() < AT_ONCE => {
                if changes.has_changed().unwrap_or(false) {
                    changes.mark_unchanged();
                    names = wanted();
                    rounds.keep(&names);
                }
                look = match rounds.next(&names, Instant::now()) {
                    Ok(name) => {
                        let asking = ask(name.clone());
                        open.push(async { (name, asking.await) });
                        allowed = Instant::now() + spread(pause);
                        Some(allowed)
                    }
                    Err(due) => due,
                };
            }
        }
    }
}

/// Returns a random duration between 0.5 and 1.5 times `time`.
fn spread(time: Duration) -> Duration {
    let chance = RandomState::new().hash_one(0_u8) % 1_000;
    time / 2 + time * u32::try_from(chance).unwrap_or(0) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use tokio::time::sleep;

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn new_hostname_is_checked_first_and_others_after_their_interval() {
        let mut rounds = Schedule::default();
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let all = names(&["a", "b"]);
        assert_eq!(rounds.next(&all, start).as_deref(), Ok("a"));
        assert_eq!(rounds.next(&all, start).as_deref(), Ok("b"));
        assert_eq!(rounds.next(&all, later(99)), Err(None), "both checks are running");
        rounds.again("a".to_owned(), later(20));
        rounds.again("b".to_owned(), later(10));
        assert_eq!(rounds.next(&all, later(9)), Err(Some(later(10))));
        assert_eq!(rounds.next(&all, later(30)).as_deref(), Ok("b"));
        assert_eq!(rounds.next(&names(&["a", "c"]), later(30)).as_deref(), Ok("c"));
        // A removed hostname is new when it returns.
        rounds.keep(&names(&[]));
        assert_eq!(rounds.next(&names(&[]), later(30)), Err(None));
        assert_eq!(rounds.next(&all, later(11)).as_deref(), Ok("a"));
    }

    #[test]
    fn jitter_is_at_most_half_of_the_interval() {
        let time = Duration::from_secs(100);
        let all: Vec<_> = (0..200).map(|_| spread(time)).collect();
        assert!(all.iter().all(|one| (50..150).contains(&one.as_secs())));
        assert!(all.iter().max() > all.iter().min());
    }

    #[tokio::test(start_paused = true)]
    async fn budget_limits_all_hostnames_and_a_slow_check_delays_no_other() {
        let wanted: BTreeSet<String> = (0..500).map(|n| format!("{n}.example.com")).collect();
        let asked = RefCell::new(Vec::new());
        let ask = |name: String| {
            let is_slow = name == "0.example.com";
            asked.borrow_mut().push(name);
            async move {
                if is_slow {
                    std::future::pending::<()>().await;
                }
                Duration::from_secs(3_600)
            }
        };
        let until = CancellationToken::new();
        let end = async {
            sleep(Duration::from_secs(600)).await;
            until.cancel();
        };
        let (_changes, changed) = watch::channel(());
        tokio::join!(run(30, changed, || wanted.clone(), ask, until.clone()), end);
        let asked = asked.into_inner();
        assert!((250..=350).contains(&asked.len()), "{}", asked.len());
        let distinct: BTreeSet<_> = asked.iter().collect();
        assert_eq!(
            distinct.len(),
            asked.len(),
            "no hostname is checked twice before all others"
        );
    }
    #[tokio::test(start_paused = true)]
    async fn hostnames_are_selected_after_a_change_and_new_ones_are_checked_soon() {
        let there = RefCell::new(names(&["a", "b"]));
        let (gathered, asked) = (Cell::new(0), RefCell::new(Vec::new()));
        let wanted = || {
            gathered.set(gathered.get() + 1);
            there.borrow().clone()
        };
        let ask = |name: String| {
            asked.borrow_mut().push((name, Instant::now()));
            std::future::ready(Duration::from_secs(600))
        };
        let (changes, changed) = watch::channel(());
        let until = CancellationToken::new();
        let story = async {
            sleep(Duration::from_secs(3_600)).await;
            assert_eq!(gathered.get(), 1, "nothing has changed");
            // One check per 5 to 15 minutes and hostname.
            let times = asked.borrow().len();
            assert!((8..=26).contains(&times), "{times}");
            let now = Instant::now();
            there.borrow_mut().insert("c".to_owned());
            for _ in 0..1_000 {
                changes.send_replace(());
            }
            sleep(Duration::from_secs(10)).await;
            let of_c = asked
                .borrow()
                .iter()
                .find(|(name, _)| name == "c")
                .map(|(_, at)| *at);
            assert!(
                of_c.is_some_and(|at| at - now <= Duration::from_secs(5)),
                "{of_c:?}"
            );
            assert!(
                gathered.get() <= 4,
                "a burst of changes is one selection: {}",
                gathered.get()
            );
            there.borrow_mut().clear();
            changes.send_replace(());
            asked.borrow_mut().clear();
            sleep(Duration::from_secs(3_600)).await;
            assert!(asked.borrow().is_empty(), "no hostname is selected");
            until.cancel();
        };
        tokio::join!(run(60, changed, wanted, ask, until.clone()), story);
    }
}
