//! Every crate that can be published has what a registry and its readers ask for.

use crate::error::{Error, Result};
use crate::workspace::{Package, Workspace};

/// Looks at the members that are not kept from being published.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut findings = Vec::new();
    for member in workspace.members().filter(|member| member.is_published()) {
        let lacking = lacks(member).into_iter();
        findings.extend(lacking.map(|what| format!("`{}` {what}", member.name)));
        let wanted = workspace.newest_compiler_of(member);
        if let (Some(own), Some((wanted, by))) = (&member.rust_version, wanted)
            && version(own) < version(&wanted)
        {
            findings.push(format!(
                "`{}` says that it builds with Rust {own}, and `{by}`, which it depends on, needs {wanted}",
                member.name
            ));
        }
    }
    Error::from_findings("manifests of published crates", &findings)
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
    empty.chain(loose).collect()
}

/// `1.89` and `1.89.0` are the same.
pub(crate) fn version(text: &str) -> Vec<u64> {
    let mut parts: Vec<u64> = text.split('.').filter_map(|part| part.parse().ok()).collect();
    parts.resize(3, 0);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::described;

    #[test]
    fn what_a_registry_asks_for_is_missed() {
        let found = run(&described(&[("core", "core", &[])], &[]))
            .unwrap_err()
            .to_string();
        for field in ["description", "repository", "readme", "rust-version"] {
            assert!(found.contains(&format!("`core` has no `{field}`")), "{found}");
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(version("1.100") > version("1.99.3"));
        assert_eq!(version("1.89"), version("1.89.0"));
    }

    #[test]
    fn this_workspace_can_be_published() {
        run(&Workspace::load().unwrap()).unwrap();
    }
}
