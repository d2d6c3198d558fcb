//! Certificate of the public hostname from an ACME server (RFC 8555), such as Let's Encrypt.
//!
//! ```text
//! Issuer (leader only) ─▶ order ─▶ check ─▶ file in the storage directory ─▶ follow ─▶ gateway
//! ```
//!
//! A failure leaves the previous certificate in use and delays the next order.

mod challenge;
mod check;
mod error;
mod http;
mod order;
mod schedule;
mod settings;
mod store;
#[cfg(test)]
mod tests;

use crate::download::system_roots;
use akash_provider_gateway::tls::Tls;
use check::{Validity, check};
use error::AcmeError;
use http::AcmeHttp;
use rustls::RootCertStore;
use schedule::Retry;
pub(crate) use settings::AcmeSettings;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::Store;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Maximum duration of one order.
const ORDER_TIME: Duration = Duration::from_mins(5);
/// Maximum wait before the certificate and the clock are read again.
const RECHECK: Duration = Duration::from_mins(10);
/// Interval of checks for a new certificate file.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

/// Orders and renews the certificate.
#[derive(Debug)]
pub(crate) struct Issuer {
    settings: AcmeSettings,
    store: Store,
    /// Certificate authorities for the connection to the ACME server.
    roots: Arc<RootCertStore>,
}

impl Issuer {
    pub(crate) fn new(settings: AcmeSettings) -> Self {
        Self::with_roots(settings, system_roots())
    }

    fn with_roots(settings: AcmeSettings, roots: RootCertStore) -> Self {
        Self {
            store: Store::new(&settings),
            settings,
            roots: Arc::new(roots),
        }
    }

    /// Orders a certificate whenever one is due. Never returns.
    pub(crate) async fn run(&self) {
        let mut failures = 0;
        let mut retry = self.store.retry();
        loop {
            let now = now();
            let due = schedule::due(self.current(now), retry, now);
            if let Some(wait) = due.checked_sub(now).filter(|wait| !wait.is_zero()) {
                sleep(wait.min(RECHECK)).await;
                continue;
            }
            retry = match self.issue().await {
                Ok(validity) => {
                    let renewal = validity.renewal().saturating_sub(now);
                    tracing::info!(
                        hostname = self.settings.domain(),
                        renewal_in = ?renewal,
                        "certificate of the public hostname obtained"
                    );
                    failures = 0;
                    None
                }
                Err((error, retry_after)) => {
                    failures += 1;
                    Some(self.failed(&error, schedule::delay(failures, retry_after), retry_after))
                }
            };
        }
    }

    /// Logs and stores a failed order. Returns the earliest time of the next order.
    fn failed(&self, error: &AcmeError, delay: Duration, retry_after: Option<Duration>) -> Retry {
        tracing::warn!(
            hostname = self.settings.domain(),
            server = %self.settings.directory(),
            %error,
            help = error.help(),
            retry_in = ?delay,
            "cannot obtain the certificate of the public hostname, keeping the previous certificate"
        );
        // After a restart, the delay starts at the minimum again.
        let after_restart = schedule::delay(1, retry_after);
        if let Err(error) = self.store.set_retry(Retry::at(now() + after_restart)) {
            tracing::warn!(%error, "cannot store the time of the next ACME order, a restart orders at once");
        }
        Retry::at(now() + delay)
    }

    /// Returns the validity of the stored certificate, or `None` if it is missing or unusable.
    fn current(&self, now: Duration) -> Option<Validity> {
        let pem = self.store.certificate()?;
        match check(&pem, self.settings.domain(), now, &self.roots) {
            Ok(validity) => Some(validity),
            Err(error) => {
                tracing::info!(%error, "stored certificate of the public hostname is replaced");
                None
            }
        }
    }

    /// Orders, checks and stores a certificate. An error comes with the wait that the server requested.
    async fn issue(&self) -> Result<Validity, (AcmeError, Option<Duration>)> {
        let http = AcmeHttp::new(&self.roots).map_err(|why| (AcmeError::Tls(why), None))?;
        let ordered = timeout(ORDER_TIME, self.order(&http)).await;
        let pem = ordered.unwrap_or(Err(AcmeError::Slow(ORDER_TIME)));
        let stored = pem.and_then(|pem| {
            let validity = check(&pem, self.settings.domain(), now(), &self.roots)?;
            if validity.renewal() <= now() {
                return Err(AcmeError::ShortLived);
            }
            self.store.write_certificate(&pem)?;
            Ok(validity)
        });
        stored.map_err(|error| (error, http.retry_after()))
    }
}

/// Loads the certificate file into the gateway, each time the file changes, until the shutdown.
pub(crate) async fn follow(settings: &AcmeSettings, tls: &Tls, shutdown: &CancellationToken) {
    let file = settings.certificate_file();
    let mut loaded = None;
    loop {
        let stamp = stamp(&file);
        if stamp.is_some() && stamp != loaded {
            match tls.set_public(settings.domain(), &file, &file) {
                Ok(()) => tracing::info!("gateway loaded the certificate of its public hostname"),
                Err(error) => {
                    tracing::warn!(%error, "gateway cannot load the ACME certificate, using the previous certificate; \
                        delete the file to order a new certificate");
                }
            }
            // The file is replaced atomically, so a second attempt has the same result.
            loaded = stamp;
        }
        let pause = shutdown.run_until_cancelled(sleep(FOLLOW_INTERVAL));
        if pause.await.is_none() {
            return;
        }
    }
}

/// Returns the modification time and size of a file, to detect changes.
pub(crate) fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

/// Returns the time since the Unix epoch.
fn now() -> Duration {
    UNIX_EPOCH.elapsed().unwrap_or_default()
}
