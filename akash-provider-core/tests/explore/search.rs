//! Breadth-first search over all reachable states; a violation prints the shortest way to it.

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

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
    let mut seen: HashMap<W, Option<(W, String)>> = HashMap::from([(start.clone(), None)]);
    let mut queue = VecDeque::from([start]);
    let mut edges = 0;
    while let Some(state) = queue.pop_front() {
        if let Some(problem) = state.broken() {
            return Err(format!("{problem}\n{}", way(&seen, &state)));
        }
        for (choice, next) in state.successors() {
            edges += 1;
            if !seen.contains_key(&next) {
                seen.insert(next.clone(), Some((state.clone(), choice)));
                queue.push_back(next);
            }
        }
        assert!(seen.len() < 4_000_000, "the world is not finite enough");
    }
    Ok(Stats {
        states: seen.len(),
        edges,
    })
}

fn way<W: World>(seen: &HashMap<W, Option<(W, String)>>, to: &W) -> String {
    let mut steps = vec![format!("{to:?}")];
    let mut at = to;
    while let Some(Some((before, choice))) = seen.get(at) {
        steps.push(format!("  {choice}"));
        at = before;
    }
    steps.reverse();
    steps.join("\n")
}
