//! `sdl-to-manifest`: what a provider would be sent.

use super::json::pretty;
use crate::args::Format;
use crate::args::tenant::SdlToManifestArgs;
use crate::commands::read_sdl;
use crate::say;
use std::process::ExitCode;

pub(super) fn run(args: &SdlToManifestArgs) -> anyhow::Result<ExitCode> {
    let sdl = read_sdl(&args.sdl)?;
    for warning in &sdl.warnings {
        eprintln!("warning: {warning}");
    }
    say(&match args.output {
        Format::Json => pretty(&sdl.manifest)?,
        Format::Yaml => serde_norway::to_string(&sdl.manifest)?,
    });
    Ok(ExitCode::SUCCESS)
}
