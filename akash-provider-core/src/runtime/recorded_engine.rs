//! The engine with an optional recorder.

use super::state_machine::StateMachine;
use crate::audit::Act;
use crate::engine::counts::EngineCounts;
use crate::engine::reservations::Capacity;
use crate::engine::status::Pulse;
use crate::engine::{Call, Effect, EffectId, Engine, Input, Status};
use crate::record::Recorder;
use crate::types::{GroupId, LeaseId, Mono, Now};

#[derive(Debug)]
pub(crate) struct RecordedEngine {
    engine: Engine,
    recorder: Option<Box<dyn Recorder>>,
}

impl RecordedEngine {
    pub(crate) fn new(engine: Engine, recorder: Option<Box<dyn Recorder>>) -> Self {
        Self { engine, recorder }
    }

    fn take_down(&mut self, now: Now, input: Option<&Input>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record_input(&self.engine, now, input);
        }
    }

    fn made(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        if let Some(recorder) = &mut self.recorder {
            recorder.record_effects(&effects);
        }
        effects
    }
}

impl StateMachine for RecordedEngine {
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
    fn counts(&self) -> EngineCounts {
        self.engine.counts().clone()
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
    fn act_of_call(&self, id: EffectId, call: &Call) -> Option<Act> {
        self.engine.act_of_call(id, call)
    }
}
