//! Subscription to `NewBlock` events over a websocket.
//!
//! If no message arrives before the deadline, not even a pong, the connection is closed. A node drops events
//! for a slow client. The follower then detects the missing heights and fetches the blocks.

use super::block::Block;
use super::status::FollowerSettings;
use crate::connection;
use crate::convert::excerpt;
use crate::endpoint::NodeEndpoint;
use crate::fault::{Fault, NodeError, causes};
use crate::limits::EndpointLimits;
use crate::rpc::types::{Envelope, FrameResult, NewBlock};
use futures::{SinkExt, StreamExt};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

const METHOD: &str = "subscribe";
const SUBSCRIBE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"query":"tm.event='NewBlock'"}}"#;
const NEW_BLOCK: &str = "tendermint/event/NewBlock";

/// Subscription to the blocks of one node. Dropping this value closes the connection.
pub(super) struct BlockSubscription {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    endpoint: Arc<NodeEndpoint>,
    chain_id: String,
    ping: Interval,
    settings: FollowerSettings,
    last_message: Instant,
}

impl BlockSubscription {
    /// Connects and subscribes. If the node refuses the subscription, [`BlockSubscription::next`] returns the error.
    pub(super) async fn open(
        endpoint: Arc<NodeEndpoint>,
        chain_id: &str,
        limits: EndpointLimits,
        settings: FollowerSettings,
    ) -> Result<Self, NodeError> {
        let error = |fault| endpoint.error(METHOD, fault);
        let mut request = request(&endpoint).map_err(error)?;
        if let Some(value) = credentials(&endpoint) {
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        let tls = endpoint.tls.as_ref().map(Arc::clone);
        let connector = tls.map_or(Connector::Plain, Connector::Rustls);
        let config = WebSocketConfig::default()
            .max_message_size(Some(limits.response_bytes))
            .max_frame_size(Some(limits.response_bytes));
        let connecting = connect_async_tls_with_config(request, Some(config), true, Some(connector));
        // A node that accepts connections but does not respond must not block the others.
        let time = settings.read_deadline.min(limits.connect_time);
        let connected = tokio::time::timeout(time, connecting).await;
        let connected = connected.map_err(|_| error(Fault::Timeout(time)))?;
        let (mut stream, _) = connected.map_err(|e| error(connection::fault(&e, false)))?;
        let sent = stream.send(Message::text(SUBSCRIBE)).await;
        sent.map_err(|e| error(Fault::Unreachable(causes(&e))))?;
        let mut ping = tokio::time::interval(settings.ping_interval);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            stream,
            chain_id: chain_id.to_owned(),
            ping,
            settings,
            last_message: Instant::now(),
            endpoint,
        })
    }

    /// Returns the next block. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Block, NodeError> {
        loop {
            let deadline = self.last_message + self.settings.read_deadline;
            tokio::select! {
                biased;
                // Checked before the deadline: a received message counts, even if this task was scheduled late.
                message = self.stream.next() => {
                    self.last_message = Instant::now();
                    if let Some(block) = self.message(message)? {
                        return Ok(block);
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    return Err(self.error(Fault::Timeout(self.settings.read_deadline)));
                }
                _ = self.ping.tick() => {
                    let sent = self.stream.send(Message::Ping(bytes::Bytes::new())).await;
                    sent.map_err(|e| self.error(Fault::Unreachable(causes(&e))))?;
                }
            }
        }
    }

    pub(super) fn endpoint(&self) -> Arc<str> {
        Arc::clone(&self.endpoint.name)
    }

    fn error(&self, fault: Fault) -> NodeError {
        self.endpoint.error(METHOD, fault)
    }

    fn message(
        &self,
        message: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
    ) -> Result<Option<Block>, NodeError> {
        let bytes = match message {
            Some(Ok(Message::Text(text))) => bytes::Bytes::from(text),
            Some(Ok(Message::Binary(bytes))) => bytes,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return Ok(None),
            Some(Ok(Message::Close(frame))) => {
                let why = frame.map(|f| f.reason.to_string()).unwrap_or_default();
                let fault = Fault::Unreachable(format!("node closed the connection: {}", excerpt(&why)));
                return Err(self.error(fault));
            }
            Some(Err(error)) => return Err(self.error(Fault::Unreachable(causes(&error)))),
            None => return Err(self.error(Fault::Unreachable("connection closed".to_owned()))),
        };
        frame(&bytes, &self.chain_id).map_err(|fault| self.error(fault))
    }
}

/// Decodes a message. Returns the block of a `NewBlock` event, or `None` for other messages.
pub(super) fn frame(bytes: &[u8], chain_id: &str) -> Result<Option<Block>, Fault> {
    let malformed = |e: serde_json::Error| Fault::Malformed(format!("websocket message: {e}"));
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(malformed)?;
    // Nodes with too many subscribers report this error here.
    if let Some(error) = envelope.error {
        return Err(error.into_fault());
    }
    let Some(result) = envelope.result else {
        return Ok(None);
    };
    let result: FrameResult<'_> = serde_json::from_str(result.get()).map_err(malformed)?;
    let Some(data) = result.data.filter(|data| data.kind == NEW_BLOCK) else {
        return Ok(None);
    };
    let missing = || Fault::Malformed("event without a value".to_owned());
    let value = data.value.ok_or_else(missing)?;
    let event: NewBlock = serde_json::from_str(value.get()).map_err(malformed)?;
    Block::from_event(event, chain_id).map(Some)
}

fn request(
    endpoint: &NodeEndpoint,
) -> Result<tokio_tungstenite::tungstenite::handshake::client::Request, Fault> {
    let mut url = endpoint.url.clone();
    let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
    let path = format!("{}/websocket", url.path().trim_end_matches('/'));
    url.set_path(&path);
    // Fails only for addresses without a host. Endpoints have a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let rest = url.as_str().split_once(':').map_or("", |(_, rest)| rest);
    let request = format!("{scheme}:{rest}").into_client_request();
    request.map_err(|e| Fault::Unreachable(causes(&e)))
}

fn credentials(endpoint: &NodeEndpoint) -> Option<HeaderValue> {
    let url = &endpoint.url;
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let pair = format!("{}:{}", url.username(), url.password().unwrap_or_default());
    let encoded = data_encoding::BASE64.encode(pair.as_bytes());
    HeaderValue::from_str(&format!("Basic {encoded}")).ok()
}
