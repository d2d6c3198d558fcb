//! Tasks of the connections of a write client.

use akash_provider_core::election::LeadershipGate;
use hyper::rt::Executor;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

/// Executor for the connections of a [`WriteClient`](super::WriteClient). A connection ends with the term in which it
/// was used. A process that continues after a suspension therefore cannot send a write that a connection has
/// already accepted.
///
/// ```
/// # use akash_provider_core::election::LeadershipGate;
/// # use akash_provider_kube_kernel::write_client::{TermExecutor, WriteClient};
/// # use kube::{Config, client::ClientBuilder};
/// # fn example(config: Config, gate: LeadershipGate) -> Result<WriteClient, kube::Error> {
/// let builder = ClientBuilder::try_from((config, TermExecutor::new(gate.clone())))?;
/// Ok(WriteClient::build(builder, gate))
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TermExecutor(LeadershipGate);

impl TermExecutor {
    /// Creates the executor of a client with this gate.
    #[must_use]
    pub const fn new(gate: LeadershipGate) -> Self {
        Self(gate)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for TermExecutor {
    fn execute(&self, connection: F) {
        let gate = self.0.clone();
        drop(tokio::spawn(async move {
            let mut connection = pin!(connection);
            let mut used_in = None;
            poll_fn(|cx| {
                let term = gate.term();
                if used_in.is_some() && used_in != term {
                    return Poll::Ready(());
                }
                used_in = term;
                connection.as_mut().poll(cx)
            })
            .await;
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::time::{Instant, sleep};

    /// The connection is ready to send after the end of the term, as in a process that was suspended.
    #[tokio::test(start_paused = true)]
    async fn connection_sends_nothing_after_the_term_in_which_it_was_used() {
        // Opening of the term in seconds, and the seconds in which the connection runs.
        for (opens, runs) in [(None, 8), (Some(0), 4), (Some(2), 6)] {
            let gate = LeadershipGate::new(false);
            let sent = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&sent);
            TermExecutor::new(gate.clone()).execute(async move {
                for _ in 0..8 {
                    counted.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_secs(1)).await;
                }
            });
            for second in 0..10 {
                if opens == Some(second) {
                    gate.set_until(1, Instant::now() + Duration::from_millis(3_500));
                }
                if second == 9 {
                    gate.set(true);
                }
                sleep(Duration::from_secs(1)).await;
            }
            assert_eq!(sent.load(Ordering::SeqCst), runs, "opened at {opens:?}");
        }
    }
}
