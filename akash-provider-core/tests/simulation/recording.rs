//! An engine with recorded inputs, and a second engine that replays the recording and must produce the same
//! effects.

use crate::ids::SECRET;
use crate::oracle::{Checked, ensure};
use akash_provider_core::Config;
use akash_provider_core::engine::{Effect, Engine, Input};
use akash_provider_core::record::{self, Cover};
use akash_provider_core::types::Now;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Deref;

/// Number of steps between two recorded states.
const STATES: u64 = 37;

/// Engine that records its inputs. Optionally, a second engine replays the recording.
#[derive(Debug)]
pub(crate) struct RecordedEngine {
    engine: Engine,
    replay_engine: Option<ReplayEngine>,
}

#[derive(Debug)]
struct ReplayEngine {
    engine: Engine,
    steps: u64,
    fault: Option<String>,
}

impl RecordedEngine {
    pub(crate) fn new(config: Config, is_taped: bool) -> Self {
        let engine = Engine::new(config).unwrap();
        let replay_engine = is_taped.then(|| ReplayEngine {
            engine: engine.clone(),
            steps: 0,
            fault: None,
        });
        Self {
            engine,
            replay_engine,
        }
    }

    pub(crate) fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let Some(replay_engine) = &mut self.replay_engine else {
            return self.engine.step(now, input);
        };
        if replay_engine.steps.is_multiple_of(STATES) {
            replay_engine.starts_from(&self.engine, now);
        }
        let written = replay_engine.written(&input);
        let effects = self.engine.step(now, input);
        let again = replay_engine.engine.step(now, written);
        replay_engine.compare(&effects, &again);
        effects
    }

    pub(crate) fn handle_timeout(&mut self, now: Now) -> Vec<Effect> {
        let effects = self.engine.handle_timeout(now);
        if let Some(replay_engine) = &mut self.replay_engine {
            let again = replay_engine.engine.handle_timeout(now);
            replay_engine.compare(&effects, &again);
        }
        effects
    }

    /// Checks that the replay has produced the same effects as the recorded engine.
    pub(crate) fn check(&self) -> Checked {
        let fault = self
            .replay_engine
            .as_ref()
            .and_then(|replay_engine| replay_engine.fault.as_deref());
        ensure("what_was_recorded_is_done_again", fault.is_none(), || {
            fault.unwrap_or_default().to_owned()
        })
    }
}

impl Deref for RecordedEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl ReplayEngine {
    /// Replaces the state of the replaying engine with a copy of `engine`.
    fn starts_from(&mut self, engine: &Engine, now: Now) {
        let mut state = engine.clone();
        record::hide_in_engine(&mut state, &cover);
        let bytes = self.bytes(&state);
        let read: Engine = rmp_serde::from_slice(&bytes).unwrap();
        // Both engines must have the same status.
        if self.engine.status(now) != read.status(now) {
            self.fault = Some(format!("{:?}\n{:?}", self.engine.status(now), read.status(now)));
        }
        self.engine = read;
    }

    fn written(&mut self, input: &Input) -> Input {
        let mut input = input.clone();
        record::hide_in_input(&mut input, &cover);
        let bytes = self.bytes(&input);
        rmp_serde::from_slice(&bytes).unwrap()
    }

    fn bytes(&mut self, what: &impl serde::Serialize) -> Vec<u8> {
        let bytes = rmp_serde::to_vec_named(what).unwrap();
        if bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()) {
            self.fault = Some("a recording contains a secret".to_owned());
        }
        bytes
    }

    fn compare(&mut self, effects: &[Effect], again: &[Effect]) {
        self.steps += 1;
        let cover: &Cover<'_> = &cover;
        if record::digest(effects, Some(cover)) != record::digest(again, None) {
            let fault = || format!("step {}: {effects:?}\n{again:?}", self.steps);
            let fault = fault();
            self.fault.get_or_insert(fault);
        }
    }
}

fn cover(secret: &str) -> String {
    format!(
        "{:x}",
        BuildHasherDefault::<DefaultHasher>::default().hash_one(secret)
    )
}
