//! Who may write of its own accord: the provider that leads. What the ports are asked for carries an epoch; what a
//! backend does unasked is done only while its provider leads.

use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;

/// Whether the provider leads, as whoever knows says. A clone is the same one.
#[derive(Debug, Clone)]
pub struct LeadershipGate(Arc<watch::Sender<bool>>);

impl LeadershipGate {
    /// With what is known at first.
    #[must_use]
    pub fn new(leads: bool) -> Self {
        Self(Arc::new(watch::Sender::new(leads)))
    }

    /// It leads from here on, or no longer.
    pub fn set(&self, leads: bool) {
        self.0
            .send_if_modified(|now| std::mem::replace(now, leads) != leads);
    }

    /// Waits until it leads.
    pub(crate) async fn begins(&self) {
        self.is(true).await;
    }

    /// Does a work while it leads; `None` when it is deposed before the end, and nothing more is done then.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.is(false) => None,
            done = work => Some(done),
        }
    }

    async fn is(&self, wanted: bool) {
        // The other end is in our hands, so it does not go away.
        let _ = self.0.subscribe().wait_for(|leads| *leads == wanted).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;
    use tokio::time::{sleep, timeout};

    #[tokio::test(start_paused = true)]
    async fn a_standby_begins_nothing_and_a_deposed_leader_does_no_more() {
        let (leading, steps) = (LeadershipGate::new(false), AtomicU32::new(0));
        let work = || async {
            loop {
                steps.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(1)).await;
            }
        };
        let begun = timeout(Duration::from_secs(60), leading.begins()).await;
        assert!(begun.is_err(), "a standby waits");
        assert_eq!(leading.during(work()).await, None::<()>);
        assert_eq!(steps.load(Ordering::Relaxed), 0);
        leading.set(true);
        leading.begins().await;
        assert_eq!(leading.during(async { 7 }).await, Some(7));
        let deposed = leading.clone();
        let later = async {
            sleep(Duration::from_millis(2_500)).await;
            deposed.set(false);
        };
        let (done, ()) = tokio::join!(leading.during(work()), later);
        assert_eq!(done, None::<()>);
        assert_eq!(steps.load(Ordering::Relaxed), 3);
    }
}
