//! HTTP client of the collector. It records why a request failed, which the exporter library does not report.

use crate::download::{HttpsClient, https_client};
use akash_provider_core::error::chain_text;
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum size of a response, in bytes.
const RESPONSE_MAX: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SendFailure {
    pub(super) message: String,
    /// True if the same request may succeed later.
    pub(super) is_transient: bool,
}

/// Number of rejected items in an accepted request, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PartialSuccess {
    pub(super) items: u64,
    pub(super) message: String,
}

pub(super) struct CollectorClient {
    client: HttpsClient<Full<Bytes>>,
    /// Maximum time of a request.
    limit: Duration,
    result: Mutex<Option<Result<PartialSuccess, SendFailure>>>,
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient").finish_non_exhaustive()
    }
}

impl CollectorClient {
    /// Creates a client.
    ///
    /// # Errors
    /// Returns an error if TLS cannot be configured.
    pub(super) fn new(limit: Duration) -> Result<Self, String> {
        Ok(Self {
            // Connections are reused, because requests follow each other within seconds.
            client: https_client(1)?,
            limit,
            result: Mutex::default(),
        })
    }

    /// Removes and returns the result of the last request.
    pub(super) fn take_result(&self) -> Option<Result<PartialSuccess, SendFailure>> {
        self.locked().take()
    }

    fn locked(&self) -> MutexGuard<'_, Option<Result<PartialSuccess, SendFailure>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn request(&self, request: Request<Bytes>) -> Result<Response<Bytes>, SendFailure> {
        let transient = |message: String| SendFailure {
            message,
            is_transient: true,
        };
        let response = self
            .client
            .request(request.map(Full::new))
            .await
            .map_err(|error| transient(chain_text(&error)))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, RESPONSE_MAX).collect().await;
        let body = body.map_err(|error| transient(format!("incomplete response: {error}")))?;
        if !head.status.is_success() {
            return Err(SendFailure {
                message: format!("the collector responded with status {}", head.status),
                is_transient: is_transient(head.status),
            });
        }
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = timeout(self.limit, self.request(request)).await;
        let response = response.unwrap_or_else(|_| {
            Err(SendFailure {
                message: format!("no response within {:?}", self.limit),
                is_transient: true,
            })
        });
        let result = response.as_ref().map(|response| rejection(response.body()));
        *self.locked() = Some(result.map_err(Clone::clone));
        response.map_err(|failure| failure.message.into())
    }
}

/// Returns true if the protocol permits a retry after this status.
fn is_transient(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Returns the number of items that the collector rejected, and its message. For an undecodable response, the
/// number is 0.
fn rejection(body: &Bytes) -> PartialSuccess {
    let response = ExportTraceServiceResponse::decode(body.clone()).unwrap_or_default();
    let Some(partial) = response.partial_success else {
        return PartialSuccess::default();
    };
    PartialSuccess {
        items: u64::try_from(partial.rejected_spans).unwrap_or_default(),
        message: partial.error_message,
    }
}
