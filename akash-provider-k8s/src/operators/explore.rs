//! Exploration of an operator's index: every order of what may happen in a small world, to a depth.
//!
//! Orders that lead to the same state have the same future, so that each state is gone on from, and judged, once: two
//! changes that do not touch each other cost as much as one order of them. Of a state that was seen its hash alone is
//! kept. Versions of objects count by their order, not by how many there were before.
//!
//! To judge a state what is on its way arrives, or is missed and listed, and the writer comes to rest; a fresh start must
//! have come to the same.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread;

/// Looks at what was touched before the writer must have come to rest.
const LOOKS: u32 = 8;
/// Rounds of news and writes before a world must have come to rest.
const ROUNDS: u32 = 6;

/// A cluster, an index that follows it, and a writer.
pub(crate) trait World: Clone {
    /// What may happen.
    type Step: Copy + Debug + 'static;
    /// What the index is told.
    type Event: Clone;
    /// What is compared with a fresh start.
    type Made: PartialEq + Debug;
    /// All that may happen.
    const STEPS: &'static [Self::Step];
    /// What may become of all that is on its way: it arrives, or is missed and listed.
    const ENDS: &'static [Self::Step];

    /// Something happens.
    fn take(&mut self, step: Self::Step);
    /// What is on its way, and what the writer has to look at.
    fn news(&mut self) -> &mut News<Self::Event>;
    /// The index takes an event; the names that have to be looked at.
    fn apply(&mut self, event: Self::Event) -> BTreeSet<String>;
    /// The writer does what the index says about a name.
    fn works_on(&mut self, name: &str);
    /// Everything that the future hangs on.
    fn identify(&self, state: &mut DefaultHasher);
    /// Every version that there is, and the number of the last one.
    fn versions(&mut self) -> Vec<&mut u64>;
    /// A process that starts now, when it has come to rest.
    fn anew(&self) -> Self;
    /// What the writer made of it, without versions.
    fn made(&self) -> Self::Made;
    /// What holds of a world that has come to rest.
    fn check(&self);

    /// One round on the way to rest.
    fn round(&mut self, end: Self::Step) {
        self.take(end);
        self.works();
    }

    /// Tells the index.
    fn tell(&mut self, event: Self::Event) {
        let touched = self.apply(event);
        self.news().touched.extend(touched);
    }

    /// What is on its way arrives, each event so often.
    fn arrive(&mut self, times: u32) {
        for event in std::mem::take(&mut self.news().waiting) {
            for _ in 1..times {
                self.tell(event.clone());
            }
            self.tell(event);
        }
    }

    /// The writer works until nothing is touched: what it wrote itself would else keep a name touched, and a list that
    /// forgets to touch it would not be noticed.
    fn works(&mut self) {
        for _ in 0..LOOKS {
            for name in std::mem::take(&mut self.news().touched) {
                self.works_on(&name);
            }
        }
        assert!(self.news().touched.is_empty(), "the writer never comes to rest");
    }

    /// Rounds until nothing happens in one.
    fn settle(&mut self, end: Self::Step) {
        for _ in 0..ROUNDS {
            let before = last(self);
            self.round(end);
            if self.news().waiting.is_empty() && last(self) == before {
                return;
            }
        }
        panic!("the world never comes to rest");
    }
}

/// What is on its way to an index, and the names that it says have to be looked at; the writer looks at no others.
#[derive(Debug, Clone, Hash)]
pub(crate) struct News<E> {
    pub(crate) waiting: Vec<E>,
    pub(crate) touched: BTreeSet<String>,
}

impl<E> Default for News<E> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
            touched: BTreeSet::new(),
        }
    }
}

/// Judges every state that is reached in so many steps; the number of them.
pub(crate) fn explore<W: World>(mut start: W, depth: usize) -> usize {
    let mut seen = HashSet::from([state(&mut start)]);
    judge(&start, &[]);
    let mut front = vec![(start, Vec::new())];
    for left in (0..depth).rev() {
        let mut next = Vec::new();
        for (world, history) in &front {
            for &step in W::STEPS {
                let history = [history, &[step][..]].concat();
                let _told = Told(&history);
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
    let _told = Told(history);
    let anew = world.anew().made();
    for &end in W::ENDS {
        let mut kept = world.clone();
        kept.settle(end);
        assert_eq!(kept.made(), anew, "a fresh start ends otherwise than {end:?}");
        kept.check();
    }
}

/// The hash of a state, whose versions are counted anew.
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

/// Says what happened when something fails; nothing is formatted before.
struct Told<'a, S: Debug>(&'a [S]);

impl<S: Debug> Drop for Told<'_, S> {
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

    /// Two names that are declared or not; an index that writes those it was told of.
    #[derive(Clone, Default)]
    struct Pair {
        declared: BTreeMap<&'static str, u64>,
        known: BTreeMap<String, u64>,
        made: BTreeMap<String, u64>,
        version: u64,
        news: News<(&'static str, Option<u64>)>,
        /// It does not hear that the second name goes.
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
        type Made = Vec<String>;
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
                    self.news.waiting.push((name, Some(self.version)));
                }
                Step::Goes(name) => {
                    if self.declared.remove(name).is_some() {
                        self.news.waiting.push((name, None));
                    }
                }
                Step::Arrives => self.arrive(2),
                Step::Missed => {
                    self.news.waiting.clear();
                    for name in ["a", "b"] {
                        let version = self.declared.get(name).copied();
                        self.tell((name, version));
                    }
                }
            }
        }

        fn news(&mut self) -> &mut News<Self::Event> {
            &mut self.news
        }

        fn apply(&mut self, (name, version): Self::Event) -> BTreeSet<String> {
            match version {
                Some(version) => drop(self.known.insert(name.to_owned(), version)),
                None if self.is_deaf && name == "b" => {}
                None => drop(self.known.remove(name)),
            }
            BTreeSet::from([name.to_owned()])
        }

        fn works_on(&mut self, name: &str) {
            match self.known.get(name) {
                Some(version) => drop(self.made.insert(name.to_owned(), *version)),
                None => drop(self.made.remove(name)),
            }
        }

        fn identify(&self, state: &mut DefaultHasher) {
            (&self.declared, &self.known, &self.made, &self.news).hash(state);
        }

        fn versions(&mut self) -> Vec<&mut u64> {
            let told = self
                .news
                .waiting
                .iter_mut()
                .filter_map(|(_, version)| version.as_mut());
            let known = self.known.values_mut().chain(self.made.values_mut());
            let declared = self.declared.values_mut();
            declared.chain(known).chain(told).collect()
        }

        fn anew(&self) -> Self {
            let mut anew = Self {
                declared: self.declared.clone(),
                ..Self::default()
            };
            anew.settle(Step::Missed);
            anew
        }

        fn made(&self) -> Vec<String> {
            self.made.keys().cloned().collect()
        }

        fn check(&self) {
            assert!(self.declared.keys().eq(self.made.keys()), "{:?}", self.made);
        }
    }

    /// The states that are reached when each order is gone through for itself.
    fn one_by_one(world: &Pair, left: usize, seen: &mut HashSet<u64>) {
        seen.insert(state(&mut world.clone()));
        for &step in Pair::STEPS.iter().filter(|_| left > 0) {
            let mut world = world.clone();
            world.take(step);
            one_by_one(&world, left - 1, seen);
        }
    }

    #[test]
    fn every_state_is_judged_though_not_every_order_is_gone_through() {
        let mut seen = HashSet::new();
        one_by_one(&Pair::default(), 5, &mut seen);
        assert_eq!(explore(Pair::default(), 5), seen.len());
    }

    #[test]
    #[should_panic(expected = "a fresh start ends otherwise than")]
    fn an_index_that_misses_an_event_is_found() {
        let deaf = Pair {
            is_deaf: true,
            ..Pair::default()
        };
        explore(deaf, 3);
    }
}
