//! Requests for a hostname, one after the other and each on a connection of its own, and what was answered.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Clients that ask side by side.
const CLIENTS: usize = 2;
/// A client rests this long, so that tests beside this one have the machine too.
const REST: Duration = Duration::from_millis(8);
/// Longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(10);
/// Requests that have to be answered by the new one alone after each change.
const AFTER: usize = 12;
/// What an old worker of the proxy has accepted by the time that the new one answers.
const OVERLAP: Duration = Duration::from_millis(100);

/// A request: when it began, and the status and body, or why there is none.
type Asked = (Instant, Result<(u16, String), String>);

/// Requests that never cease until it is dropped.
pub(crate) struct Traffic {
    target: Arc<AtomicU16>,
    log: Arc<Mutex<Vec<Asked>>>,
    #[expect(dead_code, reason = "dropping them ends them")]
    clients: Vec<AbortOnDropHandle<()>>,
}

impl Traffic {
    /// Begins to ask a port of the loopback for a hostname.
    pub(crate) fn start(hostname: &'static str, port: u16) -> Self {
        let target = Arc::new(AtomicU16::new(port));
        let log = Arc::new(Mutex::new(Vec::new()));
        let client = |_| {
            let (target, log) = (Arc::clone(&target), Arc::clone(&log));
            AbortOnDropHandle::new(tokio::spawn(async move {
                loop {
                    let begun = Instant::now();
                    let answer = ask(target.load(Ordering::Relaxed), hostname).await;
                    log.lock().unwrap().push((begun, answer));
                    sleep(REST).await;
                }
            }))
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { target, log, clients }
    }

    /// As when DNS leads elsewhere from now on.
    pub(crate) fn lead_to(&self, port: u16) {
        self.target.store(port, Ordering::Relaxed);
    }

    /// Every request since the last call was answered by one of these, and from now on by the last of them; how many
    /// there were.
    pub(crate) async fn was_answered_by(&self, allowed: &[&str]) -> usize {
        let from = Instant::now() + OVERLAP;
        let enough = async {
            while self
                .log
                .lock()
                .unwrap()
                .iter()
                .filter(|(begun, _)| *begun > from)
                .count()
                < AFTER
            {
                sleep(REST).await;
            }
        };
        timeout(super::PATIENCE, enough)
            .await
            .expect("requests are answered");
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        let now = *allowed.last().expect("somebody may answer");
        let mut lost = BTreeSet::new();
        for (begun, answer) in &log {
            match answer {
                Ok((200, body)) if *begun > from && body == now => {}
                Ok((200, body)) if *begun <= from && allowed.contains(&body.as_str()) => {}
                other => drop(lost.insert(format!("{other:?}"))),
            }
        }
        assert!(
            lost.is_empty(),
            "of {} requests, some were not for {allowed:?}: {lost:?}",
            log.len()
        );
        log.len()
    }
}

/// Asks once: status and body.
pub(crate) async fn ask(port: u16, hostname: &str) -> Result<(u16, String), String> {
    let asking = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!("GET / HTTP/1.1\r\nHost: {hostname}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream.take(16_384).read_to_string(&mut text).await?;
        std::io::Result::Ok(text)
    };
    let text = timeout(LIMIT, asking)
        .await
        .map_err(|_| "no answer in time".to_owned())?;
    let text = text.map_err(|error| error.to_string())?;
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = text
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.trim().to_owned());
    status
        .zip(body)
        .ok_or_else(|| format!("no answer of HTTP: {text:?}"))
}
