//! What the engine asks for and says: calls in flight with who waits for them, facts and replies.

mod lanes;

use super::{Call, Completion, Effect, EffectId, Engine, RequestId, Response};
use crate::record::Cover;
use crate::types::{DeploymentId, Event, LeaseId, OrderId};
use lanes::Lanes;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Who waits for a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Target {
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

/// Effects of the step under way, and the calls of all steps that have not ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Outbox {
    /// Empty between two steps.
    #[serde(skip)]
    effects: Vec<Effect>,
    /// Who waits for each call, and whether it writes.
    in_flight: FxHashMap<EffectId, (Target, bool)>,
    writes: u64,
    lanes: Lanes,
    next_id: u64,
    unexpected: u64,
}

impl Outbox {
    /// Covers the secrets of manifests.
    pub(super) fn hide(&mut self, cover: &Cover<'_>) {
        self.lanes.hide(cover);
    }

    /// What the step that ends now has brought.
    pub(super) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// No write is under way.
    pub(super) const fn is_idle(&self) -> bool {
        self.writes == 0
    }

    pub(super) fn calls_in_flight(&self) -> u64 {
        self.in_flight.len() as u64
    }

    /// Who waits for a call.
    pub(super) fn target(&self, id: EffectId) -> Option<&Target> {
        self.in_flight.get(&id).map(|(target, _)| target)
    }

    /// Something came that nobody asked for.
    pub(super) const fn count_unexpected(&mut self) {
        self.unexpected += 1;
    }

    pub(super) const fn unexpected(&self) -> u64 {
        self.unexpected
    }

    fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn enter(&mut self, target: Target, call: &Call) -> EffectId {
        let id = EffectId(self.next_id);
        self.next_id += 1;
        let write = call.is_write();
        self.writes += u64::from(write);
        self.in_flight.insert(id, (target, write));
        id
    }

    fn leave(&mut self, id: EffectId) -> Option<Target> {
        let (target, write) = self.in_flight.remove(&id)?;
        self.writes -= u64::from(write);
        Some(target)
    }
}

impl Engine {
    /// Asks for a call; its completion comes back to `target`.
    pub(super) fn call(&mut self, target: Target, call: Call) -> EffectId {
        let id = self.outbox.enter(target, &call);
        self.send(id, call);
        id
    }

    /// A call has ended.
    pub(super) fn completed(&mut self, id: EffectId, completion: Completion) {
        // Answered before, or never asked.
        let Some(target) = self.outbox.leave(id) else {
            return self.outbox.count_unexpected();
        };
        // Before the lanes hear of it: only what follows from it says which call goes next.
        self.route_completion(id, target, completion);
        self.call_ended(id);
    }

    /// Tells a fact to whoever listens.
    pub(super) fn publish(&mut self, event: Event) {
        self.outbox.emit(Effect::Publish(Arc::new(event)));
    }

    /// Answers a request; each is answered once.
    pub(super) fn reply(&mut self, request: RequestId, response: Response) {
        self.outbox.emit(Effect::Reply(request, response));
    }
}
