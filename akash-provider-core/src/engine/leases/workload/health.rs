//! Health as a clock that counts known unhealthy time only.

use crate::cluster::Health;
use crate::types::Mono;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Known health since when, and the known unhealthy time before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(crate) struct HealthClock {
    health: Health,
    since: Mono,
    bad_before: Duration,
}

impl HealthClock {
    /// What is known now.
    #[must_use]
    pub(crate) const fn health(&self) -> Health {
        self.health
    }

    /// Takes a new reading; true when it differs from the one before.
    pub(crate) fn see(&mut self, now: Mono, health: Health) -> bool {
        if self.health == health {
            return false;
        }
        // Only known good health forgives; while nothing is known, what was counted stays.
        self.bad_before = match health {
            Health::Good => Duration::ZERO,
            Health::Bad | Health::Unknown | Health::Out(_) => self.known_bad(now),
        };
        self.health = health;
        self.since = now;
        true
    }

    /// What is looked at is another from now on: the time before does not count.
    pub(crate) fn restart(&mut self, now: Mono) {
        self.bad_before = Duration::ZERO;
        self.since = now;
    }

    /// Known unhealthy time since it was last known to be good.
    #[must_use]
    pub(crate) fn known_bad(&self, now: Mono) -> Duration {
        if self.health.is_counted() {
            return self.bad_before.saturating_add(now.since(self.since));
        }
        self.bad_before
    }

    /// When the known unhealthy time reaches `limit` if nothing changes.
    #[must_use]
    pub(crate) fn deadline(&self, limit: Duration) -> Option<Mono> {
        let rest = limit.saturating_sub(self.bad_before);
        self.health.is_counted().then(|| self.since.plus(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w35_unknown_time_does_not_count_as_unhealthy() {
        let mut clock = HealthClock::default();
        let s = |n: u64| Mono(n * 1000);
        assert!(clock.see(s(10), Health::Bad));
        assert!(!clock.see(s(12), Health::Bad));
        assert!(clock.see(s(15), Health::Unknown));
        assert_eq!(clock.known_bad(s(100)), Duration::from_secs(5));
        assert_eq!(clock.deadline(Duration::from_secs(8)), None);
        assert!(clock.see(s(100), Health::Bad));
        assert_eq!(clock.deadline(Duration::from_secs(8)), Some(s(103)));
        assert!(clock.see(s(102), Health::Good));
        assert_eq!(clock.known_bad(s(200)), Duration::ZERO);
    }
}
