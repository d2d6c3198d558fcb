//! Looks whether parts stand still, from a thread of its own: a runtime that hangs cannot look after itself.

use super::Part;
use super::notify;
use super::pulse::{Pulses, Standstill};
use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often it looks, unless systemd wants to hear more often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A look that comes so much later than it should says that the whole process stood still: it was stopped, or the
/// machine had no time for it.
const OVERSLEPT: Duration = Duration::from_secs(3);

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub struct Watchdog {
    /// Its end is the end of the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub(super) fn start(pulses: Pulses) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        // A quarter of what systemd waits, so that one look that is late does no harm.
        let every = sd_notify::watchdog_enabled().map_or(LOOK_EVERY, |limit| LOOK_EVERY.min(limit / 4));
        let thread = thread::Builder::new().name("watchdog".to_owned());
        let thread = thread.spawn(move || {
            let mut watch = Watch::new(every);
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let news = watch.look(&pulses, Instant::now());
                if watch.still.is_empty() {
                    notify::alive();
                }
                news.iter().for_each(tell);
            }
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        // It only ends by a panic besides, which has been told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What has changed for a part.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Still(Standstill),
    Moves(Part),
}

fn tell(news: &News) {
    match news {
        News::Still(Standstill {
            part,
            since,
            in_a_step: true,
        }) => tracing::error!(
            "the {} stands still: it is in one step for {since:?}; systemd is told nothing while it does",
            part.name()
        ),
        News::Still(Standstill { part, since, .. }) => tracing::error!(
            "the {} stands still: its loop did not come round for {since:?}; systemd is told nothing while it does",
            part.name()
        ),
        News::Moves(part) => tracing::warn!("the {} goes on", part.name()),
    }
}

/// What is known from one look to the next.
#[derive(Debug)]
struct Watch {
    every: Duration,
    last: Instant,
    still: BTreeSet<Part>,
}

impl Watch {
    fn new(every: Duration) -> Self {
        Self {
            every,
            last: Instant::now(),
            still: BTreeSet::new(),
        }
    }

    fn look(&mut self, pulses: &Pulses, now: Instant) -> Vec<News> {
        let all = pulses.all();
        if now.saturating_duration_since(self.last) > self.every + OVERSLEPT {
            all.iter().for_each(|pulse| pulse.forgive());
        }
        self.last = now;
        let found: Vec<Standstill> = all.iter().filter_map(|pulse| pulse.standstill()).collect();
        let still: BTreeSet<Part> = found.iter().map(|one| one.part).collect();
        let begun = found.into_iter().filter(|one| !self.still.contains(&one.part));
        let mut news: Vec<News> = begun.map(News::Still).collect();
        news.extend(self.still.difference(&still).copied().map(News::Moves));
        self.still = still;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_that_does_not_come_is_told_once_and_so_is_the_next_one() {
        let (pulses, mut watch) = (Pulses::default(), Watch::new(LOOK_EVERY));
        let pulse = pulses.of(Part::Watch);
        assert_eq!(watch.look(&pulses, Instant::now()), []);
        pulse.beat(Duration::from_millis(5));
        thread::sleep(Duration::from_millis(30));
        let told = watch.look(&pulses, Instant::now());
        assert!(
            matches!(&told[..], [News::Still(one)] if one.part == Part::Watch && !one.in_a_step),
            "{told:?}"
        );
        assert_eq!(watch.look(&pulses, Instant::now()), [], "once");
        pulse.beat(Duration::from_secs(60));
        assert_eq!(watch.look(&pulses, Instant::now()), [News::Moves(Part::Watch)]);
        pulse.beat(Duration::ZERO);
        pulse.rest();
        thread::sleep(Duration::from_millis(5));
        assert_eq!(watch.look(&pulses, Instant::now()), [], "what rests owes no beat");
    }

    #[test]
    fn a_process_that_was_stopped_has_no_part_that_stands_still() {
        let (pulses, mut watch) = (Pulses::default(), Watch::new(LOOK_EVERY));
        pulses.of(Part::Watch).beat(Duration::from_millis(20));
        thread::sleep(Duration::from_millis(40));
        let late = Instant::now() + LOOK_EVERY + OVERSLEPT + Duration::from_secs(1);
        assert_eq!(watch.look(&pulses, late), []);
        thread::sleep(Duration::from_millis(40));
        assert_eq!(
            watch.look(&pulses, late + LOOK_EVERY).len(),
            1,
            "it still does not beat"
        );
    }
}
