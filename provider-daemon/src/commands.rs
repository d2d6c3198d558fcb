//! What the command line can do, a file each.

mod bids;
pub mod bus;
pub mod chain;
pub mod completions;
pub mod config;
pub mod dev;
pub mod devnet;
pub mod explain;
mod faults;
pub mod keys;
pub mod migrate;
pub mod price;
pub mod query;
pub mod run;
pub mod sdl;
pub mod state;
pub mod tools;
pub mod tx;

use akash_provider_chain::regular_file;
use akash_provider_core::sdl::{MAX_BYTES, Sdl};
use anyhow::Context;
use std::io::Read;
use std::path::Path;

/// Reads an SDL file, or standard input for `-`; never more than the limit.
///
/// # Errors
/// The file cannot be read, is too large, or is no valid SDL (with line, path and mend).
pub fn read_sdl(path: &Path) -> anyhow::Result<Sdl> {
    read_sdl_with_text(path).map(|(_, sdl)| sdl)
}

/// The text of an SDL file, or of standard input for `-`; never more than the limit.
///
/// # Errors
/// The file cannot be read or is too large.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let reader: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(regular_file::open(path).with_context(|| format!("{name}: cannot be opened"))?)
    };
    let bytes = match regular_file::limited(reader, u64::try_from(MAX_BYTES)?) {
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            anyhow::bail!("{name}: is larger than {MAX_BYTES} bytes; an SDL is a few kilobytes");
        }
        read => read.with_context(|| format!("{name}: cannot be read"))?,
    };
    String::from_utf8(bytes).with_context(|| format!("{name}: is no text"))
}

/// The same with its text, for whoever points at a line of it.
///
/// # Errors
/// As [`read_sdl`].
pub fn read_sdl_with_text(path: &Path) -> anyhow::Result<(String, Sdl)> {
    let text = read_text(path)?;
    let sdl = akash_provider_core::sdl::parse_all(&text);
    let sdl = sdl.with_context(|| format!("{}: invalid SDL", path.display()))?;
    Ok((text, sdl))
}
