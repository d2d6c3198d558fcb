//! A subscriber: reads behind the writer.

use crate::log::{self, Line};
use akash_provider_core::bus::Delivery;
use akash_provider_core::types::Topic;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

/// How often the end of the log is looked at.
const POLL: Duration = Duration::from_millis(10);
/// Lines read at a time.
const BATCH: usize = 256;

/// Where a subscriber is.
#[derive(Debug)]
pub(crate) struct Tail {
    place: Option<Place>,
    ready: VecDeque<Delivery>,
}

#[derive(Debug)]
struct Place {
    folder: PathBuf,
    topics: Vec<Topic>,
    /// Number of the next line.
    next: u64,
    /// The file it is in, and what was read of a line whose end is not written yet.
    file: Option<(u64, BufReader<File>)>,
    half: Vec<u8>,
}

impl Tail {
    /// Everything of these topics from the event of this number on.
    pub(crate) fn new(folder: PathBuf, topics: Vec<Topic>, next: u64) -> Self {
        let place = Place {
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

    /// The next delivery. A folder that cannot be read is tried again: it may be back.
    pub(crate) async fn deliver(mut self) -> Option<(Delivery, Self)> {
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                return Some((delivery, self));
            }
            let mut place = self.place.take()?;
            let read = tokio::task::spawn_blocking(move || {
                let mut found = Vec::new();
                // What cannot be read now is tried again with the next look; what was read before it counts.
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

impl Place {
    /// What there is behind the last line read, at most a batch of it.
    fn read(&mut self, found: &mut Vec<Delivery>) -> io::Result<()> {
        for _ in 0..BATCH {
            match self.line()? {
                Some(line) if line.number < self.next => {}
                Some(line) => {
                    self.lag_until(line.number, found);
                    self.next = line.number + 1;
                    let Line { topic, event, .. } = line;
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

    /// The next whole line of the file.
    fn line(&mut self) -> io::Result<Option<Line>> {
        let Some((_, file)) = &mut self.file else {
            return Ok(None);
        };
        file.read_until(b'\n', &mut self.half)?;
        if self.half.last() != Some(&b'\n') {
            return Ok(None);
        }
        let line = serde_json::from_slice(&self.half);
        // A line that nobody can read is one that was lost; the number of the next says so.
        self.half.clear();
        Ok(Some(line?))
    }

    /// Goes to the file that has the next line, or what is left after it; false when there is none yet.
    fn turn_over(&mut self, found: &mut Vec<Delivery>) -> io::Result<bool> {
        let files = log::files(&self.folder)?;
        let holder = files.range(..=self.next).next_back();
        // Lines of this number are gone when every file begins later.
        let Some((first, path)) = holder.or_else(|| files.first_key_value()) else {
            return Ok(false);
        };
        if self.file.as_ref().is_some_and(|(open, _)| open == first) {
            return Ok(false);
        }
        // The writer may take the file away just now; then the next look finds a later one.
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
