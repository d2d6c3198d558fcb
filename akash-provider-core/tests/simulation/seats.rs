//! Two instances of the provider, of which one leads at a time. The one that stands by, or was deposed, still has
//! calls under way.

use crate::calls::Pending;
use crate::chain::Stream;
use crate::oracle::{Checked, Told};
use crate::tape::Taped;
use crate::world::World;
use akash_provider_core::engine::{Input, Leadership};
use std::mem::swap;

/// An instance that does not act now.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) engine: Taped,
    pub(crate) life: u64,
    pub(crate) pending: Vec<Pending>,
    pub(crate) told: Told,
    pub(crate) watched: bool,
    pub(crate) stream: Stream,
}

impl World {
    /// Another instance starts and stands by.
    pub(crate) fn second_instance(&mut self) -> Checked {
        self.lives += 1;
        self.other = Some(Seat {
            engine: Taped::new(self.config.clone(), self.trace.is_taped),
            life: self.lives,
            pending: Vec::new(),
            told: Told::new(),
            watched: false,
            stream: Stream::default(),
        });
        self.swap();
        self.feed(Input::Leadership(Leadership::Standby))?;
        self.swap();
        Ok(())
    }

    /// The other instance acts from now on.
    fn swap(&mut self) {
        let Some(other) = &mut self.other else { return };
        swap(&mut self.engine, &mut other.engine);
        swap(&mut self.life, &mut other.life);
        swap(&mut self.pending, &mut other.pending);
        swap(&mut self.told, &mut other.told);
        swap(&mut self.watched, &mut other.watched);
        swap(&mut self.chain.stream, &mut other.stream);
        let life = self.life;
        self.trace.line(|| format!("instance {life}"));
    }

    /// The other instance acts for a while.
    pub(crate) fn visit(&mut self) -> Checked {
        self.swap();
        if self.random.percent(20) {
            return self.inventory();
        }
        Ok(())
    }

    pub(crate) fn other_leads(&self) -> bool {
        let other = self.other.as_ref();
        other.is_some_and(|o| o.told.leadership != Leadership::Standby)
    }

    /// Leadership is lost, or found again, here or at the other instance. Nobody becomes the leader before the one
    /// before knows that it is no longer; what it has asked for goes on all the same.
    pub(crate) fn leadership_changes(&mut self) -> Checked {
        if self.other_leads() {
            self.swap();
        }
        if self.told.leadership != Leadership::Standby {
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

    /// This instance leads, and knows it.
    pub(crate) fn lead(&mut self) -> Checked {
        self.epoch += 1;
        self.feed(Input::Leadership(Leadership::Leader { epoch: self.epoch }))
    }

    /// One of two instances ends; of what it has asked for anything may have happened.
    pub(crate) fn one_instance(&mut self) -> Checked {
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
