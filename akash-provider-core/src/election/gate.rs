//! Gate that permits writes only while the provider leads. Each backend that changes something outside of the
//! process is created with a gate, and takes a [`WritePermit`] from the gate for each write.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Current leadership of this instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Term {
    term: u64,
    /// End of the leadership. `None` if only [`LeadershipGate::set`] can end the leadership.
    until: Option<Instant>,
}

impl Term {
    fn holds(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// Permission to write in one term. Only [`LeadershipGate::permit`] returns permits.
///
/// ```compile_fail
/// # use akash_provider_core::election::WritePermit;
/// let permit = WritePermit { term: 1 };
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct WritePermit {
    term: u64,
}

impl WritePermit {
    /// Returns the term of the permit: 0 without an election.
    #[must_use]
    pub const fn term(&self) -> u64 {
        self.term
    }
}

/// Gate that is open while the provider leads. Clones share the same gate.
#[derive(Debug, Clone)]
pub struct LeadershipGate(Arc<watch::Sender<Option<Term>>>);

impl LeadershipGate {
    /// Creates a gate that is open if `leads` is true.
    #[must_use]
    pub fn new(leads: bool) -> Self {
        let lead = leads.then_some(Term { term: 0, until: None });
        Self(Arc::new(watch::Sender::new(lead)))
    }

    /// Opens or closes the gate.
    pub fn set(&self, leads: bool) {
        self.put(leads.then_some(Term { term: 0, until: None }));
    }

    /// Opens the gate in `term` until the given time. A later call extends the time.
    pub fn set_until(&self, term: u64, until: Instant) {
        self.put(Some(Term {
            term,
            until: Some(until),
        }));
    }

    /// Returns the current term: 0 without an election, `None` while the gate is closed.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        self.0.borrow().filter(Term::holds).map(|lead| lead.term)
    }

    /// Returns a permit for one write, which must be sent at once. Returns `None` while the gate is closed.
    #[must_use]
    pub fn permit(&self) -> Option<WritePermit> {
        self.term().map(|term| WritePermit { term })
    }

    fn put(&self, lead: Option<Term>) {
        self.0
            .send_if_modified(|now| std::mem::replace(now, lead) != lead);
    }

    /// Waits until the gate is open.
    pub async fn opened(&self) {
        // This value owns the sender, so the channel stays open.
        let leads = |lead: &Option<Term>| lead.is_some_and(|lead| lead.holds());
        let _ = self.0.subscribe().wait_for(leads).await;
    }

    /// Runs `work` while the gate is open. Drops `work` and returns `None` if the gate closes before `work`
    /// is complete.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.under(&self.permit()?, work).await
    }

    /// Runs `work` in the term of `permit`. Drops `work` and returns `None` if the term ends before `work` is
    /// complete.
    pub async fn under<T>(&self, permit: &WritePermit, work: impl Future<Output = T>) -> Option<T> {
        let mut ends = pin!(self.closed());
        let mut work = pin!(work);
        poll_fn(|cx| {
            // Checked at each poll instead of relying on the timer alone: a process that continues after a
            // suspension must not poll `work` before its deadline is checked.
            if self.term() != Some(permit.term) || ends.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// Waits until the gate is closed.
    pub async fn closed(&self) {
        let mut changes = self.0.subscribe();
        loop {
            let lead = *changes.borrow_and_update();
            let Some(lead) = lead.filter(Term::holds) else {
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
                _ = changes.changed() => {}
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
    async fn a_standby_starts_no_work_and_a_deposed_leader_stops_its_work() {
        let (leading, steps) = (LeadershipGate::new(false), AtomicU32::new(0));
        let work = || async {
            loop {
                steps.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(1)).await;
            }
        };
        let begun = timeout(Duration::from_secs(60), leading.opened()).await;
        assert!(begun.is_err(), "a standby must wait");
        assert_eq!(leading.during(work()).await, None::<()>);
        assert_eq!(steps.load(Ordering::Relaxed), 0);
        leading.set(true);
        leading.opened().await;
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
    async fn a_leadership_expires_unless_renewed() {
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
        let begins = timeout(Duration::from_secs(60), gate.opened()).await;
        assert!(begins.is_err(), "an expired leadership must not open the gate");
    }

    /// After a suspension, the guarded future is polled before the timer of the deadline fires.
    #[tokio::test(start_paused = true)]
    async fn a_suspended_leader_makes_no_step_after_its_deadline() {
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
