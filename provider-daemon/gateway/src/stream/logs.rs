//! Stream of log lines. Each line is one websocket frame.

use super::socket::{Ending, Socket};
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

type Lines = BoxStream<'static, Result<LogLine, Error>>;

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    message: &'a str,
}

pub(super) async fn run(app: &App, socket: Box<Socket>, lease: &LeaseId, options: LogOptions) {
    match Box::pin(open(app, lease, options)).await {
        Ok(lines) => {
            let frames = lines.map(|line| match line {
                Ok(line) => Ok(frame(&Line {
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

async fn open(app: &App, lease: &LeaseId, options: LogOptions) -> Result<Lines, Ending> {
    // As in the Go provider: otherwise a client with a misspelt service would wait forever.
    if !options.services.is_empty() && !has_any(app, lease, &options.services).await {
        return Err(Ending::new(Ending::FAILED, "no running pods"));
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

pub(super) fn ending(error: &Error) -> Ending {
    match error.kind() {
        ErrorKind::NotFound => Ending::new(Ending::NOT_FOUND, ""),
        ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::ClusterNotReady => {
            Ending::new(Ending::UNAVAILABLE, "")
        }
        _ => Ending::new(Ending::FAILED, error.message()),
    }
}
