//! The stack definition language: the YAML in which a tenant says what to run.
//!
//! ```text
//! text ─ node (YAML with lines) ─ read (fields, types) ─ check (references) ─ build ─ groups, manifest, hash
//! ```
//! Versions 2.0 and 2.1 are read as the network's own tools read them; every error and warning names its line,
//! its path and the mend. Unlike those tools, a field nobody knows is refused at every level: it is nearly
//! always a slip that would silently change what is deployed.

mod build;
mod check;
mod document;
mod fault;
mod limits;
mod node;
mod read;
mod scalar;

pub use fault::{ErrorKind, SdlError, Warning};
pub use node::{MAX_BYTES, MAX_DEPTH, MAX_KEY, MAX_NODES};

use crate::manifest::{self, Manifest};
use crate::types::GroupSpec;
use fault::Spot;
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
/// [`SdlError`] for the first thing that is wrong, with its line, path and mend. Texts of any size and shape end
/// here in bounded time.
pub fn parse(text: &str) -> Result<Sdl, SdlError> {
    let mut warnings = Vec::new();
    let root = node::load(text, &mut warnings)?;
    let document = read::document(&root, &mut warnings)?;
    check::document(&document, &mut warnings)?;
    let built = build::build(&document)?;
    limits::check(&built, &document)?;
    let manifest = built.manifest;
    manifest::validate(&manifest).map_err(|error| {
        let spot = Spot::new(document.services_line, "services");
        spot.error(
            ErrorKind::Invalid,
            format!("the manifest it makes is refused: {error}"),
            "change the named service",
        )
    })?;
    cap(&mut warnings);
    Ok(Sdl {
        groups: built.groups,
        hash: manifest::hash(&manifest),
        manifest,
        reclamation_min_window: document.reclamation,
        warnings,
    })
}

/// A text can be wrong in as many places as it has lines; nobody reads more than these.
fn cap(warnings: &mut Vec<Warning>) {
    const MAX_WARNINGS: usize = 100;
    warnings.sort_by_key(|warning| warning.line);
    warnings.truncate(MAX_WARNINGS);
}

#[cfg(test)]
mod tests;
