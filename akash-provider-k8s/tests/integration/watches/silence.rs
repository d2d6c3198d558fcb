//! What an operator is told of watches on which nothing comes.

use super::{ms, one_lease, started, until, watch_config};
use crate::watches::server::{Reply, Server};
use akash_provider_k8s::state::WatchConfig;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Lines of the log.
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
    /// Those at warn.
    fn warnings(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains("WARN"));
        lines.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_quiet_watch_is_no_warning_and_a_silent_server_is_one() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
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
    let quiet = WatchConfig {
        idle: ms(400),
        start_timeout: ms(300),
        ..watch_config()
    };
    let state = started(&server, quiet);
    state.ready().await;
    let asked = || server.calls("deployments", true).len();
    until("asked again and again", || asked() >= 4).await;
    assert_eq!(log.warnings(), [""; 0], "nothing happens, and that is all");
    silent.store(true, Ordering::Relaxed);
    until("it is told", || !log.warnings().is_empty()).await;
    let before = asked();
    until("asked again and again", || asked() >= before + 3).await;
    let warnings = log.warnings();
    assert_eq!(warnings.len(), 1, "an outage is said once: {warnings:?}");
    assert!(warnings[0].contains("deployments.apps"), "{warnings:?}");
    assert!(warnings[0].contains("no response to a watch"), "{warnings:?}");
}
