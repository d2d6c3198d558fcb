//! Watchdog for stalled parts, on a separate thread: a blocked runtime cannot check itself.

use super::Part;
use super::notify;
use super::pulse::{Pulses, Standstill};
use std::collections::BTreeSet;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interval of the stall checks. systemd can require a shorter interval.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum delay of a check. After a longer delay, the watchdog reports no stalls, because the whole process
/// was paused.
const OVERSLEPT: Duration = Duration::from_secs(3);

/// Handle of the watchdog thread. Dropping the handle ends the thread.
#[derive(Debug)]
pub struct Watchdog {
    /// Sender of the stop channel. Dropping the sender ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub(super) fn start(pulses: Pulses) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        // A quarter of systemd's timeout, so that one late check does no harm.
        let every = sd_notify::watchdog_enabled().map_or(LOOK_EVERY, |limit| LOOK_EVERY.min(limit / 4));
        let thread = thread::Builder::new().name("watchdog".to_owned());
        let thread = thread.spawn(move || {
            let mut watch = StallWatch::new(every);
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let changes = watch.look(&pulses, Instant::now());
                if watch.still.is_empty() {
                    notify::alive();
                }
                changes.iter().for_each(log);
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
        // Otherwise it ends only by a panic, which was logged.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum StallChange {
    Stalled(Standstill),
    Recovered(Part),
}

fn log(change: &StallChange) {
    match change {
        StallChange::Stalled(Standstill {
            part,
            since,
            in_a_step: true,
        }) => tracing::error!(
            part = part.name(),
            ?since,
            "part of the provider stalled in a step; the systemd watchdog gets no keep-alive"
        ),
        StallChange::Stalled(Standstill { part, since, .. }) => tracing::error!(
            part = part.name(),
            ?since,
            "part of the provider stalled without a heartbeat; the systemd watchdog gets no keep-alive"
        ),
        StallChange::Recovered(part) => {
            tracing::warn!(
                part = part.name(),
                "stalled part of the provider recovered and runs again"
            )
        }
    }
}

/// State of the watchdog between two checks.
#[derive(Debug)]
struct StallWatch {
    every: Duration,
    last: Instant,
    still: BTreeSet<Part>,
}

impl StallWatch {
    fn new(every: Duration) -> Self {
        Self {
            every,
            last: Instant::now(),
            still: BTreeSet::new(),
        }
    }

    fn look(&mut self, pulses: &Pulses, now: Instant) -> Vec<StallChange> {
        let all = pulses.all();
        if now.saturating_duration_since(self.last) > self.every + OVERSLEPT {
            all.iter().for_each(|pulse| pulse.reset());
        }
        self.last = now;
        let (mut still, mut changes) = (BTreeSet::new(), Vec::new());
        for pulse in &all {
            let Some(standstill) = pulse.standstill() else {
                continue;
            };
            still.insert(standstill.part);
            if !self.still.contains(&standstill.part) {
                pulse.stalled();
                changes.push(StallChange::Stalled(standstill));
            }
        }
        changes.extend(self.still.difference(&still).copied().map(StallChange::Recovered));
        self.still = still;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_a_missing_heartbeat_and_its_return_once() {
        let (pulses, mut watch) = (Pulses::default(), StallWatch::new(LOOK_EVERY));
        let pulse = pulses.add(Part::Watch);
        assert_eq!(watch.look(&pulses, Instant::now()), []);
        pulse.beat(Duration::from_millis(5));
        thread::sleep(Duration::from_millis(30));
        let changes = watch.look(&pulses, Instant::now());
        assert!(
            matches!(&changes[..], [StallChange::Stalled(one)] if one.part == Part::Watch && !one.in_a_step),
            "{changes:?}"
        );
        assert_eq!(watch.look(&pulses, Instant::now()), [], "once");
        let status = pulses.status();
        assert!(status[0].is_stalled && status[0].stalls == 1, "{status:?}");
        pulse.beat(Duration::from_secs(60));
        assert_eq!(
            watch.look(&pulses, Instant::now()),
            [StallChange::Recovered(Part::Watch)]
        );
        pulse.beat(Duration::ZERO);
        pulse.rest();
        thread::sleep(Duration::from_millis(5));
        assert_eq!(
            watch.look(&pulses, Instant::now()),
            [],
            "a resting part needs no heartbeat"
        );
    }

    #[test]
    fn does_not_report_a_pause_of_the_whole_process() {
        let (pulses, mut watch) = (Pulses::default(), StallWatch::new(LOOK_EVERY));
        pulses.add(Part::Watch).beat(Duration::from_millis(20));
        thread::sleep(Duration::from_millis(40));
        let late = Instant::now() + LOOK_EVERY + OVERSLEPT + Duration::from_secs(1);
        assert_eq!(watch.look(&pulses, late), []);
        thread::sleep(Duration::from_millis(40));
        assert_eq!(
            watch.look(&pulses, late + LOOK_EVERY).len(),
            1,
            "no heartbeat after the pause"
        );
    }
}
