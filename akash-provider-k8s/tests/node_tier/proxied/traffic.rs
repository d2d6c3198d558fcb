//! Clients that send requests for a hostname one after the other, each on a new connection, and record the
//! responses.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

const CLIENTS: usize = 2;
/// Pause between two requests, so that parallel tests have CPU time.
const REST: Duration = Duration::from_millis(8);
/// Maximum wait for a response.
const LIMIT: Duration = Duration::from_secs(10);
/// Minimum number of requests after each change. These requests must reach the new target.
const AFTER: usize = 12;
/// Maximum time for which the previous proxy worker can still respond after a reload.
const OVERLAP: Duration = Duration::from_millis(100);

/// Start time and result of a request: status and body, or an error.
type Exchange = (Instant, Result<(u16, String), String>);

/// Clients that send requests until the value is dropped.
pub(crate) struct Traffic {
    target: Arc<AtomicU16>,
    log: Arc<Mutex<Vec<Exchange>>>,
    #[expect(dead_code, reason = "dropping the tasks stops them")]
    clients: Vec<AbortOnDropHandle<()>>,
}

impl Traffic {
    /// Starts clients that send requests for `hostname` to the loopback port `port`.
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

    /// Directs all further requests to another port, as a DNS change would.
    pub(crate) fn set_port(&self, port: u16) {
        self.target.store(port, Ordering::Relaxed);
    }

    /// Asserts that every request since the last call got a response in `allowed`. Also asserts that later
    /// requests get the last response in `allowed`. Returns the number of requests.
    pub(crate) async fn assert_responses(&self, allowed: &[&str]) -> usize {
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
        timeout(super::WAIT_LIMIT, enough)
            .await
            .expect("requests get no response");
        let log = std::mem::take(&mut *self.log.lock().unwrap());
        let now = *allowed.last().expect("`allowed` is empty");
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
            "of {} requests, some got a response that is not one of {allowed:?}: {lost:?}",
            log.len()
        );
        log.len()
    }
}

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
        .map_err(|_| "no response in time".to_owned())?;
    let text = text.map_err(|error| error.to_string())?;
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    let body = text
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.trim().to_owned());
    status
        .zip(body)
        .ok_or_else(|| format!("no HTTP response: {text:?}"))
}
