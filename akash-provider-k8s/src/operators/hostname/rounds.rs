//! Asks about names one after the other, for ever: each again after a while, and all together no more often than a budget
//! allows, with jitter, so that neither many names nor many operators ask at once.

use futures::stream::{FuturesUnordered, StreamExt};
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Questions that are open at once: a name that answers slowly holds up no other.
const AT_ONCE: usize = 8;
/// Rest until the next look where nobody's turn has come.
const IDLE: Duration = Duration::from_secs(1);

/// How often is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// After so long a name is asked about again.
    pub every: Duration,
    /// Questions a minute, of all names together.
    pub per_minute: u32,
}

/// When whose turn is.
#[derive(Debug, Default)]
struct Rounds {
    due: BTreeMap<String, Instant>,
    asked: BTreeSet<String>,
}

impl Rounds {
    /// Of the names that are to be asked about the one that has waited longest; new ones come first.
    fn next(&mut self, wanted: &BTreeSet<String>, now: Instant) -> Option<String> {
        self.due.retain(|name, _| wanted.contains(name));
        let free = wanted.iter().filter(|name| !self.asked.contains(*name));
        let due = free.map(|name| (self.due.get(name).copied(), name));
        let (when, name) = due.min()?;
        if when.is_some_and(|when| when > now) {
            return None;
        }
        self.asked.insert(name.clone());
        Some(name.clone())
    }

    fn again(&mut self, name: String, at: Instant) {
        self.asked.remove(&name);
        self.due.insert(name, at);
    }
}

/// Asks until the end. `ask` says after how long a name is to be asked about again.
pub(super) async fn run<F: Future<Output = Duration>>(
    per_minute: u32,
    wanted: impl Fn() -> BTreeSet<String>,
    ask: impl Fn(String) -> F,
    until: CancellationToken,
) {
    let pause = Duration::from_secs(60) / per_minute.max(1);
    let mut rounds = Rounds::default();
    let mut open = FuturesUnordered::new();
    let mut rest = spread(pause);
    loop {
        tokio::select! {
            () = until.cancelled() => return,
            Some((name, again)) = open.next(), if !open.is_empty() => {
                rounds.again(name, Instant::now() + spread(again));
            }
            () = sleep(rest), if open.len() < AT_ONCE => {
                rest = match rounds.next(&wanted(), Instant::now()) {
                    Some(name) => {
                        let asking = ask(name.clone());
                        open.push(async { (name, asking.await) });
                        spread(pause)
                    }
                    None => IDLE.max(pause),
                };
            }
        }
    }
}

/// Half of a time to one and a half of it.
fn spread(time: Duration) -> Duration {
    let chance = RandomState::new().hash_one(0_u8) % 1_000;
    time / 2 + time * u32::try_from(chance).unwrap_or(0) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn names(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_new_name_comes_first_and_each_waits_for_its_time() {
        let mut rounds = Rounds::default();
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let all = names(&["a", "b"]);
        assert_eq!(rounds.next(&all, start).as_deref(), Some("a"));
        assert_eq!(rounds.next(&all, start).as_deref(), Some("b"));
        assert_eq!(rounds.next(&all, later(99)), None, "both are asked about");
        rounds.again("a".to_owned(), later(20));
        rounds.again("b".to_owned(), later(10));
        assert_eq!(rounds.next(&all, later(9)), None);
        assert_eq!(rounds.next(&all, later(30)).as_deref(), Some("b"));
        assert_eq!(rounds.next(&names(&["a", "c"]), later(30)).as_deref(), Some("c"));
        // One that is gone is forgotten, and new when it comes back.
        assert_eq!(rounds.next(&names(&[]), later(30)), None);
        assert_eq!(rounds.next(&all, later(11)).as_deref(), Some("a"));
    }

    #[test]
    fn jitter_is_half_a_time_at_most() {
        let time = Duration::from_secs(100);
        let all: Vec<_> = (0..200).map(|_| spread(time)).collect();
        assert!(all.iter().all(|one| (50..150).contains(&one.as_secs())));
        assert!(all.iter().max() > all.iter().min());
    }

    #[tokio::test(start_paused = true)]
    async fn a_budget_holds_for_all_names_together_and_a_slow_one_holds_up_no_other() {
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
        tokio::join!(run(30, || wanted.clone(), ask, until.clone()), end);
        let asked = asked.into_inner();
        assert!((250..=350).contains(&asked.len()), "{}", asked.len());
        let distinct: BTreeSet<_> = asked.iter().collect();
        assert_eq!(
            distinct.len(),
            asked.len(),
            "nobody is asked about twice before all others"
        );
    }
}
