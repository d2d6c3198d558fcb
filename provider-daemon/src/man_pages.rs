//! `man-pages`: manual pages of all commands.

use crate::args::Cli;
use anyhow::Context;
use std::path::Path;
use std::process::ExitCode;

/// Writes one manual page per command to `folder`.
///
/// # Errors
/// Fails if the folder or a page cannot be written.
pub(crate) fn write(folder: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::documented(), folder))
        .with_context(|| format!("cannot write the manual pages to {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
