//! Outgoing effects of the engine: calls in flight with their targets, events and replies.

mod lanes;

use super::{Call, Completion, Effect, EffectId, Engine, RequestId, Response};
use crate::record::Cover;
use crate::types::{DeploymentId, Event, LeaseId, OrderId};
use lanes::Lanes;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Receiver of a call's completion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CallTarget {
    Order(OrderId),
    Deployment(DeploymentId),
    WorkloadCluster(LeaseId),
    WorkloadChain(LeaseId),
    Escrow(DeploymentId),
    Provider,
    Audit(String),
    Wallet,
    Scan,
}

/// Effects of the current step, and all calls in flight.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Outbox {
    /// Effects of the current step. Empty between two steps.
    #[serde(skip)]
    effects: Vec<Effect>,
    /// Target of each call in flight, and whether the call is a write.
    in_flight: FxHashMap<EffectId, (CallTarget, bool)>,
    writes: u64,
    lanes: Lanes,
    next_id: u64,
    unexpected: u64,
}

impl Outbox {
    pub(super) fn hide(&mut self, cover: &Cover<'_>) {
        self.lanes.hide(cover);
    }

    /// Returns and removes the effects of the current step.
    pub(super) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns true if no write is in flight.
    pub(super) const fn is_idle(&self) -> bool {
        self.writes == 0
    }

    pub(super) fn calls_in_flight(&self) -> u64 {
        self.in_flight.len() as u64
    }

    pub(super) fn target(&self, id: EffectId) -> Option<&CallTarget> {
        self.in_flight.get(&id).map(|(target, _)| target)
    }

    /// Counts a completion that belongs to no pending call or has the wrong kind.
    pub(super) const fn count_unexpected(&mut self) {
        self.unexpected += 1;
    }

    pub(super) const fn unexpected(&self) -> u64 {
        self.unexpected
    }

    fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn register(&mut self, target: CallTarget, call: &Call) -> EffectId {
        let id = EffectId(self.next_id);
        self.next_id += 1;
        let write = call.is_write();
        self.writes += u64::from(write);
        self.in_flight.insert(id, (target, write));
        id
    }

    fn complete(&mut self, id: EffectId) -> Option<CallTarget> {
        let (target, write) = self.in_flight.remove(&id)?;
        self.writes -= u64::from(write);
        Some(target)
    }
}

impl Engine {
    pub(super) fn call(&mut self, target: CallTarget, call: Call) -> EffectId {
        let id = self.outbox.register(target, &call);
        self.send(id, call);
        id
    }

    pub(super) fn completed(&mut self, id: EffectId, completion: Completion) {
        // The call is unknown or was already completed.
        let Some(target) = self.outbox.complete(id) else {
            return self.outbox.count_unexpected();
        };
        // The target handles the completion before the lane: the resulting state determines the next call.
        self.route_completion(id, target, completion);
        self.call_completed(id);
    }

    pub(super) fn publish(&mut self, event: Event) {
        self.outbox.emit(Effect::Publish(Arc::new(event)));
    }

    /// Replies to a request. Callers reply to each request exactly once.
    pub(super) fn reply(&mut self, request: RequestId, response: Response) {
        self.outbox.emit(Effect::Reply(request, response));
    }
}
