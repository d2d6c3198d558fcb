//! History of a stream, so that a resumed stream prints each message once.
//!
//! Messages of providers have no timestamps and no numbers. A resumed log starts with the last lines of each pod,
//! which usually overlap with the printed lines:
//!
//! ```text
//!  printed before the interruption    4 5 6 7
//!  received replay                         6 7 8 9
//!                                             └ new lines start here
//! ```
//! Providers send all events of a lease again. Received log lines are buffered until the position of the first new line
//! is known.
use super::json::Json;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of lines per pod, or events per lease, in the history. The same number is requested when a
/// log is resumed.
pub(super) const HISTORY_MAX: usize = 5000;
/// Maximum number of pods in the history, including replaced pods.
const PODS_MAX: usize = 64;
/// Maximum size of the buffered lines of one pod, in bytes.
const BUFFER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum pause between two messages of a replay. After a longer pause, the replay counts as ended, because
/// providers send a replay without pauses.
const REPLAY_PAUSE: Duration = Duration::from_secs(1);
/// Maximum time for which repeated log lines are buffered.
const BUFFER_TIME_MAX: Duration = Duration::from_secs(5);

/// Printed messages of one stream.
#[derive(Debug)]
pub(super) enum PrintedMessages {
    /// Log lines per pod.
    Lines(LogHistory),
    /// Events of a lease. Repeated events after a reconnect are not printed.
    Events(Events),
}

/// Messages to print, and a warning about gaps.
#[derive(Debug, Default, PartialEq)]
pub(super) struct NewMessages {
    pub(super) messages: Vec<Json>,
    /// Pods with possibly missing lines.
    pub(super) gaps: Vec<String>,
}

#[derive(Debug)]
pub(super) struct LogHistory {
    /// Pods, sorted by the arrival of their first lines.
    pods: Vec<(String, Pod)>,
    /// True if the stream starts with the first line of each pod; false if the stream starts with the last
    /// lines.
    from_start: bool,
}

#[derive(Debug, Default)]
struct Pod {
    printed: VecDeque<u64>,
    replay: Option<Replay>,
}

/// Lines received after a reconnect.
#[derive(Debug, Default)]
struct Replay {
    buffered: Vec<(u64, Json)>,
    bytes: usize,
    first: Option<Instant>,
    last: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    seen: VecDeque<u64>,
    /// State after a reconnect: the number of expected repetitions of each event, and the time of the last
    /// repeated event.
    replay: Option<(HashMap<u64, usize>, Option<Instant>)>,
}

impl PrintedMessages {
    /// Creates an empty log history. `from_start` is true if the stream starts with the first line of each
    /// pod.
    pub(super) const fn lines(from_start: bool) -> Self {
        Self::Lines(LogHistory {
            pods: Vec::new(),
            from_start,
        })
    }

    pub(super) fn events() -> Self {
        Self::Events(Events::default())
    }

    /// Prepares for a reconnect. After the reconnect, the provider sends earlier messages again.
    pub(super) fn reopen(&mut self) {
        match self {
            Self::Lines(lines) => {
                for (_, pod) in &mut lines.pods {
                    // Buffered lines are dropped, because the provider sends them replay.
                    pod.replay = Some(Replay::default());
                }
            }
            Self::Events(events) => {
                let mut counts: HashMap<u64, usize> = HashMap::new();
                for seen in &events.seen {
                    *counts.entry(*seen).or_default() += 1;
                }
                events.replay = Some((counts, None));
            }
        }
    }

    pub(super) fn add(&mut self, message: Json, now: Instant) -> NewMessages {
        match self {
            Self::Lines(lines) => lines.add(message, now),
            Self::Events(events) => NewMessages {
                messages: events.add(message, now).into_iter().collect(),
                gaps: Vec::new(),
            },
        }
    }

    /// Returns the time of the next [`flush_due`](Self::flush_due), or `None` without buffered messages.
    pub(super) fn next_flush(&self) -> Option<Instant> {
        match self {
            Self::Lines(lines) => {
                let replay = lines.pods.iter().filter_map(|(_, pod)| pod.replay.as_ref());
                replay.filter_map(Replay::due).min()
            }
            Self::Events(events) => Some(events.replay.as_ref()?.1? + REPLAY_PAUSE),
        }
    }

    /// Returns the messages that were buffered for the required time.
    pub(super) fn flush_due(&mut self, now: Instant) -> NewMessages {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        match self {
            Self::Lines(lines) => lines.release(|replay| is_due(replay.due())),
            Self::Events(events) => {
                if is_due(
                    events
                        .replay
                        .as_ref()
                        .and_then(|(_, last)| Some((*last)? + REPLAY_PAUSE)),
                ) {
                    events.replay = None;
                }
                NewMessages::default()
            }
        }
    }

    /// Returns all buffered messages at the end of the stream.
    pub(super) fn finish(&mut self) -> NewMessages {
        match self {
            Self::Lines(lines) => lines.release(|_| true),
            Self::Events(_) => NewMessages::default(),
        }
    }
}

impl Replay {
    fn due(&self) -> Option<Instant> {
        let (first, last) = (self.first?, self.last?);
        Some((last + REPLAY_PAUSE).min(first + BUFFER_TIME_MAX))
    }

    fn is_full(&self) -> bool {
        self.buffered.len() >= HISTORY_MAX || self.bytes >= BUFFER_BYTES_MAX
    }
}

impl LogHistory {
    fn add(&mut self, line: Json, now: Instant) -> NewMessages {
        let text = |name| line.field(name).and_then(Json::text);
        let (Some(name), Some(message)) = (text("name"), text("message")) else {
            // Not a log line, so the history cannot tell whether it was printed.
            return NewMessages {
                messages: vec![line],
                gaps: Vec::new(),
            };
        };
        let (hash, bytes) = (hash_of(message), message.len());
        let at = self.pods.iter().position(|(pod_name, _)| pod_name == name);
        let at = at.unwrap_or_else(|| {
            if self.pods.len() >= PODS_MAX {
                // The pod with the oldest first line has most likely been replaced.
                self.pods.remove(0);
            }
            self.pods.push((name.to_owned(), Pod::default()));
            self.pods.len() - 1
        });
        let Some((_, pod)) = self.pods.get_mut(at) else {
            return NewMessages::default();
        };
        let Some(replay) = &mut pod.replay else {
            record(&mut pod.printed, hash);
            return NewMessages {
                messages: vec![line],
                gaps: Vec::new(),
            };
        };
        replay.buffered.push((hash, line));
        replay.bytes += bytes;
        replay.first.get_or_insert(now);
        replay.last = Some(now);
        self.release(Replay::is_full)
    }

    /// Returns the new lines of each pod for which the replay is complete.
    fn release(&mut self, is_complete: impl Fn(&Replay) -> bool) -> NewMessages {
        let mut new_messages = NewMessages::default();
        for (name, pod) in &mut self.pods {
            let Some(replay) = pod.replay.take_if(|replay| is_complete(replay)) else {
                continue;
            };
            let buffered: Vec<u64> = replay.buffered.iter().map(|(hash, _)| *hash).collect();
            let is_whole = self.from_start || pod.printed.len() >= HISTORY_MAX;
            let new = new_from(pod.printed.make_contiguous(), &buffered, is_whole);
            // No printed line is among the requested number of lines, so lines in between may be missing.
            if new == 0 && !pod.printed.is_empty() && buffered.len() >= HISTORY_MAX {
                new_messages.gaps.push(name.clone());
            }
            for (hash, line) in replay.buffered.into_iter().skip(new) {
                record(&mut pod.printed, hash);
                new_messages.messages.push(line);
            }
        }
        new_messages
    }
}

/// Returns the index of the first new line of `replay`. The lines before this index match the end of
/// `printed`. If several indexes match, returns the largest index. If `is_whole` is true, `replay` has no
/// lines older than `printed`.
fn new_from(printed: &[u64], replay: &[u64], is_whole: bool) -> usize {
    let most = if is_whole {
        replay.len().min(printed.len())
    } else {
        replay.len()
    };
    let fits = |end: &usize| {
        let common = (*end).min(printed.len());
        common > 0 && replay[end - common..*end] == printed[printed.len() - common..]
    };
    // Of several matches the last one counts: repeated lines are rather omitted than printed twice.
    (1..=most).rev().find(fits).unwrap_or(0)
}

impl Events {
    fn add(&mut self, event: Json, now: Instant) -> Option<Json> {
        // Events have no ID, so the whole text identifies an event.
        let hash = serde_json::to_string(&event).map_or(0, |text| hash_of(&text));
        if let Some((counts, last)) = &mut self.replay {
            *last = Some(now);
            if let Some(count) = counts.get_mut(&hash).filter(|count| **count > 0) {
                *count -= 1;
                return None;
            }
        }
        record(&mut self.seen, hash);
        Some(event)
    }
}

fn record(all: &mut VecDeque<u64>, hash: u64) {
    if all.len() >= HISTORY_MAX {
        all.pop_front();
    }
    all.push_back(hash);
}

fn hash_of(text: &str) -> u64 {
    // The hash is never stored, so it may change between versions.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
