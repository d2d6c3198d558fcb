//! Orders with an unfinished trace.

use akash_provider_core::types::{DeploymentId, OrderId};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Maximum number of traced orders without a lease. New orders replace the oldest.
const ORDERS_MAX: usize = 8192;

/// Times of the unfinished spans of an order.
#[derive(Debug)]
pub(super) struct OrderTrace {
    /// Sequence number of the trace, in order of creation.
    number: u64,
    /// Time of the order event; `None` after the root span ended.
    pub(super) seen: Option<SystemTime>,
    /// Start of the current evaluation.
    pub(super) evaluation: Option<SystemTime>,
    /// Time of the bid.
    pub(super) bid: Option<SystemTime>,
    /// Start of the lease.
    pub(super) lease: Option<SystemTime>,
    /// Start of the wait for the first manifest of the lease.
    pub(super) manifest: Option<SystemTime>,
    /// Time at which the close of the lease started.
    pub(super) close: Option<SystemTime>,
    /// Start of the current teardown.
    pub(super) teardown: Option<SystemTime>,
}

/// Orders with an unfinished trace.
#[derive(Debug, Default)]
pub(super) struct OrderTraces {
    traces: BTreeMap<OrderId, OrderTrace>,
    /// Orders with an unfinished trace, by sequence number.
    numbers: BTreeMap<u64, OrderId>,
    last: u64,
}

impl OrderTraces {
    pub(super) fn get(&mut self, order: &OrderId) -> Option<&mut OrderTrace> {
        self.traces.get_mut(order)
    }

    /// Returns the trace of an order. A missing trace is created with `seen`, the time of the order event.
    /// `seen` is `None` if another process exported the root span.
    pub(super) fn get_or_create(&mut self, order: &OrderId, seen: Option<SystemTime>) -> &mut OrderTrace {
        if !self.traces.contains_key(order) {
            self.make_room();
            self.last += 1;
            self.numbers.insert(self.last, order.clone());
        }
        let number = self.last;
        self.traces.entry(order.clone()).or_insert_with(|| OrderTrace {
            number,
            seen,
            evaluation: None,
            bid: None,
            lease: None,
            manifest: None,
            close: None,
            teardown: None,
        })
    }

    pub(super) fn remove(&mut self, order: &OrderId) -> Option<OrderTrace> {
        let trace = self.traces.remove(order)?;
        self.numbers.remove(&trace.number);
        Some(trace)
    }

    pub(super) fn leases_of(&self, deployment: &DeploymentId) -> Vec<OrderId> {
        let first = deployment.clone().group(0).order(0);
        let of_deployment = self
            .traces
            .range(first..)
            .take_while(|(order, _)| order.deployment() == deployment);
        of_deployment
            .filter(|(_, trace)| trace.lease.is_some())
            .map(|(order, _)| order.clone())
            .collect()
    }

    fn make_room(&mut self) {
        if self.traces.len() < ORDERS_MAX {
            return;
        }
        let has_no_lease = |order: &&OrderId| {
            let trace = self.traces.get(*order);
            trace.is_none_or(|trace| trace.lease.is_none())
        };
        if let Some(oldest) = self.numbers.values().find(has_no_lease).cloned() {
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(dseq: usize, gseq: u32) -> OrderId {
        let text = format!("akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/{dseq}/{gseq}/1");
        text.parse().unwrap()
    }

    #[test]
    fn the_oldest_orders_without_a_lease_are_removed() {
        let mut orders = OrderTraces::default();
        for dseq in 1..=ORDERS_MAX + 2 {
            let trace = orders.get_or_create(&order(dseq, 1), None);
            if dseq == 1 {
                trace.lease = Some(SystemTime::now());
            }
        }
        assert!(orders.get(&order(1, 1)).is_some());
        assert!(orders.get(&order(2, 1)).is_none() && orders.get(&order(3, 1)).is_none());
        assert!(orders.get(&order(4, 1)).is_some());
        assert_eq!(
            (orders.traces.len(), orders.numbers.len()),
            (ORDERS_MAX, ORDERS_MAX)
        );
        assert!(orders.remove(&order(1, 1)).is_some());
        assert_eq!(orders.numbers.len(), ORDERS_MAX - 1);
    }

    #[test]
    fn leases_of_a_deployment_are_found() {
        let mut orders = OrderTraces::default();
        for (dseq, gseq) in [(6, 1), (7, 1), (7, 2), (7, 3), (8, 1)] {
            orders.get_or_create(&order(dseq, gseq), None).lease = Some(SystemTime::now());
        }
        orders.get(&order(7, 2)).unwrap().lease = None;
        let deployment = order(7, 1).deployment().clone();
        assert_eq!(orders.leases_of(&deployment), [order(7, 1), order(7, 3)]);
    }
}
