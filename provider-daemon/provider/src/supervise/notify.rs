//! Notifications to systemd, with `Type=notify` in the unit.
//!
//! A separate thread sends notifications, so that the watchdog and a drain do not wait if systemd does not read the
//! socket.

use sd_notify::NotifyState;
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Maximum length of the status text for `systemctl status`.
const STATUS_MAX: usize = 1024;
/// Capacity of the queue. A notification to a full queue is dropped.
const QUEUE: usize = 16;

enum Notification {
    Ready,
    Stopping,
    Status(String),
    Alive,
}

/// Queue of notifications to systemd; `None` without a notification socket.
static SOCKET_QUEUE: LazyLock<Option<SyncSender<Notification>>> = LazyLock::new(|| {
    std::env::var_os("NOTIFY_SOCKET")?;
    let (queue, notifications) = sync_channel::<Notification>(QUEUE);
    let thread = thread::Builder::new().name("systemd".to_owned());
    let spawned = thread.spawn(move || notifications.iter().for_each(|notification| send(&notification)));
    if let Err(error) = spawned {
        tracing::warn!(%error, "cannot start the thread that sends notifications to systemd, so systemd may stop the unit after its timeout");
        return None;
    }
    Some(queue)
});

/// Reports to systemd that all parts run, even if bids are delayed.
pub(crate) fn ready() {
    queue(Notification::Ready);
}

pub(crate) fn stopping() {
    queue(Notification::Stopping);
}

/// Reports the unmet conditions for bids to systemd, on one line.
pub(crate) fn status(text: &str) {
    let mut line: String = text.chars().take(STATUS_MAX).collect();
    // A line break would end the status and start another notification.
    line.retain(|c| !c.is_control());
    queue(Notification::Status(line));
}

/// Reports to systemd that no part is stalled (`WATCHDOG=1`).
pub(super) fn alive() {
    queue(Notification::Alive);
}

fn queue(notification: Notification) {
    if let Some(queue) = &*SOCKET_QUEUE {
        // A full queue is not awaited.
        let _ = queue.try_send(notification);
    }
}

fn send(notification: &Notification) {
    let state = match notification {
        Notification::Ready => NotifyState::Ready,
        Notification::Stopping => NotifyState::Stopping,
        Notification::Status(line) => NotifyState::Status(line),
        Notification::Alive => NotifyState::Watchdog,
    };
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "cannot notify systemd");
    }
}
