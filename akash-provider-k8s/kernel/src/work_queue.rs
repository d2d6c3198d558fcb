//! Work queue of a reconciler. A key names the objects that are compared and written together: a lease, a hostname, a
//! Service or a node. The queue is pure; the time is an argument.
//!
//! ```text
//! push ─► ready ─► running ─ finish ─► removed
//!           ▲
//!           └── remind: at its time
//! ```

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::time::Instant;

/// Queue of the keys with pending work, and of the times at which keys are queued again.
///
/// A key is in the queue once, and never runs twice at the same time.
#[derive(Debug)]
pub struct WorkQueue<K> {
    order: VecDeque<K>,
    ready: BTreeSet<K>,
    running: BTreeSet<K>,
    due_by_key: BTreeMap<K, Instant>,
    dues: BTreeSet<(Instant, K)>,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            ready: BTreeSet::new(),
            running: BTreeSet::new(),
            due_by_key: BTreeMap::new(),
            dues: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone> WorkQueue<K> {
    /// Queues a key. A key that is running waits for the end of that run.
    pub fn push(&mut self, key: K) {
        if self.ready.insert(key.clone()) {
            self.order.push_back(key);
        }
    }

    /// Queues a key at the time `at`, or at an earlier time that was set since the key last ran.
    pub fn remind(&mut self, key: K, at: Instant) {
        let earlier = self.due_by_key.get(&key).copied().filter(|due| *due <= at);
        if earlier.is_none() {
            self.cancel(&key);
            self.due_by_key.insert(key.clone(), at);
            self.dues.insert((at, key));
        }
    }

    /// Returns the next key. The key is running until [`WorkQueue::finish`]. Its reminder is removed.
    pub fn next(&mut self, now: Instant) -> Option<K> {
        while self.dues.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, key)) = self.dues.pop_first() {
                self.due_by_key.remove(&key);
                self.push(key);
            }
        }
        // Each key is taken once at most, so the loop ends if all keys are running.
        for _ in 0..self.order.len() {
            let key = self.order.pop_front()?;
            if self.running.contains(&key) {
                self.order.push_back(key);
                continue;
            }
            self.ready.remove(&key);
            self.cancel(&key);
            self.running.insert(key.clone());
            return Some(key);
        }
        None
    }

    /// Ends the run of a key.
    pub fn finish<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.running.remove(key);
    }

    /// Queues all running keys again. Called after the worker has stopped.
    pub fn restart(&mut self) {
        for key in std::mem::take(&mut self.running) {
            self.push(key);
        }
    }

    /// Removes the reminder of each key for which `is_there` returns false.
    pub fn retain_reminders(&mut self, is_there: impl Fn(&K) -> bool) {
        self.due_by_key.retain(|key, _| is_there(key));
        self.dues.retain(|(_, key)| is_there(key));
    }

    /// Returns the earliest time of a reminder.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.dues.first().map(|(due, _)| *due)
    }

    /// Returns the number of keys with a reminder.
    #[must_use]
    pub fn reminders(&self) -> usize {
        self.dues.len()
    }

    /// Returns the number of queued keys.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Returns the number of running keys.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns true for a queued or running key.
    #[must_use]
    pub fn is_busy<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.ready.contains(key) || self.running.contains(key)
    }

    fn cancel(&mut self, key: &K) {
        if let Some(due) = self.due_by_key.remove(key) {
            self.dues.remove(&(due, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn key_that_changes_while_it_runs_is_queued_once_more() {
        let (mut queue, now) = (WorkQueue::default(), Instant::now());
        queue.push("a");
        queue.push("b");
        assert_eq!(queue.next(now), Some("a"));
        queue.push("a");
        queue.push("a");
        assert_eq!(queue.next(now), Some("b"), "a running key does not delay others");
        assert_eq!(queue.next(now), None, "a key never runs twice at once");
        queue.finish(&"a");
        assert_eq!(queue.next(now), Some("a"));
        assert_eq!((queue.ready(), queue.running()), (0, 2));
    }

    #[test]
    fn earlier_reminder_wins_until_the_key_runs() {
        let (mut queue, now) = (WorkQueue::default(), Instant::now());
        let second = Duration::from_secs(1);
        queue.remind("a", now + 2 * second);
        queue.remind("a", now + second);
        queue.remind("a", now + 3 * second);
        assert_eq!((queue.due(), queue.reminders()), (Some(now + second), 1));
        assert_eq!(queue.next(now), None);
        assert_eq!(queue.next(now + second), Some("a"));
        queue.remind("a", now + 3 * second);
        assert_eq!(
            queue.due(),
            Some(now + 3 * second),
            "a run removes the old reminder"
        );
        queue.push("a");
        queue.finish(&"a");
        assert_eq!(queue.next(now + second), Some("a"));
        assert_eq!(queue.due(), None);
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Push(u8),
        Remind(u8, u64),
        Next,
        Finish(u8),
        Restart,
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..4u8).prop_map(Step::Push),
            (0..4u8, 0..5u64).prop_map(|(key, after)| Step::Remind(key, after)),
            Just(Step::Next),
            (0..4u8).prop_map(Step::Finish),
            Just(Step::Restart),
            (0..5u64).prop_map(Step::Pass),
        ]
    }

    proptest! {
        /// A key that was queued or reminded since its last start runs again, whatever happens in between.
        #[test]
        fn no_queued_key_is_lost(steps in prop::collection::vec(step(), 1..60)) {
            let (mut queue, mut now) = (WorkQueue::default(), Instant::now());
            let (mut wanted, mut running) = (BTreeSet::new(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Push(key) => {
                        queue.push(key);
                        wanted.insert(key);
                    }
                    Step::Remind(key, after) => {
                        queue.remind(key, now + Duration::from_secs(after));
                        wanted.insert(key);
                    }
                    Step::Next => if let Some(key) = queue.next(now) {
                        prop_assert!(wanted.remove(&key));
                        prop_assert!(running.insert(key), "the key runs twice at once");
                    },
                    Step::Finish(key) => {
                        queue.finish(&key);
                        running.remove(&key);
                    }
                    Step::Restart => {
                        queue.restart();
                        wanted.append(&mut running);
                    }
                    Step::Pass(seconds) => now += Duration::from_secs(seconds),
                }
            }
            running.iter().for_each(|key| queue.finish(key));
            let rest: BTreeSet<u8> = std::iter::from_fn(|| queue.next(now + Duration::from_secs(9))).collect();
            prop_assert_eq!(rest, wanted);
        }
    }
}
