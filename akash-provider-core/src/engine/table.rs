//! All machines of one kind: each with its deadlines and the calls that it waits for.
//!
//! Nothing outside changes a machine but [`Table::drive`], so a machine and its deadlines cannot disagree, and a
//! completion that nobody waits for any more meets nobody.

use super::EffectId;
use super::cx::Cx;
use super::timers::{Deadlines, Timers};
use crate::types::{BlockTime, Mono, Now};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::hash::Hash;

/// A state machine: a pure function from an input to itself and to what it wants.
pub(super) trait Machine: Sized {
    /// What there is one of it for.
    type Id: Clone + Ord + Hash;
    /// What happens to it.
    type Input;
    /// What it wants done outside of itself.
    type Action;

    /// One step: the machine is consumed, and what it wants is added to `out`.
    fn step(self, cx: &Cx<'_>, input: Self::Input, out: &mut Vec<Self::Action>) -> Self;

    /// When it wants to be woken, in either clock.
    fn deadlines(&self, cx: &Cx<'_>) -> Deadlines;

    /// Nobody needs it any more: it is removed with its step.
    fn is_done(&self) -> bool;
}

/// Which of a machine's calls; it waits for one of each at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// The only one of most machines.
    Main,
    /// What a workload asks of the chain, beside what it asks of the cluster.
    Chain,
}

/// A machine with what is kept beside it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Slot<M> {
    /// Out while it makes a step.
    machine: Option<M>,
    deadlines: Deadlines,
    in_flight: [Option<EffectId>; 2],
}

/// The machines of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(
    serialize = "M: Serialize, M::Id: Serialize",
    deserialize = "M: Deserialize<'de>, M::Id: Deserialize<'de>"
))]
pub(super) struct Table<M: Machine> {
    slots: FxHashMap<M::Id, Slot<M>>,
    timers: Timers<M::Id>,
}

impl<M: Machine> Default for Table<M> {
    fn default() -> Self {
        Self {
            slots: FxHashMap::default(),
            timers: Timers::default(),
        }
    }
}

impl<M: Machine> Table<M> {
    pub(super) fn get(&self, id: &M::Id) -> Option<&M> {
        self.slots.get(id)?.machine.as_ref()
    }

    pub(super) fn contains(&self, id: &M::Id) -> bool {
        self.slots.contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// In no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&M::Id, &M)> {
        let slots = self.slots.iter();
        slots.filter_map(|(id, slot)| Some((id, slot.machine.as_ref()?)))
    }

    /// The ids, in an order that does not depend on hashing.
    pub(super) fn ids(&self) -> Vec<M::Id> {
        super::sorted(self.slots.keys())
    }

    /// A new machine, which is woken by nothing before its first step. One that was there is replaced.
    pub(super) fn insert(&mut self, id: &M::Id, machine: M) {
        // Timers and calls of the one before are not the new one's.
        self.remove(id);
        let slot = Slot {
            machine: Some(machine),
            deadlines: (None, None),
            in_flight: [None; 2],
        };
        self.slots.insert(id.clone(), slot);
    }

    /// The machine, with its deadlines, is there no more; completions of its calls meet nobody.
    pub(super) fn remove(&mut self, id: &M::Id) -> Option<M> {
        let mut slot = self.slots.remove(id)?;
        self.timers.set(id, &mut slot.deadlines, (None, None));
        slot.machine
    }

    /// One machine takes one input; `None` where there is none.
    pub(super) fn drive(&mut self, cx: &Cx<'_>, id: &M::Id, input: M::Input) -> Option<Vec<M::Action>> {
        let slot = self.slots.get_mut(id)?;
        let mut out = Vec::new();
        // Taken out, because a step consumes it.
        let machine = slot.machine.take()?.step(cx, input, &mut out);
        let done = machine.is_done();
        let new = if done { (None, None) } else { machine.deadlines(cx) };
        // For one that is done as well, or its entries would stay without it.
        self.timers.set(id, &mut slot.deadlines, new);
        slot.machine = Some(machine);
        if done {
            self.slots.remove(id);
        }
        Some(out)
    }

    /// Every machine, to be changed in what changes neither its deadlines nor its calls; in no particular order.
    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut M> {
        self.slots.values_mut().filter_map(|slot| slot.machine.as_mut())
    }

    /// Sets the deadlines of a machine that has made no step yet.
    pub(super) fn settle(&mut self, cx: &Cx<'_>, id: &M::Id) {
        if let Some(slot) = self.slots.get_mut(id)
            && let Some(machine) = &slot.machine
        {
            let new = machine.deadlines(cx);
            self.timers.set(id, &mut slot.deadlines, new);
        }
    }

    /// What is known beside its inputs changes a machine between two steps.
    pub(super) fn adjust<T>(&mut self, id: &M::Id, change: impl FnOnce(&mut M) -> T) -> Option<T> {
        self.slots.get_mut(id)?.machine.as_mut().map(change)
    }

    /// A machine waits for this call now.
    pub(super) fn sent(&mut self, id: &M::Id, lane: Lane, effect: EffectId) {
        if let Some(slot) = self.slots.get_mut(id) {
            slot.in_flight[lane as usize] = Some(effect);
        }
    }

    /// A call has ended; false where nobody waits for it any more.
    pub(super) fn answered(&mut self, id: &M::Id, lane: Lane, effect: EffectId) -> bool {
        // A late answer to an earlier call must not end the wait for the newer one.
        let slot = self.slots.get_mut(id);
        slot.is_some_and(|slot| slot.in_flight[lane as usize].take_if(|e| *e == effect).is_some())
    }

    /// Earliest monotonic deadline of any of them; `None` where none has one.
    pub(super) fn next_mono(&self) -> Option<Mono> {
        self.timers.next_mono()
    }

    /// Whether a deadline of any of them has come.
    pub(super) fn is_due(&self, now: Now) -> bool {
        self.timers.is_due(now)
    }

    /// Deadlines that have come, in the monotonic clock, in their order.
    pub(super) fn due_mono(&self, now: Now) -> impl Iterator<Item = &(Mono, M::Id)> {
        self.timers.due_mono(now.mono)
    }

    /// Deadlines that have come, in block time, in their order.
    pub(super) fn due_block(&self, now: Now) -> impl Iterator<Item = &(BlockTime, M::Id)> {
        self.timers.due_block(now.block_time)
    }
}
