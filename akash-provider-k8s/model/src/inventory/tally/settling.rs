//! Own use that an inventory operator may not have counted yet.

use std::time::Duration;
use tokio::time::Instant;

/// Time for which own pods and volumes that appeared are not subtracted from the use that an inventory operator
/// reports. Until the operator counts them, a subtraction would show resources of others as free.
pub(super) const SETTLE: Duration = Duration::from_secs(5);

/// Entries that expire after [`SETTLE`].
#[derive(Debug)]
pub(super) struct Settling<T>(Vec<(Option<Instant>, T)>);

impl<T> Default for Settling<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Settling<T> {
    /// Adds an entry. Its time starts with the next call of [`Settling::settle`].
    pub(super) fn push(&mut self, entry: T) {
        self.0.push((None, entry));
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, entry)| entry)
    }

    /// Removes expired entries, and lowers `next` to the time at which the first of the others expires. Returns
    /// true if an entry was removed.
    pub(super) fn settle(&mut self, now: Instant, next: &mut Option<Instant>) -> bool {
        let before = self.0.len();
        self.0
            .retain_mut(|(until, _)| *until.get_or_insert(now + SETTLE) > now);
        let first = self.0.iter().filter_map(|(until, _)| *until).min();
        *next = next.iter().copied().chain(first).min();
        self.0.len() < before
    }
}
