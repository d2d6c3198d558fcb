//! The engine with an optional recorder.

use super::brain::Brain;
use crate::engine::reservations::Capacity;
use crate::engine::status::Pulse;
use crate::engine::{Effect, Engine, Input, Status};
use crate::record::Recorder;
use crate::types::{GroupId, LeaseId, Mono, Now};

/// An engine with recorded steps.
#[derive(Debug)]
pub(crate) struct Recorded {
    engine: Engine,
    recorder: Option<Box<dyn Recorder>>,
}

impl Recorded {
    pub(crate) fn new(engine: Engine, recorder: Option<Box<dyn Recorder>>) -> Self {
        Self { engine, recorder }
    }

    fn take_down(&mut self, now: Now, input: Option<&Input>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.takes(&self.engine, now, input);
        }
    }

    fn made(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        if let Some(recorder) = &mut self.recorder {
            recorder.made(&effects);
        }
        effects
    }
}

impl Brain for Recorded {
    fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        self.take_down(now, Some(&input));
        let effects = self.engine.step(now, input);
        self.made(effects)
    }
    fn next_deadline(&self) -> Option<Mono> {
        self.engine.next_deadline()
    }
    fn handle_timeout(&mut self, now: Now) -> Vec<Effect> {
        self.take_down(now, None);
        let effects = self.engine.handle_timeout(now);
        self.made(effects)
    }
    fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }
    fn status(&self, now: Now) -> Status {
        self.engine.status(now)
    }
    fn changes(&self) -> u64 {
        self.engine.changes()
    }
    fn pulse(&self) -> Pulse {
        self.engine.pulse()
    }
    fn capacity(&self) -> Option<Capacity> {
        self.engine.capacity()
    }
    fn has_lease(&self, lease: &LeaseId) -> bool {
        self.engine.has_lease(lease)
    }
    fn lease_of(&self, group: &GroupId) -> Option<LeaseId> {
        self.engine.lease_of(group)
    }
}
