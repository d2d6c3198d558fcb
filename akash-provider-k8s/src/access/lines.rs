//! Lines out of a stream of log bytes: cut where too long, and taken up after a cut connection where they were.

use k8s_openapi::jiff::Timestamp;

/// No time stamp is longer.
const STAMP_MAX: usize = 40;

/// The line being read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Open {
    stamp: Option<Timestamp>,
    /// Bytes of it given out as pieces already.
    given: usize,
    /// Bytes still to be passed over.
    pass: usize,
    /// It was given out before the connection was cut.
    again: bool,
}

/// How far the lines were given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    stamp: Timestamp,
    /// Lines of that time.
    lines: u32,
}

/// Takes bytes, gives lines. Every line of the stream begins with its time stamp and a space; what does not is not
/// the container's, and is left out after lines that are.
#[derive(Debug)]
pub(super) struct Lines {
    limit: usize,
    buffer: Vec<u8>,
    open: Option<Open>,
    mark: Option<Mark>,
    /// After a cut: the mark then, and how many lines of its time came again.
    replay: Option<(Mark, u32)>,
    /// After a cut: the line that was given out in part.
    part: Option<Open>,
}

impl Lines {
    /// A line longer than `limit` bytes comes in pieces.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(4),
            buffer: Vec::new(),
            open: None,
            mark: None,
            replay: None,
            part: None,
        }
    }

    /// Takes bytes; whole lines and pieces that are full go out.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<String>) {
        while let Some(end) = bytes.iter().position(|&b| b == b'\n') {
            let (line, rest) = bytes.split_at(end);
            self.extend(line, out);
            self.finish(out);
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.extend(bytes, out);
    }

    /// The stream is over in good order: what is left is a line too.
    pub(super) fn end(&mut self, out: &mut Vec<String>) {
        if !self.buffer.is_empty() || self.open.is_some() {
            self.finish(out);
        }
    }

    /// The connection was cut: the stream begins again, at [`Lines::since`] or before.
    pub(super) fn cut(&mut self) {
        // With its memory: the next connection may come late, or never.
        self.buffer = Vec::new();
        if let Some(mut open) = self.open.take().filter(|open| !open.again) {
            // What was still to be passed over was given out too.
            open.given += std::mem::take(&mut open.pass);
            self.part = Some(open).filter(|open| open.given > 0);
        }
        self.replay = self.mark.map(|mark| (mark, 0));
    }

    /// From when on the stream is needed; `None` for all of it. In whole seconds: requests carry no more, and
    /// are rounded where they should be cut.
    pub(super) fn since(&self) -> Option<Timestamp> {
        let part = self.part.as_ref().and_then(|part| part.stamp);
        let stamp = self.mark.map(|mark| mark.stamp).or(part)?;
        Timestamp::from_second(stamp.as_second()).ok()
    }

    /// Bytes of memory of the unfinished line.
    pub(super) const fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    fn extend(&mut self, bytes: &[u8], out: &mut Vec<String>) {
        self.buffer.extend_from_slice(bytes);
        // Until it is read the time stamp is part of the buffer.
        if self.buffer.len() > self.limit + STAMP_MAX {
            self.give_pieces(out);
        }
    }

    /// Reads the time stamp once it is there.
    fn begin(&mut self) {
        if self.open.is_some() {
            return;
        }
        let space = self.buffer.iter().take(STAMP_MAX).position(|&b| b == b' ');
        let stamp = space.and_then(|end| {
            let text = std::str::from_utf8(self.buffer.get(..end)?).ok()?;
            Some((end, text.parse::<Timestamp>().ok()?))
        });
        let mut open = Open::default();
        if let Some((end, stamp)) = stamp {
            self.buffer.drain(..=end);
            open.stamp = Some(stamp);
            open.again = self.came_before(stamp);
            let part = self.part.take_if(|part| part.stamp == Some(stamp) && !open.again);
            open.pass = part.map_or(0, |part| part.given);
        } else {
            // The node speaks, not the container: it writes into the stream what keeps it from reading. Who has
            // lines of the container already learns nothing by it.
            open.again = self.mark.is_some();
        }
        self.open = Some(open);
    }

    /// True for a line that was given out before the cut.
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

    /// Gives out pieces of the open line as long as more than a piece is there.
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
        // A terminal ends its lines with both.
        if rest.last() == Some(&b'\r') {
            rest.pop();
        }
        if open.again {
            return;
        }
        // An empty line is a line; the empty rest of one that went out in pieces is not.
        if !rest.is_empty() || open.given == 0 {
            out.push(text(&rest));
        }
        let Some(stamp) = open.stamp else {
            return;
        };
        self.mark = match self.mark {
            Some(mark) if mark.stamp == stamp => Some(Mark {
                lines: mark.lines.saturating_add(1),
                ..mark
            }),
            _ => Some(Mark { stamp, lines: 1 }),
        };
    }
}

/// Where to cut: at the limit, or up to three bytes before it so that no character is cut.
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
