//! Followed streams survive a restart of the provider and the expiry of a token, without lost or repeated
//! lines.

use crate::tenant::stage::{RunningProvider, Stage, sample, until};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::LeaseId;
use akash_provider_gateway::auth::Clock;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

const PATIENCE: Duration = Duration::from_secs(120);

/// Process of a command with `--follow`, stopped when dropped.
struct Follower {
    child: Child,
    lines: Receiver<String>,
    stderr_text: Arc<Mutex<String>>,
}

impl Follower {
    fn start(stage: &Stage, words: &[&str]) -> Self {
        let mut command = stage.command(words);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        let stderr_text: Arc<Mutex<String>> = Arc::default();
        let (stderr, all) = (
            BufReader::new(child.stderr.take().unwrap()),
            Arc::clone(&stderr_text),
        );
        std::thread::spawn(move || {
            for line in stderr.lines() {
                let mut all = all.lock().unwrap();
                all.push_str(&line.unwrap());
                all.push('\n');
            }
        });
        Self {
            child,
            lines,
            stderr_text,
        }
    }

    fn stderr_text(&self) -> String {
        self.stderr_text.lock().unwrap().clone()
    }

    /// Asserts that the next output line ends with `end`.
    #[track_caller]
    fn shows(&self, end: &str) {
        let line = self.lines.recv_timeout(PATIENCE);
        let line =
            line.unwrap_or_else(|e| panic!("no line with the end `{end}`: {e}\n{}", self.stderr_text()));
        assert!(
            line.ends_with(end),
            "expected `{end}`, got `{line}`\n{}",
            self.stderr_text()
        );
    }

    #[track_caller]
    fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        until("the end of the follower", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn running(stage: &Stage, provider: &RunningProvider, dseq: u64) -> LeaseId {
    let sdl = sample("web.yaml");
    let lease = stage.lease(dseq, &sdl, &[provider]).remove(0);
    let sent = stage.ran(&["send-manifest", &sdl, "--dseq", &dseq.to_string()]);
    sent.good();
    provider.runs(&lease);
    lease
}

#[test]
fn followed_stream_continues_after_provider_restart_and_ends_with_lease() {
    let stage = Stage::new("follow");
    let mut provider = stage.provider(61);
    let lease = running(&stage, &provider, 4);
    let says = |provider: &RunningProvider, line: &str| assert!(provider.cluster.log(&lease, "web", 0, line));
    let happens = |provider: &RunningProvider, note: &str| {
        assert!(provider.cluster.event(&lease, "web", "Pulled", note))
    };
    says(&provider, "one");
    says(&provider, "two");
    let mut logs = Follower::start(&stage, &["lease-logs", "--dseq", "4", "-f"]);
    logs.shows("] one");
    logs.shows("] two");
    // A repeated line, so that lines are counted and not only compared.
    says(&provider, "two");
    logs.shows("] two");
    let mut events = Follower::start(&stage, &["lease-events", "--dseq", "4", "-f"]);
    let notes = |events: &Follower, note: &str| {
        let words = format!("\"note\": \"{note}\"");
        while !events.lines.recv_timeout(PATIENCE).unwrap().contains(&words) {}
    };
    happens(&provider, "before");
    notes(&events, "before");
    provider.stop_gateway(&stage);
    says(&provider, "meanwhile");
    happens(&provider, "meanwhile");
    for follower in [&logs, &events] {
        until("the outage is reported", || {
            follower.stderr_text().contains("retrying")
        });
    }
    provider.start_gateway(&stage);
    logs.shows("] meanwhile");
    says(&provider, "later");
    logs.shows("] later");
    until("the reconnect is reported", || {
        logs.stderr_text().contains("stream resumed")
    });
    assert_eq!(
        logs.stderr_text().matches("retrying").count(),
        1,
        "{}",
        logs.stderr_text()
    );
    // Lines after the reconnect are not repetitions.
    happens(&provider, "later");
    let mut seen = Vec::new();
    while !seen
        .last()
        .is_some_and(|line: &String| line.contains("\"later\""))
    {
        seen.push(events.lines.recv_timeout(PATIENCE).unwrap());
    }
    let count = |word: &str| seen.iter().filter(|line| line.contains(word)).count();
    assert_eq!((count("\"before\""), count("\"meanwhile\"")), (0, 1), "{seen:?}");
    let id = lease.order.deployment().clone();
    stage.chain.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    for follower in [&mut logs, &mut events] {
        assert_eq!(follower.ended(), Some(0), "{}", follower.stderr_text());
    }
}

/// The provider's clock is ahead, so a token expires after some seconds.
#[test]
fn expired_token_is_replaced_without_interruption() {
    const AHEAD: Duration = Duration::from_secs(15 * 60 - 30 - 8);
    let stage = Stage::new("token");
    let provider = stage.provider_with(62, |settings| {
        settings.clock = Clock::new(|| UNIX_EPOCH.elapsed().unwrap() + AHEAD);
        settings.limits.recheck = Duration::from_millis(100);
    });
    let lease = running(&stage, &provider, 5);
    let logs = Follower::start(&stage, &["lease-logs", "--dseq", "5", "-f"]);
    let begun = Instant::now();
    // At least two tokens expire meanwhile.
    for number in 0_u32.. {
        let line = format!("line {number}");
        assert!(provider.cluster.log(&lease, "web", 0, &line));
        logs.shows(&format!("] {line}"));
        if begun.elapsed() > Duration::from_secs(22) {
            break;
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(logs.stderr_text(), "");
}

#[test]
fn unfollowed_stream_is_read_once() {
    let stage = Stage::new("once");
    let mut provider = stage.provider(63);
    let lease = running(&stage, &provider, 6);
    assert!(provider.cluster.log(&lease, "web", 0, "one"));
    let lines = stage.ran(&["lease-logs", "--dseq", "6"]).good();
    assert_eq!(lines.lines().count(), 1);
    provider.stop_gateway(&stage);
    for words in [
        &["lease-logs", "--dseq", "6"][..],
        &["lease-logs", "--dseq", "6", "-f"],
    ] {
        // A provider that is unreachable at the start is reported at once.
        stage.ran(words).failed(&["cannot reach"]);
    }
}
