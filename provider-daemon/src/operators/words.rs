//! What every operator answers in the same words.

use super::serve::{Peer, Prepared, status};
use crate::COMMIT;
use akash_provider_k8s::operators::WatchStatus;
use axum::body::Body;
use http::{Response, StatusCode};
use serde::Serialize;
use std::collections::BTreeMap;

/// A text of maps with texts as keys and plain data below them.
pub(super) fn json(value: &impl Serialize) -> Vec<u8> {
    // Such data always have a form in JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

/// What a start waits for, in words.
pub(super) fn awaited(watches: &BTreeMap<&'static str, WatchStatus>) -> String {
    let unsynced = watches.iter().filter(|(_, watch)| !watch.synced);
    let words = unsynced.map(|(kind, watch)| match &watch.last_error {
        Some(error) => format!("{kind} are not listed yet: {error}\n"),
        None => format!("{kind} are not listed yet\n"),
    });
    words.collect()
}

/// Which program it is.
pub(super) fn version() -> Response<Body> {
    let text = serde_json::json!({
        "name": "provider-services",
        "server_name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "commit": COMMIT,
    });
    let prepared = Prepared::default();
    prepared.set(json(&text));
    prepared.answer()
}

/// Has what is of a lease tried again. It costs the cluster writes, so that only who is on this machine may ask for it.
pub(super) fn forgotten(
    operator: &str,
    Peer(peer): Peer,
    lease: &str,
    forget: impl FnOnce() -> usize,
) -> Response<Body> {
    // A socket of both versions shows 127.0.0.1 as an address of version 6, which by itself is no loopback.
    if !peer.ip().to_canonical().is_loopback() {
        let words = format!(
            "this is asked where the operator runs: provider-daemon operator {operator} forget LEASE\n"
        );
        return status(StatusCode::FORBIDDEN, words);
    }
    let count = forget();
    tracing::info!(lease, count, "what failed of a lease is tried again");
    let prepared = Prepared::default();
    prepared.set(json(&serde_json::json!({ "lease": lease, "forgotten": count })));
    prepared.answer()
}
