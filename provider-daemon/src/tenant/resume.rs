//! What was shown before a stream broke off is not shown again when it goes on.
//!
//! Providers tell neither a time nor a number with what they send. Logs that are asked for again begin with the last
//! lines of each pod, and among them is, mostly, what was shown last:
//!
//! ```text
//!  shown before    4 5 6 7
//!  comes again         6 7 8 9
//!                          └ from here on it is new
//! ```
//! Events come again as all there are. A line is held back until it is clear where the old ones end.

use super::json::Json;
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::time::Instant;

/// Lines of a pod, or events of a lease, that are remembered, and asked for again: some minutes of a busy service.
pub(super) const KEPT: usize = 5000;
/// Pods that are remembered; replicas come and go.
const PODS_MAX: usize = 64;
/// Bytes that are held back for one pod: what comes again is as long as it was, lines of 64 kilobytes included.
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Pause by which the end of what comes again is known: providers send it in one go.
const QUIET: Duration = Duration::from_secs(1);
/// A service that is never quiet is not held back for longer.
const HELD_FOR: Duration = Duration::from_secs(5);

/// What was shown of one stream.
#[derive(Debug)]
pub(super) enum Shown {
    /// Log lines, pod by pod.
    Lines(Lines),
    /// Events of a lease; each that comes again is counted off.
    Events(Events),
}

/// What is to be shown now.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fresh {
    pub(super) messages: Vec<Json>,
    /// Pods of which more may have come than is kept.
    pub(super) gaps: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Lines {
    /// The one that was heard of first is the first.
    pods: Vec<(String, Pod)>,
    /// The stream began with the first line of each pod, and not with some of the last.
    from_start: bool,
}

#[derive(Debug, Default)]
struct Pod {
    shown: VecDeque<u64>,
    again: Option<Again>,
}

/// What has come since the stream was opened again.
#[derive(Debug, Default)]
struct Again {
    held: Vec<(u64, Json)>,
    bytes: usize,
    first: Option<Instant>,
    last: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Events {
    seen: VecDeque<u64>,
    /// How many of each are still to come again, and when one came last.
    again: Option<(HashMap<u64, usize>, Option<Instant>)>,
}

impl Shown {
    /// Nothing of a log yet; whether it begins with its first line.
    pub(super) const fn lines(from_start: bool) -> Self {
        Self::Lines(Lines {
            pods: Vec::new(),
            from_start,
        })
    }

    /// Nothing of events yet.
    pub(super) fn events() -> Self {
        Self::Events(Events::default())
    }

    /// The stream was opened again.
    pub(super) fn reopen(&mut self) {
        match self {
            Self::Lines(lines) => {
                for (_, pod) in &mut lines.pods {
                    // What was held back and has no end now comes again too.
                    pod.again = Some(Again::default());
                }
            }
            Self::Events(events) => {
                let mut counts: HashMap<u64, usize> = HashMap::new();
                for seen in &events.seen {
                    *counts.entry(*seen).or_default() += 1;
                }
                events.again = Some((counts, None));
            }
        }
    }

    /// A message has come: what of it, and of those before it, is to be shown.
    pub(super) fn take(&mut self, message: Json, now: Instant) -> Fresh {
        match self {
            Self::Lines(lines) => lines.take(message, now),
            Self::Events(events) => Fresh {
                messages: events.take(message, now).into_iter().collect(),
                gaps: Vec::new(),
            },
        }
    }

    /// When [`settle`](Self::settle) has something to do; `None` while nothing is held back.
    pub(super) fn next_settling(&self) -> Option<Instant> {
        match self {
            Self::Lines(lines) => {
                let again = lines.pods.iter().filter_map(|(_, pod)| pod.again.as_ref());
                again.filter_map(Again::due).min()
            }
            Self::Events(events) => Some(events.again.as_ref()?.1? + QUIET),
        }
    }

    /// Time has passed: what was held back long enough.
    pub(super) fn settle(&mut self, now: Instant) -> Fresh {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        match self {
            Self::Lines(lines) => lines.release(|again| is_due(again.due())),
            Self::Events(events) => {
                if is_due(events.again.as_ref().and_then(|(_, last)| Some((*last)? + QUIET))) {
                    events.again = None;
                }
                Fresh::default()
            }
        }
    }

    /// Nothing more comes: all that was held back.
    pub(super) fn end(&mut self) -> Fresh {
        match self {
            Self::Lines(lines) => lines.release(|_| true),
            Self::Events(_) => Fresh::default(),
        }
    }
}

impl Again {
    fn due(&self) -> Option<Instant> {
        let (first, last) = (self.first?, self.last?);
        Some((last + QUIET).min(first + HELD_FOR))
    }

    fn is_full(&self) -> bool {
        self.held.len() >= KEPT || self.bytes >= HELD_BYTES_MAX
    }
}

impl Lines {
    fn take(&mut self, line: Json, now: Instant) -> Fresh {
        let text = |name| line.field(name).and_then(Json::text);
        let (Some(name), Some(message)) = (text("name"), text("message")) else {
            // No line at all, so that nobody can tell whether it was shown.
            return Fresh {
                messages: vec![line],
                gaps: Vec::new(),
            };
        };
        let (hash, bytes) = (hash_of(message), message.len());
        let at = self.pods.iter().position(|(known, _)| known == name);
        let at = at.unwrap_or_else(|| {
            if self.pods.len() >= PODS_MAX {
                // The one that was heard of first has most likely been replaced.
                self.pods.remove(0);
            }
            self.pods.push((name.to_owned(), Pod::default()));
            self.pods.len() - 1
        });
        let Some((_, pod)) = self.pods.get_mut(at) else {
            return Fresh::default();
        };
        let Some(again) = &mut pod.again else {
            remember(&mut pod.shown, hash);
            return Fresh {
                messages: vec![line],
                gaps: Vec::new(),
            };
        };
        again.held.push((hash, line));
        again.bytes += bytes;
        again.first.get_or_insert(now);
        again.last = Some(now);
        self.release(Again::is_full)
    }

    /// Lets go of what pods hold back of which this is true.
    fn release(&mut self, is_over: impl Fn(&Again) -> bool) -> Fresh {
        let mut fresh = Fresh::default();
        for (name, pod) in &mut self.pods {
            let Some(again) = pod.again.take_if(|again| is_over(again)) else {
                continue;
            };
            let held: Vec<u64> = again.held.iter().map(|(hash, _)| *hash).collect();
            let is_whole = self.from_start || pod.shown.len() >= KEPT;
            let new = new_from(pod.shown.make_contiguous(), &held, is_whole);
            // None of what was shown is among as many lines as are asked for, so some between may be lost.
            if new == 0 && !pod.shown.is_empty() && held.len() >= KEPT {
                fresh.gaps.push(name.clone());
            }
            for (hash, line) in again.held.into_iter().skip(new) {
                remember(&mut pod.shown, hash);
                fresh.messages.push(line);
            }
        }
        fresh
    }
}

/// Where in what has come again the new part begins: behind the last place where all before it is what was shown
/// last. Where `is_whole`, what has come cannot begin before what is remembered.
fn new_from(shown: &[u64], again: &[u64], is_whole: bool) -> usize {
    let most = if is_whole {
        again.len().min(shown.len())
    } else {
        again.len()
    };
    let fits = |end: &usize| {
        let common = (*end).min(shown.len());
        common > 0 && again[end - common..*end] == shown[shown.len() - common..]
    };
    // The last place that fits: of lines that repeat, some are rather left out than shown twice.
    (1..=most).rev().find(fits).unwrap_or(0)
}

impl Events {
    fn take(&mut self, event: Json, now: Instant) -> Option<Json> {
        // Events come without an id, so the whole text stands for one.
        let hash = serde_json::to_string(&event).map_or(0, |text| hash_of(&text));
        if let Some((counts, last)) = &mut self.again {
            *last = Some(now);
            if let Some(count) = counts.get_mut(&hash).filter(|count| **count > 0) {
                *count -= 1;
                return None;
            }
        }
        remember(&mut self.seen, hash);
        Some(event)
    }
}

fn remember(all: &mut VecDeque<u64>, hash: u64) {
    if all.len() >= KEPT {
        all.pop_front();
    }
    all.push_back(hash);
}

fn hash_of(text: &str) -> u64 {
    // Never written down, so the hash may be another one in the next version.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
