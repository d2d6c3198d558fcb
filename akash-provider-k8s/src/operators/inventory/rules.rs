//! What an operator chooses of its cluster: which nodes are not offered, and which storage classes are.

use regex::{Regex, RegexBuilder};
use std::collections::BTreeSet;

/// Longest expression, in bytes.
const PATTERN_MAX: usize = 4096;
/// Most memory that a compiled expression may take, in bytes.
const COMPILED_MAX: usize = 1 << 20;
/// Expressions, and classes, of one set of rules.
const RULES_MAX: usize = 256;

/// An expression that is searched for in names of nodes, as today's operator reads it: it may match in the middle.
///
/// It takes time in proportion to what it reads, whatever it is.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Reads an expression.
    ///
    /// # Errors
    /// Why it is none: it is empty, too long, too large, or makes no sense.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            // It would match every node.
            return Err("is empty, which would match every node; write `.*` if that is meant".to_owned());
        }
        if text.len() > PATTERN_MAX {
            return Err(format!("is longer than {PATTERN_MAX} bytes"));
        }
        let built = RegexBuilder::new(text).size_limit(COMPILED_MAX).build();
        built.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                format!("would take more than {COMPILED_MAX} bytes; make its repetitions smaller")
            }
            // The first lines draw the place, which no single line can show.
            error => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                format!("is no regular expression: {}", last.trim_start_matches("error: "))
            }
        })
    }

    fn is_in(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// Which nodes and storage classes are offered. The usual rules offer every node and no persistent storage.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    classes: BTreeSet<String>,
    nodes: Vec<Pattern>,
    node_classes: Vec<(Pattern, BTreeSet<String>)>,
}

impl Rules {
    /// Rules that offer these storage classes, where the cluster has them.
    ///
    /// # Errors
    /// There are too many of them.
    pub fn new(classes: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let classes: BTreeSet<_> = classes.into_iter().collect();
        if classes.len() > RULES_MAX {
            return Err(format!("has more than {RULES_MAX} classes"));
        }
        Ok(Self {
            classes,
            ..Self::default()
        })
    }

    /// Leaves out nodes whose names match.
    ///
    /// # Errors
    /// There are too many expressions.
    pub fn exclude(&mut self, nodes: Pattern) -> Result<(), String> {
        if self.nodes.len() >= RULES_MAX {
            return Err(format!("has more than {RULES_MAX} expressions"));
        }
        self.nodes.push(nodes);
        Ok(())
    }

    /// Keeps classes from nodes whose names match.
    ///
    /// # Errors
    /// A class is not offered at all, or there are too many rules.
    pub fn exclude_classes(
        &mut self,
        nodes: Pattern,
        classes: impl IntoIterator<Item = String>,
    ) -> Result<(), String> {
        if self.node_classes.len() >= RULES_MAX {
            return Err(format!("has more than {RULES_MAX} rules"));
        }
        let classes: BTreeSet<_> = classes.into_iter().collect();
        if let Some(unknown) = classes.iter().find(|class| !self.offers(class)) {
            return Err(format!(
                "names class `{unknown}`, which is not in `cluster_storage`; add it there, or leave it out here"
            ));
        }
        self.node_classes.push((nodes, classes));
        Ok(())
    }

    /// True for a storage class that may be offered.
    #[must_use]
    pub fn offers(&self, class: &str) -> bool {
        self.classes.contains(class)
    }

    /// The storage classes that may be offered.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(String::as_str)
    }

    /// True for a node that is not offered.
    #[must_use]
    pub fn excludes(&self, node: &str) -> bool {
        self.nodes.iter().any(|pattern| pattern.is_in(node))
    }

    /// The storage classes that a node may mount.
    pub fn classes_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a str> {
        let kept_off = |class: &str| {
            let rules = self.node_classes.iter();
            let mut rules = rules.filter(|(_, classes)| classes.contains(class));
            rules.any(|(pattern, _)| pattern.is_in(node))
        };
        self.classes().filter(move |class| !kept_off(class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn nodes_and_classes_are_left_out_by_name() {
        let mut rules = Rules::new(owned(&["beta2", "beta3"])).unwrap();
        rules.exclude(Pattern::new("^master-[0-9]+$").unwrap()).unwrap();
        let slow = Pattern::new("hdd").unwrap();
        rules.exclude_classes(slow, owned(&["beta3"])).unwrap();
        assert!(rules.excludes("master-10") && !rules.excludes("master-10b"));
        let of = |node: &'static str| rules.classes_of(node).collect::<Vec<_>>();
        assert_eq!(of("node-hdd-1"), ["beta2"], "in the middle of a name too");
        assert_eq!(of("node-1"), ["beta2", "beta3"]);
        assert!(rules.offers("beta2") && !rules.offers("default"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_mend() {
        let refused = |text: &str| Pattern::new(text).unwrap_err();
        assert!(refused("").contains("every node"));
        assert!(
            refused("node(").starts_with("is no regular expression: unclosed group"),
            "{}",
            refused("node(")
        );
        assert!(refused(&"a".repeat(PATTERN_MAX + 1)).contains("longer"));
        assert!(Pattern::new(&"a".repeat(PATTERN_MAX)).is_ok());
        assert!(refused("(a{1000}){1000}").contains("repetitions"));
        let mut rules = Rules::new(owned(&["beta2"])).unwrap();
        let all = || Pattern::new(".*").unwrap();
        let unknown = rules.exclude_classes(all(), owned(&["beta9"])).unwrap_err();
        assert!(unknown.contains("`beta9`") && unknown.contains("cluster_storage"));
        for _ in 0..RULES_MAX {
            rules.exclude(all()).unwrap();
        }
        assert!(rules.exclude(all()).is_err());
        let many = (0..=RULES_MAX).map(|n| n.to_string());
        assert!(Rules::new(many).is_err());
    }

    #[test]
    fn an_expression_made_to_take_long_does_not() {
        let pattern = Pattern::new("(a*)*b").unwrap();
        let begun = std::time::Instant::now();
        assert!(!pattern.is_in(&"a".repeat(253)));
        assert!(begun.elapsed() < std::time::Duration::from_secs(1));
    }
}
