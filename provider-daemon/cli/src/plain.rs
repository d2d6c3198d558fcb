//! Escaping of untrusted text (from tenants, nodes and clusters) for output: the result cannot move the cursor, change
//! colors, hide characters, change the writing direction or start a line.
//!
//! [`plain`] is applied to output on a terminal (`say`), [`line`](fn@line) to a part of a line, and [`LogWriter`] to the
//! log. Escaped characters are printed as `\u` and four digits, which JSON and quoted YAML decode.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Returns true for a character that is invisible or controls a terminal, except line feeds and tabs.
#[must_use]
pub fn is_active(c: char) -> bool {
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}');
    is_hidden || (c.is_control() && c != '\n' && c != '\t')
}

/// Escapes invisible and control characters, except line breaks and tabs.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    without(text, is_active)
}

/// Formats a number and a noun, with a plural `s` unless the number is 1.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Escapes control characters and line breaks, for a text within a line.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    without(text, |c| is_active(c) || c == '\n')
}

/// Limits a text to `most` characters. A shortened text ends in `…`.
#[must_use]
pub fn cut(text: String, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn without(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_escaped(c) {
            // Writing into a `String` does not fail.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Log writer that prints each event on one line. With colors, U+001B is not escaped, because color codes
/// start with U+001B. The log formatter already escapes U+001B in field values.
#[derive(Debug)]
pub struct LogWriter<W> {
    to: W,
    has_colors: bool,
}

impl<W> LogWriter<W> {
    /// Creates a writer. `has_colors` is true if the log formatter adds colors.
    pub const fn new(to: W, has_colors: bool) -> Self {
        Self { to, has_colors }
    }
}

impl<W: Write> Write for LogWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        const ESCAPE: char = '\u{1b}';
        let text = String::from_utf8_lossy(event);
        let (text, end) = match text.strip_suffix('\n') {
            Some(text) => (text, "\n"),
            None => (&*text, ""),
        };
        let is_escaped = |c| (is_active(c) || c == '\n') && !(self.has_colors && c == ESCAPE);
        let escaped = without(text, is_escaped);
        self.to.write_all(escaped.as_bytes())?;
        self.to.write_all(end.as_bytes())?;
        // All bytes of the event are consumed, independent of the number of written bytes. A smaller number would cause
        // a repeated write.
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{7}\nready: bidding\rb\u{202e}c\u{200b}\u{2028}d\u{7f}";

    #[test]
    fn escapes_control_characters_only() {
        let escaped = line(HOSTILE);
        assert!(!escaped.chars().any(|c| is_active(c) || c == '\n'), "{escaped:?}");
        assert_eq!(
            escaped,
            "a\\u001b[2J\\u009b31m\\u0007\\u000aready: bidding\\u000db\\u202ec\\u200b\\u2028d\\u007f"
        );
        assert_eq!(plain("one\n\ttwo\n"), "one\n\ttwo\n");
        assert_eq!(plain(HOSTILE).lines().count(), 2);
        let usual = "bid placed, 1.2uact per block: größer, 価格, 🚀";
        assert!(matches!(line(usual), Cow::Borrowed(same) if same == usual));
    }

    #[test]
    fn escapes_as_json_decodes() {
        let value = serde_json::json!({ "region": HOSTILE });
        let escaped = plain(&value.to_string()).into_owned();
        assert!(!escaped.chars().any(|c| is_active(c) || c == '\n'), "{escaped:?}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
            value
        );
    }

    #[test]
    fn writes_each_log_event_on_one_line() {
        for has_colors in [false, true] {
            let mut written = Vec::new();
            let event = format!("WARN order declined {HOSTILE}\n");
            LogWriter::new(&mut written, has_colors)
                .write_all(event.as_bytes())
                .unwrap();
            let written = String::from_utf8(written).unwrap();
            assert_eq!(written.matches('\n').count(), 1, "{written:?}");
            assert_eq!(written.contains('\u{1b}'), has_colors, "{written:?}");
            assert!(!written.contains(['\r', '\u{9b}', '\u{202e}']), "{written:?}");
        }
    }
}
