//! `sdl`: what a tenant's file means.

use super::read_sdl;
use crate::args::{Format, SdlArgs, SdlPart};
use crate::say;
use akash_provider_core::sdl::Sdl;
use data_encoding::HEXLOWER;
use serde::Serialize;
use std::process::ExitCode;

/// Prints a part of an SDL; warnings go to stderr.
///
/// # Errors
/// The file cannot be read or is not valid.
pub fn run(args: &SdlArgs) -> anyhow::Result<ExitCode> {
    let sdl = read_sdl(&args.file)?;
    for warning in &sdl.warnings {
        eprintln!("warning: {warning}");
    }
    match args.what {
        SdlPart::Manifest => say(&formatted(&sdl.manifest, args.output)?),
        SdlPart::Groups => say(&formatted(&sdl.groups, args.output)?),
        SdlPart::Hash => say(&(HEXLOWER.encode(&sdl.hash) + "\n")),
        SdlPart::Validate => say(&format!("valid: {}\n", outline(&sdl)?)),
    }
    Ok(ExitCode::SUCCESS)
}

fn formatted<T: Serialize>(value: &T, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => serde_json::to_string_pretty(value)? + "\n",
        Format::Yaml => serde_norway::to_string(value)?,
    })
}

fn outline(sdl: &Sdl) -> anyhow::Result<String> {
    let services: usize = sdl.manifest.groups.iter().map(|g| g.services.len()).sum();
    let (groups, warnings) = (sdl.groups.len(), sdl.warnings.len());
    Ok(format!(
        "{groups} group(s), {services} service(s), {warnings} warning(s), hash {}",
        HEXLOWER.encode(&sdl.hash)
    ))
}
