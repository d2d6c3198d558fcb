//! The interface between the loop and the engine.

use crate::audit::Act;
use crate::engine::counts::EngineCounts;
use crate::engine::reservations::Capacity;
use crate::engine::status::Pulse;
use crate::engine::{Call, Effect, EffectId, Input, Status};
use crate::types::{GroupId, LeaseId, Mono, Now};

/// State machine driven by the loop: the engine, or a script in tests.
pub(crate) trait StateMachine: Send {
    fn step(&mut self, now: Now, input: Input) -> Vec<Effect>;
    fn next_deadline(&self) -> Option<Mono>;
    fn handle_timeout(&mut self, now: Now) -> Vec<Effect>;
    fn is_idle(&self) -> bool;
    fn status(&self, now: Now) -> Status;
    /// Returns a counter that increases when the status may have changed. Changes of `pulse` are not counted.
    fn changes(&self) -> u64;
    fn pulse(&self) -> Pulse;
    fn counts(&self) -> EngineCounts;
    fn capacity(&self) -> Option<Capacity>;
    fn has_lease(&self, lease: &LeaseId) -> bool;
    fn lease_of(&self, group: &GroupId) -> Option<LeaseId>;
    /// Returns the audit-log entry for a pending call.
    fn act_of_call(&self, id: EffectId, call: &Call) -> Option<Act>;
}
