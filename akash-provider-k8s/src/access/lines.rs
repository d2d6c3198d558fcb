//! Log lines from a stream of bytes. Long lines are split, and reading resumes after a broken connection.

use k8s_openapi::jiff::Timestamp;

/// Upper limit of the length of a timestamp.
const STAMP_MAX: usize = 40;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OpenLine {
    stamp: Option<Timestamp>,
    /// Number of bytes of this line that were already returned as pieces.
    given: usize,
    /// Number of bytes to skip at the start of the line, because an earlier connection returned these bytes.
    pass: usize,
    /// Whether the line was already returned before the connection broke.
    again: bool,
}

/// Position of the last returned line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    stamp: Timestamp,
    /// Number of returned lines with this timestamp.
    lines: u32,
}

/// Parser that splits a log stream into lines. Lines of the container start with a timestamp and a space.
/// Lines without a timestamp come from the node.
#[derive(Debug, Default)]
pub(super) struct LogParser {
    limit: usize,
    buffer: Vec<u8>,
    open: Option<OpenLine>,
    mark: Option<Position>,
    /// Position of the last line before the connection broke. The number counts the repeated lines with the
    /// timestamp of this position.
    replay: Option<(Position, u32)>,
    /// Line that was returned only in part before the connection broke.
    part: Option<OpenLine>,
}

impl LogParser {
    /// Creates a splitter that returns lines longer than `limit` bytes in pieces.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(4),
            ..Self::default()
        }
    }

    /// Adds bytes to the buffer. Appends complete lines, and full pieces of long lines, to `out`.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<String>) {
        while let Some(end) = bytes.iter().position(|&b| b == b'\n') {
            let (line, rest) = bytes.split_at(end);
            self.extend(line, out);
            self.finish(out);
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.extend(bytes, out);
    }

    /// Handles the regular end of the stream: the remaining bytes are the last line.
    pub(super) fn end(&mut self, out: &mut Vec<String>) {
        if !self.buffer.is_empty() || self.open.is_some() {
            self.finish(out);
        }
    }

    /// Prepares for the next stream after a broken connection. The next stream must start at [`LogParser::since`] or
    /// earlier.
    pub(super) fn cut(&mut self) {
        // Frees the buffer too: the next connection may come late or never.
        self.buffer = Vec::new();
        if let Some(mut open) = self.open.take().filter(|open| !open.again) {
            // The skipped rest was returned earlier too.
            open.given += std::mem::take(&mut open.pass);
            self.part = Some(open).filter(|open| open.given > 0);
        }
        self.replay = self.mark.map(|mark| (mark, 0));
    }

    /// Returns the start time for the next log stream, rounded down to seconds. `None` requests all lines.
    pub(super) fn since(&self) -> Option<Timestamp> {
        let part = self.part.as_ref().and_then(|part| part.stamp);
        let stamp = self.mark.map(|mark| mark.stamp).or(part)?;
        Timestamp::from_second(stamp.as_second()).ok()
    }

    /// Returns the memory of the unfinished line, in bytes.
    pub(super) const fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    fn extend(&mut self, bytes: &[u8], out: &mut Vec<String>) {
        self.buffer.extend_from_slice(bytes);
        // The buffer contains the timestamp until it is parsed.
        if self.buffer.len() > self.limit + STAMP_MAX {
            self.give_pieces(out);
        }
    }

    /// Starts the next line. If the buffer starts with a timestamp, parses the timestamp.
    fn begin(&mut self) {
        if self.open.is_some() {
            return;
        }
        let space = self.buffer.iter().take(STAMP_MAX).position(|&b| b == b' ');
        let stamp = space.and_then(|end| {
            let text = std::str::from_utf8(self.buffer.get(..end)?).ok()?;
            Some((end, text.parse::<Timestamp>().ok()?))
        });
        let mut open = OpenLine::default();
        if let Some((end, stamp)) = stamp {
            self.buffer.drain(..=end);
            open.stamp = Some(stamp);
            open.again = self.came_before(stamp);
            let part = self.part.take_if(|part| part.stamp == Some(stamp) && !open.again);
            open.pass = part.map_or(0, |part| part.given);
        } else {
            // The node writes its own errors into the stream. They are dropped once lines of the container were
            // returned.
            open.again = self.mark.is_some();
        }
        self.open = Some(open);
    }

    /// Returns true if the line was returned before the connection broke.
    fn came_before(&mut self, stamp: Timestamp) -> bool {
        let Some((mark, seen)) = &mut self.replay else {
            return false;
        };
        if stamp < mark.stamp {
            return true;
        }
        if stamp == mark.stamp && *seen < mark.lines {
            *seen += 1;
            return true;
        }
        false
    }

    /// Moves pieces of the incomplete line to `out` until at most one piece remains in the buffer.
    fn give_pieces(&mut self, out: &mut Vec<String>) {
        self.begin();
        let limit = self.limit;
        let Some(open) = &mut self.open else {
            return;
        };
        let passed = open.pass.min(self.buffer.len());
        self.buffer.drain(..passed);
        open.pass -= passed;
        open.given += passed;
        while self.buffer.len() > limit {
            let piece: Vec<u8> = self.buffer.drain(..boundary(&self.buffer, limit)).collect();
            open.given += piece.len();
            if !open.again {
                out.push(text(&piece));
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<String>) {
        self.give_pieces(out);
        let open = self.open.take().unwrap_or_default();
        let mut rest = std::mem::take(&mut self.buffer);
        // A terminal ends lines with `\r\n`.
        if rest.last() == Some(&b'\r') {
            rest.pop();
        }
        if open.again {
            return;
        }
        // An empty line counts, but not the empty rest of a line returned in pieces.
        if !rest.is_empty() || open.given == 0 {
            out.push(text(&rest));
        }
        let Some(stamp) = open.stamp else {
            return;
        };
        self.mark = match self.mark {
            Some(mark) if mark.stamp == stamp => Some(Position {
                lines: mark.lines.saturating_add(1),
                ..mark
            }),
            _ => Some(Position { stamp, lines: 1 }),
        };
    }
}

/// Returns the split position: at most `limit`, and not within a character.
fn boundary(bytes: &[u8], limit: usize) -> usize {
    let continues = |at: usize| bytes.get(at).is_some_and(|b| b & 0b1100_0000 == 0b1000_0000);
    let back = (0..4).find(|back| !continues(limit.saturating_sub(*back)));
    limit - back.unwrap_or(0)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;
