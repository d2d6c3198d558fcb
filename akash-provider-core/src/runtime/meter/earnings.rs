//! Earnings of each lease since its creation: the record on the chain, plus the price of each later block.

use crate::engine::machines::escrow::funds;
use crate::provider::statistics::LeaseEarnings;
use crate::types::{Dec, DecCoin, DeploymentId, DeploymentRecord, Height, LeaseId, LeaseRecord, Snapshot};
use rustc_hash::FxHashMap;

/// Earnings of a lease up to the height `since`, and the price per block after this height.
#[derive(Debug)]
struct EarningsRecord {
    price: DecCoin,
    earned: Dec,
    /// Withdrawn part of `earned`; `None` if the chain returned no earnings.
    withdrawn: Option<Dec>,
    since: Height,
    /// Height after which the escrow account pays nothing; `None` if no such height is known.
    paid_until: Option<Height>,
    /// True if the engine manages the lease. A snapshot can also contain closed leases.
    is_managed: bool,
}

impl EarningsRecord {
    /// Creates the account of a lease from its records. If the payment or the deployment is missing, the
    /// earnings are counted from the creation of the lease.
    fn from_record(record: &LeaseRecord, deployment: Option<&DeploymentRecord>) -> Self {
        let lease = &record.lease;
        let recorded = record.payment.as_ref().zip(deployment).and_then(|(payment, d)| {
            let withdrawn = Dec::from_int(i64::try_from(payment.withdrawn.amount).ok()?);
            let earned = withdrawn.checked_add(payment.balance.amount)?;
            Some((earned, Some(withdrawn), d.escrow.settled_at))
        });
        let (earned, withdrawn, since) = recorded.unwrap_or((Dec::ZERO, None, lease.created_at));
        Self {
            price: lease.price.clone(),
            earned,
            withdrawn,
            since,
            paid_until: deployment.and_then(paid_until),
            is_managed: false,
        }
    }

    fn earned_at(&self, height: Height) -> Option<Dec> {
        let end = self.paid_until.map_or(height, |until| until.min(height));
        let later = self.price.for_blocks(end.saturating_sub(self.since))?;
        self.earned.checked_add(later)
    }

    /// Adds the earnings up to `height`. At this height, the chain transfers the earnings in whole base
    /// units.
    fn pay(&mut self, height: Height) {
        self.earned = self.earned_at(height).unwrap_or(self.earned);
        self.since = self.since.max(height);
        self.withdrawn = self.withdrawn.and_then(|_| whole(self.earned));
    }
}

/// Earnings of the leases, by lease.
#[derive(Debug, Default)]
pub(super) struct Earnings(FxHashMap<LeaseId, EarningsRecord>);

impl Earnings {
    /// Reads the accounts of all leases from a snapshot. An account that was settled after the snapshot stays
    /// unchanged.
    pub(super) fn read(&mut self, snapshot: &Snapshot) {
        let deployments: FxHashMap<&DeploymentId, &DeploymentRecord> = snapshot
            .deployments
            .iter()
            .map(|d| (&d.deployment.id, d))
            .collect();
        let mut before = std::mem::take(&mut self.0);
        for record in &snapshot.leases {
            let id = &record.lease.id;
            let known = before.remove(id);
            let is_managed = known.as_ref().is_some_and(|known| known.is_managed);
            let account = known.filter(|known| known.since > snapshot.height);
            let account = account.unwrap_or_else(|| EarningsRecord {
                is_managed,
                ..EarningsRecord::from_record(record, deployments.get(id.deployment()).copied())
            });
            self.0.insert(id.clone(), account);
        }
        self.0
            .extend(before.into_iter().filter(|(_, account)| account.is_managed));
    }

    /// Updates the height until which the escrow account can pay each lease of the deployment.
    pub(super) fn limit(&mut self, record: &DeploymentRecord) {
        let until = paid_until(record);
        for lease in record.leases.iter().filter(|lease| lease.state.is_live()) {
            if let Some(account) = self.0.get_mut(&lease.id) {
                account.paid_until = until;
            }
        }
    }

    /// Adds a lease that was created at `height`. If a snapshot contained the lease, its earnings remain
    /// unchanged.
    pub(super) fn lease_won(&mut self, lease: &LeaseId, price: &DecCoin, height: Height) {
        self.0.entry(lease.clone()).or_insert_with(|| EarningsRecord {
            price: price.clone(),
            earned: Dec::ZERO,
            withdrawn: Some(Dec::ZERO),
            since: height,
            paid_until: None,
            is_managed: false,
        });
        self.lease_adopted(lease);
    }

    pub(super) fn lease_adopted(&mut self, lease: &LeaseId) {
        if let Some(account) = self.0.get_mut(lease) {
            account.is_managed = true;
        }
    }

    pub(super) fn withdrawn(&mut self, lease: &LeaseId, height: Height) {
        if let Some(account) = self.0.get_mut(lease) {
            account.pay(height);
        }
    }

    /// Ends the earnings of a lease.
    pub(super) fn lease_closed(&mut self, lease: &LeaseId, height: Height) {
        if let Some(account) = self.0.get_mut(lease) {
            account.pay(height);
            account.paid_until = Some(account.since);
        }
    }

    pub(super) fn lease_removed(&mut self, lease: &LeaseId) {
        self.0.remove(lease);
    }

    pub(super) fn of(&self, lease: &LeaseId, height: Height) -> Option<LeaseEarnings> {
        let account = self.0.get(lease)?;
        Some(LeaseEarnings {
            accrued: account.earned_at(height)?,
            withdrawn: account.withdrawn,
        })
    }
}

fn paid_until(record: &DeploymentRecord) -> Option<Height> {
    let settled_at = record.escrow.settled_at;
    let blocks = funds::whole_blocks(funds::blocks_left(record, settled_at)?);
    Some(settled_at.saturating_add(blocks))
}

/// Returns the whole base units of an amount.
fn whole(amount: Dec) -> Option<Dec> {
    let one = Dec::from_int(1);
    one.checked_mul_int(amount.div_floor_int(one)?)
}

#[cfg(test)]
mod tests {
    use super::super::Meter;
    use super::*;
    use crate::engine::{Call, Completion, Effect, EffectId, Input};
    use crate::runtime::fakes::{self, lease};
    use crate::types::{
        BlockTime, ChainEvent, Coin, Deployment, EscrowAccount, Event, Lease, LeaseState, Payment,
    };
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::Instant;

    fn price() -> DecCoin {
        DecCoin::new(&"uact".into(), "2".parse().unwrap())
    }

    fn deployment(settled_at: Height, funds: &str) -> DeploymentRecord {
        let id = lease(1).deployment().clone();
        DeploymentRecord {
            deployment: Deployment {
                id,
                active: true,
                hash: [0; 32],
                created_at: 1,
                reclamation_min_window: None,
            },
            groups: Vec::new(),
            escrow: EscrowAccount {
                funds: [("uact".into(), funds.parse().unwrap())].into(),
                settled_at,
            },
            leases: vec![Lease {
                id: lease(1),
                state: LeaseState::Active,
                price: price(),
                created_at: 5,
                closed_on: 0,
                reason: None,
                reclamation: None,
            }],
        }
    }

    /// Returns a snapshot at `height`. The deployment was settled at height 12, with funds for 4 further
    /// blocks.
    fn snapshot(height: Height, payment: Option<(u128, &str)>) -> Snapshot {
        let deployment = deployment(12, "8.5");
        let payment = payment.map(|(withdrawn, balance)| Payment {
            rate: price(),
            balance: DecCoin::new(&"uact".into(), balance.parse().unwrap()),
            withdrawn: Coin::new("uact", withdrawn),
        });
        Snapshot {
            height,
            leases: vec![LeaseRecord {
                lease: deployment.leases[0].clone(),
                payment,
            }],
            deployments: vec![deployment],
            ..fakes::snapshot(0)
        }
    }

    fn of(earnings: &Earnings, height: Height) -> (String, Option<String>) {
        let earnings = earnings.of(&lease(1), height).unwrap();
        (earnings.accrued.to_plain(), earnings.withdrawn.map(Dec::to_plain))
    }

    fn pair(accrued: &str, withdrawn: &str) -> (String, Option<String>) {
        (accrued.to_owned(), Some(withdrawn.to_owned()))
    }

    #[tokio::test]
    async fn lease_earns_since_its_creation_until_the_escrow_account_is_empty() {
        let meter = Meter::default();
        let known = || {
            let earnings = meter.earnings(&lease(1)).unwrap();
            (earnings.accrued.to_plain(), earnings.withdrawn.map(Dec::to_plain))
        };
        let recorded = Arc::new(snapshot(13, Some((10, "3.5"))));
        meter.input(&Input::Chain(ChainEvent::Resync(recorded)));
        assert_eq!(known(), pair("15.5", "10"));
        let (height, time) = (20, BlockTime(0));
        meter.input(&Input::Chain(ChainEvent::Block { height, time }));
        // 8.5 uact pay 4 blocks after height 12.
        assert_eq!(known(), pair("21.5", "10"));
        let record = deployment(20, "100");
        let fetch = Call::FetchDeployment(record.deployment.id.clone());
        meter.completed(&fetch, &Completion::Deployment(Ok(Some(record))), Duration::ZERO);
        assert_eq!(known(), pair("29.5", "10"), "the tenant added funds");
        let paid = Event::Withdrawn { lease: lease(1) };
        meter.effects(&[Effect::Publish(Arc::new(paid))], false, Instant::now());
        assert_eq!(known(), pair("29.5", "29"));
        let unpaid = Completion::Snapshot(Ok(Arc::new(snapshot(20, None))));
        meter.input(&Input::Completed(EffectId(1), unpaid));
        // 11 blocks between the creation and height 16.
        assert_eq!(known(), ("22".to_owned(), None));
        assert!(meter.earnings(&lease(2)).is_none());
    }

    #[test]
    fn withdrawal_and_close_pay_whole_units_and_a_late_snapshot_changes_nothing() {
        let mut earnings = Earnings::default();
        earnings.lease_won(&lease(1), &price(), 5);
        assert_eq!(of(&earnings, 8), pair("6", "0"));
        earnings.read(&snapshot(13, Some((10, "3.5"))));
        earnings.withdrawn(&lease(1), 14);
        assert_eq!(of(&earnings, 15), pair("19.5", "17"));
        earnings.lease_closed(&lease(1), 15);
        let closed = pair("19.5", "19");
        assert_eq!(of(&earnings, 30), closed);
        earnings.read(&snapshot(14, Some((10, "3.5"))));
        assert_eq!(of(&earnings, 30), closed);
        let empty = fakes::snapshot(0);
        earnings.read(&empty);
        assert_eq!(of(&earnings, 30), closed, "the workload is not removed yet");
        earnings.lease_removed(&lease(1));
        earnings.read(&snapshot(14, None));
        earnings.read(&empty);
        assert!(earnings.0.is_empty(), "the engine does not manage the lease");
    }
}
