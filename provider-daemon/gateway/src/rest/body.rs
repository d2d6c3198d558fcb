//! Bodies of requests, with limits for size and time.

use super::reply::{self, RejectionReply};
use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::time::Duration;
use tokio::time::timeout;

/// Reads a whole request body. Rejects a body with more than `bytes_max` bytes, or a body that is not
/// complete after the time `within`.
pub(super) async fn read(body: Body, bytes_max: usize, within: Duration) -> Result<Bytes, RejectionReply> {
    let refuse = |status, words: String| Err(reply::text(status, words).into());
    // Both limits hold during the read. The declared length is untrusted.
    match timeout(within, Limited::new(body, bytes_max).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {bytes_max} bytes"),
        ),
        Ok(Err(error)) => refuse(
            StatusCode::BAD_REQUEST,
            format!("the body could not be read: {error}"),
        ),
        Err(_) => refuse(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body was not received within {within:?}"),
        ),
    }
}
