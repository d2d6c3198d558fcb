//! Queue of tenants that wait for capacity. A tenant that was declined for lack of capacity closes its deployment, and
//! orders again when another tenant has released its resources. Only a few tenants retry at a time.

use akash_provider_core::types::DeclineCode;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Decline codes that mean missing capacity. A new order may succeed after other tenants release resources.
const FOR_CAPACITY: [DeclineCode; 3] = [
    DeclineCode::InsufficientCapacity,
    DeclineCode::LeasedIpsExhausted,
    DeclineCode::ExternalPortsExhausted,
];
/// Number of waiting tenants that may retry when one tenant releases its resources.
const RELEASED: usize = 4;
/// Maximum number of unused permits. Each permit allows one retry.
const RELEASED_MAX: usize = 32;
/// Interval at which a waiting tenant checks whether resources are in use.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Queue of tenants that retry after other tenants release resources.
#[derive(Debug)]
pub struct CapacityQueue {
    free: Semaphore,
}

impl Default for CapacityQueue {
    fn default() -> Self {
        Self {
            free: Semaphore::new(0),
        }
    }
}

impl CapacityQueue {
    /// Returns true if the order was declined because of missing capacity. A later attempt can then succeed.
    #[must_use]
    pub fn is_for_capacity(reason: DeclineCode) -> bool {
        FOR_CAPACITY.contains(&reason)
    }

    /// Lets waiting tenants retry, because a tenant has released its resources.
    pub fn next(&self) {
        // The number of unused permits is limited, so that retries do not accumulate.
        if self.free.available_permits() < RELEASED_MAX {
            self.free.add_permits(RELEASED);
        }
    }

    /// Waits for a permit; the earliest call gets the first permit. Returns `false` if no resources were in
    /// use for the duration `limit`: no tenant can then release resources.
    pub async fn wait(&self, is_taken: impl Fn() -> bool, limit: Duration) -> bool {
        // One place in the queue for the whole wait. A new place for each check would never reach the front.
        let (turn, mut since) = (self.free.acquire(), Instant::now());
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                turn = &mut turn => {
                    if let Ok(turn) = turn {
                        // Not returned: each permit is for a single retry.
                        turn.forget();
                    }
                    return true;
                }
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
            }
            if is_taken() {
                since = Instant::now();
            } else if since.elapsed() >= limit {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn releases_a_few_waiting_tenants_after_an_end() {
        let queue = CapacityQueue::default();
        let (moment, taken) = (Duration::from_millis(200), || false);
        assert!(
            !queue.wait(taken, moment).await,
            "no tenant can release resources"
        );
        queue.next();
        for _ in 0..RELEASED {
            assert!(queue.wait(taken, Duration::ZERO).await);
        }
        assert!(!queue.wait(taken, moment).await);
        assert!(
            CapacityQueue::is_for_capacity(DeclineCode::InsufficientCapacity)
                && !CapacityQueue::is_for_capacity(DeclineCode::Gpu)
        );
    }
}
