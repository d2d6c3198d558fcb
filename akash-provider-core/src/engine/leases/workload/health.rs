//! Measures the time during which a workload has the health `bad`.

use crate::cluster::Health;
use crate::types::Mono;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Last observed health, and the total unhealthy time before this observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(crate) struct HealthClock {
    health: Health,
    since: Mono,
    bad_before: Duration,
}

impl HealthClock {
    pub(crate) const fn health(&self) -> Health {
        self.health
    }

    /// Records an observed health. Returns true if the health changed.
    pub(crate) fn record(&mut self, now: Mono, health: Health) -> bool {
        if self.health == health {
            return false;
        }
        // Only good health resets the counted time. Unknown health preserves it.
        self.bad_before = match health {
            Health::Good => Duration::ZERO,
            Health::Bad | Health::Unknown | Health::Out(_) => self.unhealthy_time(now),
        };
        self.health = health;
        self.since = now;
        true
    }

    pub(crate) fn restart(&mut self, now: Mono) {
        self.bad_before = Duration::ZERO;
        self.since = now;
    }

    /// Returns the unhealthy time since the health was last `good` or a new version was deployed.
    pub(crate) fn unhealthy_time(&self, now: Mono) -> Duration {
        if self.health.is_counted() {
            return self.bad_before.saturating_add(now.since(self.since));
        }
        self.bad_before
    }

    /// Returns when the unhealthy duration reaches `limit`, if the health does not change. Returns `None`
    /// while the unhealthy duration is not counted.
    pub(crate) fn deadline(&self, limit: Duration) -> Option<Mono> {
        let rest = limit.saturating_sub(self.bad_before);
        self.health.is_counted().then(|| self.since.plus(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w35_unknown_health_does_not_count_as_unhealthy() {
        let mut clock = HealthClock::default();
        let s = |n: u64| Mono(n * 1000);
        assert!(clock.record(s(10), Health::Bad));
        assert!(!clock.record(s(12), Health::Bad));
        assert!(clock.record(s(15), Health::Unknown));
        assert_eq!(clock.unhealthy_time(s(100)), Duration::from_secs(5));
        assert_eq!(clock.deadline(Duration::from_secs(8)), None);
        assert!(clock.record(s(100), Health::Bad));
        assert_eq!(clock.deadline(Duration::from_secs(8)), Some(s(103)));
        assert!(clock.record(s(102), Health::Good));
        assert_eq!(clock.unhealthy_time(s(200)), Duration::ZERO);
    }
}
