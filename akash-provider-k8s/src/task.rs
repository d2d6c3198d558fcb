//! Tasks that work besides what is asked for: watches, writers, counts. One that panics would leave us deaf and nobody
//! the wiser, so the first of a process is kept for whoever supervises it.

use futures::FutureExt;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// A task has panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{task}: {panic}")]
pub struct Failed {
    /// Which.
    task: &'static str,
    panic: String,
}

/// Of the process, as panics are: what works besides is begun in many places, and one of them is as bad as another.
static FAILED: LazyLock<watch::Sender<Option<Failed>>> = LazyLock::new(|| watch::Sender::new(None));

/// Waits until a task of this process has panicked. The clusters and operators of the process are not to be relied on
/// from then on.
pub async fn failed() -> Failed {
    first(&FAILED).await
}

async fn first(failures: &watch::Sender<Option<Failed>>) -> Failed {
    let mut said = failures.subscribe();
    loop {
        let failed = said.borrow_and_update().clone();
        match failed {
            Some(failed) => return failed,
            // The other end is static, or in our caller's hands, so it does not go away.
            None => drop(said.changed().await),
        }
    }
}

/// Runs a task that ends with its handle. It needs the runtime of tokio.
pub fn kept(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(noted(&FAILED, name, task)))
}

async fn noted(
    failures: &watch::Sender<Option<Failed>>,
    task: &'static str,
    work: impl Future<Output = ()> + Send,
) {
    let Err(panic) = AssertUnwindSafe(work).catch_unwind().await else {
        return;
    };
    let failed = Failed {
        task,
        panic: text(&*panic).to_owned(),
    };
    tracing::error!("a task has panicked: {failed}");
    failures.send_if_modified(|first| {
        let is_first = first.is_none();
        first.get_or_insert(failed);
        is_first
    });
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("it panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_task_that_panics_is_named_and_one_that_ends_is_not() {
        let failures = watch::Sender::new(None);
        noted(&failures, "short", async {}).await;
        assert_eq!(*failures.borrow(), None);
        let (failed, ()) = tokio::join!(first(&failures), async {
            noted(&failures, "watch of pods", async { panic!("no {}", "pods") }).await;
            noted(&failures, "another", async { panic!("later") }).await;
        });
        assert_eq!(failed.to_string(), "watch of pods: no pods");
        assert_eq!(first(&failures).await, failed);
    }
}
