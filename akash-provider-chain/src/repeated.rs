//! Rate limit for repeated warnings.

use std::time::Duration;
use tokio::time::Instant;

/// If the warning does not occur for this time, its count is reset.
const APART: Duration = Duration::from_mins(5);

/// Counter of one warning. The occurrences 1, 2, 4, 8 and so on are logged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Repeated {
    count: u32,
    last: Option<Instant>,
}

impl Repeated {
    /// Counts an occurrence of the warning. Returns true if this occurrence should be logged.
    pub(crate) fn is_logged(&mut self, now: Instant) -> bool {
        if self.last.is_none_or(|last| now.duration_since(last) >= APART) {
            self.count = 0;
        }
        self.last = Some(now);
        self.count = self.count.saturating_add(1);
        self.count.is_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_an_outage_a_few_times_and_the_next_outage_again() {
        let (start, mut repeated) = (Instant::now(), Repeated::default());
        let mut logged = |from: u64, seconds: u64| {
            let moments = (from..from + seconds).map(|second| start + Duration::from_secs(second));
            moments.filter(|now| repeated.is_logged(*now)).count()
        };
        assert_eq!(logged(0, 60), 6);
        assert_eq!(logged(1_000, 1), 1);
        assert_eq!(logged(1_001, 3_600), 11);
    }
}
