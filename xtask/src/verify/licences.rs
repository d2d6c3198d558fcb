//! Policy of deny.toml: licences, banned crates and sources.
//!
//! `cargo deny` checks the policy if installed. Otherwise this check uses the same file and cargo's metadata,
//! so that the policy is also checked on machines without `cargo deny`.

use anyhow::{Context, Result};
use std::collections::BTreeSet;

use serde::Deserialize;

use crate::error::from_findings;
use crate::report::Notes;
use crate::workspace::{Package, Workspace, read};

#[derive(Debug, Deserialize)]
struct DenyPolicy {
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

/// A licence that is accepted for one crate only.
#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Debug, Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Sources {
    #[serde(rename = "allow-registry")]
    registries: Vec<String>,
}

/// Checks the licences with `cargo deny`. If `cargo deny` is not installed, runs the built-in check. The
/// returned note shows which check was used.
pub(crate) fn run(workspace: &Workspace) -> Result<Notes> {
    if workspace
        .cargo(&["deny", "--version"])
        .quiet()
        .silent()
        .lines()
        .is_ok()
    {
        let checks = [
            "--locked",
            "--all-features",
            "check",
            "bans",
            "licenses",
            "sources",
        ];
        workspace.cargo(&["deny"]).args(checks).run()?;
        return Ok(vec!["checked by cargo deny".to_owned()]);
    }
    let policy = read_policy(&read(&workspace.root.join("deny.toml"))?)?;
    let findings: Vec<String> = workspace
        .external_packages()
        .flat_map(|package| findings(&policy, package))
        .collect();
    from_findings("deny.toml", &findings)?;
    Ok(vec![format!(
        "cargo deny is not installed: {} packages were checked by the built-in check",
        workspace.external_packages().count()
    )])
}

fn read_policy(text: &str) -> Result<DenyPolicy> {
    toml::from_str(text).context("deny.toml")
}

fn findings(policy: &DenyPolicy, package: &Package) -> Vec<String> {
    let name = format!("{} {}", package.name, package.version);
    let mut found = Vec::new();
    for ban in policy.bans.deny.iter().filter(|ban| ban.name == package.name) {
        found.push(format!("{name} is banned: {}", ban.reason));
    }
    let registry = package
        .source
        .as_deref()
        .and_then(|source| source.strip_prefix("registry+"));
    if !registry.is_some_and(|registry| {
        policy
            .sources
            .registries
            .iter()
            .any(|allowed| allowed == registry)
    }) {
        let source = package
            .source
            .as_deref()
            .unwrap_or("a folder outside of the workspace");
        found.push(format!("{name} comes from {source}"));
    }
    let accepts = |licence: &str| {
        policy.licenses.allow.contains(licence)
            || policy
                .licenses
                .exceptions
                .iter()
                .any(|other| other.name == package.name && other.allow.contains(licence))
    };
    match package.license.as_deref() {
        None => found.push(format!("{name} states no licence")),
        Some(expression) => match accepted(expression, &accepts) {
            Some(true) => {}
            Some(false) => found.push(format!("{name}: {expression} is not on the list")),
            None => found.push(format!("{name}: invalid licence expression `{expression}`")),
        },
    }
    found
}

/// Returns true if the accepted licences satisfy an SPDX expression. Returns `None` if the expression is
/// malformed.
fn accepted(expression: &str, accepts: &dyn Fn(&str) -> bool) -> Option<bool> {
    // Before SPDX, a slash between two licences meant a choice.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let verdict = either(&mut words, accepts)?;
    words.next().is_none().then_some(verdict)
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, accepts: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut verdict = both(words, accepts)?;
    while words.next_if_eq(&"OR").is_some() {
        verdict |= both(words, accepts)?;
    }
    Some(verdict)
}

fn both(words: &mut Words<'_>, accepts: &dyn Fn(&str) -> bool) -> Option<bool> {
    let mut verdict = single(words, accepts)?;
    while words.next_if_eq(&"AND").is_some() {
        verdict &= single(words, accepts)?;
    }
    Some(verdict)
}

fn single(words: &mut Words<'_>, accepts: &dyn Fn(&str) -> bool) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let verdict = either(words, accepts)?;
        return words.next_if_eq(&")").map(|_| verdict);
    }
    if matches!(word, ")" | "AND" | "OR" | "WITH") {
        return None;
    }
    if words.next_if_eq(&"WITH").is_some() {
        let exception = words.next()?;
        return Some(accepts(&format!("{word} WITH {exception}")));
    }
    Some(accepts(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::workspace_of;

    const OURS: &str = "https://registry.example/index";

    fn judge(expression: &str) -> Option<bool> {
        accepted(expression, &|licence| {
            ["MIT", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].contains(&licence)
        })
    }

    #[test]
    fn one_accepted_alternative_is_sufficient() {
        assert_eq!(judge("MIT"), Some(true));
        assert_eq!(judge("Zlib OR MIT"), Some(true));
        assert_eq!(judge("MIT/Zlib"), Some(true));
        assert_eq!(judge("Apache-2.0 WITH LLVM-exception OR Zlib"), Some(true));
        assert_eq!(judge("GPL-3.0-only OR Zlib"), Some(false));
        assert_eq!(judge("Apache-2.0"), Some(false));
    }

    #[test]
    fn every_part_of_a_conjunction_must_be_accepted() {
        assert_eq!(judge("(Zlib OR MIT) AND Unicode-3.0"), Some(true));
        assert_eq!(judge("MIT AND OpenSSL"), Some(false));
        assert_eq!(
            judge("Zlib OR MIT AND OpenSSL"),
            Some(false),
            "AND binds tighter than OR"
        );
    }

    #[test]
    fn malformed_expressions_are_reported() {
        for expression in ["", "(MIT", "MIT)", "MIT OR", "MIT Zlib", "AND", "MIT WITH"] {
            assert_eq!(judge(expression), None, "{expression}");
        }
    }

    fn policy() -> DenyPolicy {
        read_policy(&format!(
            "[licenses]\nallow = ['MIT']\nexceptions = [{{ crate = 'tls', allow = ['ISC'] }}]\n\
             [bans]\ndeny = [{{ crate = 'openssl-sys', reason = 'one TLS stack' }}]\n\
             [sources]\nallow-registry = ['{OURS}']"
        ))
        .unwrap()
    }

    #[test]
    fn each_rule_finds_its_violation() {
        let ours = format!("registry+{OURS}");
        let strangers = [
            ("good", "MIT", ours.as_str()),
            ("tls", "ISC", ours.as_str()),
            ("other", "ISC", ours.as_str()),
            ("openssl-sys", "MIT", ours.as_str()),
            ("forked", "MIT", "git+https://git.example/forked"),
        ];
        let workspace = workspace_of(&[], &strangers);
        let found: Vec<String> = workspace
            .external_packages()
            .flat_map(|p| findings(&policy(), p))
            .collect();
        assert_eq!(
            found,
            [
                "other 1.0.0: ISC is not on the list",
                "openssl-sys 1.0.0 is banned: one TLS stack",
                "forked 1.0.0 comes from git+https://git.example/forked",
            ]
        );
    }
}
