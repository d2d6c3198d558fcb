//! Exploration of the index of an operator: tests every sequence of steps of a small model up to a depth.
//!
//! Sequences that lead to the same state have the same future, so each state is extended and checked once.
//! Only the hash of a visited state is stored. Object versions are compared by rank, not by value.
//!
//! To check a state, the pending events arrive, or are missed and replaced by lists. Then the writer does all
//! pending work. A fresh start must reach the same state.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread;

/// Number of times that the writer reconciles all pending names before the test fails.
const LOOKS: u32 = 8;
/// Number of rounds to deliver all events and finish all writes before the test fails.
const ROUNDS: u32 = 6;

/// Model of a cluster. The model also contains an index of the cluster, and a writer.
pub(crate) trait World: Clone {
    /// Step of a sequence.
    type Step: Copy + Debug + 'static;
    /// Event that the index receives.
    type Event: Clone;
    /// Objects that the writer wrote. A restart must not change these objects.
    type Outcome: PartialEq + Debug;
    /// All steps.
    const STEPS: &'static [Self::Step];
    /// Steps that deliver all pending events, one by one or as a new list.
    const ENDS: &'static [Self::Step];

    /// Executes a step.
    fn take(&mut self, step: Self::Step);
    /// Returns the pending events and the names to reconcile.
    fn pending(&mut self) -> &mut PendingEvents<Self::Event>;
    /// Applies an event to the index and returns the names to reconcile.
    fn apply(&mut self, event: Self::Event) -> BTreeSet<String>;
    /// Executes the writes and deletions that the index returns for a name.
    fn works_on(&mut self, name: &str);
    /// Hashes the state that affects later steps.
    fn identify(&self, state: &mut DefaultHasher);
    /// Returns the versions of all objects, and the version counter.
    fn versions(&mut self) -> Vec<&mut u64>;
    /// Returns a copy after a restart: the same objects, a new index and no pending work.
    fn restarted(&self) -> Self;
    /// Returns the objects that the writer wrote, without their versions.
    fn made(&self) -> Self::Outcome;
    /// Checks the invariants of a world without pending work.
    fn check(&self);

    /// Executes the step `end`, then reconciles all pending names.
    fn round(&mut self, end: Self::Step) {
        self.take(end);
        self.works();
    }

    /// Applies an event and records the names that the index returns.
    fn receive(&mut self, event: Self::Event) {
        let touched = self.apply(event);
        self.pending().touched.extend(touched);
    }

    /// Delivers the pending events, each the given number of times.
    fn arrive(&mut self, times: u32) {
        for event in std::mem::take(&mut self.pending().waiting) {
            for _ in 1..times {
                self.receive(event.clone());
            }
            self.receive(event);
        }
    }

    /// Reconciles all pending names, several times. Fails if a name stays pending.
    fn works(&mut self) {
        for _ in 0..LOOKS {
            for name in std::mem::take(&mut self.pending().touched) {
                self.works_on(&name);
            }
        }
        assert!(
            self.pending().touched.is_empty(),
            "the writer always has further work"
        );
    }

    /// Runs rounds until nothing changes.
    fn settle(&mut self, end: Self::Step) {
        for _ in 0..ROUNDS {
            let before = last(self);
            self.round(end);
            if self.pending().waiting.is_empty() && last(self) == before {
                return;
            }
        }
        panic!("the world does not settle");
    }
}

/// Pending events of an index, and the names to reconcile.
#[derive(Debug, Clone, Hash)]
pub(crate) struct PendingEvents<E> {
    pub(crate) waiting: Vec<E>,
    pub(crate) touched: BTreeSet<String>,
}

impl<E> Default for PendingEvents<E> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            touched: BTreeSet::new(),
        }
    }
}

/// Checks every state within `depth` steps, and returns the number of states.
pub(crate) fn explore<W: World>(mut start: W, depth: usize) -> usize {
    let mut seen = HashSet::from([state(&mut start)]);
    judge(&start, &[]);
    let mut front = vec![(start, Vec::new())];
    for left in (0..depth).rev() {
        let mut next = Vec::new();
        for (world, history) in &front {
            for &step in W::STEPS {
                let history = [history, &[step][..]].concat();
                let _on_panic = StepsOnPanic(&history);
                let mut world = world.clone();
                world.take(step);
                if !seen.insert(state(&mut world)) {
                    continue;
                }
                judge(&world, &history);
                if left > 0 {
                    next.push((world, history.clone()));
                }
            }
        }
        front = next;
    }
    seen.len()
}

fn judge<W: World>(world: &W, history: &[W::Step]) {
    let _on_panic = StepsOnPanic(history);
    let restarted = world.restarted().made();
    for &end in W::ENDS {
        let mut running = world.clone();
        running.settle(end);
        assert_eq!(running.made(), restarted, "a fresh start differs from {end:?}");
        running.check();
    }
}

/// Hashes a state. Only the order of the versions is hashed, not their values.
fn state<W: World>(world: &mut W) -> u64 {
    let mut versions = world.versions();
    let ranks: BTreeSet<u64> = versions.iter().map(|version| **version).collect();
    let ranks: Vec<u64> = ranks.into_iter().collect();
    for version in &mut versions {
        let rank = ranks.binary_search(version).unwrap();
        **version = rank as u64 + 1;
    }
    let mut state = DefaultHasher::new();
    world.identify(&mut state);
    state.finish()
}

fn last<W: World>(world: &mut W) -> u64 {
    world
        .versions()
        .into_iter()
        .map(|version| *version)
        .max()
        .unwrap_or(0)
}

struct StepsOnPanic<'a, S: Debug>(&'a [S]);

impl<S: Debug> Drop for StepsOnPanic<'_, S> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("after {:?}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Model with two names, each with an optional record.
    #[derive(Clone, Default)]
    struct Pair {
        declared: BTreeMap<&'static str, u64>,
        seen: BTreeMap<String, u64>,
        made: BTreeMap<String, u64>,
        version: u64,
        pending: PendingEvents<(&'static str, Option<u64>)>,
        /// Whether the index ignores the deletion of the second name.
        is_deaf: bool,
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Comes(&'static str),
        Goes(&'static str),
        Arrives,
        Missed,
    }

    impl World for Pair {
        type Step = Step;
        type Event = (&'static str, Option<u64>);
        type Outcome = Vec<String>;
        const STEPS: &'static [Step] = &[
            Step::Comes("a"),
            Step::Comes("b"),
            Step::Goes("a"),
            Step::Goes("b"),
            Step::Arrives,
        ];
        const ENDS: &'static [Step] = &[Step::Arrives, Step::Missed];

        fn take(&mut self, step: Step) {
            self.version += 1;
            match step {
                Step::Comes(name) => {
                    self.declared.insert(name, self.version);
                    self.pending.waiting.push((name, Some(self.version)));
                }
                Step::Goes(name) => {
                    if self.declared.remove(name).is_some() {
                        self.pending.waiting.push((name, None));
                    }
                }
                Step::Arrives => self.arrive(2),
                Step::Missed => {
                    self.pending.waiting.clear();
                    for name in ["a", "b"] {
                        let version = self.declared.get(name).copied();
                        self.receive((name, version));
                    }
                }
            }
        }

        fn pending(&mut self) -> &mut PendingEvents<Self::Event> {
            &mut self.pending
        }

        fn apply(&mut self, (name, version): Self::Event) -> BTreeSet<String> {
            match version {
                Some(version) => drop(self.seen.insert(name.to_owned(), version)),
                None if self.is_deaf && name == "b" => {}
                None => drop(self.seen.remove(name)),
            }
            BTreeSet::from([name.to_owned()])
        }

        fn works_on(&mut self, name: &str) {
            match self.seen.get(name) {
                Some(version) => drop(self.made.insert(name.to_owned(), *version)),
                None => drop(self.made.remove(name)),
            }
        }

        fn identify(&self, state: &mut DefaultHasher) {
            (&self.declared, &self.seen, &self.made, &self.pending).hash(state);
        }

        fn versions(&mut self) -> Vec<&mut u64> {
            let pending_versions = self
                .pending
                .waiting
                .iter_mut()
                .filter_map(|(_, version)| version.as_mut());
            let seen = self.seen.values_mut().chain(self.made.values_mut());
            let declared = self.declared.values_mut();
            declared.chain(seen).chain(pending_versions).collect()
        }

        fn restarted(&self) -> Self {
            let mut restarted = Self {
                declared: self.declared.clone(),
                ..Self::default()
            };
            restarted.settle(Step::Missed);
            restarted
        }

        fn made(&self) -> Vec<String> {
            self.made.keys().cloned().collect()
        }

        fn check(&self) {
            assert!(self.declared.keys().eq(self.made.keys()), "{:?}", self.made);
        }
    }

    /// Collects the states after all sequences of at most `left` steps. Does not skip known states.
    fn one_by_one(world: &Pair, left: usize, seen: &mut HashSet<u64>) {
        seen.insert(state(&mut world.clone()));
        for &step in Pair::STEPS.iter().filter(|_| left > 0) {
            let mut world = world.clone();
            world.take(step);
            one_by_one(&world, left - 1, seen);
        }
    }

    #[test]
    fn merged_sequences_reach_every_state() {
        let mut seen = HashSet::new();
        one_by_one(&Pair::default(), 5, &mut seen);
        assert_eq!(explore(Pair::default(), 5), seen.len());
    }

    #[test]
    #[should_panic(expected = "a fresh start differs from")]
    fn index_that_ignores_an_event_is_detected() {
        let deaf = Pair {
            is_deaf: true,
            ..Pair::default()
        };
        explore(deaf, 3);
    }
}
