//! What every operator answers in the same words.

use super::serve::{Peer, status};
use akash_provider_k8s::operators::WatchStatus;
use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A text of maps with texts as keys and plain data below them.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    // Such data always have a form in JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

/// What a start waits for, in words.
pub(super) fn awaited(watches: &BTreeMap<&'static str, WatchStatus>) -> String {
    let unsynced = watches
        .iter()
        .filter(|(_, watch)| watch.is_needed && !watch.synced);
    let words = unsynced.map(|(kind, watch)| match &watch.last_error {
        Some(error) => format!("{kind} are not listed yet: {error}\n"),
        None => format!("{kind} are not listed yet\n"),
    });
    words.collect()
}

/// The same as a value, to which something is added.
pub(super) fn value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// An answer made for one who asks.
pub(super) fn answer(code: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut text = json(value);
    text.push(b'\n');
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = code;
    let kind = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// Refusal of a command that is sent from another machine; `None` for a local one.
pub(super) fn not_local(Peer(peer): Peer, command: &str) -> Option<Response<Body>> {
    // A socket of both versions shows 127.0.0.1 as an address of version 6, which by itself is no loopback.
    let is_local = peer.ip().to_canonical().is_loopback();
    let words = format!("this is asked where the operator runs: provider-daemon {command}\n");
    (!is_local).then(|| status(StatusCode::FORBIDDEN, words))
}

/// Has what is of a lease tried again. It costs the cluster writes, so that only who is on this machine may ask for it.
pub(super) fn forgotten(
    operator: &str,
    Peer(peer): Peer,
    lease: &str,
    forget: impl FnOnce() -> usize,
) -> Response<Body> {
    if let Some(refused) = not_local(Peer(peer), &format!("operator {operator} forget LEASE")) {
        return refused;
    }
    let count = forget();
    tracing::info!(lease, count, "what failed of a lease is tried again");
    let done = serde_json::json!({ "lease": lease, "forgotten": count });
    answer(StatusCode::OK, &done)
}
