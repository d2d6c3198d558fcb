//! Times of orders: renewals, and delays after failures.

use super::check::Validity;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Delay after the first failure. With [`MAX_DELAY`], at most five orders fail in the first hour, as many as
/// Let's Encrypt permits.
const FIRST_DELAY: Duration = Duration::from_mins(2);
/// Maximum delay without a request of the server.
const MAX_DELAY: Duration = Duration::from_hours(1);
/// Maximum delay at the request of the server.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// Earliest time of the next order after a failure, since the Unix epoch in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Retry {
    not_before: u64,
}

impl Retry {
    pub(super) const fn at(time: Duration) -> Self {
        Self {
            not_before: time.as_secs(),
        }
    }
}

/// Returns the time of the next order, since the Unix epoch. A time in the past means now.
pub(super) fn due(current: Option<Validity>, retry: Option<Retry>, now: Duration) -> Duration {
    let renewal = current.map_or(Duration::ZERO, Validity::renewal);
    let retry = retry.map(|retry| Duration::from_secs(retry.not_before));
    // A later time is from a wrong clock.
    let retry = retry.filter(|at| *at <= now + MAX_RETRY_AFTER);
    renewal.max(retry.unwrap_or_default())
}

/// Returns the delay after a number of consecutive failures. `retry_after` is the wait that the server requested.
pub(super) fn delay(failures: u32, retry_after: Option<Duration>) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    let own = FIRST_DELAY.saturating_mul(doubled).min(MAX_DELAY);
    own.max(retry_after.unwrap_or_default().min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);
    const DAY: Duration = Duration::from_hours(24);

    #[test]
    fn certificate_is_renewed_after_two_thirds_of_its_lifetime() {
        let validity = Validity::new(NOW, NOW + 90 * DAY);
        assert_eq!(due(Some(validity), None, NOW), NOW + 60 * DAY);
        assert_eq!(due(None, None, NOW), Duration::ZERO);
    }

    #[test]
    fn failed_orders_are_delayed_longer_each_time_up_to_an_hour() {
        let minutes = [1, 2, 3, 4, 5, 6, 7, 40, u32::MAX].map(|n| delay(n, None).as_secs() / 60);
        assert_eq!(minutes, [2, 4, 8, 16, 32, 60, 60, 60, 60]);
    }

    #[test]
    fn server_can_request_a_longer_delay_of_at_most_a_day() {
        let hours = |n| Some(Duration::from_hours(n));
        assert_eq!(delay(1, hours(3)), Duration::from_hours(3));
        assert_eq!(delay(1, Some(Duration::ZERO)), FIRST_DELAY);
        assert_eq!(delay(9, Some(Duration::MAX)), DAY);
    }

    #[test]
    fn delay_of_a_previous_process_applies_unless_it_is_implausible() {
        let soon = Retry::at(NOW + FIRST_DELAY);
        assert_eq!(due(None, Some(soon), NOW), NOW + FIRST_DELAY);
        let wrong = Retry::at(NOW + 400 * DAY);
        assert_eq!(due(None, Some(wrong), NOW), Duration::ZERO);
    }
}
