//! Breadth-first search over all reachable states; a violation prints the shortest way to it.

use rustc_hash::FxHashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::rc::Rc;

/// A machine and the world around it.
pub(crate) trait World: Clone + Eq + Hash + Debug {
    /// Every choice that can be made here, with its name.
    fn successors(&self) -> Vec<(String, Self)>;
    /// What must hold here; the name of what does not.
    fn broken(&self) -> Option<String>;
}

/// What a search saw.
#[derive(Debug)]
pub(crate) struct Stats {
    pub(crate) states: usize,
    pub(crate) edges: usize,
}

/// Visits everything that can be reached; panics with the way to the first violation.
pub(crate) fn explore<W: World>(name: &str, start: W) -> Stats {
    match search(start) {
        Ok(stats) => {
            println!("explore {name}: {} states, {} edges", stats.states, stats.edges);
            stats
        }
        Err(violation) => panic!("explore {name}: {violation}"),
    }
}

/// As [`explore`], with the violation as a value, so that the search itself can be tested.
pub(crate) fn search<W: World>(start: W) -> Result<Stats, String> {
    let start = Rc::new(start);
    let mut seen = FxHashSet::from_iter([Rc::clone(&start)]);
    // States in the order of their discovery, each with the one before it and the choice that led from there.
    let mut found = vec![(start, 0, String::new())];
    let (mut at, mut edges) = (0, 0);
    while let Some((state, ..)) = found.get(at) {
        let state = Rc::clone(state);
        if let Some(problem) = state.broken() {
            return Err(format!("{problem}\n{}", way(&found, at)));
        }
        for (choice, next) in state.successors() {
            edges += 1;
            let next = Rc::new(next);
            if seen.insert(Rc::clone(&next)) {
                found.push((next, at, choice));
            }
        }
        assert!(found.len() < 4_000_000, "the world is not finite enough");
        at += 1;
    }
    let states = found.len();
    Ok(Stats { states, edges })
}

fn way<W: World>(found: &[(Rc<W>, usize, String)], to: usize) -> String {
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
