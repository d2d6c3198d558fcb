//! Writer of the bus: numbered lines in files. The size and the number of the files are limited.

use akash_provider_core::types::{Event, Topic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of lines in a file.
const LINES: u64 = 1024;
/// Maximum number of files. All files together have about two megabytes.
const FILES: usize = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BusLine {
    /// Number of the event, from 0.
    pub(crate) number: u64,
    /// Topic of the event.
    pub(crate) topic: Topic,
    /// The event.
    pub(crate) event: Arc<Event>,
}

/// Writer of the events to the files.
#[derive(Debug)]
pub(crate) struct Log {
    folder: PathBuf,
    file: File,
    first: u64,
    next: u64,
}

impl Log {
    /// Opens the log. New lines are written to a new file, because the previous file can end with an
    /// incomplete line.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let next = match files(folder)?.last_key_value() {
            None => 0,
            Some((first, path)) => {
                let text = fs::read(path)?;
                let lines = text.iter().filter(|byte| **byte == b'\n').count();
                first + u64::try_from(lines).unwrap_or(u64::MAX)
            }
        };
        Ok(Self {
            folder: folder.to_owned(),
            file: create(folder, next)?,
            first: next,
            next,
        })
    }

    /// Returns the number that the next event will get.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Writes an event to the log. A retained event is stored before the log line is written. [`retained`]
    /// therefore never returns an older event than the log.
    pub(crate) fn append(&mut self, topic: Topic, event: &Arc<Event>) -> io::Result<()> {
        if topic.is_retained() {
            let path = retained_path(&self.folder, topic);
            let draft = path.with_extension("draft");
            fs::write(&draft, serde_json::to_vec(event)?)?;
            fs::rename(&draft, &path)?;
        }
        if self.next - self.first >= LINES {
            self.turn_over()?;
        }
        let number = self.next;
        let event = Arc::clone(event);
        let mut line = serde_json::to_vec(&BusLine { number, topic, event })?;
        line.push(b'\n');
        if let Err(error) = self.file.write_all(&line) {
            // An incomplete line may exist: the same number starts the next file.
            self.turn_over()?;
            return Err(error);
        }
        self.next += 1;
        Ok(())
    }

    fn turn_over(&mut self) -> io::Result<()> {
        self.file = create(&self.folder, self.next)?;
        self.first = self.next;
        let all = files(&self.folder)?;
        for path in all.values().take(all.len().saturating_sub(FILES)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

fn create(folder: &Path, first: u64) -> io::Result<File> {
    // An existing file with this number has no complete line, and its contents must not be continued.
    let path = folder.join(format!("events-{first:020}.jsonl"));
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(path)
}

/// Returns the files of the log, by the number of the first line.
pub(crate) fn files(folder: &Path) -> io::Result<BTreeMap<u64, PathBuf>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let number = name
            .strip_prefix("events-")
            .and_then(|n| n.strip_suffix(".jsonl"));
        if let Some(number) = number.and_then(|n| n.parse().ok()) {
            found.insert(number, path);
        }
    }
    Ok(found)
}

fn retained_path(folder: &Path, topic: Topic) -> PathBuf {
    folder.join(format!("{}.json", topic.name()))
}

pub(crate) fn retained(folder: &Path, topic: Topic) -> io::Result<Option<Arc<Event>>> {
    match fs::read(retained_path(folder, topic)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
