//! Stream of log lines. Each line is one websocket frame.

use super::socket::{StreamClose, StreamSocket};
use crate::App;
use crate::rest::reply::encode;
use akash_provider_core::cluster::{LogLine, LogOptions};
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_core::types::LeaseId;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde::Serialize;
use std::future::ready;
use tokio_tungstenite::tungstenite::Message;

type LogLineStream = BoxStream<'static, Result<LogLine, Error>>;

#[derive(Serialize)]
struct LogFrame<'a> {
    name: &'a str,
    message: &'a str,
}

pub(super) async fn run(app: &App, socket: Box<StreamSocket>, lease: &LeaseId, options: LogOptions) {
    match Box::pin(open(app, lease, options)).await {
        Ok(lines) => {
            let frames = lines.map(|line| match line {
                Ok(line) => Ok(frame(&LogFrame {
                    name: &line.name,
                    message: &line.message,
                })),
                Err(error) => Err(ending(&error)),
            });
            socket.send_all(frames, |_| ready(())).await;
        }
        Err(ending) => socket.end(ending).await,
    }
}

async fn open(app: &App, lease: &LeaseId, options: LogOptions) -> Result<LogLineStream, StreamClose> {
    // As in the Go provider: otherwise a client with a misspelt service would wait forever.
    if !options.services.is_empty() && !has_any(app, lease, &options.services).await {
        return Err(StreamClose::new(StreamClose::FAILED, "no running pods"));
    }
    let opening = app.cluster.lease_logs(lease, options);
    app.bounded("logs", opening).await.map_err(|error| ending(&error))
}

/// Returns false if the lease has none of these services. Returns true if the query fails: the stream then
/// reports the failure.
async fn has_any(app: &App, lease: &LeaseId, services: &[String]) -> bool {
    let call = app.cluster.lease_status(lease);
    match app.bounded("lease status", call).await {
        Ok(status) => services.iter().any(|s| status.services.contains_key(s)),
        Err(_) => true,
    }
}

/// Encodes a value as a websocket text frame with one line of JSON.
pub(super) fn frame(value: &impl Serialize) -> Message {
    let mut text = encode(value);
    text.push('\n');
    Message::text(text)
}

pub(super) fn ending(error: &Error) -> StreamClose {
    match error.kind() {
        ErrorKind::NotFound => StreamClose::new(StreamClose::NOT_FOUND, ""),
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::ClusterNotReady => {
            StreamClose::new(StreamClose::UNAVAILABLE, "")
        }
        _ => StreamClose::new(StreamClose::FAILED, error.message()),
    }
}
