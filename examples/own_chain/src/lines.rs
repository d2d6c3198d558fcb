//! Reader of a file that may have damaged lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// Maximum length of a line, in bytes. The largest possible block is shorter.
pub(crate) const LINE_MAX: u64 = 8 << 20;

/// Line of a file. For a line longer than [`LINE_MAX`], `is_long` is true, and `bytes` contains only the end
/// of the line.
pub(crate) struct FileLine {
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_long: bool,
    pub(crate) is_ended: bool,
}

/// Reads a file line by line. Lines above [`LINE_MAX`] are read in parts, to limit the memory.
pub(crate) struct LineReader {
    reader: BufReader<File>,
    number: u64,
    /// Offset of the end of the last line that was read, in bytes.
    pub(crate) end: u64,
}

impl LineReader {
    pub(crate) fn new(file: File) -> Self {
        let reader = BufReader::new(file);
        Self {
            reader,
            number: 0,
            end: 0,
        }
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<FileLine>> {
        let (mut bytes, mut parts) = (Vec::new(), 0u32);
        loop {
            bytes.clear();
            let read = self
                .reader
                .by_ref()
                .take(LINE_MAX)
                .read_until(b'\n', &mut bytes)? as u64;
            self.end += read;
            parts += u32::from(read > 0);
            let is_ended = bytes.last() == Some(&b'\n');
            if parts == 0 {
                return Ok(None);
            }
            if is_ended || read < LINE_MAX {
                self.number += 1;
                let (number, is_long) = (self.number, parts > 1);
                return Ok(Some(FileLine {
                    number,
                    bytes,
                    is_long,
                    is_ended,
                }));
            }
        }
    }
}
