//! Rules of the operator: excluded nodes and offered storage classes.

use regex::{Regex, RegexBuilder};
use std::collections::BTreeSet;

/// Maximum length of a regular expression for node names, in bytes.
const PATTERN_MAX: usize = 4096;
/// Maximum size of a compiled regular expression, in bytes.
const COMPILED_MAX: usize = 1 << 20;
/// Maximum length of each list in the rules: storage classes, excluded nodes, excluded classes of nodes.
const RULES_MAX: usize = 256;

/// Regular expression for node names. As in the Go operator, a match of a part of the name is
/// sufficient.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Returns an error if the expression is empty, too long or invalid. The compiled form also has a size
    /// limit.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            // An empty expression matches every node.
            return Err("is empty and matches every node; use `.*` to match all nodes".to_owned());
        }
        if text.len() > PATTERN_MAX {
            return Err(format!("is longer than {PATTERN_MAX} bytes"));
        }
        let built = RegexBuilder::new(text).size_limit(COMPILED_MAX).build();
        built.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => {
                format!("needs more than {COMPILED_MAX} bytes; use smaller repetitions")
            }
            // The first lines mark the position in the expression and need several lines.
            error => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                format!(
                    "is not a valid regular expression: {}",
                    last.trim_start_matches("error: ")
                )
            }
        })
    }

    fn is_in(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// Rules for nodes and storage classes. The default offers every node and no persistent storage.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    classes: BTreeSet<String>,
    nodes: Vec<Pattern>,
    node_classes: Vec<(Pattern, BTreeSet<String>)>,
}

impl Rules {
    /// Creates rules that offer the storage classes `classes`. Classes that the cluster lacks are ignored.
    ///
    /// # Errors
    /// Returns an error if there are too many classes.
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

    /// Excludes nodes with a matching name.
    ///
    /// # Errors
    /// Returns an error if there are too many expressions.
    pub fn exclude(&mut self, nodes: Pattern) -> Result<(), String> {
        if self.nodes.len() >= RULES_MAX {
            return Err(format!("has more than {RULES_MAX} expressions"));
        }
        self.nodes.push(nodes);
        Ok(())
    }

    /// Excludes storage classes from nodes with a matching name.
    ///
    /// # Errors
    /// Returns an error if a class is not offered, or if there are too many rules.
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
                "names class `{unknown}`, which is not in `cluster_storage`; add it to that list, or remove it from this rule"
            ));
        }
        self.node_classes.push((nodes, classes));
        Ok(())
    }

    /// Returns true for an offered storage class.
    #[must_use]
    pub fn offers(&self, class: &str) -> bool {
        self.classes.contains(class)
    }

    /// Returns the offered storage classes.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(String::as_str)
    }

    /// Returns true for an excluded node.
    #[must_use]
    pub fn excludes(&self, node: &str) -> bool {
        self.nodes.iter().any(|pattern| pattern.is_in(node))
    }

    /// Returns the storage classes that a node may mount.
    pub fn classes_of<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a str> {
        let is_excluded = |class: &str| {
            let rules = self.node_classes.iter();
            let mut rules = rules.filter(|(_, classes)| classes.contains(class));
            rules.any(|(pattern, _)| pattern.is_in(node))
        };
        self.classes().filter(move |class| !is_excluded(class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn nodes_and_classes_are_excluded_by_name() {
        let mut rules = Rules::new(owned(&["beta2", "beta3"])).unwrap();
        rules.exclude(Pattern::new("^master-[0-9]+$").unwrap()).unwrap();
        let slow = Pattern::new("hdd").unwrap();
        rules.exclude_classes(slow, owned(&["beta3"])).unwrap();
        assert!(rules.excludes("master-10") && !rules.excludes("master-10b"));
        let of = |node: &'static str| rules.classes_of(node).collect::<Vec<_>>();
        assert_eq!(of("node-hdd-1"), ["beta2"], "a match inside of the name counts");
        assert_eq!(of("node-1"), ["beta2", "beta3"]);
        assert!(rules.offers("beta2") && !rules.offers("default"));
    }

    #[test]
    fn invalid_rules_are_rejected_with_a_remedy() {
        let refused = |text: &str| Pattern::new(text).unwrap_err();
        assert!(refused("").contains("every node"));
        assert!(
            refused("node(").starts_with("is not a valid regular expression: unclosed group"),
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
    fn nested_repetitions_match_in_linear_time() {
        let pattern = Pattern::new("(a*)*b").unwrap();
        let begun = std::time::Instant::now();
        assert!(!pattern.is_in(&"a".repeat(253)));
        assert!(begun.elapsed() < std::time::Duration::from_secs(1));
    }
}
