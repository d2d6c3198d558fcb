//! Why a group does not fit, in few words however many nodes there are.

use akash_provider_core::inventory::Explanation;
use std::collections::{BTreeMap, BTreeSet};

/// Reasons of one sort that are told.
const REASONS_MAX: usize = 16;
/// Nodes named for each kind of reason.
const EXAMPLES: usize = 3;
/// Bytes of one reason.
const REASON_BYTES_MAX: usize = 400;

/// One kind of want.
#[derive(Default)]
struct Kind<'a> {
    nodes: BTreeSet<&'a str>,
    examples: Vec<String>,
}

/// What stands against a group: for the cluster as a whole, and then by kind with some nodes as examples.
pub(super) fn summed(explained: &Explanation) -> Vec<String> {
    let mut reasons: Vec<String> = explained
        .cluster
        .iter()
        .take(REASONS_MAX)
        .map(|r| short(r))
        .collect();
    let more = explained.cluster.len().saturating_sub(REASONS_MAX);
    if more > 0 {
        reasons.push(format!("and {more} more of the cluster as a whole"));
    }
    let mut kinds: BTreeMap<&str, Kind<'_>> = BTreeMap::new();
    for verdict in &explained.nodes {
        for missing in &verdict.missing {
            let (kind, what) = missing.split_once(": ").unwrap_or((missing, ""));
            let kind = kinds.entry(kind).or_default();
            let is_new = kind.nodes.insert(&verdict.node);
            if is_new && kind.examples.len() < EXAMPLES {
                kind.examples.push(example(&verdict.node, verdict.unit, what));
            }
        }
    }
    let more = kinds.len().saturating_sub(REASONS_MAX);
    for (name, kind) in kinds.into_iter().take(REASONS_MAX) {
        let (nodes, examples) = (kind.nodes.len(), kind.examples.join("; "));
        let plural = if nodes == 1 { "" } else { "s" };
        reasons.push(short(&format!("{name}, on {nodes} node{plural}: {examples}")));
    }
    if more > 0 {
        reasons.push(format!("and {more} more kinds of reasons"));
    }
    if reasons.is_empty() {
        reasons.push("it does not fit".to_owned());
    }
    reasons
}

fn example(node: &str, unit: u32, what: &str) -> String {
    let what = if what.is_empty() {
        String::new()
    } else {
        format!(" ({what})")
    };
    format!("{node} for unit {unit}{what}")
}

/// Words that may hold what a stranger wrote: of one line, and not long.
pub(super) fn short(words: &str) -> String {
    let mut shown = String::new();
    for letter in words.chars() {
        if shown.len() + letter.len_utf8() > REASON_BYTES_MAX {
            shown.push('…');
            break;
        }
        // Shown in terminals and logs: an escape sequence in a name must not reach them.
        shown.push(if letter.is_control() { ' ' } else { letter });
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::inventory::NodeVerdict;

    fn verdict(node: &str, unit: u32, missing: &[&str]) -> NodeVerdict {
        NodeVerdict {
            node: node.into(),
            unit,
            replicas: 0,
            missing: missing.iter().map(|m| (*m).to_owned()).collect(),
        }
    }

    #[test]
    fn reasons_are_summed_by_kind_with_three_examples() {
        let cpu = "cpu: 2 wanted, 0.005 free";
        let mut nodes: Vec<_> = (1..=5).map(|n| verdict(&format!("node{n}"), 1, &[cpu])).collect();
        nodes.push(verdict(
            "node1",
            2,
            &[
                "cpu: 0.009 wanted, 0.005 free",
                "gpu: 1 wanted, the node has none",
            ],
        ));
        let explained = Explanation {
            cluster: vec!["the cluster is small".to_owned()],
            nodes,
            ..Explanation::default()
        };
        let each = |n| format!("node{n} for unit 1 (2 wanted, 0.005 free)");
        assert_eq!(
            summed(&explained),
            [
                "the cluster is small".to_owned(),
                format!("cpu, on 5 nodes: {}; {}; {}", each(1), each(2), each(3)),
                "gpu, on 1 node: node1 for unit 2 (1 wanted, the node has none)".to_owned(),
            ]
        );
        assert_eq!(summed(&Explanation::default()), ["it does not fit"]);
    }

    #[test]
    fn however_many_there_are_they_are_few_and_short() {
        let long = "x".repeat(5000);
        let missing: Vec<String> = (0..100).map(|n| format!("kind {n}{long}: {long}")).collect();
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        let explained = Explanation {
            cluster: vec![long.clone(); 100],
            nodes: (0..100).map(|n| verdict(&format!("n{n}"), 1, &missing)).collect(),
            ..Explanation::default()
        };
        let reasons = summed(&explained);
        assert_eq!(reasons.len(), 2 * REASONS_MAX + 2);
        assert!(reasons.iter().map(String::len).sum::<usize>() < 16 * 1024);
        assert_eq!(short("a\u{1b}[2J\nb"), "a [2J b");
        assert!(short(&"ü".repeat(1000)).len() <= REASON_BYTES_MAX + '…'.len_utf8());
    }
}
