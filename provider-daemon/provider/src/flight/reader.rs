//! Reader of a folder of recordings.

use super::folder::files;
use super::format::{Decoder, ReadError};
use super::{FlightRecord, Head};
use akash_provider_chain::regular_file::{self, InputFile};
use akash_provider_cli::error::WithHelp;
use anyhow::{Context, bail};
use std::collections::VecDeque;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Next item of a recording.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are turns, and boxing would be one more allocation for each"
)]
pub(super) enum RecordingItem {
    /// A record. The latest `File` item is the file of this record.
    Record(FlightRecord),
    /// Start of a file. `is_other` is true if another process wrote the previous file.
    File { is_other: bool, head: Head },
    /// Reason why the rest of the current file cannot be read.
    Broken(String),
}

pub(super) struct Recording {
    waiting: VecDeque<PathBuf>,
    open: Option<(PathBuf, Decoder<BufReader<InputFile>>)>,
    head: Option<Head>,
}

impl Recording {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self::from_files(files(dir)?))
    }

    pub(super) fn from_files(files: Vec<PathBuf>) -> Self {
        Self {
            waiting: files.into(),
            open: None,
            head: None,
        }
    }

    /// Returns the next item, or `None` at the end.
    ///
    /// # Errors
    /// Returns an error if a file cannot be opened, has another format, or is of another provider or chain.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<RecordingItem>> {
        if let Some((path, decoder)) = &mut self.open {
            match decoder.next() {
                Ok(Some(record)) => return Ok(Some(RecordingItem::Record(record))),
                Ok(None) => self.open = None,
                Err(fault) => {
                    let broken = RecordingItem::Broken(format!("{}: {fault}", path.display()));
                    self.open = None;
                    return Ok(Some(broken));
                }
            }
        }
        let Some(path) = self.waiting.pop_front() else {
            return Ok(None);
        };
        let name = path.display().to_string();
        let file = regular_file::open(&path).with_context(|| format!("cannot open {name}"))?;
        let (head, decoder) = match Decoder::new(BufReader::new(file)) {
            Ok(opened) => opened,
            Err(fault @ (ReadError::Foreign | ReadError::Format(_) | ReadError::Io(_))) => {
                return Err(fault).context(name);
            }
            Err(fault) => return Ok(Some(RecordingItem::Broken(format!("{name}: {fault}")))),
        };
        let is_other = self
            .head
            .as_ref()
            .is_none_or(|before| before.started != head.started);
        if let Some(before) = &self.head {
            check_origin(&name, before, &head)?;
        }
        self.head = Some(head.clone());
        self.open = Some((path, decoder));
        Ok(Some(RecordingItem::File { is_other, head }))
    }
}

fn check_origin(name: &str, before: &Head, head: &Head) -> anyhow::Result<()> {
    if before.chain_id != head.chain_id {
        let (ours, theirs) = (&before.chain_id, &head.chain_id);
        bail!(WithHelp::new(
            format!("{name} belongs to chain {theirs}, but the earlier files belong to chain {ours}"),
            "use one directory for each chain"
        ));
    }
    if before.provider != head.provider {
        let (ours, theirs) = (&before.provider, &head.provider);
        bail!(WithHelp::new(
            format!("{name} belongs to provider {theirs}, but the earlier files belong to provider {ours}"),
            "use one directory for each provider"
        ));
    }
    Ok(())
}

/// Returns the time of the first state in a file, or `None` without a readable state.
pub(super) fn start_time(path: &Path) -> anyhow::Result<Option<u64>> {
    let mut recording = Recording::from_files(vec![path.to_owned()]);
    while let Some(found) = recording.next()? {
        if let RecordingItem::Record(FlightRecord::State { wall, .. }) = found {
            return Ok(Some(wall));
        }
    }
    Ok(None)
}
