//! Two instances of the provider, at most one of which is the leader. Calls of an instance that no longer
//! leads may still be in flight.

use crate::calls::Pending;
use crate::chain::Stream;
use crate::oracle::{Checked, EngineModel};
use crate::recording::RecordedEngine;
use crate::world::World;
use akash_provider_core::engine::{Input, Leadership};
use std::mem::swap;

/// Inactive instance, which receives no inputs.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) engine: RecordedEngine,
    pub(crate) life: u64,
    pub(crate) pending: Vec<Pending>,
    pub(crate) model: EngineModel,
    pub(crate) watched: bool,
    pub(crate) stream: Stream,
}

impl World {
    /// Starts a second instance as standby.
    pub(crate) fn second_instance(&mut self) -> Checked {
        self.lives += 1;
        self.other = Some(Instance {
            engine: RecordedEngine::new(self.config.clone(), self.trace.is_taped),
            life: self.lives,
            pending: Vec::new(),
            model: EngineModel::new(),
            watched: false,
            stream: Stream::default(),
        });
        self.swap();
        self.feed(Input::Leadership(Leadership::Standby))?;
        self.swap();
        Ok(())
    }

    /// Exchanges the active and the inactive instance.
    fn swap(&mut self) {
        let Some(other) = &mut self.other else { return };
        swap(&mut self.engine, &mut other.engine);
        swap(&mut self.life, &mut other.life);
        swap(&mut self.pending, &mut other.pending);
        swap(&mut self.model, &mut other.model);
        swap(&mut self.watched, &mut other.watched);
        swap(&mut self.chain.stream, &mut other.stream);
        let life = self.life;
        self.trace.line(|| format!("instance {life}"));
    }

    /// Makes the inactive instance active, and the active instance inactive. In some cases, sends an
    /// inventory update.
    pub(crate) fn switch_instance(&mut self) -> Checked {
        self.swap();
        if self.random.percent(20) {
            return self.inventory();
        }
        Ok(())
    }

    pub(crate) fn other_leads(&self) -> bool {
        let other = self.other.as_ref();
        other.is_some_and(|o| o.model.leadership != Leadership::Standby)
    }

    /// Changes the leadership of the instances. Calls of the previous leader stay in flight.
    pub(crate) fn leadership_changes(&mut self) -> Checked {
        if self.other_leads() {
            self.swap();
        }
        if self.model.leadership != Leadership::Standby {
            self.feed(Input::Leadership(Leadership::Standby))?;
            if self.other.is_none() || self.random.percent(30) {
                return Ok(());
            }
        }
        if self.random.percent(60) {
            self.swap();
        }
        self.lead()
    }

    pub(crate) fn lead(&mut self) -> Checked {
        self.epoch += 1;
        self.feed(Input::Leadership(Leadership::Leader { epoch: self.epoch }))
    }

    /// Stops one of two instances. Calls that this instance has in flight may or may not take effect.
    pub(crate) fn stop_other_instance(&mut self) -> Checked {
        if self.other_leads() {
            self.swap();
        }
        if self.other.is_none() {
            return Ok(());
        }
        self.swap();
        for index in 0..self.pending.len() {
            let waits = self.pending[index].answer.is_none() && !self.pending[index].sent;
            if waits && self.random.percent(50) {
                self.make(index);
            }
        }
        self.swap();
        self.other = None;
        Ok(())
    }
}
