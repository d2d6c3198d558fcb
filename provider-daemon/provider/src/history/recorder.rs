//! Recorder on the engine's side: sends facts to the writer without waiting.

use super::fact::{Fact, FactKind, FactSubject};
use super::queue::FactSender;
use super::record::Moment;
use crate::flight::wall_ms;
use akash_provider_core::engine::{Call, Completion, Effect, EffectId, Engine, Input};
use akash_provider_core::pricing::PriceRequest;
use akash_provider_core::record::Recorder;
use akash_provider_core::types::{Address, ChainEvent, Event, GroupSpec, Now, OrderId, Snapshot};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Maximum number of stored price requests without a result. The oldest request is removed first.
const REQUESTS_MAX: usize = 1024;

/// Recorder of the engine's decisions, for the order history.
#[derive(Debug)]
pub struct HistoryRecorder {
    sender: FactSender,
    /// Account of this provider.
    provider: Option<Address>,
    at: Moment,
    /// Requests of unfinished price calculations, oldest first.
    requests: VecDeque<(EffectId, PriceRequest)>,
    /// Chain snapshot, if the engine's current input is a `Resync`.
    snapshot: Option<Arc<Snapshot>>,
}

impl HistoryRecorder {
    pub(super) const fn new(sender: FactSender) -> Self {
        Self {
            sender,
            provider: None,
            at: Moment { height: 0, time: 0 },
            requests: VecDeque::new(),
            snapshot: None,
        }
    }

    /// Sets the account of this provider. Leases of this account are not recorded as leases of another
    /// provider.
    #[must_use]
    pub fn of_provider(mut self, provider: Address) -> Self {
        self.provider = Some(provider);
        self
    }

    fn send(&self, order: &OrderId, kind: FactKind) {
        let subject = FactSubject::Order(order.clone());
        self.sender.send(Fact {
            subject,
            at: self.at,
            kind,
        });
    }

    fn chain_event(&mut self, event: &ChainEvent) {
        match event {
            ChainEvent::Resync(snapshot) => {
                self.at.height = snapshot.height;
                self.snapshot = Some(Arc::clone(snapshot));
            }
            ChainEvent::Block { height, .. } => self.at.height = *height,
            // The events of a block precede the end of the block.
            ChainEvent::LeaseCreated { id, price } if self.provider.as_ref() != Some(&id.provider) => {
                self.at.height += 1;
                self.send(
                    &id.order,
                    FactKind::OtherLease(id.provider.clone(), price.clone()),
                );
            }
            ChainEvent::LeaseClosed { id, reason } if self.provider.as_ref() == Some(&id.provider) => {
                self.at.height += 1;
                self.send(&id.order, FactKind::LeaseEnded(*reason));
            }
            ChainEvent::OrderClosed { id } => {
                self.at.height += 1;
                self.send(id, FactKind::OrderClosed);
            }
            _ => self.at.height += 1,
        }
    }

    fn completion(&mut self, engine: &Engine, id: EffectId, completion: &Completion) {
        match completion {
            Completion::Order(Ok(Some(order))) => {
                self.send(&order.id, FactKind::Group(Arc::clone(&order.spec)))
            }
            Completion::Price(answer) => {
                let at = self.requests.iter().position(|(of, _)| *of == id);
                let request = at.and_then(|at| self.requests.remove(at));
                if let (Some((_, request)), Ok(price), Some(order)) =
                    (request, answer, engine.order_of_call(id))
                {
                    self.send(order, FactKind::Price(Box::new(request), price.clone()));
                }
            }
            _ => {}
        }
    }

    fn groups(&self, snapshot: &Snapshot, effects: &[Effect]) {
        let groups: HashMap<&OrderId, &Arc<GroupSpec>> = snapshot
            .orders
            .iter()
            .map(|order| (&order.id, &order.spec))
            .collect();
        for effect in effects {
            if let Effect::Publish(event) = effect
                && let Event::OrderSeen { order } = &**event
                && let Some(group) = groups.get(order)
            {
                self.send(order, FactKind::Group(Arc::clone(group)));
            }
        }
    }
}

impl Recorder for HistoryRecorder {
    fn record_input(&mut self, engine: &Engine, _: Now, input: Option<&Input>) {
        self.at = Moment {
            height: engine.pulse().height,
            time: wall_ms(),
        };
        self.snapshot = None;
        match input {
            Some(Input::Chain(event)) => self.chain_event(event),
            Some(Input::Completed(id, completion)) => self.completion(engine, *id, completion),
            _ => {}
        }
    }

    fn record_effects(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Publish(event) => {
                    if let Some(fact) = Fact::from_event(event, self.at) {
                        self.sender.send(fact);
                    }
                }
                Effect::Call(id, Call::CalculatePrice(request)) => {
                    if self.requests.len() >= REQUESTS_MAX {
                        self.requests.pop_front();
                    }
                    self.requests.push_back((*id, request.clone()));
                }
                Effect::Call(..) | Effect::Reply(..) => {}
            }
        }
        if let Some(snapshot) = self.snapshot.take() {
            self.groups(&snapshot, effects);
        }
    }
}

/// Recorders that all receive the same inputs and effects of one provider.
#[derive(Debug)]
pub(crate) struct Recorders(Vec<Box<dyn Recorder>>);

impl Recorders {
    /// Combines recorders. Returns `None` for an empty list.
    #[must_use]
    pub(crate) fn new(recorders: Vec<Box<dyn Recorder>>) -> Option<Self> {
        (!recorders.is_empty()).then_some(Self(recorders))
    }
}

impl Recorder for Recorders {
    fn record_input(&mut self, engine: &Engine, now: Now, input: Option<&Input>) {
        for recorder in &mut self.0 {
            recorder.record_input(engine, now, input);
        }
    }

    fn record_effects(&mut self, effects: &[Effect]) {
        for recorder in &mut self.0 {
            recorder.record_effects(effects);
        }
    }
}
