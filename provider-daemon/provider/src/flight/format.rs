//! File format: a magic number, a version, and parts with their length and checksum.
//!
//! ```text
//! "APFLIGHT" version:u16  part(head as JSON)  part(deflate …)  part(deflate …)  …
//! part = length:u32 crc32:u32 bytes          numbers are little-endian
//! ```
//! The parts after the head form one deflate stream. The stream is flushed after each part, so that a truncated file
//! can be read up to its last complete part. In the stream, a record consists of its length (u32) and its MessagePack
//! encoding with field names.

use super::{FlightRecord, Head};
use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};
use std::io::{self, Read, Write};

const MARK: [u8; 8] = *b"APFLIGHT";
/// Supported version of the format. Files with another version are refused.
pub(super) const VERSION: u16 = 1;
const HEAD_MAX: usize = 64 << 10;
// Maximum sizes of one part, compressed and uncompressed.
const PART_MAX: usize = 256 << 20;
const RAW_MAX: usize = 1 << 30;
/// Length of the header of a part, in bytes: length (4) and checksum (4) of the content.
const START: usize = 8;
/// Number of bytes by which a buffer grows.
const STEP: usize = 64 << 10;

/// Reason why a file, or the rest of a file, cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("not a recording")]
    Foreign,
    #[error(
        "format {0} is not supported, only format {VERSION}: replay the recording with the version that wrote it"
    )]
    Format(u16),
    #[error("truncated at byte {0}")]
    Cut(u64),
    #[error("wrong checksum of the part at byte {0}: the file was changed or is damaged")]
    Altered(u64),
    #[error("cannot decode the part at byte {at}: {why}")]
    Unreadable { at: u64, why: String },
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn part(out: &mut impl Write, bytes: &[u8]) -> io::Result<u64> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut whole = Vec::with_capacity(bytes.len() + START);
    whole.extend(length.to_le_bytes());
    whole.extend(crc(bytes).to_le_bytes());
    whole.extend(bytes);
    // In one write, so that a killed process leaves whole parts behind.
    out.write_all(&whole)?;
    Ok(whole.len() as u64)
}

/// Writer of one file.
pub(super) struct Encoder<W> {
    out: W,
    deflate: Compress,
    raw: Vec<u8>,
    packed: Vec<u8>,
    written: u64,
    /// True while the file contains no records.
    is_empty: bool,
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(mut out: W, head: &Head) -> io::Result<Self> {
        let mut start = MARK.to_vec();
        start.extend(VERSION.to_le_bytes());
        out.write_all(&start)?;
        let head = part(&mut out, &serde_json::to_vec(head)?)?;
        Ok(Self {
            out,
            // The fastest level: ids and field names repeat, which every level finds.
            deflate: Compress::new(Compression::fast(), false),
            raw: Vec::new(),
            packed: Vec::new(),
            written: head + start.len() as u64,
            is_empty: true,
        })
    }

    /// Adds a record to the buffer. [`pack`](Self::pack) compresses the buffer, and [`store`](Self::store)
    /// writes it to the file.
    pub(super) fn push(&mut self, record: &FlightRecord) -> io::Result<()> {
        let at = self.raw.len();
        self.raw.extend([0; 4]);
        if let Err(error) = rmp_serde::encode::write_named(&mut self.raw, record) {
            self.raw.truncate(at);
            return Err(io::Error::other(error));
        }
        let length = u32::try_from(self.raw.len() - at - 4).map_err(io::Error::other)?;
        if let Some(place) = self.raw.get_mut(at..at + 4) {
            place.copy_from_slice(&length.to_le_bytes());
        }
        Ok(())
    }

    /// Returns the number of bytes that wait for compression.
    pub(super) const fn waiting(&self) -> usize {
        self.raw.len()
    }

    pub(super) const fn written(&self) -> u64 {
        self.written
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Compresses the added records. Returns the length that the file will have after [`store`](Self::store).
    pub(super) fn pack(&mut self) -> io::Result<u64> {
        let before = self.deflate.total_in();
        loop {
            self.packed.reserve(STEP);
            let taken = usize::try_from(self.deflate.total_in() - before).map_err(io::Error::other)?;
            let rest = self.raw.get(taken..).unwrap_or_default();
            self.deflate
                .compress_vec(rest, &mut self.packed, FlushCompress::Sync)
                .map_err(io::Error::other)?;
            let all = self.deflate.total_in() - before == self.raw.len() as u64;
            if all && self.packed.len() < self.packed.capacity() {
                break;
            }
        }
        self.raw.clear();
        // Releases the memory of a large state.
        self.raw.shrink_to(4 * STEP);
        Ok(self.written + self.packed.len() as u64 + START as u64)
    }

    /// Writes the compressed bytes to the file.
    pub(super) fn store(&mut self) -> io::Result<()> {
        self.written += part(&mut self.out, &self.packed)?;
        self.is_empty = false;
        self.packed.clear();
        self.packed.shrink_to(4 * STEP);
        self.out.flush()
    }
}

/// Reader of one file.
pub(super) struct Decoder<R> {
    from: R,
    inflate: Decompress,
    raw: Vec<u8>,
    /// Number of consumed bytes of `raw`.
    used: usize,
    /// Offset of the current part; the next part starts at `at`.
    part: u64,
    at: u64,
}

impl<R: Read> Decoder<R> {
    pub(super) fn new(from: R) -> Result<(Head, Self), ReadError> {
        let mut decoder = Self {
            from,
            inflate: Decompress::new(false),
            raw: Vec::new(),
            used: 0,
            part: 0,
            at: 0,
        };
        let mut start = [0; MARK.len() + 2];
        let read = decoder.fill(&mut start)?;
        let (mark, version) = start.split_at(MARK.len());
        if read < start.len() {
            let is_ours = MARK.starts_with(start.get(..read.min(MARK.len())).unwrap_or_default());
            return Err(if is_ours {
                ReadError::Cut(read as u64)
            } else {
                ReadError::Foreign
            });
        }
        if mark != MARK {
            return Err(ReadError::Foreign);
        }
        let version = u16::from_le_bytes(version.try_into().unwrap_or_default());
        if version != VERSION {
            return Err(ReadError::Format(version));
        }
        let Some(head) = decoder.next_part(HEAD_MAX)? else {
            return Err(ReadError::Cut(decoder.at));
        };
        let head = serde_json::from_slice(&head).map_err(|error| decoder.unreadable(error))?;
        Ok((head, decoder))
    }

    /// Returns the next record, or `None` at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<FlightRecord>, ReadError> {
        while self.used >= self.raw.len() {
            let Some(packed) = self.next_part(PART_MAX)? else {
                return Ok(None);
            };
            self.raw.clear();
            self.used = 0;
            self.unpack(&packed)?;
        }
        let rest = self.raw.get(self.used..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<4>() else {
            return Err(self.unreadable("a record without a length"));
        };
        let length = u32::from_le_bytes(*length) as usize;
        let Some(record) = rest.get(..length) else {
            return Err(self.unreadable("a record that is longer than its part"));
        };
        let record = rmp_serde::from_slice(record).map_err(|error| self.unreadable(error))?;
        self.used += 4 + length;
        Ok(Some(record))
    }

    fn unreadable(&self, why: impl std::fmt::Display) -> ReadError {
        ReadError::Unreadable {
            at: self.part,
            why: why.to_string(),
        }
    }

    fn unpack(&mut self, packed: &[u8]) -> Result<(), ReadError> {
        let before = self.inflate.total_in();
        loop {
            if self.raw.len() > RAW_MAX {
                return Err(self.unreadable(format!("more than {RAW_MAX} bytes")));
            }
            self.raw.reserve(STEP);
            let taken = usize::try_from(self.inflate.total_in() - before).unwrap_or(usize::MAX);
            let rest = packed.get(taken..).unwrap_or_default();
            let (had, made) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress_vec(rest, &mut self.raw, FlushDecompress::Sync);
            let status = status.map_err(|error| self.unreadable(error))?;
            let all = self.inflate.total_in() - before == packed.len() as u64;
            if status == Status::StreamEnd || (all && self.raw.len() < self.raw.capacity()) {
                return Ok(());
            }
            if self.inflate.total_in() == had && self.inflate.total_out() == made {
                return Err(self.unreadable("invalid compression"));
            }
        }
    }

    fn next_part(&mut self, limit: usize) -> Result<Option<Vec<u8>>, ReadError> {
        self.part = self.at;
        let mut start = [0; START];
        match self.fill(&mut start)? {
            0 => return Ok(None),
            START => {}
            _ => return Err(ReadError::Cut(self.at)),
        }
        let [a, b, c, d, sum @ ..] = start;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length > limit {
            return Err(ReadError::Altered(self.part));
        }
        let mut bytes = Vec::new();
        // Read in steps, so that a wrong length allocates no memory.
        let read = (&mut self.from).take(length as u64).read_to_end(&mut bytes)?;
        self.at += read as u64;
        if read < length {
            return Err(ReadError::Cut(self.at));
        }
        if crc(&bytes) != u32::from_le_bytes(sum) {
            return Err(ReadError::Altered(self.part));
        }
        Ok(Some(bytes))
    }

    fn fill(&mut self, into: &mut [u8]) -> Result<usize, ReadError> {
        let mut read = 0;
        while let Some(rest) = into.get_mut(read..).filter(|rest| !rest.is_empty()) {
            match self.from.read(rest) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.at += read as u64;
        Ok(read)
    }
}
