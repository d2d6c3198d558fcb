//! The network's list of GPUs: asked for now and then, kept over restarts, and never a reason to show nothing.

use crate::files;
use akash_provider_core::error::chain_text;
use akash_provider_k8s::operators::inventory::InventoryOperator;
use akash_provider_k8s::operators::inventory::database::{BYTES_MAX, Database};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use http::header::LOCATION;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use url::Url;

/// Time for the whole of an answer, redirects included.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Redirects that are followed.
const REDIRECTS: usize = 3;
/// Name of the kept list in the folder of the state.
const KEPT: &str = "gpus.json";

/// Where the list comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    File(PathBuf),
    Network(Url),
    /// Models are named by the tools of their makers alone.
    Nowhere,
}

/// What is known of the list.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct ListStatus {
    /// Where it comes from.
    pub(super) from: String,
    /// Devices that it names.
    pub(super) devices: usize,
    /// Devices of it that make no sense.
    pub(super) skipped: usize,
    /// Its hash, in hexadecimal.
    pub(super) sha256: Option<String>,
    /// Why it was not read again; the last one that was read stays.
    pub(super) error: Option<String>,
}

/// The list, and how it fares.
#[derive(Debug)]
pub(super) struct List {
    source: Source,
    kept: Option<PathBuf>,
    every: Duration,
    status: Mutex<ListStatus>,
}

impl List {
    pub(super) fn new(source: Source, folder: Option<&Path>, every: Duration) -> Self {
        let from = match &source {
            Source::File(path) => path.display().to_string(),
            // Without a password that somebody may have put there.
            Source::Network(url) => format!("{}{}", url.host_str().unwrap_or_default(), url.path()),
            Source::Nowhere => "nowhere".to_owned(),
        };
        let status = ListStatus {
            from,
            ..ListStatus::default()
        };
        Self {
            source,
            kept: folder.map(|folder| folder.join(KEPT)),
            // A server that is asked without a pause is not asked kindly.
            every: every.max(Duration::from_secs(1)),
            status: Mutex::new(status),
        }
    }

    pub(super) fn status(&self) -> ListStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the operator's list current, for ever.
    pub(super) async fn keep(self: Arc<Self>, operator: &InventoryOperator) -> std::convert::Infallible {
        if let Some(path) = self.kept.as_ref().filter(|path| path.exists()) {
            let text = files::text(path, BYTES_MAX as u64);
            let taken = text.and_then(|text| self.take(text.as_bytes(), operator));
            if let Err(why) = taken {
                self.refuse(&format!("{}: {why}", path.display()));
            }
        }
        loop {
            match self.ask().await {
                Ok(None) => {}
                Ok(Some(text)) => match self.take(&text, operator) {
                    Ok(true) => self.store(&text),
                    Ok(false) => {}
                    Err(why) => self.refuse(&why),
                },
                Err(why) => self.refuse(&why),
            }
            sleep(self.every).await;
        }
    }

    async fn ask(&self) -> Result<Option<Vec<u8>>, String> {
        match &self.source {
            Source::Nowhere => Ok(None),
            Source::File(path) => files::bytes(path, BYTES_MAX as u64).map(Some),
            Source::Network(url) => {
                let asked = timeout(ANSWER_TIME, fetch(url)).await;
                let answer = asked.map_err(|_| format!("no answer within {ANSWER_TIME:?}"))??;
                Ok(Some(answer))
            }
        }
    }

    /// Takes a list over; true where it is another one than before.
    fn take(&self, text: &[u8], operator: &InventoryOperator) -> Result<bool, String> {
        let hash = HEXLOWER.encode(&Sha256::digest(text));
        let is_same = self.status().sha256.as_ref() == Some(&hash);
        let list = if is_same {
            None
        } else {
            Some(Database::read(text)?)
        };
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.error = None;
        let Some(list) = list else {
            return Ok(false);
        };
        tracing::info!(
            devices = list.len(),
            from = status.from,
            "the list of GPUs is another one"
        );
        (status.devices, status.skipped, status.sha256) = (list.len(), list.skipped(), Some(hash));
        drop(status);
        operator.set_list(list);
        Ok(true)
    }

    fn refuse(&self, why: &str) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        // An outage is said once.
        if status.error.is_none() {
            tracing::warn!(
                from = status.from,
                why,
                "the list of GPUs could not be read; the last one stays"
            );
        }
        status.error = Some(why.to_owned());
    }

    fn store(&self, text: &[u8]) {
        let Some(path) = &self.kept else {
            return;
        };
        // Beside it first: a list that was half written would be none.
        let fresh = path.with_extension("new");
        let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, path));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "the list of GPUs could not be kept");
        }
    }
}

type Https = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

fn client() -> Result<Https, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = builder.map_err(|error| error.to_string())?;
    let tls = tls.with_root_certificates(roots).with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .build();
    // Asked every few minutes: a connection for each is cheap, and none stays open.
    Ok(Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector))
}

/// The answer of the server, after some redirects at most.
async fn fetch(url: &Url) -> Result<Vec<u8>, String> {
    let client = client()?;
    let mut url = url.clone();
    for _ in 0..=REDIRECTS {
        let request = Request::get(url.as_str())
            .header("user-agent", "provider-daemon")
            .body(Empty::new());
        let request = request.map_err(|error| error.to_string())?;
        let answer = client
            .request(request)
            .await
            .map_err(|error| chain_text(&error))?;
        let status = answer.status();
        if status.is_redirection() {
            url = onward(&url, answer.headers().get(LOCATION))?;
            continue;
        }
        if status != StatusCode::OK {
            return Err(format!("the server answers {status}"));
        }
        let body = Limited::new(answer.into_body(), BYTES_MAX).collect().await;
        let body = body
            .map_err(|error| format!("the answer broke off, or is longer than {BYTES_MAX} bytes: {error}"))?;
        return Ok(body.to_bytes().to_vec());
    }
    Err(format!("more than {REDIRECTS} redirects"))
}

/// Where a redirect leads.
fn onward(from: &Url, location: Option<&http::HeaderValue>) -> Result<Url, String> {
    let text = location
        .and_then(|value| value.to_str().ok())
        .ok_or("a redirect to nowhere")?;
    let to = from
        .join(text)
        .map_err(|error| format!("a redirect to no URL: {error}"))?;
    // Who listens in between must not take TLS off.
    if to.scheme() != "https" && to.scheme() != from.scheme() {
        return Err("a redirect away from https".to_owned());
    }
    Ok(to)
}

#[cfg(test)]
mod tests;
