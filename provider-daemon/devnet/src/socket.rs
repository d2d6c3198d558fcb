//! Websocket with calls and subscriptions. A slow client loses events, as on Akash nodes.

use super::block::DevnetBlock;
use super::event::DevnetEvent;
use super::filter::{Facts, Filter};
use super::node::DevnetNode;
use super::rpc::{block_facts, one, tx_facts};
use super::rpc_call::{JsonRpcCall, RpcFailure, envelope};
use super::serve::ServerLimits;
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

/// Maximum number of subscriptions per client: the default of Akash nodes.
const SUBSCRIPTIONS_MAX: usize = 5;
/// Maximum length of a subscription query, the same as on Akash nodes.
const QUERY_MAX: usize = 512;
const WRITE_TIME: Duration = Duration::from_secs(10);
/// Kinds of events that occur exactly once in each block.
const BLOCK_KINDS: [&str; 3] = ["NewBlock", "NewBlockHeader", "NewBlockEvents"];

type Stream = WebSocketStream<TokioIo<Upgraded>>;

struct Subscription {
    id: Value,
    query: String,
    filter: Filter,
}

pub(super) async fn serve(
    node: DevnetNode,
    stream: TokioIo<Upgraded>,
    limits: ServerLimits,
    stop: CancellationToken,
) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(limits.request_bytes))
        .max_frame_size(Some(limits.request_bytes));
    let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let mut socket = RpcWebsocket {
        blocks: node.subscribe(),
        node,
        stream,
        subscriptions: Vec::new(),
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        ended = socket.run() => if let Err(error) = ended {
            tracing::debug!(%error, "websocket failed");
        }
    }
}

struct RpcWebsocket {
    node: DevnetNode,
    stream: Stream,
    blocks: broadcast::Receiver<Arc<DevnetBlock>>,
    subscriptions: Vec<Subscription>,
}

impl RpcWebsocket {
    async fn run(&mut self) -> Result<(), Error> {
        loop {
            tokio::select! {
                biased;
                // Calls first: an unsubscribe also drops the blocks in the queue.
                message = self.stream.next() => match message {
                    Some(Ok(Message::Text(text))) => self.message(text.as_bytes()).await?,
                    Some(Ok(Message::Binary(bytes))) => self.message(&bytes).await?,
                    // The library responds to pings; the response is sent with the next write.
                    Some(Ok(Message::Ping(_))) => self.stream.flush().await?,
                    Some(Ok(Message::Pong(_) | Message::Frame(_))) => {}
                    Some(Ok(Message::Close(_))) | None => return Ok(()),
                    Some(Err(error)) => return Err(error),
                },
                block = self.blocks.recv() => match block {
                    Ok(block) => self.notify(&block).await?,
                    Err(RecvError::Lagged(lost)) => tracing::debug!(lost, "slow subscriber lost blocks"),
                    Err(RecvError::Closed) => return Ok(()),
                },
            }
        }
    }

    async fn send(&mut self, value: &Value) -> Result<(), Error> {
        let sent = self.stream.send(Message::text(value.to_string()));
        let late = |_| Error::Io(std::io::Error::from(std::io::ErrorKind::TimedOut));
        tokio::time::timeout(WRITE_TIME, sent).await.map_err(late)?
    }

    async fn message(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let call = match serde_json::from_slice::<JsonRpcCall>(bytes) {
            Ok(call) => call,
            Err(error) => {
                let failure = RpcFailure::parse(error.to_string());
                return self.send(&envelope(&Value::Null, Err(failure))).await;
            }
        };
        let id = call.id.clone();
        let result = match call.method.as_str() {
            "subscribe" => self.subscribe(&call),
            "unsubscribe" => self.unsubscribe(&call),
            "unsubscribe_all" => {
                self.subscriptions.clear();
                Ok(json!({}))
            }
            _ => one(&self.node, call).await,
        };
        self.send(&envelope(&id, result)).await
    }

    fn subscribe(&mut self, call: &JsonRpcCall) -> Result<Value, RpcFailure> {
        let query = query(call)?;
        if self.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            let text = format!("max_subscriptions_per_client {SUBSCRIPTIONS_MAX} reached");
            return Err(RpcFailure::internal(text));
        }
        // Before it is parsed, because the time of parsing grows with the length.
        if query.len() > QUERY_MAX {
            return Err(RpcFailure::internal("maximum query length exceeded"));
        }
        let filter = Filter::parse(&query).map_err(RpcFailure::internal)?;
        if self.subscriptions.iter().any(|s| s.query == query) {
            return Err(RpcFailure::internal("already subscribed"));
        }
        self.subscriptions.push(Subscription {
            id: call.id.clone(),
            query,
            filter,
        });
        Ok(json!({}))
    }

    fn unsubscribe(&mut self, call: &JsonRpcCall) -> Result<Value, RpcFailure> {
        let query = query(call)?;
        let before = self.subscriptions.len();
        self.subscriptions.retain(|s| s.query != query);
        if self.subscriptions.len() == before {
            return Err(RpcFailure::internal("subscription not found"));
        }
        Ok(json!({}))
    }

    async fn notify(&mut self, block: &DevnetBlock) -> Result<(), Error> {
        for kind in BLOCK_KINDS {
            let facts = block_facts(block, kind);
            let frames = self.frames(&facts, kind, || block_value(block, kind));
            for frame in frames {
                self.send(&frame).await?;
            }
        }
        // The values of a transaction are many strings, created only for subscriptions that may match.
        let for_txs = |s: &Subscription| s.filter.only("tm.event").is_none_or(|kind| kind == "Tx");
        if !self.subscriptions.iter().any(for_txs) {
            return Ok(());
        }
        for index in 0..block.txs.len() {
            let facts = tx_facts(block, index);
            let frames = self.frames(&facts, "Tx", || block.tx_event(index).unwrap_or_default());
            for frame in frames {
                self.send(&frame).await?;
            }
        }
        Ok(())
    }

    fn frames(&self, facts: &Facts, kind: &str, value: impl FnOnce() -> Value) -> Vec<Value> {
        let matching = self.subscriptions.iter().filter(|s| s.filter.matches(facts));
        let matching: Vec<&Subscription> = matching.collect();
        // The JSON of a block is large, and created only for a matching subscription.
        if matching.is_empty() {
            return Vec::new();
        }
        let data = json!({"type": format!("tendermint/event/{kind}"), "value": value()});
        let frame = |s: &&Subscription| {
            let result = json!({"query": s.query, "data": data, "events": facts});
            json!({"jsonrpc": "2.0", "id": s.id, "result": result})
        };
        matching.iter().map(frame).collect()
    }
}

fn query(call: &JsonRpcCall) -> Result<String, RpcFailure> {
    let query = match &call.params {
        Some(Value::Object(params)) => params.get("query"),
        Some(Value::Array(params)) => params.first(),
        _ => None,
    };
    let query = query.and_then(Value::as_str);
    query
        .map(str::to_owned)
        .ok_or_else(|| RpcFailure::params("the parameter `query` is a text"))
}

fn block_value(block: &DevnetBlock, kind: &str) -> Value {
    match kind {
        "NewBlock" => block.new_block(),
        "NewBlockHeader" => json!({"header": block.header()}),
        _ => {
            let events: Vec<Value> = block.events().iter().map(DevnetEvent::json).collect();
            json!({
                "height": block.height.to_string(),
                "events": events,
                "num_txs": block.txs.len().to_string(),
            })
        }
    }
}
