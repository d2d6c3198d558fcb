//! Escape sequence that ends a session even if the remote command does not exit: `~.` at the start of a line, as in
//! ssh.

/// Hint that is printed before the session starts.
pub(super) const HINT: &str = "to leave the session, type Enter, then ~ and . (~~ sends one ~)";

const SIGN: u8 = b'~';

/// State of the escape sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// Start of a line.
    Start,
    /// A `~` at the start of a line, not sent yet.
    Sign,
    /// Within a line, where `~` is ordinary input.
    Within,
}

impl Escape {
    /// Returns the bytes to send, and `true` if the user leaves.
    pub(super) fn filter(&mut self, typed: &[u8]) -> (Vec<u8>, bool) {
        let mut sent = Vec::with_capacity(typed.len());
        for byte in typed.iter().copied() {
            match (*self, byte) {
                (Self::Start, SIGN) => {
                    *self = Self::Sign;
                    continue;
                }
                (Self::Sign, b'.') => return (sent, true),
                (Self::Sign, SIGN) | (Self::Start | Self::Within, _) => {}
                // Not the escape sequence, so the withheld `~` is sent first.
                (Self::Sign, _) => sent.push(SIGN),
            }
            sent.push(byte);
            *self = match byte {
                b'\r' | b'\n' => Self::Start,
                _ => Self::Within,
            };
        }
        (sent, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(parts: &[&[u8]]) -> (Vec<u8>, bool) {
        let (mut escape, mut all) = (Escape::Start, Vec::new());
        for part in parts {
            let (sent, leaves) = escape.filter(part);
            all.extend(sent);
            if leaves {
                return (all, true);
            }
        }
        (all, false)
    }

    #[test]
    fn leaves_after_a_tilde_and_a_dot_at_the_start_of_a_line() {
        for (parts, sent) in [
            (&[&b"~."[..]][..], &b""[..]),
            (&[b"ls\r~."], b"ls\r"),
            (&[b"ls\r", b"~", b"."], b"ls\r"),
            (&[b"~~\r~.more"], b"~\r"),
        ] {
            assert_eq!(typed(parts), (sent.to_vec(), true), "{parts:?}");
        }
    }

    #[test]
    fn sends_other_input_unchanged() {
        for (given, sent) in [
            (&b"cd ~.\r"[..], &b"cd ~.\r"[..]),
            (b"~/bin\r", b"~/bin\r"),
            (b"~~.\r", b"~.\r"),
            (b"~\r~", b"~\r"),
            (b"\xff\x00~.", b"\xff\x00~."),
        ] {
            assert_eq!(typed(&[given]), (sent.to_vec(), false), "{given:?}");
        }
    }
}
