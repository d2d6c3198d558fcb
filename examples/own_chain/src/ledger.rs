//! Ledger file: the genesis, and then one block per line.

use crate::lines::{FileLine, LINE_MAX, LineReader};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{Address, BlockTime, Coin, Height, MarketParams, Msg};
use akash_provider_core::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Maximum number of reported unusable lines.
const DAMAGES_MAX: usize = 100;
const REMEDY: &str = "restore it from a backup and start again; until then this ledger ends no lease";
const NO_REMEDY: &str = "no action needed: this block was never published, and the next one replaces it";

/// Initial state of the chain, stored in the first line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    /// Chain id.
    pub chain_id: String,
    /// Time of block 1, which contains only this initial state.
    pub time: BlockTime,
    /// Parameters of the market.
    pub params: MarketParams,
    /// Initial balances of the accounts.
    pub money: Vec<(Address, Coin)>,
}

/// Transaction of the provider or of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LedgerTx {
    Provider(Vec<Msg>),
    Tenant(TenantMsg),
}

/// Block with its transactions. Their results are computed again when the file is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LedgerBlock {
    pub(crate) height: Height,
    pub(crate) time: BlockTime,
    pub(crate) txs: Vec<LedgerTx>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LedgerLine {
    Genesis(Genesis),
    Block(LedgerBlock),
}

/// Unusable line of the ledger file, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Path of the ledger file.
    pub file: PathBuf,
    /// Number of the line, counted from 1.
    pub line: u64,
    /// Reason why the line is unusable.
    pub what: String,
    /// Remedy for the user of the program.
    pub remedy: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}; {}",
            self.file.display(),
            self.line,
            self.what,
            self.remedy
        )
    }
}

/// Receiver of the lines of a ledger.
pub(crate) trait LedgerReader {
    /// Processes the next block of the file. Returns the number of missing blocks before this block. Blocks
    /// reported by `lost` are not counted. The error is the reason why this block cannot follow the previous
    /// block.
    fn block(&mut self, block: &LedgerBlock) -> Result<u64, String>;
    /// Reports that a line cannot be read. The line possibly contained a block.
    fn lost(&mut self);
}

/// Writer of the ledger file. No other program may write the file.
#[derive(Debug)]
pub(crate) struct LedgerWriter {
    file: File,
    /// Offset after the last complete line, in bytes.
    end: u64,
}

impl LedgerWriter {
    /// Opens the ledger file and passes its blocks to `reader`. Creates a missing file. Unusable lines are
    /// not an error, but are returned.
    pub(crate) fn open(
        path: &Path,
        genesis: &Genesis,
        reader: &mut impl LedgerReader,
    ) -> Result<(Self, Vec<Damage>), Error> {
        let failed = |e: io::Error| refuse(ErrorKind::Unavailable, path, "cannot be used").with_source(e);
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).read(true).write(true);
        let file = options.open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                let message = "is in use by another program; stop that one first";
                return Err(refuse(ErrorKind::Conflict, path, message));
            }
        }
        let mut lines = LineReader::new(file.try_clone().map_err(failed)?);
        let mut ledger = Self { file, end: 0 };
        let Some(first) = lines.next().map_err(failed)? else {
            ledger
                .append(&LedgerLine::Genesis(genesis.clone()))
                .map_err(failed)?;
            sync_folder(path).map_err(failed)?;
            return Ok((ledger, Vec::new()));
        };
        check_genesis(path, &first, genesis)?;
        ledger.pass(&first, lines.end).map_err(failed)?;
        let damages = ledger.read(path, &mut lines, reader).map_err(failed)?;
        Ok((ledger, damages))
    }

    fn read(
        &mut self,
        path: &Path,
        lines: &mut LineReader,
        reader: &mut impl LedgerReader,
    ) -> io::Result<Vec<Damage>> {
        let mut damages = Vec::new();
        while let Some(line) = lines.next()? {
            let taken = match parse(&line) {
                Ok(LedgerLine::Block(block)) => reader.block(&block),
                Ok(LedgerLine::Genesis(_)) => Err("second genesis; a ledger has one, in line 1".to_owned()),
                Err(what) => Err(what),
            };
            if taken.is_ok() || line.is_ended {
                self.pass(&line, lines.end)?;
            }
            let (what, remedy) = match taken {
                Ok(0) => continue,
                Ok(missing) => (format!("{missing} blocks before this line are missing"), REMEDY),
                Err(what) if line.is_ended => {
                    reader.lost();
                    (what, REMEDY)
                }
                Err(what) => (what, NO_REMEDY),
            };
            if damages.len() < DAMAGES_MAX {
                damages.push(Damage {
                    file: path.to_owned(),
                    line: line.number,
                    what,
                    remedy,
                });
            }
        }
        Ok(damages)
    }

    /// Moves the write offset to `end`, the end of `line`. Appends a missing line break.
    fn pass(&mut self, line: &FileLine, end: u64) -> io::Result<()> {
        self.end = end;
        if !line.is_ended {
            self.file.seek(SeekFrom::End(0))?;
            self.file.write_all(b"\n")?;
            self.end += 1;
        }
        Ok(())
    }

    /// Appends a block to the file. Returns after the sync to the disk.
    pub(crate) fn write(&mut self, block: &LedgerBlock) -> io::Result<()> {
        self.append(&LedgerLine::Block(block.clone()))
    }

    fn append(&mut self, line: &LedgerLine) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // The rest of a truncated line or failed write is overwritten. It was never published.
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

fn check_genesis(path: &Path, line: &FileLine, wanted: &Genesis) -> Result<(), Error> {
    let found = match parse(line) {
        Ok(LedgerLine::Genesis(found)) => found,
        Ok(LedgerLine::Block(_)) => return Err(no_genesis(path, "this is a block")),
        Err(what) => return Err(no_genesis(path, &what)),
    };
    if found == *wanted {
        return Ok(());
    }
    let text = format!(
        "has another genesis of chain `{}` than requested; name another file",
        found.chain_id
    );
    Err(refuse(ErrorKind::Conflict, path, &text))
}

fn no_genesis(path: &Path, what: &str) -> Error {
    let remedy = "restore line 1 from a backup; if there is no other line, remove the file";
    refuse(
        ErrorKind::Invalid,
        path,
        &format!("does not begin a ledger: {what}; {remedy}"),
    )
}

fn parse(line: &FileLine) -> Result<LedgerLine, String> {
    if line.is_long {
        return Err(format!("the line is longer than {LINE_MAX} bytes"));
    }
    serde_json::from_slice(&line.bytes).map_err(|e| e.to_string())
}

/// Syncs the folder, so that a power failure does not remove a new file.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
