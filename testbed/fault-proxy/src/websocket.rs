//! A websocket with pushed blocks, which may be lost, repeated or delayed.

use crate::faults::ProxyFaults;
use futures::{SinkExt, StreamExt};
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

const NEW_BLOCK: &str = "tendermint/event/NewBlock\"";

/// Accepts the websocket of a client, and opens one to the node.
pub(crate) fn upgrade(shared: Arc<ProxyFaults>, mut request: Request<Incoming>) -> io::Result<Response<()>> {
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| io::Error::other("no websocket key"))?;
    let accept = derive_accept_key(key.as_bytes());
    let path = request.uri().path().to_owned();
    let upgrading = hyper::upgrade::on(&mut request);
    let cut = shared.cutter();
    tokio::spawn(async move {
        let Ok(upgraded) = upgrading.await else { return };
        let client = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        tokio::select! {
            biased;
            () = cut.cancelled() => {}
            () = pass(&shared, client, &path) => {}
        }
    });
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let accept = HeaderValue::from_str(&accept).map_err(io::Error::other)?;
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// Forwards messages in both directions until a side or a fault closes the connection.
async fn pass<S>(shared: &ProxyFaults, client: WebSocketStream<S>, path: &str)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let url = format!("ws://{}{path}", shared.upstream);
    let Ok((node, _)) = tokio_tungstenite::connect_async(url).await else {
        return;
    };
    shared.count(|stats| stats.subscriptions += 1);
    let (mut to_client, mut from_client) = client.split();
    let (mut to_node, mut from_node) = node.split();
    let upwards = async {
        while let Some(Ok(message)) = from_client.next().await {
            shared.thaw().await;
            // The proxy responds to pings itself.
            let passes = message.is_text() || message.is_binary() || message.is_close();
            if passes && to_node.send(message).await.is_err() {
                return;
            }
        }
    };
    let downwards = async {
        let mut late = VecDeque::new();
        let mut again = None;
        while let Some(Ok(message)) = from_node.next().await {
            shared.thaw().await;
            shared.delay().await;
            let is_block = message.to_text().is_ok_and(|text| text.contains(NEW_BLOCK));
            if is_block {
                let lie = shared.faults().lie;
                let changed = lie.and_then(|lie| lie.change_push(message.to_text().ok()?));
                if changed.is_some() {
                    shared.count(|stats| stats.faults += 1);
                }
                late.push_back(changed.map_or(message, Message::text));
                let lag = usize::try_from(shared.faults().lag).unwrap_or(usize::MAX);
                while late.len() > lag {
                    let Some(block) = late.pop_front() else { break };
                    if push(shared, &mut to_client, block, &mut again).await.is_err() {
                        return;
                    }
                }
            } else if (message.is_text() || message.is_binary()) && to_client.send(message).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = upwards => {}
        () = downwards => {}
    }
}

/// Pushes a block to the client, unless the fault `lose_events` drops the block. With the fault
/// `repeat_events`, a block is pushed again after the next block.
async fn push<S>(
    shared: &ProxyFaults,
    to_client: &mut S,
    block: Message,
    again: &mut Option<Message>,
) -> Result<(), S::Error>
where
    S: futures::Sink<Message> + Unpin,
{
    let faults = shared.faults();
    if shared.injects(faults.lose_events) {
        return Ok(());
    }
    shared.count(|stats| stats.pushed += 1);
    to_client.send(block.clone()).await?;
    if let Some(old) = again.take() {
        to_client.send(old).await?;
    }
    if shared.injects(faults.repeat_events) {
        *again = Some(block);
    }
    Ok(())
}
