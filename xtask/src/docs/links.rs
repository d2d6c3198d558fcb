//! Checks of relative links in Markdown files: the file and the heading must exist.

use anyhow::Result;
use std::path::Path;

use crate::error::from_findings;
use crate::prose::scan::unfenced;
use crate::workspace::{Workspace, read};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut findings = Vec::new();
    for path in workspace.files("md")? {
        let page = workspace.relative(&path);
        findings.extend(
            broken(&path, &read(&path)?)
                .into_iter()
                .map(|link| format!("{page}: {link}")),
        );
    }
    from_findings("links", &findings)
}

fn broken(file: &Path, text: &str) -> Vec<String> {
    links(text)
        .into_iter()
        .filter_map(|link| fault(file, text, &link))
        .collect()
}

fn fault(file: &Path, text: &str, link: &str) -> Option<String> {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = file.parent()?.join(path);
    if !path.is_empty() && !target.exists() {
        return Some(format!("`{link}` points to a missing file"));
    }
    if heading.is_empty() {
        return None;
    }
    let other = if path.is_empty() {
        text.to_owned()
    } else {
        std::fs::read_to_string(&target).ok()?
    };
    let found = headings(&other).iter().any(|anchor| anchor == heading);
    (!found).then(|| format!("`{link}` points to a missing heading"))
}

/// Returns the targets of links in a Markdown text, except URLs.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        if let Some((_, target)) = line.split_once("]: ").filter(|_| line.starts_with('[')) {
            found.extend(inside(target));
        }
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            found.extend(after.split_once(')').and_then(|(target, _)| inside(target)));
            rest = after;
        }
    }
    found
}

/// Returns a link target without its title; `None` for a URL.
fn inside(target: &str) -> Option<String> {
    let target = target.split_whitespace().next()?.trim_matches(['<', '>']);
    let elsewhere = target.contains("://") || target.starts_with("mailto:");
    (!elsewhere).then(|| target.to_owned())
}

/// Returns the lines outside of code blocks, without inline code.
fn prose(text: &str) -> Vec<String> {
    let without_code = |(_, line): (usize, &str)| line.split('`').step_by(2).collect();
    unfenced(text).map(without_code).collect()
}

/// Returns the anchors of a page's headings.
fn headings(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (_, line) in unfenced(text) {
        if let Some(title) = line.strip_prefix('#') {
            let title = title.trim_start_matches('#').trim().to_lowercase();
            let letters = title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            found.push(letters.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_links_are_found_in_both_forms() {
        let text =
            "See [a](docs/a.md) and ![b](b.png \"title\"), [web](https://x.example).\n[ref]: ../c.md\n";
        assert_eq!(links(text), ["docs/a.md", "b.png", "../c.md"]);
    }

    #[test]
    fn links_in_code_are_ignored() {
        assert_eq!(links("`[a](b)` and\n```text\n[c](d)\n```\n[e](f)"), ["f"]);
    }

    #[test]
    fn headings_become_anchors() {
        assert_eq!(
            headings("# One order, room by room\n```sh\n# not one\n```\n## `xtask` & co"),
            ["one-order-room-by-room", "xtask--co"]
        );
    }

    #[test]
    fn missing_files_and_headings_are_reported() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let text = "# Here\n[a](Cargo.toml) [b](src) [c](#here) [d](absent.md) [e](#there)";
        assert_eq!(
            broken(&file, text),
            [
                "`absent.md` points to a missing file",
                "`#there` points to a missing heading"
            ]
        );
    }
}
