//! Summary of the reasons why a group does not fit into the cluster. The summary is short for any number of nodes.

use akash_provider_core::inventory::{Explanation, IgnoredKind, IgnoredResource};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of reasons that concern the whole cluster. The same maximum applies to reasons that concern
/// nodes.
const REASONS_MAX: usize = 16;
/// Maximum number of example nodes in each reason.
const EXAMPLES: usize = 3;
/// Maximum number of ignored resources in a response.
const IGNORED_MAX: usize = 8;
const REASON_BYTES_MAX: usize = 400;

/// Nodes that do not have enough of one resource.
#[derive(Default)]
struct Shortage<'a> {
    nodes: BTreeSet<&'a str>,
    examples: Vec<String>,
}

/// Summarizes why a group does not fit. Lists cluster-wide reasons first, then one reason for each missing
/// kind of resource, with example nodes.
pub(super) fn summarize(explained: &Explanation) -> Vec<String> {
    let mut reasons: Vec<String> = explained
        .cluster
        .iter()
        .take(REASONS_MAX)
        .map(|r| shorten(r))
        .collect();
    let more = explained.cluster.len().saturating_sub(REASONS_MAX);
    if more > 0 {
        reasons.push(format!("and {more} more of the whole cluster"));
    }
    let mut kinds: BTreeMap<&str, Shortage<'_>> = BTreeMap::new();
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
        reasons.push(shorten(&format!("{name}, on {nodes} node{plural}: {examples}")));
    }
    if more > 0 {
        reasons.push(format!("and {more} more kinds of reasons"));
    }
    reasons
}

/// Returns the resources that the provider does not offer, with short texts. If there are more than
/// [`IGNORED_MAX`] resources, the last entry contains the number of omitted resources.
pub(super) fn ignored(explained: &Explanation) -> Vec<IgnoredResource> {
    let shortened = |resource: &IgnoredResource| {
        IgnoredResource::new(
            resource.kind(),
            shorten(resource.reason()),
            shorten(resource.help()),
        )
    };
    let mut ignored: Vec<_> = explained
        .ignored
        .iter()
        .take(IGNORED_MAX)
        .map(shortened)
        .collect();
    let more = explained.ignored.len().saturating_sub(IGNORED_MAX);
    if more > 0 {
        ignored.push(IgnoredResource::new(
            IgnoredKind::Other,
            format!("and {more} more"),
            "",
        ));
    }
    ignored
}

fn example(node: &str, unit: u32, what: &str) -> String {
    let what = if what.is_empty() {
        String::new()
    } else {
        format!(" ({what})")
    };
    format!("{node} for unit {unit}{what}")
}

/// Truncates a text that may contain client data, and replaces control characters.
pub(super) fn shorten(words: &str) -> String {
    let mut short = String::new();
    for letter in words.chars() {
        if short.len() + letter.len_utf8() > REASON_BYTES_MAX {
            short.push('…');
            break;
        }
        // The text appears in terminals and logs, which must not interpret escape sequences.
        short.push(if letter.is_control() { ' ' } else { letter });
    }
    short
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
    fn reasons_are_summarized_by_kind_with_three_examples() {
        let cpu = "cpu: 2 requested, 0.005 free";
        let mut nodes: Vec<_> = (1..=5).map(|n| verdict(&format!("node{n}"), 1, &[cpu])).collect();
        nodes.push(verdict(
            "node1",
            2,
            &[
                "cpu: 0.009 requested, 0.005 free",
                "gpu: 1 requested, the node has none",
            ],
        ));
        let explained = Explanation {
            cluster: vec!["the cluster is small".to_owned()],
            nodes,
            ..Explanation::default()
        };
        let each = |n| format!("node{n} for unit 1 (2 requested, 0.005 free)");
        assert_eq!(
            summarize(&explained),
            [
                "the cluster is small".to_owned(),
                format!("cpu, on 5 nodes: {}; {}; {}", each(1), each(2), each(3)),
                "gpu, on 1 node: node1 for unit 2 (1 requested, the node has none)".to_owned(),
            ]
        );
        assert!(summarize(&Explanation::default()).is_empty());
    }

    #[test]
    fn the_summary_of_many_long_reasons_is_short() {
        let long = "x".repeat(5000);
        let missing: Vec<String> = (0..100).map(|n| format!("kind {n}{long}: {long}")).collect();
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        let explained = Explanation {
            cluster: vec![long.clone(); 100],
            nodes: (0..100).map(|n| verdict(&format!("n{n}"), 1, &missing)).collect(),
            ..Explanation::default()
        };
        let reasons = summarize(&explained);
        assert_eq!(reasons.len(), 2 * REASONS_MAX + 2);
        assert!(reasons.iter().map(String::len).sum::<usize>() < 16 * 1024);
        assert_eq!(shorten("a\u{1b}[2J\nb"), "a [2J b");
        assert!(shorten(&"ü".repeat(1000)).len() <= REASON_BYTES_MAX + '…'.len_utf8());
    }
}
