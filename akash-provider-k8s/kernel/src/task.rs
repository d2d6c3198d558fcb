//! Background tasks (watches, writers, counts). A panic in a background task does not end the process, so the first
//! panic is reported to the supervisor of the process.

use futures::FutureExt;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Panic of a background task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task `{task}` panicked: {panic}")]
pub struct TaskPanic {
    /// Name of the task.
    task: &'static str,
    panic: String,
}

/// First panic in the process.
static FIRST_PANIC: LazyLock<watch::Sender<Option<TaskPanic>>> = LazyLock::new(|| watch::Sender::new(None));

/// Waits until a background task of this process panics. The process must then be restarted, because its
/// clusters and operators are unreliable.
pub async fn first_panic() -> TaskPanic {
    first(&FIRST_PANIC).await
}

async fn first(failures: &watch::Sender<Option<TaskPanic>>) -> TaskPanic {
    let mut receiver = failures.subscribe();
    loop {
        let failed = receiver.borrow_and_update().clone();
        match failed {
            Some(failed) => return failed,
            // The sender is static, or owned by the caller, and is not dropped.
            None => drop(receiver.changed().await),
        }
    }
}

/// Spawns a background task that stops when its handle is dropped. Requires a Tokio runtime.
pub fn spawn(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(report_panic(&FIRST_PANIC, name, task)))
}

async fn report_panic(
    failures: &watch::Sender<Option<TaskPanic>>,
    task: &'static str,
    work: impl Future<Output = ()> + Send,
) {
    let Err(panic) = AssertUnwindSafe(work).catch_unwind().await else {
        return;
    };
    let panicked = TaskPanic {
        task,
        panic: text(&*panic).to_owned(),
    };
    tracing::error!(
        task = panicked.task,
        panic = panicked.panic,
        "background task panicked, the part of the program that uses it fails; report this as a bug"
    );
    failures.send_if_modified(|first| {
        let is_first = first.is_none();
        first.get_or_insert(panicked);
        is_first
    });
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_panic_is_reported_with_the_name_of_the_task() {
        let failures = watch::Sender::new(None);
        report_panic(&failures, "short", async {}).await;
        assert_eq!(*failures.borrow(), None);
        let (failed, ()) = tokio::join!(first(&failures), async {
            report_panic(&failures, "watch of pods", async { panic!("no {}", "pods") }).await;
            report_panic(&failures, "another", async { panic!("later") }).await;
        });
        assert_eq!(failed.to_string(), "task `watch of pods` panicked: no pods");
        assert_eq!(first(&failures).await, failed);
    }
}
