//! HTTP client of the ACME protocol, with limits of time and size.

use crate::download::{HttpsClient, https_client_with};
use akash_provider_core::error::chain_text;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::RootCertStore;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// Timeout of one request.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// Maximum size of a response, in bytes.
const RESPONSE_MAX: usize = 256 * 1024;
/// Media type of an error that the ACME server explains.
const PROBLEM: &str = "application/problem+json";

/// Client that stores the `Retry-After` header of the last error response. Clones share the value.
#[derive(Debug, Clone)]
pub(super) struct AcmeHttp {
    client: HttpsClient<BodyWrapper<Bytes>>,
    retry_after: Arc<Mutex<Option<Duration>>>,
}

/// Reason why there is no response in the ACME protocol.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HttpFault(String);

impl AcmeHttp {
    pub(super) fn new(roots: &Arc<RootCertStore>) -> Result<Self, String> {
        Ok(Self {
            client: https_client_with(Arc::clone(roots), 1)?,
            retry_after: Arc::default(),
        })
    }

    /// Returns the wait that the last error response requested.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn exchange(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, HttpFault> {
        let is_post = request.method() == Method::POST;
        let exchange = async {
            let response = self.client.request(request).await;
            let (parts, body) = response
                .map_err(|error| HttpFault(chain_text(&error)))?
                .into_parts();
            let body = Limited::new(body, RESPONSE_MAX).collect().await;
            let body = body.map_err(|error| {
                HttpFault(format!(
                    "incomplete response, or more than {RESPONSE_MAX} bytes: {error}"
                ))
            })?;
            Ok(Response::from_parts(parts, Full::new(body.to_bytes())))
        };
        let response = timeout(REQUEST_TIME, exchange).await;
        let response = response.map_err(|_| HttpFault(format!("no response within {REQUEST_TIME:?}")))??;
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            let wait = retry_after(response.headers(), SystemTime::now());
            *self.retry_after.lock().unwrap_or_else(PoisonError::into_inner) = wait;
            let kind = response.headers().get(CONTENT_TYPE);
            // A parameter such as `charset` may follow.
            let explained = kind.is_some_and(|kind| kind.as_bytes().starts_with(PROBLEM.as_bytes()));
            // The protocol library reads problem documents in responses to POST only.
            if !(explained && is_post) {
                return Err(HttpFault(format!("the server responded with status {status}")));
            }
        }
        Ok(response.into())
    }
}

impl HttpClient for AcmeHttp {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let exchange = self.clone().exchange(request);
        Box::pin(async move { exchange.await.map_err(|fault| Error::Other(Box::new(fault))) })
    }
}

/// Returns the wait in a `Retry-After` header, which contains seconds or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match value.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(value).ok()?.duration_since(now).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_header_contains_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Fri, 31 Dec 1999 23:00:00 GMT").unwrap();
        let wait = |value: &'static str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, value.parse().unwrap())]);
            retry_after(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(wait("120"), Some(120));
        assert_eq!(wait("Fri, 31 Dec 1999 23:59:59 GMT"), Some(3599));
        assert_eq!(wait("Fri, 31 Dec 1999 22:59:59 GMT"), None);
        for invalid in ["", "-1", "soon", "99999999999999999999"] {
            assert_eq!(wait(invalid), None, "{invalid}");
        }
    }
}
