//! The way out that needs no help of whatever runs: `~.` at the beginning of a line, as with ssh.

/// What is told before the terminal is the command's.
pub(super) const HINT: &str = "to leave whatever runs here: Enter, then ~ and then . (~~ sends one ~)";

const SIGN: u8 = b'~';

/// Looks at what is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Escape {
    /// At the beginning of a line.
    Start,
    /// After a `~` there, which is held back.
    Sign,
    /// Within a line, where a `~` is sent like any other byte.
    Within,
}

impl Escape {
    /// What of these bytes is sent, and whether whoever types leaves then.
    pub(super) fn of(&mut self, typed: &[u8]) -> (Vec<u8>, bool) {
        let mut sent = Vec::with_capacity(typed.len());
        for byte in typed.iter().copied() {
            match (*self, byte) {
                (Self::Start, SIGN) => {
                    *self = Self::Sign;
                    continue;
                }
                (Self::Sign, b'.') => return (sent, true),
                (Self::Sign, SIGN) | (Self::Start | Self::Within, _) => {}
                // It was no way out, so the sign that was held back goes first.
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
            let (sent, leaves) = escape.of(part);
            all.extend(sent);
            if leaves {
                return (all, true);
            }
        }
        (all, false)
    }

    #[test]
    fn a_sign_and_a_dot_at_the_beginning_of_a_line_leave() {
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
    fn everything_else_is_sent_as_it_is() {
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
