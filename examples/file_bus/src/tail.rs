//! Subscriber to the bus: reads the lines that the writer appends.

use crate::log::{self, BusLine};
use akash_provider_core::bus::Delivery;
use akash_provider_core::types::Topic;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

/// Interval at which a subscriber looks for new lines.
const POLL: Duration = Duration::from_millis(10);
/// Maximum number of lines that are read at once.
const BATCH: usize = 256;

/// Subscription to the log: its position, and undelivered events.
#[derive(Debug)]
pub(crate) struct Tail {
    place: Option<TailPosition>,
    ready: VecDeque<Delivery>,
}

#[derive(Debug)]
struct TailPosition {
    folder: PathBuf,
    topics: Vec<Topic>,
    /// Number of the next line to read.
    next: u64,
    /// File that contains the next line, and the number of the first line in this file.
    file: Option<(u64, BufReader<File>)>,
    half: Vec<u8>,
}

impl Tail {
    /// Creates a subscriber to these topics, from event number `next` on.
    pub(crate) fn new(folder: PathBuf, topics: Vec<Topic>, next: u64) -> Self {
        let place = TailPosition {
            folder,
            topics,
            next,
            file: None,
            half: Vec::new(),
        };
        Self {
            place: Some(place),
            ready: VecDeque::new(),
        }
    }

    /// Waits for the next delivery. Returns this delivery and `self`. Retries while the folder cannot be
    /// read.
    pub(crate) async fn deliver(mut self) -> Option<(Delivery, Self)> {
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                return Some((delivery, self));
            }
            let mut place = self.place.take()?;
            let read = tokio::task::spawn_blocking(move || {
                let mut found = Vec::new();
                // A failed read is retried at the next interval; the lines before the failure are delivered.
                let _ = place.read(&mut found);
                (place, found)
            });
            let (place, found) = read.await.ok()?;
            self.place = Some(place);
            if found.is_empty() {
                tokio::time::sleep(POLL).await;
            }
            self.ready.extend(found);
        }
    }
}

impl TailPosition {
    /// Reads at most [`BATCH`] lines and adds their events to `found`.
    fn read(&mut self, found: &mut Vec<Delivery>) -> io::Result<()> {
        for _ in 0..BATCH {
            match self.line()? {
                Some(line) if line.number < self.next => {}
                Some(line) => {
                    self.lag_until(line.number, found);
                    self.next = line.number + 1;
                    let BusLine { topic, event, .. } = line;
                    if self.topics.contains(&topic) {
                        found.push(Delivery::Event { topic, event });
                    }
                }
                None if self.turn_over(found)? => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Returns the next complete line of the file.
    fn line(&mut self) -> io::Result<Option<BusLine>> {
        let Some((_, file)) = &mut self.file else {
            return Ok(None);
        };
        file.read_until(b'\n', &mut self.half)?;
        if self.half.last() != Some(&b'\n') {
            return Ok(None);
        }
        let line = serde_json::from_slice(&self.half);
        // An invalid line counts as lost, which the number of the next one shows.
        self.half.clear();
        Ok(Some(line?))
    }

    /// Opens the file with the next line. If this line was deleted, opens the first later file and adds a
    /// `Delivery::Lagged` to `found`. Returns false if no other file can be opened.
    fn turn_over(&mut self, found: &mut Vec<Delivery>) -> io::Result<bool> {
        let files = log::files(&self.folder)?;
        let holder = files.range(..=self.next).next_back();
        // Lines with this number are lost if every file starts later.
        let Some((first, path)) = holder.or_else(|| files.first_key_value()) else {
            return Ok(false);
        };
        if self.file.as_ref().is_some_and(|(open, _)| open == first) {
            return Ok(false);
        }
        // The writer may remove the file concurrently; the next interval then finds a later one.
        let file = File::open(path)?;
        self.lag_until(*first, found);
        self.next = self.next.max(*first);
        self.file = Some((*first, BufReader::new(file)));
        self.half.clear();
        Ok(true)
    }

    fn lag_until(&self, number: u64, found: &mut Vec<Delivery>) {
        if number > self.next {
            found.push(Delivery::Lagged(Some(number - self.next)));
        }
    }
}
