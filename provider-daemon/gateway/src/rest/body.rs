//! Bodies of requests: of a limited size, within a limited time.

use super::{Refused, answer};
use axum::body::Body;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::time::Duration;
use tokio::time::timeout;

/// Reads a body whole.
pub(super) async fn read(body: Body, bytes_max: usize, within: Duration) -> Result<Bytes, Refused> {
    let refuse = |status, words: String| Err(Box::new(answer::text(status, words)));
    // Size and time are both limited while it is read. The declared length is only what the client says.
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
            format!("the body did not come within {within:?}"),
        ),
    }
}
