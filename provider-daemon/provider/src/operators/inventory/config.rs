//! File of inventory rules, with the keys of the Go operator. Errors name the line and the key.
//!
//! ```text
//! version: v1
//! cluster_storage: [beta2]
//! exclude:
//!   nodes: ["^master-"]
//!   node_storage:
//!     - {node_filter: "-hdd$", classes: [beta2]}
//! ```

use crate::files::{self, yaml_error};
use akash_provider_operators::inventory::rules::{Pattern, Rules};
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::path::PathBuf;

/// Maximum size of the rules, in bytes.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RulesSource {
    /// File that is read periodically.
    File(PathBuf),
    /// Name and value of the flag.
    Inline(&'static str, String),
}

impl RulesSource {
    /// Creates the source from a flag value. A value that ends with `yaml` is a path; any other value is the
    /// content.
    pub(super) fn from_flag(flag: &'static str, given: &str) -> Self {
        if given.ends_with("yaml") {
            Self::File(given.into())
        } else {
            Self::Inline(flag, given.to_owned())
        }
    }

    /// Returns the path of the file or the name of the flag, for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Inline(flag, _) => (*flag).to_owned(),
        }
    }

    /// Returns the current rules, from the file or the flag.
    pub(super) fn text(&self) -> Result<String, String> {
        match self {
            Self::Inline(_, text) => Ok(text.clone()),
            Self::File(path) => files::text(path, BYTES_MAX).map_err(|why| format!("{}: {why}", self.name())),
        }
    }

    pub(super) fn rules(&self, text: &str) -> Result<Rules, String> {
        read(text).map_err(|why| format!("{}: {why}", self.name()))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    version: Spanned<String>,
    cluster_storage: Option<Vec<String>>,
    exclude: Option<Exclude>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exclude {
    nodes: Option<Vec<Spanned<String>>>,
    node_storage: Option<Vec<NodeStorage>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeStorage {
    node_filter: Spanned<String>,
    #[serde(default)]
    classes: Vec<String>,
}

fn read(text: &str) -> Result<Rules, String> {
    let text: RulesFile = serde_saphyr::from_str(text).map_err(|error| yaml_error(&error))?;
    let fault = |at: &Spanned<String>, key: &str, why: &str| {
        format!("line {}: `{key}` {:?} {why}", at.referenced.line(), at.value)
    };
    if !is_version(&text.version.value) {
        return Err(fault(&text.version, "version", "is not a version; use v1"));
    }
    let classes = text.cluster_storage.unwrap_or_default();
    let mut rules = Rules::new(classes).map_err(|why| format!("`cluster_storage` {why}"))?;
    let Some(exclude) = text.exclude else {
        return Ok(rules);
    };
    for node in exclude.nodes.unwrap_or_default() {
        let pattern = Pattern::new(&node.value);
        let added = pattern.and_then(|pattern| rules.exclude(pattern));
        added.map_err(|why| fault(&node, "exclude.nodes", &why))?;
    }
    for rule in exclude.node_storage.unwrap_or_default() {
        let pattern = Pattern::new(&rule.node_filter.value);
        let added = pattern.and_then(|pattern| rules.exclude_classes(pattern, rule.classes));
        added.map_err(|why| fault(&rule.node_filter, "exclude.node_storage", &why))?;
    }
    Ok(rules)
}

/// Returns true for a version with one to three numbers, such as `v1.2-rc`. The Go operator accepts the same
/// versions.
fn is_version(text: &str) -> bool {
    let text = text.trim();
    let numbers = text.strip_prefix('v').unwrap_or(text);
    let numbers = numbers.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<_> = numbers.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() <= 3 && parts.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "version: v1\ncluster_storage: [beta2, default]\nexclude:\n  nodes: [\"^master-\"]\n  \
                         node_storage:\n    - node_filter: hdd\n      classes: [beta2]\n";

    #[test]
    fn keys_of_the_go_operator_are_parsed() {
        let rules = read(USUAL).unwrap();
        assert!(rules.excludes("master-1") && !rules.excludes("node-1"));
        assert_eq!(rules.classes_of("node-hdd").collect::<Vec<_>>(), ["default"]);
        assert_eq!(read("version: v1").unwrap().classes().count(), 0);
        for version in ["v1", "1", "v1.0.0", "\"1.2\"", "v1.0.0-rc1"] {
            assert!(
                read(&format!("version: {version}\ncluster_storage:\nexclude:")).is_ok(),
                "{version}"
            );
        }
    }

    #[test]
    fn invalid_rules_are_reported_with_line_and_key() {
        let wrong = |text: &str| {
            RulesSource::Inline("--config", String::new())
                .rules(text)
                .unwrap_err()
        };
        for (text, parts) in [
            (
                "version: v1\nclusters: []",
                &["line 2", "clusters", "cluster_storage"][..],
            ),
            ("cluster_storage: [beta2]", &["version"]),
            ("version: one", &["line 1", "`version`", "use v1"]),
            (
                "version: v1\nexclude:\n  nodes:\n  - a\n  - \"\"",
                &["line 5", "`exclude.nodes`", "use `.*`"],
            ),
            (
                "version: v1\nexclude:\n  nodes: [\"a(\"]",
                &["line 3", "`exclude.nodes`", "unclosed group"],
            ),
            (
                "version: v1\nexclude:\n  node: [a]",
                &["line 3", "`node`", "nodes"],
            ),
            (
                "version: v1\nexclude:\n  node_storage:\n  - {node_filter: a, classes: [beta9]}",
                &[
                    "line 4",
                    "`exclude.node_storage`",
                    "`beta9`",
                    "add it to that list",
                ],
            ),
            ("version: v1\nexclude: [", &["line 2"]),
            ("version: v1\ncluster_storage: beta2", &["line 2"]),
        ] {
            let error = wrong(text);
            assert!(error.starts_with("--config: "), "{error}");
            for part in parts {
                assert!(error.contains(part), "{part:?} is not in: {error}");
            }
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn flag_is_a_path_or_the_text_of_the_rules() {
        assert_eq!(
            RulesSource::from_flag("--config", "/etc/x.yaml"),
            RulesSource::File("/etc/x.yaml".into())
        );
        assert_eq!(
            RulesSource::from_flag("--config", "version: v1"),
            RulesSource::Inline("--config", "version: v1".to_owned())
        );
        let missing = RulesSource::from_flag("--config", "/nowhere/rules.yaml")
            .text()
            .unwrap_err();
        assert!(missing.starts_with("/nowhere/rules.yaml: "), "{missing}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long.yaml");
        std::fs::write(&path, vec![b'#'; BYTES_MAX as usize + 1]).unwrap();
        assert!(RulesSource::File(path).text().unwrap_err().contains("longer"));
    }
}
