//! Responses that all operators share.

use super::serve::{Peer, status, typed};
use akash_provider_operators::WatchStatus;
use axum::body::Body;
use http::{Response, StatusCode};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Encodes a value with string keys as JSON.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    // Plain data always serializes to JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

/// Returns the object kinds with a pending initial list, one per line.
pub(super) fn awaited(watches: &BTreeMap<&'static str, WatchStatus>) -> String {
    let unsynced = watches
        .iter()
        .filter(|(_, watch)| watch.is_needed && !watch.synced);
    let words = unsynced.map(|(kind, watch)| match &watch.last_error {
        Some(error) => format!("initial list of {kind} pending: {error}\n"),
        None => format!("initial list of {kind} pending\n"),
    });
    words.collect()
}

pub(super) fn value(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

pub(super) fn answer(code: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut text = json(value);
    text.push(b'\n');
    typed(code, "application/json", text)
}

/// Returns an error response for a remote client, or `None` for a client on the same machine.
pub(super) fn not_local(Peer(peer): Peer, command: &str) -> Option<Response<Body>> {
    // A dual-stack socket reports 127.0.0.1 as an IPv6 address, which is not a loopback address.
    let is_local = peer.ip().to_canonical().is_loopback();
    let words = format!(
        "only local clients: run `provider-daemon operator {command}` or `provider-operators {command}` on the machine \
         of the operator\n"
    );
    (!is_local).then(|| status(StatusCode::FORBIDDEN, words))
}

/// Calls `forget` to retry the failed objects of a lease. Returns the HTTP response. Rejects remote clients,
/// because retries write to the cluster.
pub(super) fn forgotten(
    operator: &str,
    Peer(peer): Peer,
    lease: &str,
    forget: impl FnOnce() -> usize,
) -> Response<Body> {
    if let Some(refused) = not_local(Peer(peer), &format!("{operator} forget LEASE")) {
        return refused;
    }
    let count = forget();
    tracing::info!(lease, count, "failed objects of a lease are retried immediately");
    let done = serde_json::json!({ "lease": lease, "forgotten": count });
    answer(StatusCode::OK, &done)
}
