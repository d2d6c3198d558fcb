//! Functions that add a lease: after a won bid, from a record on the chain, or from before the start of the engine.

use super::deployment::{self, Origin};
use super::workload::{Workload, WorkloadInput};
use crate::engine::Engine;
use crate::engine::counts::ScanReason;
use crate::types::{
    BlockTime, DeploymentRecord, Event, Height, Lease, LeaseId, LeaseRecord, Payment, Reclamation,
};
use std::sync::Arc;

#[derive(Debug)]
pub(in crate::engine) struct NewLease<'a> {
    pub(in crate::engine) id: &'a LeaseId,
    pub(in crate::engine) price: &'a crate::types::DecCoin,
    pub(in crate::engine) reclamation: Option<Reclamation>,
    pub(in crate::engine) created: BlockTime,
    pub(in crate::engine) payment: Option<&'a Payment>,
    pub(in crate::engine) settled_at: Option<Height>,
    /// Origin of a lease that was won after the start of this engine. `None` for an older lease, which is handled as
    /// [`Origin::Found`].
    pub(in crate::engine) origin: Option<Origin>,
}

impl Engine {
    pub(in crate::engine) fn lease_won(
        &mut self,
        id: &LeaseId,
        price: &crate::types::DecCoin,
        origin: Origin,
    ) {
        // The event does not contain the reclamation terms. The bid's terms apply until the record is read.
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
            origin: Some(origin),
        };
        self.add_lease(&new);
        // Events of a block precede its `Block` event, so the lease belongs to the next height.
        self.leases.won.push((id.clone(), self.progress.height() + 1));
    }

    /// Starts the manifest timeout of all leases that were created in the completed block.
    pub(in crate::engine) fn start_manifest_clocks(&mut self) {
        let Some(timeout) = self.config.manifest_timeout else {
            return self.leases.won.clear();
        };
        let deadline = Some(self.progress.block_time().plus(timeout));
        for (lease, height) in std::mem::take(&mut self.leases.won) {
            // A lease in doubt also gets a timeout, because its record may show that it is active.
            if self.workload(&lease).is_none() {
                continue;
            }
            if height > self.progress.height() {
                self.leases.won.push((lease, height));
            } else {
                self.notify_deployment(&lease, deadline, Origin::Won);
            }
        }
    }

    /// Removes a lease from `won` if a snapshot contains the lease. The manifest timeout of such a lease
    /// starts at the creation time in the snapshot.
    pub(in crate::engine) fn drop_manifest_clocks(&mut self, is_recorded: &dyn Fn(&LeaseId) -> bool) {
        self.leases.won.retain(|(id, _)| !is_recorded(id));
    }

    /// Adds a lease from a record of the chain. `origin` is `None` if the lease was created before this
    /// engine started.
    pub(in crate::engine) fn add_recorded_lease(
        &mut self,
        record: &LeaseRecord,
        deployment: Option<&DeploymentRecord>,
        at: BlockTime,
        origin: Option<Origin>,
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
            origin,
        };
        self.add_lease(&new);
    }

    /// Adds a lease from the deployment record, which the engine reads after a manifest was submitted. The
    /// record can arrive before the `LeaseCreated` event.
    pub(super) fn add_lease_of_manifest(&mut self, lease: &Lease, record: &DeploymentRecord) {
        if self.workload(&lease.id).is_some_and(|w| w.price().is_some()) {
            return;
        }
        let seen = LeaseRecord {
            lease: lease.clone(),
            payment: None,
        };
        let origin = self.order_won(&lease.id.order);
        // An older snapshot may still show the order as open.
        self.market.mark_bid_used(&lease.id.order);
        self.add_recorded_lease(&seen, Some(record), self.progress.block_time(), Some(origin));
        // A resync may have replaced the event, and the block of the lease may be ahead of the stream.
        self.leases
            .won
            .push((lease.id.clone(), lease.created_at.max(self.progress.height() + 1)));
    }

    fn add_lease(&mut self, new: &NewLease<'_>) {
        let id = new.id;
        // The lease is already known from its event or its record.
        if self.workload(id).is_some_and(|w| w.price().is_some()) {
            return;
        }
        if !self.reservations.contains(&id.order) {
            // The reserved resources are unknown until a full scan reads the offer of the bid.
            self.reservations.adopt_unread(&id.order);
            self.scan.schedule_now(ScanReason::UnknownOffer);
        }
        self.reservations.mark_active(&id.order);
        self.changes += 1;
        let before = self.leases.workloads.remove(id);
        let machine = Workload::for_lease(id, new.price, new.reclamation.clone());
        self.leases.workloads.insert(id, machine);
        self.scan.record_change(id);
        // The workload existed already, without a known lease.
        if let Some(deployment) = before.as_ref().and_then(Workload::deployment) {
            self.drive_workload(id, WorkloadInput::Adopt(Arc::clone(deployment)));
        }
        let (lease, price) = (id.clone(), new.price.clone());
        self.publish(match new.origin {
            None => Event::LeaseAdopted { lease, price },
            Some(_) => Event::LeaseWon { lease, price },
        });
        self.track_escrow(new);
        // The deployment machine must exist before it is notified, because inputs without a machine are dropped.
        self.ensure_deployment(id.deployment());
        let origin = new.origin.unwrap_or(Origin::Found);
        if origin == Origin::Found && !self.has_manifest(id) {
            // A workload listing in progress may be older than the lease.
            self.scan.request_listing(ScanReason::UnknownWorkload);
        }
        self.notify_deployment(id, None, origin);
    }

    /// Sets the manifest deadline of a lease from its recorded creation time. The deadline applies only if
    /// this instance won the lease.
    pub(in crate::engine) fn set_manifest_deadline(&mut self, id: &LeaseId, began: BlockTime) {
        let deadline = self.config.manifest_timeout.map(|timeout| began.plus(timeout));
        self.notify_deployment(id, deadline, Origin::Found);
    }

    pub(super) fn notify_deployment(&mut self, id: &LeaseId, deadline: Option<BlockTime>, origin: Origin) {
        let origin = if self.has_manifest(id) {
            Origin::Recorded
        } else {
            origin
        };
        let added = deployment::DeploymentInput::LeaseAdded {
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
