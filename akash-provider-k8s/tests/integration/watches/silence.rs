//! Warnings about watches that receive no data for a long time.

use super::{ms, one_lease, started, until, watch_config};
use crate::watches::server::{Reply, Server};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Captured log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn warnings(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains("WARN"));
        lines.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn silent_server_is_a_warning_and_quiet_watch_is_not() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // With a single subscriber, a message that another test logs first is disabled for this subscriber too.
    let sink = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
    let _second = tracing::Dispatch::new(sink);
    let silent = Arc::new(AtomicBool::new(false));
    let is_silent = Arc::clone(&silent);
    let server = Server::start(move |request, _| {
        let is_of_sets = request.resource == "deployments" && request.is_watch();
        if is_of_sets && is_silent.load(Ordering::Relaxed) {
            return Some(Reply::Silence);
        }
        one_lease(request)
    })
    .await;
    let mut quiet = watch_config();
    quiet.idle = ms(400);
    quiet.start_timeout = ms(300);
    let state = started(&server, quiet);
    state.ready().await;
    let asked = || server.calls("deployments", true).len();
    until("the watches are restarted several times", || asked() >= 4).await;
    assert_eq!(log.warnings(), [""; 0], "a quiet watch is not a warning");
    silent.store(true, Ordering::Relaxed);
    until("the outage is logged", || !log.warnings().is_empty()).await;
    let before = asked();
    until("the watches are restarted several times", || {
        asked() >= before + 3
    })
    .await;
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "an outage is logged once: {warnings:?}");
    assert!(warnings[0].contains("deployments.apps"), "{warnings:?}");
    assert!(warnings[0].contains("no response to a watch"), "{warnings:?}");
}
