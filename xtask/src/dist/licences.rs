//! Licences of all packages in the daemon: their SPDX expressions, and the texts in their sources.

use super::packages::LinkedPackage;
use crate::workspace::entries;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Starts of the names of licence files, in upper case.
const NAMES: [&str; 6] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
];

/// Returns the list of packages with their licences, then each licence text once.
pub(super) fn text(components: &[LinkedPackage<'_>]) -> Result<String> {
    let mut list = "Packages in the program, with their licences\n\n".to_owned();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for LinkedPackage { package, .. } in components {
        let name = format!("{} {}", package.name, package.version);
        let licence = package.licence_expression();
        let licence = licence.with_context(|| format!("{name} states no licence"))?;
        // Writing into a `String` does not fail.
        let _ = writeln!(list, "{name}: {licence}");
        for file in files(package.manifest_path.parent().unwrap_or_else(|| Path::new("")))? {
            let text = fs::read(&file).with_context(|| file.display().to_string())?;
            let text = String::from_utf8_lossy(&text).trim().replace("\r\n", "\n");
            let names = texts.entry(text).or_default();
            if !names.contains(&name) {
                names.push(name.clone());
            }
        }
    }
    for (text, names) in texts {
        let _ = write!(list, "\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", "));
    }
    Ok(list)
}

/// Returns the licence files in the folder of a package. The folder can contain code of other authors, with its
/// own licence.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(folder)?.into_iter().filter(|path| !path.is_symlink()) {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_uppercase();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if NAMES.iter().any(|start| name.starts_with(start)) && !name.ends_with(".RS") {
            found.push(path);
        }
    }
    Ok(found)
}
