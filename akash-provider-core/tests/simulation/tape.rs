//! An engine whose inputs are written down, and another one that is given what was written and has to do the same.

use crate::ids::SECRET;
use crate::oracle::{Checked, ensure};
use akash_provider_core::Config;
use akash_provider_core::engine::{Effect, Engine, Input};
use akash_provider_core::record::{self, Cover};
use akash_provider_core::types::Now;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Deref;

/// Steps between two states that are written down.
const STATES: u64 = 37;

/// The engine of a history, on demand with one beside it that knows it from what was written alone.
#[derive(Debug)]
pub(crate) struct Taped {
    engine: Engine,
    beside: Option<Beside>,
}

#[derive(Debug)]
struct Beside {
    engine: Engine,
    steps: u64,
    fault: Option<String>,
}

impl Taped {
    pub(crate) fn new(config: Config, is_taped: bool) -> Self {
        let engine = Engine::new(config).unwrap();
        let beside = is_taped.then(|| Beside {
            engine: engine.clone(),
            steps: 0,
            fault: None,
        });
        Self { engine, beside }
    }

    pub(crate) fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let Some(beside) = &mut self.beside else {
            return self.engine.step(now, input);
        };
        if beside.steps.is_multiple_of(STATES) {
            beside.starts_from(&self.engine, now);
        }
        let written = beside.written(&input);
        let effects = self.engine.step(now, input);
        let again = beside.engine.step(now, written);
        beside.compare(&effects, &again);
        effects
    }

    pub(crate) fn handle_timeout(&mut self, now: Now) -> Vec<Effect> {
        let effects = self.engine.handle_timeout(now);
        if let Some(beside) = &mut self.beside {
            let again = beside.engine.handle_timeout(now);
            beside.compare(&effects, &again);
        }
        effects
    }

    /// What was written leads to the same.
    pub(crate) fn check(&self) -> Checked {
        let fault = self.beside.as_ref().and_then(|beside| beside.fault.as_deref());
        ensure("what_was_recorded_is_done_again", fault.is_none(), || {
            fault.unwrap_or_default().to_owned()
        })
    }
}

impl Deref for Taped {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Beside {
    /// Goes on from the state of the other, read from what was written of it.
    fn starts_from(&mut self, engine: &Engine, now: Now) {
        let mut state = engine.clone();
        record::hide_in_engine(&mut state, &cover);
        let bytes = self.bytes(&state);
        let read: Engine = rmp_serde::from_slice(&bytes).unwrap();
        // The one that went on knows no more and no less than the one that starts here.
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
            self.fault = Some("a secret was written".to_owned());
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
