//! Selection of the steps that concern one order or lease.

use super::Turn;
use crate::flight::describe;
use akash_provider_core::engine::{Effect, EffectId, Input, RequestId};
use akash_provider_core::types::{ChainEvent, LeaseId, OrderId};
use serde::Serialize;
use std::collections::BTreeSet;

/// Order or lease for which a replay prints the steps.
pub(super) struct ReplaySubject {
    /// ID of the order or lease, as text. The IDs of subordinate objects start with this text.
    path: String,
    /// IDs of the deployment and group, as JSON strings.
    around: [String; 2],
    /// Pending calls and requests about the order or lease.
    calls: BTreeSet<EffectId>,
    requests: BTreeSet<RequestId>,
}

impl ReplaySubject {
    pub(super) fn order(id: &OrderId) -> Self {
        Self::new(id.to_string(), id)
    }

    pub(super) fn lease(id: &LeaseId) -> Self {
        Self::new(id.to_string(), &id.order)
    }

    fn new(path: String, order: &OrderId) -> Self {
        Self {
            path,
            around: [
                format!("\"{}\"", order.deployment()),
                format!("\"{}\"", order.group),
            ],
            calls: BTreeSet::new(),
            requests: BTreeSet::new(),
        }
    }

    /// Describes those effects of a step that concern the order or lease. Returns `None` if the step does not
    /// concern the order or lease.
    pub(super) fn touched(&mut self, turn: &Turn<'_>) -> Option<Vec<String>> {
        let asked = match turn.input {
            // Both name everything. Only their effects show whether they concern it.
            None | Some(Input::Chain(ChainEvent::Resync(_)) | Input::Inventory(_)) => false,
            Some(Input::Completed(id, _)) => self.calls.remove(id),
            Some(Input::Request(id, request)) => {
                let is_about = self.names(request);
                if is_about {
                    self.requests.insert(*id);
                }
                is_about
            }
            Some(input) => self.names(input),
        };
        let mut effects = Vec::new();
        for effect in turn.effects {
            if self.is_about(effect) {
                effects.extend(describe::effect(effect));
            }
        }
        (asked || !effects.is_empty()).then_some(effects)
    }

    fn is_about(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::Call(id, call) => {
                let is_about = self.names(call);
                if is_about {
                    self.calls.insert(*id);
                }
                is_about
            }
            Effect::Publish(event) => self.names(&**event),
            Effect::Reply(id, _) => self.requests.remove(id),
        }
    }

    /// Returns true if a value contains one of these IDs: the ID of the order or lease, a longer ID that
    /// starts with this ID, or the ID of the group or deployment.
    fn names(&self, what: &impl Serialize) -> bool {
        let Ok(text) = serde_json::to_string(what) else {
            return false;
        };
        let whole = |(at, found): (usize, &str)| {
            let next = text.get(at + found.len()..).and_then(|rest| rest.chars().next());
            // 1/1/1 is not 1/1/12.
            next.is_none_or(|next| !next.is_ascii_alphanumeric())
        };
        text.match_indices(&self.path).any(whole) || self.around.iter().any(|id| text.contains(id.as_str()))
    }
}
