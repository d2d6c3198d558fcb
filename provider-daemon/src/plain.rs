//! What others wrote (tenants in orders and manifests, nodes, clusters), made safe to show: nothing of it moves a
//! cursor, changes a colour, hides a character, turns the order of writing or begins a line.
//!
//! [`plain`] stands where this program writes to a terminal (`say`), [`line`](fn@line) where such a text becomes
//! part of a line, [`Logs`] where the log is written. What is shown instead is `\u` and four digits, which JSON and
//! quoted YAML read back as the character.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// True for what acts on whoever shows it, but for a line's end and a tabulator.
#[must_use]
pub fn is_active(c: char) -> bool {
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}');
    is_hidden || (c.is_control() && c != '\n' && c != '\t')
}

/// A text of several lines.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    without(text, is_active)
}

/// Returns a number with its noun, in the plural unless the number is 1.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A text that stays within its line.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    without(text, |c| is_active(c) || c == '\n')
}

fn without(text: &str, is_unwanted: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_unwanted) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unwanted(c) {
            // Writing into a String does not fail.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Where the log goes. Each event is one line, whatever its fields hold.
///
/// Where there are colours, the escape character is left as it is: the writer of the log has escaped that of the
/// fields by itself.
#[derive(Debug)]
pub struct Logs<W> {
    to: W,
    has_colours: bool,
}

impl<W> Logs<W> {
    /// Writes to `to`; `has_colours` where whoever writes the log puts colours into it.
    pub const fn new(to: W, has_colours: bool) -> Self {
        Self { to, has_colours }
    }
}

impl<W: Write> Write for Logs<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        const ESCAPE: char = '\u{1b}';
        let text = String::from_utf8_lossy(event);
        let (text, end) = match text.strip_suffix('\n') {
            Some(text) => (text, "\n"),
            None => (&*text, ""),
        };
        let is_unwanted = |c| (is_active(c) || c == '\n') && !(self.has_colours && c == ESCAPE);
        let shown = without(text, is_unwanted);
        self.to.write_all(shown.as_bytes())?;
        self.to.write_all(end.as_bytes())?;
        // All of the event is taken, however many bytes were written in its place: a smaller number would be tried
        // again.
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colours, a cleared screen (also as one character), a bell, a line of its own, one over this one, writing
    /// turned round, and a space that is none.
    const HOSTILE: &str = "a\u{1b}[2J\u{9b}31m\u{7}\nready: bidding\rb\u{202e}c\u{200b}\u{2028}d\u{7f}";

    #[test]
    fn nothing_that_acts_is_left_and_the_rest_stays() {
        let shown = line(HOSTILE);
        assert!(!shown.chars().any(|c| is_active(c) || c == '\n'), "{shown:?}");
        assert_eq!(
            shown,
            "a\\u001b[2J\\u009b31m\\u0007\\u000aready: bidding\\u000db\\u202ec\\u200b\\u2028d\\u007f"
        );
        assert_eq!(plain("one\n\ttwo\n"), "one\n\ttwo\n");
        assert_eq!(plain(HOSTILE).lines().count(), 2);
        let usual = "bid placed, 1.2uact per block: größer, 価格, 🚀";
        assert!(matches!(line(usual), Cow::Borrowed(same) if same == usual));
    }

    #[test]
    fn json_reads_back_what_was_there() {
        let value = serde_json::json!({ "region": HOSTILE });
        let shown = plain(&value.to_string()).into_owned();
        assert!(!shown.chars().any(|c| is_active(c) || c == '\n'), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn an_event_of_the_log_is_one_line() {
        for has_colours in [false, true] {
            let mut written = Vec::new();
            let event = format!("WARN order declined {HOSTILE}\n");
            Logs::new(&mut written, has_colours)
                .write_all(event.as_bytes())
                .unwrap();
            let written = String::from_utf8(written).unwrap();
            assert_eq!(written.matches('\n').count(), 1, "{written:?}");
            assert_eq!(written.contains('\u{1b}'), has_colours, "{written:?}");
            assert!(!written.contains(['\r', '\u{9b}', '\u{202e}']), "{written:?}");
        }
    }
}
