//! Tenants who wait for room: one that was declined for want of it closes its deployment, and orders again when another
//! has given its room back. However many wait, only a few go at a time.

use akash_provider_core::types::DeclineCode;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Declines that pass when others give back what they have.
const FOR_ROOM: [DeclineCode; 3] = [
    DeclineCode::InsufficientCapacity,
    DeclineCode::LeasedIpsExhausted,
    DeclineCode::ExternalPortsExhausted,
];
/// How many go when one has ended: it may have had the room of several.
const GO: usize = 4;
/// How many may go at once: each is an order that the provider looks at.
const GO_MAX: usize = 32;
/// How often it is looked whether anybody is left to wait for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whose turn it is.
#[derive(Debug)]
pub struct Turns {
    free: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            free: Semaphore::new(0),
        }
    }
}

impl Turns {
    /// True of a decline that is worth waiting.
    #[must_use]
    pub fn is_for_room(reason: DeclineCode) -> bool {
        FOR_ROOM.contains(&reason)
    }

    /// A tenant has ended, and has no room any more.
    pub fn next(&self) {
        // Turns that nobody takes must not add up to a rush.
        if self.free.available_permits() < GO_MAX {
            self.free.add_permits(GO);
        }
    }

    /// Waits for a turn, first come first served; `false` when nothing is taken for this long, so that none will come.
    pub async fn wait(&self, is_taken: impl Fn() -> bool, limit: Duration) -> bool {
        // One place in the queue for the whole wait. A new one with each look would never come to its turn.
        let (turn, mut since) = (self.free.acquire(), Instant::now());
        tokio::pin!(turn);
        loop {
            tokio::select! {
                biased;
                turn = &mut turn => {
                    if let Ok(turn) = turn {
                        // Used up: given back, it would let one more go for each that went.
                        turn.forget();
                    }
                    return true;
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
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
    async fn an_end_lets_a_few_go_and_nobody_waits_for_nothing() {
        let turns = Turns::default();
        let (moment, taken) = (Duration::from_millis(200), || false);
        assert!(!turns.wait(taken, moment).await, "nobody is there who could end");
        turns.next();
        for _ in 0..GO {
            assert!(turns.wait(taken, Duration::ZERO).await);
        }
        assert!(!turns.wait(taken, moment).await);
        assert!(
            Turns::is_for_room(DeclineCode::InsufficientCapacity) && !Turns::is_for_room(DeclineCode::Gpu)
        );
    }
}
