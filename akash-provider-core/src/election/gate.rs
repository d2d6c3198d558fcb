//! Who may write of its own accord: the provider that leads. What the ports are asked for carries an epoch; what a
//! backend does unasked is done only while its provider leads.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lead {
    term: u64,
    /// It is over then, unless it was made longer; `None` where only word ends it.
    until: Option<Instant>,
}

impl Lead {
    fn holds(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// Whether the provider leads, as whoever knows says. A clone is the same one.
#[derive(Debug, Clone)]
pub struct LeadershipGate(Arc<watch::Sender<Option<Lead>>>);

impl LeadershipGate {
    /// With what is known at first.
    #[must_use]
    pub fn new(leads: bool) -> Self {
        let lead = leads.then_some(Lead { term: 0, until: None });
        Self(Arc::new(watch::Sender::new(lead)))
    }

    /// It leads from here on, or no longer.
    pub fn set(&self, leads: bool) {
        self.put(leads.then_some(Lead { term: 0, until: None }));
    }

    /// It leads in this term, until then; said again before that, it goes on.
    pub fn set_until(&self, term: u64, until: Instant) {
        self.put(Some(Lead {
            term,
            until: Some(until),
        }));
    }

    /// The term it leads in at the moment, 0 without an election; `None` while it does not lead.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        self.0.borrow().filter(Lead::holds).map(|lead| lead.term)
    }

    fn put(&self, lead: Option<Lead>) {
        self.0
            .send_if_modified(|now| std::mem::replace(now, lead) != lead);
    }

    /// Waits until it leads.
    pub async fn begins(&self) {
        // The other end is in our hands, so it does not go away.
        let leads = |lead: &Option<Lead>| lead.is_some_and(|lead| lead.holds());
        let _ = self.0.subscribe().wait_for(leads).await;
    }

    /// Does a work while it leads; `None` when it is deposed before the end, and nothing more is done then.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut ends = pin!(self.ends());
        let mut work = pin!(work);
        poll_fn(|cx| {
            // Looked at each time, and not left to the alarm: a process that was stopped and goes on must not make one
            // more step before its clock has been looked at.
            if self.term().is_none() || ends.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Waits until it leads no more.
    pub async fn ends(&self) {
        let mut said = self.0.subscribe();
        loop {
            let lead = *said.borrow_and_update();
            let Some(lead) = lead.filter(Lead::holds) else {
                return;
            };
            let over = async {
                match lead.until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = said.changed() => {}
                () = over => {}
            }
        }
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

    #[tokio::test(start_paused = true)]
    async fn a_leadership_ends_by_itself_unless_it_is_made_longer() {
        let gate = LeadershipGate::new(false);
        assert_eq!(gate.term(), None);
        gate.set_until(4, Instant::now() + Duration::from_secs(10));
        assert_eq!(gate.term(), Some(4));
        let (longer, begun) = (gate.clone(), Instant::now());
        let later = async {
            sleep(Duration::from_secs(5)).await;
            longer.set_until(4, Instant::now() + Duration::from_secs(10));
        };
        let (done, ()) = tokio::join!(gate.during(std::future::pending::<()>()), later);
        assert_eq!((done, gate.term()), (None, None));
        assert_eq!(begun.elapsed().as_secs(), 15);
        let begins = timeout(Duration::from_secs(60), gate.begins()).await;
        assert!(begins.is_err(), "one that is over does not begin");
    }

    /// As one that was stopped and goes on: its own alarm has not rung yet, and its work is ready.
    #[tokio::test(start_paused = true)]
    async fn one_that_slept_through_its_end_makes_no_step_more() {
        let gate = LeadershipGate::new(false);
        gate.set_until(1, Instant::now() + Duration::from_secs(10));
        let mut steps = 0;
        let work = poll_fn(|cx| {
            steps += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        let mut during = Box::pin(gate.during(work));
        poll_fn(|cx| {
            assert!(during.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(during.await, None);
        assert_eq!(steps, 1);
    }
}
