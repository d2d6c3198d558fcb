//! Remaining time until a deployment's escrow account is empty, in whole blocks, computed with exact decimal
//! arithmetic.

use crate::config::Config;
use crate::types::{Dec, DeploymentRecord, Height};
use std::time::Duration;

/// Returns the number of blocks after `height` until the escrow account is empty. The result is zero if the
/// account is empty now, and negative if it is overdrawn. Returns `None` if the total price per block is
/// zero.
///
/// All active and reclaiming leases of the deployment count, including those of other providers. Each price
/// is paid from the balance in its own denomination. A missing balance counts as zero.
#[must_use]
pub fn blocks_left(record: &DeploymentRecord, height: Height) -> Option<i128> {
    let mut shortest: Option<i128> = None;
    let live = || record.leases.iter().filter(|l| l.state.is_live());
    for (index, lease) in live().enumerate() {
        let denom = &lease.price.denom;
        // Each denomination is processed once.
        if live().take(index).any(|l| l.price.denom == *denom) {
            continue;
        }
        let rate = live()
            .filter(|l| l.price.denom == *denom)
            .try_fold(Dec::ZERO, |sum, l| sum.checked_add(l.price.amount))?;
        if rate.is_zero() || rate.is_negative() {
            continue;
        }
        // The record may be settled at a later height than the processed one.
        let since = i128::from(height.saturating_sub(record.escrow.settled_at));
        let balance = record.escrow.funds.get(denom).copied().unwrap_or(Dec::ZERO);
        let owed = rate.checked_mul_int(since);
        // On overflow of the amount due, nothing is left.
        let left = owed
            .and_then(|o| balance.checked_sub(o))
            .and_then(|r| r.div_floor_int(rate))
            .unwrap_or(0);
        shortest = Some(shortest.map_or(left, |s| s.min(left)));
    }
    shortest
}

/// Converts the result of [`blocks_left`] to `u64`: zero if negative, saturating at the maximum.
#[must_use]
pub fn whole_blocks(left: i128) -> u64 {
    u64::try_from(left.max(0)).unwrap_or(u64::MAX)
}

/// Returns the delay until the next balance check: the time until the account is empty, but at most the
/// configured interval. An interval below one block counts as one block.
#[must_use]
pub fn next_check(blocks_left: Option<u64>, config: &Config, block: Duration) -> Duration {
    let in_interval = config.balance_check_interval.as_millis() / block.as_millis().max(1);
    let in_interval = u64::try_from(in_interval).unwrap_or(u64::MAX).max(1);
    blocks_as_time(
        blocks_left.map_or(in_interval, |blocks| blocks.min(in_interval)),
        block,
    )
}

/// Converts a number of blocks to time, saturating at the maximum duration.
#[must_use]
pub fn blocks_as_time(blocks: u64, average_block_time: Duration) -> Duration {
    let millis = u64::try_from(average_block_time.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(millis.saturating_mul(blocks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Address, DecCoin, Deployment, DeploymentId, EscrowAccount, Lease, LeaseState};
    use std::collections::BTreeMap;

    fn config() -> Config {
        Config::new(Address::from_bytes(&[7; 20]).unwrap(), "funds")
    }

    fn lease(gseq: u32, denom: &str, price: &str, state: LeaseState, provider: u8) -> Lease {
        let owner = Address::from_bytes(&[1; 20]).unwrap();
        let group = DeploymentId::new(owner, 1).group(gseq);
        Lease {
            id: group.order(1).bid(Address::from_bytes(&[provider; 20]).unwrap()),
            state,
            price: DecCoin::new(&denom.into(), price.parse().unwrap()),
            created_at: 1,
            closed_on: 0,
            reason: None,
            reclamation: None,
        }
    }

    fn record(funds: &[(&str, &str)], settled_at: Height, leases: Vec<Lease>) -> DeploymentRecord {
        let funds: BTreeMap<_, _> = funds
            .iter()
            .map(|(d, a)| ((*d).into(), a.parse().unwrap()))
            .collect();
        let deployment = Deployment {
            id: DeploymentId::new(Address::from_bytes(&[1; 20]).unwrap(), 1),
            active: true,
            hash: [0; 32],
            created_at: 1,
            reclamation_min_window: None,
        };
        DeploymentRecord {
            deployment,
            groups: Vec::new(),
            escrow: EscrowAccount { funds, settled_at },
            leases,
        }
    }

    fn one(balance: &str, settled_at: Height, rate: &str) -> DeploymentRecord {
        let lease = lease(1, "uact", rate, LeaseState::Active, 7);
        record(&[("uact", balance)], settled_at, vec![lease])
    }

    fn seconds(blocks: Option<i128>, config: &Config) -> f64 {
        let block = config.average_block_time;
        next_check(blocks.map(whole_blocks), config, block).as_secs_f64()
    }

    #[test]
    fn matches_known_values_of_network() {
        let mut config = config();
        let full = blocks_left(&one("5000000", 900, "100"), 1000);
        assert_eq!((full, seconds(full, &config)), (Some(49_900), 598.0));
        let short = blocks_left(&one("5000", 990, "100"), 1000);
        assert_eq!((short, seconds(short, &config)), (Some(40), 260.0));
        let empty = blocks_left(&one("1000", 990, "100"), 1000);
        assert_eq!(empty, Some(0));
        config.balance_check_interval = Duration::from_secs(60);
        assert_eq!(seconds(full, &config), 58.5);
    }

    #[test]
    fn overdrawn_account_has_negative_blocks_left() {
        assert_eq!(blocks_left(&one("1000", 900, "100"), 1000), Some(-90));
        assert_eq!(blocks_left(&one("0", 1000, "100"), 1000), Some(0));
    }

    #[test]
    fn w24_balance_is_read_in_denomination_of_lease() {
        let uakt = lease(1, "uakt", "100", LeaseState::Active, 7);
        let paid = record(&[("uakt", "5000")], 1000, vec![uakt.clone()]);
        assert_eq!(blocks_left(&paid, 1000), Some(50));
        let unpaid = record(&[], 1000, vec![uakt.clone()]);
        assert_eq!(blocks_left(&unpaid, 1000), Some(0));
        let uact = lease(2, "uact", "1", LeaseState::Active, 7);
        let both = record(&[("uakt", "5000"), ("uact", "20")], 1000, vec![uakt, uact]);
        assert_eq!(
            blocks_left(&both, 1000),
            Some(20),
            "the denomination that runs out first counts"
        );
    }

    #[test]
    fn w45_counts_active_and_reclaiming_leases_of_all_providers() {
        let leases = vec![
            lease(1, "uact", "10", LeaseState::Active, 7),
            lease(2, "uact", "10", LeaseState::Reclaiming, 7),
            lease(3, "uact", "30", LeaseState::Active, 8),
            lease(4, "uact", "1000", LeaseState::Closed, 7),
        ];
        assert_eq!(
            blocks_left(&record(&[("uact", "5000")], 1000, leases), 1000),
            Some(100)
        );
    }

    #[test]
    fn w45_rate_of_zero_never_runs_out() {
        let closed = lease(1, "uact", "100", LeaseState::Closed, 7);
        let free = lease(2, "uact", "0", LeaseState::Active, 7);
        for leases in [vec![], vec![closed], vec![free]] {
            let left = blocks_left(&record(&[("uact", "0")], 1, leases), 1_000_000);
            assert_eq!((left, seconds(left, &config())), (None, 598.0));
        }
    }

    #[test]
    fn block_count_saturates() {
        let left = blocks_left(&one("100000000000000000000", 1, "0.000000000000000001"), 1);
        assert!(left > Some(i128::from(u64::MAX)), "{left:?}");
        assert_eq!(left.map(whole_blocks), Some(u64::MAX));
        assert_eq!(
            (whole_blocks(-1), whole_blocks(i128::MIN), whole_blocks(7)),
            (0, 0, 7)
        );
    }

    #[test]
    fn check_waits_at_least_one_block() {
        let hour = Duration::from_secs(3600);
        assert_eq!(next_check(Some(5), &config(), hour), hour);
        assert_eq!(next_check(None, &config(), hour), hour);
    }

    #[test]
    fn fractions_are_exact_and_huge_amounts_do_not_panic() {
        assert_eq!(
            blocks_left(&one("1", 1, "0.000000000000000003"), 1),
            Some(333_333_333_333_333_333)
        );
        let rate = "100000000000000000000";
        assert_eq!(blocks_left(&one("1", 1, rate), Height::MAX), Some(0));
        assert_eq!(
            blocks_as_time(u64::MAX, Duration::MAX),
            Duration::from_millis(u64::MAX)
        );
    }
}
