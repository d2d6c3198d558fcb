//! Checks the manifests: those of publishable crates have the fields that a registry requires, and none of
//! them disables tests that exist.

use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

use crate::error::from_findings;
use crate::version::version;
use crate::workspace::{Package, Workspace, read};

/// Maximum number of keywords of a crate in the registry. The same limit applies to categories.
const WORDS_MAX: usize = 5;

/// Checks the publishable members.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut findings = Vec::new();
    let mut by_keywords = BTreeMap::new();
    for member in workspace.members().filter(|member| member.is_published()) {
        if let Some(other) = by_keywords.insert(member.keywords.clone(), &member.name) {
            findings.push(format!(
                "`{}` has the same keywords as `{other}`: use different ones",
                member.name
            ));
        }
        let lacking = lacks(member).into_iter();
        findings.extend(lacking.map(|what| format!("`{}` {what}", member.name)));
        let wanted = workspace.newest_compiler_of(member);
        if let (Some(own), Some((wanted, by))) = (&member.rust_version, wanted)
            && version(own) < version(&wanted)
        {
            findings.push(format!(
                "`{}` requires Rust {own}, but its dependency `{by}` requires {wanted}",
                member.name
            ));
        }
    }
    findings.extend(tests_not_run(workspace)?);
    from_findings("manifests", &findings)
}

/// Finds tests in targets with `test = false`. Cargo does not run such tests.
fn tests_not_run(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for member in workspace.members() {
        let untested: Vec<&Path> = member.untested().collect();
        if untested.is_empty() {
            continue;
        }
        for file in workspace.files("rs")? {
            if untested.iter().any(|path| file.starts_with(path)) && has_tests(&read(&file)?) {
                findings.push(format!(
                    "{} has tests, but the manifest of `{}` has `test = false`",
                    file.display(),
                    member.name
                ));
            }
        }
    }
    Ok(findings)
}

fn has_tests(text: &str) -> bool {
    let attributes = ["#[test]", "#[tokio::test", "#[cfg(test)]", "proptest! {"];
    text.lines().any(|line| {
        attributes
            .iter()
            .any(|attribute| line.trim_start().starts_with(attribute))
    })
}

fn lacks(member: &Package) -> Vec<String> {
    let fields = [
        ("description", &member.description),
        ("license", &member.license),
        ("repository", &member.repository),
        ("readme", &member.readme),
        ("rust-version", &member.rust_version),
    ];
    let is_empty = |value: &Option<String>| value.as_deref().is_none_or(|text| text.trim().is_empty());
    let empty = fields.into_iter().filter(|(_, value)| is_empty(value));
    let empty = empty.map(|(name, _)| format!("has no `{name}` in its manifest"));
    let loose = member.loose_paths();
    let loose = loose.map(|name| format!("depends on the folder of `{name}` without a version"));
    let words = [("keywords", &member.keywords), ("categories", &member.categories)];
    let uncounted = words
        .into_iter()
        .filter(|(_, words)| words.is_empty() || words.len() > WORDS_MAX);
    let uncounted = uncounted.map(|(name, words)| {
        format!(
            "has {} `{name}` in its manifest: give it 1 to {WORDS_MAX}",
            words.len()
        )
    });
    let undocumented = (member.is_library() && !member.has_docs_metadata())
        .then(|| "does not list features in `[package.metadata.docs.rs]`".to_owned());
    empty.chain(loose).chain(uncounted).chain(undocumented).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::workspace_of;

    #[test]
    fn missing_fields_of_a_registry_are_found() {
        let found = run(&workspace_of(&[("core", "core", &[])], &[]))
            .unwrap_err()
            .to_string();
        for field in ["description", "repository", "readme", "rust-version"] {
            assert!(found.contains(&format!("`core` has no `{field}`")), "{found}");
        }
        for words in ["keywords", "categories"] {
            assert!(found.contains(&format!("`core` has 0 `{words}`")), "{found}");
        }
    }

    #[test]
    fn crates_need_different_keywords_and_documented_features() {
        let member = |name: &str, keywords: &[&str], metadata: serde_json::Value| {
            serde_json::json!({
                "id": name, "name": name, "version": "0.1.0", "manifest_path": format!("/w/{name}/Cargo.toml"),
                "features": {}, "dependencies": [], "source": null, "license": "Apache-2.0", "description": "d",
                "repository": "r", "readme": "R", "rust_version": "1.89", "categories": ["science"],
                "keywords": keywords, "metadata": metadata, "targets": [{"name": name, "kind": ["lib"]}],
            })
        };
        let found = |members: &[serde_json::Value]| {
            let names: Vec<_> = members.iter().map(|member| &member["name"]).collect();
            let text = serde_json::json!({
                "packages": members, "workspace_members": names, "workspace_root": "/w", "target_directory": "/t",
            });
            run(&Workspace::from_json(&text.to_string()).unwrap())
        };
        let docs = serde_json::json!({"docs": {"rs": {"all-features": true}}});
        let one = member("one", &["a"], docs.clone());
        found(&[one.clone(), member("two", &["b"], docs.clone())]).unwrap();
        let same = found(&[one.clone(), member("two", &["a"], docs)]).unwrap_err();
        assert!(
            same.to_string().contains("`two` has the same keywords as `one`"),
            "{same}"
        );
        let silent = found(&[one, member("two", &["b"], serde_json::Value::Null)]).unwrap_err();
        assert!(
            silent.to_string().contains("`two` does not list features"),
            "{silent}"
        );
        let many = found(&[member(
            "one",
            &["a", "b", "c", "d", "e", "f"],
            serde_json::Value::Null,
        )]);
        assert!(many.unwrap_err().to_string().contains("has 6 `keywords`"));
    }

    #[test]
    fn test_attribute_is_found_at_start_of_line() {
        assert!(has_tests("fn a() {}\n    #[test]\nfn b() {}"));
        assert!(!has_tests("//! A `#[test]` is an attribute."));
    }

    #[test]
    fn this_workspace_can_be_published() {
        run(&Workspace::load().unwrap()).unwrap();
    }
}
