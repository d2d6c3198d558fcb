//! A folder of recordings, record by record.

use super::format::{Decoder, Fault};
use super::shelf::files;
use super::{Head, Record};
use akash_provider_chain::regular_file::{self, Source};
use anyhow::{Context, bail};
use std::collections::VecDeque;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// What comes next.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are turns, and each of them would be one more allocation"
)]
pub(super) enum Found {
    /// Of the process with this head.
    Record(Record),
    /// A file begins; true where it is of another process than the one before.
    File { is_other: bool, head: Head },
    /// The rest of a file cannot be read, and why.
    Broken(String),
}

pub(super) struct Recording {
    waiting: VecDeque<PathBuf>,
    open: Option<(PathBuf, Decoder<BufReader<Source>>)>,
    head: Option<Head>,
}

impl Recording {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        Ok(Self::of(files(dir)?))
    }

    pub(super) fn of(files: Vec<PathBuf>) -> Self {
        Self {
            waiting: files.into(),
            open: None,
            head: None,
        }
    }

    /// The next record, or what is in its place; `None` at the end.
    ///
    /// # Errors
    /// A file cannot be opened, has another format, or is of another provider or chain.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Found>> {
        if let Some((path, decoder)) = &mut self.open {
            match decoder.next() {
                Ok(Some(record)) => return Ok(Some(Found::Record(record))),
                Ok(None) => self.open = None,
                Err(fault) => {
                    let broken = Found::Broken(format!("{}: {fault}", path.display()));
                    self.open = None;
                    return Ok(Some(broken));
                }
            }
        }
        let Some(path) = self.waiting.pop_front() else {
            return Ok(None);
        };
        let name = path.display().to_string();
        let file = regular_file::open(&path).with_context(|| name.clone())?;
        let (head, decoder) = match Decoder::new(BufReader::new(file)) {
            Ok(opened) => opened,
            Err(fault @ (Fault::Foreign | Fault::Format(_) | Fault::Io(_))) => {
                return Err(fault).context(name);
            }
            Err(fault) => return Ok(Some(Found::Broken(format!("{name}: {fault}")))),
        };
        let is_other = self
            .head
            .as_ref()
            .is_none_or(|before| before.started != head.started);
        if let Some(before) = &self.head {
            belongs(&name, before, &head)?;
        }
        self.head = Some(head.clone());
        self.open = Some((path, decoder));
        Ok(Some(Found::File { is_other, head }))
    }
}

fn belongs(name: &str, before: &Head, head: &Head) -> anyhow::Result<()> {
    if before.chain_id != head.chain_id {
        let (ours, theirs) = (&before.chain_id, &head.chain_id);
        bail!(
            "{name} is of chain {theirs}, and the files before it are of {ours}: give each a folder of its own"
        );
    }
    if before.provider != head.provider {
        let (ours, theirs) = (&before.provider, &head.provider);
        bail!(
            "{name} is of provider {theirs}, and the files before it are of {ours}: give each a folder of its own"
        );
    }
    Ok(())
}

/// The time of the first state in a file; `None` where it has none that can be read.
pub(super) fn begins(path: &Path) -> anyhow::Result<Option<u64>> {
    let mut recording = Recording::of(vec![path.to_owned()]);
    while let Some(found) = recording.next()? {
        if let Found::Record(Record::State { wall, .. }) = found {
            return Ok(Some(wall));
        }
    }
    Ok(None)
}
