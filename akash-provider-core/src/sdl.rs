//! The stack definition language (SDL): the YAML in which a tenant describes a deployment.
//!
//! ```text
//! text ─ node (YAML with lines) ─ read (fields, types) ─ check (references) ─ build ─ groups, manifest, hash
//! ```
//! Versions 2.0 and 2.1 are parsed as the Akash tools do. Every error and warning names its line, its path
//! and the remedy. A field that those tools ignore is ignored with a warning.

mod build;
mod check;
mod diagnostics;
mod document;
mod fault;
mod limits;
mod node;
mod read;
mod scalar;

pub use diagnostics::MAX_ERRORS;
pub use fault::{ErrorKind, SdlError, SdlErrors, Warning};
pub use node::{MAX_BYTES, MAX_DEPTH, MAX_KEY, MAX_NODES};

use crate::manifest::{self, Manifest, ManifestError};
use crate::types::GroupSpec;
use diagnostics::Diagnostics;
use std::time::Duration;

/// Parsed SDL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdl {
    /// Groups to create on the chain, sorted by name.
    pub groups: Vec<GroupSpec>,
    /// Manifest for the provider. Its groups are sorted by name.
    pub manifest: Manifest,
    /// Hash of the manifest. The chain calls this hash the version of the deployment.
    pub hash: [u8; 32],
    /// Minimum time that the tenant requires between the start of a reclamation and the close of the lease.
    pub reclamation_min_window: Option<Duration>,
    /// Warnings about accepted parts that are probably not intended.
    pub warnings: Vec<Warning>,
}

/// Parses an SDL document of version 2.0 or 2.1. A later version is parsed as 2.1, with a warning.
///
/// # Errors
/// Returns [`SdlError`] for the first invalid line, with its line, path and remedy. [`parse_all`] returns all
/// errors. The time to parse is bounded for any text.
pub fn parse(text: &str) -> Result<Sdl, SdlError> {
    parse_all(text).map_err(|errors| errors.first)
}

/// Parses an SDL as [`parse`] does, but returns all errors at once.
///
/// Limits of whole groups and the complete manifest are checked only if all parts are valid.
///
/// # Errors
/// Returns [`SdlErrors`], with at most [`MAX_ERRORS`] errors and the number of further errors.
pub fn parse_all(text: &str) -> Result<Sdl, Box<SdlErrors>> {
    let mut notes = Diagnostics::default();
    match read_whole(text, &mut notes) {
        Ok(sdl) => notes.end().map(|warnings| Sdl { warnings, ..sdl }),
        Err(error) => Err(Box::new(notes.end_with(error))),
    }
}

fn read_whole(text: &str, notes: &mut Diagnostics) -> Result<Sdl, SdlError> {
    let root = node::load(text, notes)?;
    let document = read::document(&root, notes)?;
    check::document(&document, notes);
    limits::parts(&document, notes);
    // Stops here, because placeholders for invalid parts must not be built.
    notes.so_far()?;
    let built = build::build(&document)?;
    limits::groups(&built, &document, notes);
    let manifest = built.manifest;
    // By the same rules by which a provider validates a received manifest.
    for fault in manifest::faults(&manifest, MAX_ERRORS) {
        let spot = document.spot_of(match &fault {
            ManifestError::Structure { at, .. } => at,
            _ => "",
        });
        let problem = format!("the resulting manifest is refused: {fault}");
        notes.wrong(spot.error(ErrorKind::Invalid, problem, "change the named service"));
    }
    Ok(Sdl {
        groups: built.groups,
        hash: manifest::hash(&manifest),
        manifest,
        reclamation_min_window: document.reclamation,
        warnings: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
