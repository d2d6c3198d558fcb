//! The file: what a ledger begins with, and then a block a line.

use crate::lines::{LINE_MAX, Lines, Text};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Address, BlockTime, Coin, Height, MarketParams, Msg};
use akash_provider_core::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Damages that are remembered one by one; a file with more is told by these.
const DAMAGES_MAX: usize = 100;
const MEND: &str =
    "put it back from a copy and start again; until then nothing is ended on the word of this ledger";
const NO_MEND: &str = "nothing to mend: nobody was told of this block, and the next one takes its place";

/// What a ledger begins with; its first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    /// Name of the chain.
    pub chain_id: String,
    /// Time of block 1, which is this line.
    pub time: BlockTime,
    /// What bids must respect.
    pub params: MarketParams,
    /// Who has what.
    pub money: Vec<(Address, Coin)>,
}

/// What somebody wants to happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tx {
    Provider(Vec<Msg>),
    Tenant(TenantMsg),
}

/// A block. What came of its transactions is not written: the rules say it, each time the file is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Block {
    pub(crate) height: Height,
    pub(crate) time: BlockTime,
    pub(crate) txs: Vec<Tx>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Genesis(Genesis),
    Block(Block),
}

/// A line that cannot be used, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: String,
    /// What helps.
    pub mend: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}; {}",
            self.file.display(),
            self.line,
            self.what,
            self.mend
        )
    }
}

/// Somebody who is told line by line what the file has.
pub(crate) trait Reader {
    /// Takes the next block; how many before it are missing and were not told by `lost`, or why it cannot follow.
    fn block(&mut self, block: &Block) -> Result<u64, String>;
    /// A line that may have been a block cannot be used.
    fn lost(&mut self);
}

/// The end of the file, of which this program is the only writer.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: File,
    /// Behind the last whole line.
    end: u64,
}

impl Ledger {
    /// Opens the ledger, makes it where it is missing, and reads it out. Damages are returned and stop nothing.
    pub(crate) fn open(
        path: &Path,
        genesis: &Genesis,
        reader: &mut impl Reader,
    ) -> Result<(Self, Vec<Damage>), Error> {
        let failed = |e: io::Error| refuse(ErrorKind::Unavailable, path, "cannot be used").with_source(e);
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).read(true).write(true);
        let file = options.open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let held = "is written by another program; end that one first";
                return Err(refuse(ErrorKind::Conflict, path, held));
            }
        }
        let mut lines = Lines::new(file.try_clone().map_err(failed)?);
        let mut ledger = Self { file, end: 0 };
        let Some(first) = lines.next().map_err(failed)? else {
            ledger.append(&Line::Genesis(genesis.clone())).map_err(failed)?;
            sync_folder(path).map_err(failed)?;
            return Ok((ledger, Vec::new()));
        };
        check_genesis(path, &first, genesis)?;
        ledger.pass(&first, lines.end).map_err(failed)?;
        let damages = ledger.read(path, &mut lines, reader).map_err(failed)?;
        Ok((ledger, damages))
    }

    fn read(&mut self, path: &Path, lines: &mut Lines, reader: &mut impl Reader) -> io::Result<Vec<Damage>> {
        let mut damages = Vec::new();
        while let Some(line) = lines.next()? {
            let taken = match parse(&line) {
                Ok(Line::Block(block)) => reader.block(&block),
                Ok(Line::Genesis(_)) => Err("a ledger begins once, in line 1".to_owned()),
                Err(what) => Err(what),
            };
            if taken.is_ok() || line.is_ended {
                self.pass(&line, lines.end)?;
            }
            let (what, mend) = match taken {
                Ok(0) => continue,
                Ok(missing) => (format!("{missing} blocks before this line are missing"), MEND),
                Err(what) if line.is_ended => {
                    reader.lost();
                    (what, MEND)
                }
                Err(what) => (what, NO_MEND),
            };
            if damages.len() < DAMAGES_MAX {
                damages.push(Damage {
                    file: path.to_owned(),
                    line: line.number,
                    what,
                    mend,
                });
            }
        }
        Ok(damages)
    }

    /// Goes on behind a line, whose end an editor may have left out.
    fn pass(&mut self, line: &Text, end: u64) -> io::Result<()> {
        self.end = end;
        if !line.is_ended {
            self.file.seek(SeekFrom::End(0))?;
            self.file.write_all(b"\n")?;
            self.end += 1;
        }
        Ok(())
    }

    /// Writes a block; it is on the disk when this returns.
    pub(crate) fn write(&mut self, block: &Block) -> io::Result<()> {
        self.append(&Line::Block(block.clone()))
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // What a cut line or a write that failed has left is not added to. Nobody was told of it.
        self.file.set_len(self.end)?;
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.write_all(&text)?;
        self.file.sync_data()?;
        self.end += text.len() as u64;
        Ok(())
    }
}

fn refuse(kind: ErrorKind, path: &Path, what: &str) -> Error {
    Error::new(kind, "open the ledger", format!("{} {what}", path.display()))
}

fn check_genesis(path: &Path, line: &Text, wanted: &Genesis) -> Result<(), Error> {
    let found = match parse(line) {
        Ok(Line::Genesis(found)) => found,
        Ok(Line::Block(_)) => return Err(no_genesis(path, "this is a block")),
        Err(what) => return Err(no_genesis(path, &what)),
    };
    if found == *wanted {
        return Ok(());
    }
    let text = format!(
        "begins chain `{}` in another way than asked for; name another file",
        found.chain_id
    );
    Err(refuse(ErrorKind::Conflict, path, &text))
}

fn no_genesis(path: &Path, what: &str) -> Error {
    let mend = "put line 1 back from a copy; if it is all there is, remove the file";
    refuse(
        ErrorKind::Invalid,
        path,
        &format!("does not begin a ledger: {what}; {mend}"),
    )
}

fn parse(line: &Text) -> Result<Line, String> {
    if line.is_long {
        return Err(format!("the line is longer than {LINE_MAX} bytes"));
    }
    serde_json::from_slice(&line.bytes).map_err(|e| e.to_string())
}

/// A new file is there after a power cut only if its folder has been written too.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
