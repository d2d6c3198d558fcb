//! The stack definition language: the YAML in which a tenant says what to run.
//!
//! ```text
//! text ─ node (YAML with lines) ─ read (fields, types) ─ check (references) ─ build ─ groups, manifest, hash
//! ```
//! Versions 2.0 and 2.1 are read as the network's own tools read them; every error and warning names its line,
//! its path and the mend. A field that those tools ignore is ignored with a warning.

mod build;
mod check;
mod document;
mod fault;
mod limits;
mod node;
mod notes;
mod read;
mod scalar;

pub use fault::{ErrorKind, SdlError, SdlErrors, Warning};
pub use node::{MAX_BYTES, MAX_DEPTH, MAX_KEY, MAX_NODES};
pub use notes::MAX_ERRORS;

use crate::manifest::{self, Manifest, ManifestError};
use crate::types::GroupSpec;
use notes::Notes;
use std::time::Duration;

/// What a tenant's text means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sdl {
    /// Groups for the chain, sorted by name.
    pub groups: Vec<GroupSpec>,
    /// Manifest for the provider, sorted by name.
    pub manifest: Manifest,
    /// Hash of the manifest: the deployment's version on the chain.
    pub hash: [u8; 32],
    /// Least time the tenant wants between a reclaim and the end of a lease.
    pub reclamation_min_window: Option<Duration>,
    /// What is accepted and probably not meant.
    pub warnings: Vec<Warning>,
}

/// Reads an SDL document of version 2.0 or 2.1. A later version is read as 2.1, with a warning.
///
/// # Errors
/// [`SdlError`] for the first line on which something is wrong, with its line, path and mend; [`parse_all`] tells the
/// others too. Texts of any size and shape end here in bounded time.
pub fn parse(text: &str) -> Result<Sdl, SdlError> {
    parse_all(text).map_err(|errors| errors.first)
}

/// The same, and where something is wrong everything that can be told at once: what is wrong in one service, profile or
/// placement hides nothing of the others. Sums and the manifest as a whole are looked at when the parts are right, and a
/// text that is no YAML has one error.
///
/// # Errors
/// [`SdlErrors`], at most [`MAX_ERRORS`] and the number of the rest.
pub fn parse_all(text: &str) -> Result<Sdl, Box<SdlErrors>> {
    let mut notes = Notes::default();
    match read_whole(text, &mut notes) {
        Ok(sdl) => notes.end().map(|warnings| Sdl { warnings, ..sdl }),
        Err(error) => Err(Box::new(notes.end_with(error))),
    }
}

fn read_whole(text: &str, notes: &mut Notes) -> Result<Sdl, SdlError> {
    let root = node::load(text, notes)?;
    let document = read::document(&root, notes)?;
    check::document(&document, notes);
    limits::parts(&document, notes);
    // Nothing is built of parts that only stand in for wrong ones.
    notes.so_far()?;
    let built = build::build(&document)?;
    limits::groups(&built, &document, notes);
    let manifest = built.manifest;
    // By the same rules by which a provider looks at a manifest that it is sent.
    for fault in manifest::faults(&manifest, MAX_ERRORS) {
        let spot = document.spot_of(match &fault {
            ManifestError::Structure { at, .. } => at,
            _ => "",
        });
        let problem = format!("the manifest it makes is refused: {fault}");
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
