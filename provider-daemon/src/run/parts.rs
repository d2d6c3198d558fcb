//! What runs beside the provider, part by part. One that fails takes the provider with it: without the part that
//! writes transactions, for example, every bid would fail, and nobody would look.

use anyhow::anyhow;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use std::any::Any;
use tokio::task::{JoinError, JoinHandle};

/// The tasks, by what they do.
#[derive(Debug, Default)]
pub(super) struct Parts {
    running: FuturesUnordered<BoxFuture<'static, (&'static str, Result<(), JoinError>)>>,
}

impl Parts {
    pub(super) fn add(&mut self, name: &'static str, task: JoinHandle<()>) {
        self.running.push(Box::pin(async move { (name, task.await) }));
    }

    /// Waits for the first that fails. Never ends while none does.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        while let Some((name, ended)) = self.running.next().await {
            // A part that simply ends is no fault: the connection to the cluster ends once there is one.
            if let Err(error) = ended {
                return failed(name, error);
            }
        }
        std::future::pending().await
    }

    /// Waits until all have ended.
    ///
    /// # Errors
    /// The first that failed, once the others have ended too.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        let mut failure = None;
        while let Some((name, ended)) = self.running.next().await {
            failure = failure.or_else(|| ended.err().map(|error| failed(name, error)));
        }
        failure.map_or(Ok(()), Err)
    }
}

fn failed(name: &str, error: JoinError) -> anyhow::Error {
    let why = match error.try_into_panic() {
        Ok(panic) => words(&*panic).unwrap_or("it panicked").to_owned(),
        Err(error) => error.to_string(),
    };
    anyhow!(
        "the {name} failed: {why}. This is a fault of the program. Open bids and leases stay as they are; start it again"
    )
}

fn words(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn a_part_that_panics_is_told_and_one_that_ends_is_not() {
        let end = CancellationToken::new();
        let mut parts = Parts::default();
        parts.add("short part", tokio::spawn(async {}));
        parts.add("long part", tokio::spawn(end.clone().cancelled_owned()));
        parts.add(
            "transaction writer",
            tokio::spawn(async { panic!("no {}", "sequence") }),
        );
        let told = parts.failure().await.to_string();
        assert!(
            told.starts_with("the transaction writer failed: no sequence."),
            "{told}"
        );
        end.cancel();
        assert!(parts.end().await.is_ok(), "the others");
    }

    #[tokio::test]
    async fn the_end_waits_for_all_and_tells_a_failure() {
        let mut parts = Parts::default();
        parts.add("first", tokio::spawn(async { panic!("now") }));
        parts.add("second", tokio::spawn(tokio::task::yield_now()));
        let told = parts.end().await.unwrap_err().to_string();
        assert!(told.starts_with("the first failed: now."), "{told}");
    }
}
