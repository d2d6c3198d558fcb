//! Breadth-first search over all reachable states. A violation prints the shortest path to it.

use rustc_hash::FxHashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::rc::Rc;

/// A machine and its environment.
pub(crate) trait World: Clone + Eq + Hash + Debug {
    /// Returns every possible next state, each with the name of its step.
    fn successors(&self) -> Vec<(String, Self)>;
    /// Returns the name of a violated invariant, or `None` if all invariants hold.
    fn violation(&self) -> Option<String>;
}

#[derive(Debug)]
pub(crate) struct Stats {
    pub(crate) states: usize,
    pub(crate) edges: usize,
}

/// Visits every reachable state.
///
/// # Panics
/// Panics with the path to the first violation.
pub(crate) fn explore<W: World>(name: &str, start: W) -> Stats {
    match search(start) {
        Ok(stats) => {
            println!("explore {name}: {} states, {} edges", stats.states, stats.edges);
            stats
        }
        Err(violation) => panic!("explore {name}: {violation}"),
    }
}

/// Visits every reachable state. Returns the first violation as an error.
pub(crate) fn search<W: World>(start: W) -> Result<Stats, String> {
    let start = Rc::new(start);
    let mut seen = FxHashSet::from_iter([Rc::clone(&start)]);
    // States in the order of their discovery, each with its predecessor and the choice that led to it.
    let mut found = vec![(start, 0, String::new())];
    let (mut at, mut edges) = (0, 0);
    while let Some((state, ..)) = found.get(at) {
        let state = Rc::clone(state);
        if let Some(problem) = state.violation() {
            return Err(format!("{problem}\n{}", path_to(&found, at)));
        }
        for (choice, next) in state.successors() {
            edges += 1;
            let next = Rc::new(next);
            if seen.insert(Rc::clone(&next)) {
                found.push((next, at, choice));
            }
        }
        assert!(found.len() < 4_000_000, "more than 4,000,000 states");
        at += 1;
    }
    let states = found.len();
    Ok(Stats { states, edges })
}

fn path_to<W: World>(found: &[(Rc<W>, usize, String)], to: usize) -> String {
    let mut steps = vec![format!("{:?}", found[to].0)];
    let mut at = to;
    while at > 0 {
        let (_, before, choice) = &found[at];
        steps.push(format!("  {choice}"));
        at = *before;
    }
    steps.reverse();
    steps.join("\n")
}
