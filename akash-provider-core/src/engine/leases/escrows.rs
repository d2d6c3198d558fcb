//! Connects the escrow state machines to the engine.

use super::escrow::{self, Escrow};
use super::new_lease::NewLease;
use crate::engine::table::Lane;
use crate::engine::{CallTarget, EffectId, Engine};
use crate::types::DeploymentId;
use std::sync::Arc;
use std::time::Duration;

/// Period over which the first balance checks after a restart are distributed, in seconds of block time.
const CHECK_SPREAD_S: u64 = 60;

impl Engine {
    pub(super) fn track_escrow(&mut self, new: &NewLease<'_>) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let due = escrow::payout_due(&cx, new.payment, new.settled_at, new.created);
        // Spread by deployment number, because the engine has no randomness.
        let spread = Duration::from_secs(new.id.deployment().dseq % CHECK_SPREAD_S);
        let check_at = if new.origin.is_none() {
            self.progress.block_time().plus(spread)
        } else {
            self.progress.block_time()
        };
        let id = new.id.deployment();
        if !self.leases.escrows.contains(id) {
            self.leases.escrows.insert(id, Escrow::new(id, check_at));
        }
        self.drive_escrow(
            id,
            escrow::EscrowInput::LeaseAdded {
                lease: new.id.clone(),
                due,
                check_at,
            },
        );
    }

    pub(in crate::engine) fn drive_escrow(&mut self, id: &DeploymentId, input: escrow::EscrowInput) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let Some(actions) = self.leases.escrows.drive(&cx, id, input) else {
            return;
        };
        for action in actions {
            match action {
                escrow::EscrowAction::Call(call) => {
                    let effect = self.call(CallTarget::Escrow(id.clone()), call);
                    self.leases.escrows.set_pending(id, Lane::Main, effect);
                }
                escrow::EscrowAction::Publish(event) => self.publish(event),
                escrow::EscrowAction::Unexpected => self.outbox.count_unexpected(),
            }
        }
    }

    /// Repeats the payouts that failed because the provider's account could not pay the fee.
    pub(in crate::engine) fn repeat_payouts(&mut self) {
        let ids = self.leases.escrow_ids().into_iter();
        let lacks_fee = |id: &DeploymentId| self.leases.escrows.get(id).is_some_and(Escrow::lacks_fee);
        for id in ids.filter(lacks_fee).collect::<Vec<_>>() {
            self.drive_escrow(&id, escrow::EscrowInput::FeeMoney);
        }
    }

    /// Processes the completion of an escrow call. Late completions are dropped.
    pub(in crate::engine) fn escrow_completed(
        &mut self,
        id: &DeploymentId,
        effect: EffectId,
        input: escrow::EscrowInput,
    ) {
        // A balance check does not appear in the status, but a failed payout does.
        self.changes += u64::from(matches!(input, escrow::EscrowInput::Tx(_)));
        if self.leases.escrows.clear_pending(id, Lane::Main, effect) {
            self.drive_escrow(id, input);
        }
    }
}
