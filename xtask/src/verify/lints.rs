//! Checks that every member uses the lints of the workspace. Cargo does not warn about a missing entry.

use crate::error::from_findings;
use crate::workspace::{Workspace, read};
use anyhow::Result;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut findings = Vec::new();
    for member in workspace.members() {
        let manifest = workspace.relative(&member.manifest_path);
        match inherits(&read(&member.manifest_path)?) {
            Ok(true) => {}
            Ok(false) => findings.push(format!("{manifest} lacks `[lints] workspace = true`")),
            Err(error) => findings.push(format!("{manifest}: {error}")),
        }
    }
    from_findings("lints", &findings)
}

fn inherits(manifest: &str) -> std::result::Result<bool, toml::de::Error> {
    let manifest: toml::Table = toml::from_str(manifest)?;
    let lints = manifest.get("lints").and_then(toml::Value::as_table);
    Ok(lints
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool)
        == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_without_workspace_lints_is_found() {
        assert_eq!(
            inherits("[package]\nname = 'a'\n[lints]\nworkspace = true"),
            Ok(true)
        );
        assert_eq!(inherits("lints.workspace = true"), Ok(true));
        assert_eq!(
            inherits("[package]\nname = 'a'\n# [lints] workspace = true"),
            Ok(false)
        );
        assert_eq!(inherits("[lints]\nworkspace = false"), Ok(false));
        assert!(inherits("[").is_err());
    }
}
