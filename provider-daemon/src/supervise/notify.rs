//! What systemd is told, where it has started us: `Type=notify` in the unit.
//!
//! A thread of its own tells it: where nobody reads what is told, a word waits, and neither the watchdog nor a drain is to
//! wait with it.

use sd_notify::NotifyState;
use std::sync::LazyLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Longest text of a status: it is one line of `systemctl status`.
const STATUS_MAX: usize = 1024;
/// Words that wait; what finds no room is not told, and a sign of life comes again.
const QUEUE: usize = 16;

enum Word {
    Ready,
    Stopping,
    Status(String),
    Alive,
}

/// Of the process, as the socket is; `None` where nobody wants to hear.
static QUEUED: LazyLock<Option<SyncSender<Word>>> = LazyLock::new(|| {
    std::env::var_os("NOTIFY_SOCKET")?;
    let (queue, words) = sync_channel::<Word>(QUEUE);
    let thread = thread::Builder::new().name("systemd".to_owned());
    let spawned = thread.spawn(move || words.iter().for_each(|word| send(&word)));
    if let Err(error) = spawned {
        tracing::warn!("systemd is told nothing: {error}");
        return None;
    }
    Some(queue)
});

/// Every part runs. What bids wait for may still be away: that is in the status.
pub(crate) fn ready() {
    tell(Word::Ready);
}

/// Draining has begun.
pub(crate) fn stopping() {
    tell(Word::Stopping);
}

/// What is awaited, in a line.
pub(crate) fn status(text: &str) {
    let mut line: String = text.chars().take(STATUS_MAX).collect();
    // A line break would end the status and begin another word to systemd.
    line.retain(|c| !c.is_control());
    tell(Word::Status(line));
}

/// No part stands still.
pub(super) fn alive() {
    tell(Word::Alive);
}

fn tell(word: Word) {
    if let Some(queue) = &*QUEUED {
        // Full: somebody who does not read is not waited for.
        let _ = queue.try_send(word);
    }
}

fn send(word: &Word) {
    let state = match word {
        Word::Ready => NotifyState::Ready,
        Word::Stopping => NotifyState::Stopping,
        Word::Status(line) => NotifyState::Status(line),
        Word::Alive => NotifyState::Watchdog,
    };
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!("systemd was not told: {error}");
    }
}
