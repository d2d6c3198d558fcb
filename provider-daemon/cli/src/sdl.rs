//! SDL files of the command line.

use crate::error::WithHelp;
use akash_provider_chain::regular_file;
use akash_provider_core::sdl::{MAX_BYTES, Sdl};
use anyhow::Context;
use std::io::Read;
use std::path::Path;

/// Reads an SDL file, or standard input for `-`.
///
/// # Errors
/// Returns an error if the file cannot be read, is too large, or is not a valid SDL. The error for an invalid
/// SDL contains line, path and remedy.
pub fn read_sdl(path: &Path) -> anyhow::Result<Sdl> {
    read_sdl_with_text(path).map(|(_, sdl)| sdl)
}

/// Returns the text of an SDL file, or of standard input for `-`.
///
/// # Errors
/// Returns an error if the file cannot be read or is too large.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    let reader: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(regular_file::open(path).with_context(|| format!("cannot open {name}"))?)
    };
    let bytes = match regular_file::limited(reader, u64::try_from(MAX_BYTES)?) {
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            anyhow::bail!(WithHelp::new(
                format!("cannot read {name}: larger than {MAX_BYTES} bytes"),
                "check the path of the file"
            ));
        }
        read => read.with_context(|| format!("cannot read {name}"))?,
    };
    String::from_utf8(bytes).with_context(|| format!("cannot read {name}: invalid UTF-8"))
}

/// Returns the text of an SDL file, for messages with line numbers, and the parsed SDL.
///
/// # Errors
/// Same as [`read_sdl`].
pub fn read_sdl_with_text(path: &Path) -> anyhow::Result<(String, Sdl)> {
    let text = read_text(path)?;
    let sdl = akash_provider_core::sdl::parse_all(&text);
    let sdl = sdl.with_context(|| format!("invalid SDL {}", path.display()))?;
    Ok((text, sdl))
}
