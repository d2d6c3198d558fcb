//! Storage for all machines of one type, with their deadlines and pending calls.
//!
//! Only [`MachineTable::drive`] changes a machine, so a machine and its deadlines always match. The table drops the
//! completion of a call if no machine waits for it.

use super::EffectId;
use super::cx::Cx;
use super::timers::{Deadlines, Timers};
use crate::types::{BlockTime, Mono, Now};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::hash::Hash;

/// A state machine. A step turns a state and an input into the next state and a list of actions.
pub(super) trait Machine: Sized {
    /// Key of the machine, such as a lease.
    type Id: Clone + Ord + Hash;
    /// Input of the machine.
    type Input;
    /// Action that the engine carries out for the state machine.
    type Action;

    /// Consumes the machine, processes one input and returns the next state. Actions are appended to `out`.
    fn step(self, cx: &Cx<'_>, input: Self::Input, out: &mut Vec<Self::Action>) -> Self;

    /// Returns the times at which the machine must be woken, on the monotonic clock and in block time.
    fn deadlines(&self, cx: &Cx<'_>) -> Deadlines;

    /// Returns true if the machine is no longer needed. The table removes the machine after the step.
    fn is_done(&self) -> bool;
}

/// Kind of calls of a state machine. A state machine waits for at most one call of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// All calls of most state machines, and the cluster calls of a workload.
    Main,
    /// Chain calls of a workload.
    Chain,
}

/// A machine with its deadlines and pending calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Slot<M> {
    /// State machine. `None` while the machine processes an input.
    machine: Option<M>,
    deadlines: Deadlines,
    in_flight: [Option<EffectId>; 2],
}

/// All machines of one type.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(
    serialize = "M: Serialize, M::Id: Serialize",
    deserialize = "M: Deserialize<'de>, M::Id: Deserialize<'de>"
))]
pub(super) struct MachineTable<M: Machine> {
    slots: FxHashMap<M::Id, Slot<M>>,
    timers: Timers<M::Id>,
}

impl<M: Machine> Default for MachineTable<M> {
    fn default() -> Self {
        Self {
            slots: FxHashMap::default(),
            timers: Timers::default(),
        }
    }
}

impl<M: Machine> MachineTable<M> {
    pub(super) fn get(&self, id: &M::Id) -> Option<&M> {
        self.slots.get(id)?.machine.as_ref()
    }

    pub(super) fn contains(&self, id: &M::Id) -> bool {
        self.slots.contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the machines in unspecified order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&M::Id, &M)> {
        let slots = self.slots.iter();
        slots.filter_map(|(id, slot)| Some((id, slot.machine.as_ref()?)))
    }

    /// Returns the ids in sorted order.
    pub(super) fn ids(&self) -> Vec<M::Id> {
        super::sorted(self.slots.keys())
    }

    /// Inserts a machine, and sets no deadline for the machine. Replaces a machine with the same id.
    pub(super) fn insert(&mut self, id: &M::Id, machine: M) {
        // The new machine must not inherit the timers and calls of the previous one.
        self.remove(id);
        let slot = Slot {
            machine: Some(machine),
            deadlines: (None, None),
            in_flight: [None; 2],
        };
        self.slots.insert(id.clone(), slot);
    }

    /// Removes a machine and its deadlines. Later completions of its calls are dropped.
    pub(super) fn remove(&mut self, id: &M::Id) -> Option<M> {
        let mut slot = self.slots.remove(id)?;
        self.timers.set(id, &mut slot.deadlines, (None, None));
        slot.machine
    }

    /// Passes one input to a machine and returns its actions, or `None` if there is no such machine.
    pub(super) fn drive(&mut self, cx: &Cx<'_>, id: &M::Id, input: M::Input) -> Option<Vec<M::Action>> {
        let slot = self.slots.get_mut(id)?;
        let mut out = Vec::new();
        // The step consumes the machine.
        let machine = slot.machine.take()?.step(cx, input, &mut out);
        let done = machine.is_done();
        let new = if done { (None, None) } else { machine.deadlines(cx) };
        // A finished machine also needs this call, which removes its timers.
        self.timers.set(id, &mut slot.deadlines, new);
        slot.machine = Some(machine);
        if done {
            self.slots.remove(id);
        }
        Some(out)
    }

    /// Returns all machines in unspecified order. The caller must not change deadlines or calls.
    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut M> {
        self.slots.values_mut().filter_map(|slot| slot.machine.as_mut())
    }

    /// Sets the deadlines of a machine before its first step.
    pub(super) fn set_deadlines(&mut self, cx: &Cx<'_>, id: &M::Id) {
        if let Some(slot) = self.slots.get_mut(id)
            && let Some(machine) = &slot.machine
        {
            let new = machine.deadlines(cx);
            self.timers.set(id, &mut slot.deadlines, new);
        }
    }

    /// Changes a machine between two steps, without an input.
    pub(super) fn update<T>(&mut self, id: &M::Id, change: impl FnOnce(&mut M) -> T) -> Option<T> {
        self.slots.get_mut(id)?.machine.as_mut().map(change)
    }

    pub(super) fn set_pending(&mut self, id: &M::Id, lane: Lane, effect: EffectId) {
        if let Some(slot) = self.slots.get_mut(id) {
            slot.in_flight[lane as usize] = Some(effect);
        }
    }

    /// Clears the pending call of a machine. Returns false if the machine does not wait for this call.
    pub(super) fn clear_pending(&mut self, id: &M::Id, lane: Lane, effect: EffectId) -> bool {
        // A late completion of an earlier call must not end the wait for the newer call.
        let slot = self.slots.get_mut(id);
        slot.is_some_and(|slot| slot.in_flight[lane as usize].take_if(|e| *e == effect).is_some())
    }

    pub(super) fn next_mono(&self) -> Option<Mono> {
        self.timers.next_mono()
    }

    pub(super) fn is_due(&self, now: Now) -> bool {
        self.timers.is_due(now)
    }

    pub(super) fn due_mono(&self, now: Now) -> impl Iterator<Item = &(Mono, M::Id)> {
        self.timers.due_mono(now.mono)
    }

    pub(super) fn due_block(&self, now: Now) -> impl Iterator<Item = &(BlockTime, M::Id)> {
        self.timers.due_block(now.block_time)
    }
}
