//! Text on standard output.

use crate::plain;
use std::io::{IsTerminal, Write};

/// Writes a text to standard output, with escaped control characters. A closed pipe is not an error.
pub fn say(text: &str) {
    // The failure cannot be reported anywhere.
    drop(write(text));
}

/// Writes a text to standard output, with escaped control characters.
///
/// # Errors
/// Returns an error if the write fails, for example because the reader closed the pipe.
pub fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(plain::plain(text).as_bytes())?;
    out.flush()
}

/// Writes `head` and `tail` as one line. `tail` has the style `style`, unless standard output is no terminal
/// or `NO_COLOR` is set.
pub fn say_styled(head: &str, style: anstyle::Style, tail: &str) {
    let mut out = std::io::stdout().lock();
    let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let style = if is_wanted && out.is_terminal() {
        style
    } else {
        anstyle::Style::new()
    };
    let (head, tail) = (plain::plain(head), plain::plain(tail));
    // Same as in `say`.
    drop(writeln!(out, "{head}{style}{tail}{style:#}").and_then(|()| out.flush()));
}
