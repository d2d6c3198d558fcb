//! How leases come: won by a bid, shown by a record, or there before.

use super::deployment::{self, Origin};
use super::workload::{Input, Workload};
use crate::engine::Engine;
use crate::types::{
    BlockTime, DeploymentRecord, Event, Height, Lease, LeaseId, LeaseRecord, Payment, Reclamation,
};
use std::sync::Arc;

/// What is known of a new lease.
#[derive(Debug)]
pub(in crate::engine) struct NewLease<'a> {
    pub(in crate::engine) id: &'a LeaseId,
    pub(in crate::engine) price: &'a crate::types::DecCoin,
    pub(in crate::engine) reclamation: Option<Reclamation>,
    pub(in crate::engine) created: BlockTime,
    pub(in crate::engine) payment: Option<&'a Payment>,
    pub(in crate::engine) settled_at: Option<Height>,
    /// How it came, where that is news; one that was there before us is adopted, and the cluster may have its manifest.
    pub(in crate::engine) news: Option<Origin>,
}

impl Engine {
    /// An event says that our bid won.
    pub(in crate::engine) fn lease_won(
        &mut self,
        id: &LeaseId,
        price: &crate::types::DecCoin,
        origin: Origin,
    ) {
        // The event has no terms. They are what a bid offers, until a record says them.
        let window = self.config.reclamation_window;
        let reclamation = window.map(|window| Reclamation {
            window,
            deadline: None,
            reason: None,
        });
        let created = self.progress.block_time();
        let new = NewLease {
            id,
            price,
            reclamation,
            created,
            payment: None,
            settled_at: None,
            news: Some(origin),
        };
        self.lease_new(&new);
        // Facts come before the `Block` that completes their block.
        self.leases.won.push((id.clone(), self.progress.height() + 1));
    }

    /// The block that leases were won in is complete: the time they have for a manifest starts with it.
    pub(in crate::engine) fn start_manifest_clocks(&mut self) {
        let Some(timeout) = self.config.manifest_timeout else {
            return self.leases.won.clear();
        };
        let deadline = Some(self.progress.block_time().plus(timeout));
        for (lease, height) in std::mem::take(&mut self.leases.won) {
            // One that is in doubt has its time too: its record may show that it lives.
            if self.workload(&lease).is_none() {
                continue;
            }
            if height > self.progress.height() {
                self.leases.won.push((lease, height));
            } else {
                self.tell_deployment(&lease, deadline, Origin::Won);
            }
        }
    }

    /// Leases of which the records were shown have their clocks from those.
    pub(in crate::engine) fn forget_clocks(&mut self, shown: &dyn Fn(&LeaseId) -> bool) {
        self.leases.won.retain(|(id, _)| !shown(id));
    }

    /// A record says that a lease is ours; nothing happens when it is known. It is news when its event is still to come,
    /// and adopted when it was there before us.
    pub(in crate::engine) fn lease_found(
        &mut self,
        record: &LeaseRecord,
        deployment: Option<&DeploymentRecord>,
        at: BlockTime,
        news: Option<Origin>,
    ) {
        let Lease {
            id,
            price,
            reclamation,
            ..
        } = &record.lease;
        let new = NewLease {
            id,
            price,
            reclamation: reclamation.clone(),
            created: at,
            payment: record.payment.as_ref(),
            settled_at: deployment.map(|d| d.escrow.settled_at),
            news,
        };
        self.lease_new(&new);
    }

    /// A manifest may come before the lease's own event.
    pub(super) fn lease_seen(&mut self, lease: &Lease, record: &DeploymentRecord) {
        if self.workload(&lease.id).is_some_and(|w| w.price().is_some()) {
            return;
        }
        let seen = LeaseRecord {
            lease: lease.clone(),
            payment: None,
        };
        let origin = self.order_won(&lease.id.order);
        // A snapshot from before may still show it open.
        self.market.spend(&lease.id.order);
        self.lease_found(&seen, Some(record), self.progress.block_time(), Some(origin));
        // Its own event may have been overtaken by a resync. Its block may be some blocks ahead of the stream.
        self.leases
            .won
            .push((lease.id.clone(), lease.created_at.max(self.progress.height() + 1)));
    }

    fn lease_new(&mut self, new: &NewLease<'_>) {
        let id = new.id;
        // Whichever of event and record comes second brings nothing new.
        if self.workload(id).is_some_and(|w| w.price().is_some()) {
            return;
        }
        if !self.reservations.contains(&id.order) {
            // Nothing is known of what it holds yet; a full scan brings the bid's offer.
            self.reservations.adopt_unread(&id.order);
            self.scan.soon();
        }
        self.reservations.mark_active(&id.order);
        self.changes += 1;
        let before = self.leases.workloads.remove(id);
        let machine = Workload::leased(id, new.price, new.reclamation.clone());
        self.leases.workloads.insert(id, machine);
        // It ran already, as a workload of which no lease was known.
        if let Some(deployment) = before.as_ref().and_then(Workload::deployment) {
            self.drive_workload(id, Input::Adopt(Arc::clone(deployment)));
        }
        let (lease, price) = (id.clone(), new.price.clone());
        self.publish(match new.news {
            None => Event::LeaseAdopted { lease, price },
            Some(_) => Event::LeaseWon { lease, price },
        });
        self.money_of(new);
        // Before the lease is told, because an input to no machine is lost.
        self.deployment_slot(id.deployment());
        let origin = new.news.unwrap_or(Origin::Found);
        if origin == Origin::Found && !self.has_manifest(id) {
            // A list under way may be older than the lease.
            self.scan.doubt_cluster();
        }
        self.tell_deployment(id, None, origin);
    }

    /// The record of a lease says when it began. It counts for one that was won here: of one that was found, only
    /// a look at the cluster says whether a manifest is missing.
    pub(in crate::engine) fn manifest_clock(&mut self, id: &LeaseId, began: BlockTime) {
        let deadline = self.config.manifest_timeout.map(|timeout| began.plus(timeout));
        self.tell_deployment(id, deadline, Origin::Found);
    }

    /// Makes a lease known to its deployment.
    pub(super) fn tell_deployment(&mut self, id: &LeaseId, deadline: Option<BlockTime>, origin: Origin) {
        let origin = if self.has_manifest(id) {
            Origin::Kept
        } else {
            origin
        };
        let added = deployment::Input::LeaseAdded {
            lease: id.clone(),
            deadline,
            origin,
        };
        self.drive_deployment(id.deployment(), added);
    }

    pub(in crate::engine) fn has_manifest(&self, id: &LeaseId) -> bool {
        self.workload(id).is_some_and(|w| w.deployment().is_some())
    }
}
