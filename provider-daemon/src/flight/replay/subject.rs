//! One order or lease, and which turns are about it.

use super::Turn;
use crate::flight::words;
use akash_provider_core::engine::{Effect, EffectId, Input, RequestId};
use akash_provider_core::types::{ChainEvent, LeaseId, OrderId};
use serde::Serialize;
use std::collections::BTreeSet;

/// What a replay is asked about.
pub(super) struct Subject {
    /// The id, as it begins everywhere it is named.
    path: String,
    /// What it hangs on, as it is named alone.
    around: [String; 2],
    /// Calls that are about it and were not answered, and requests.
    calls: BTreeSet<EffectId>,
    requests: BTreeSet<RequestId>,
}

impl Subject {
    pub(super) fn order(id: &OrderId) -> Self {
        Self::of(id.to_string(), id)
    }

    pub(super) fn lease(id: &LeaseId) -> Self {
        Self::of(id.to_string(), &id.order)
    }

    fn of(path: String, order: &OrderId) -> Self {
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

    /// What was decided about it in a turn, in words; `None` where the turn is not about it.
    pub(super) fn touched(&mut self, turn: &Turn<'_>) -> Option<Vec<String>> {
        let asked = match turn.input {
            // Both name everything there is. What they lead to says whether they are about it.
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
                effects.extend(words::effect(effect));
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

    /// Ids are texts in data, each with that of what it belongs to in front.
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
