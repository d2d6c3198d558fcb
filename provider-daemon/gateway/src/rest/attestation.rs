//! Attestation quotes. No backend offers confidential computing, so each quote is refused.

use super::caller::Caller;
use super::lease::permitted;
use super::path::LeasePath;
use super::reply::{self, RestResult};
use crate::App;
use crate::auth::Scope;
use axum::Extension;
use axum::extract::{Path, State};
use http::StatusCode;
use std::sync::Arc;

/// Reason why no quote is available, for REST and gRPC clients.
pub(crate) const NOT_OFFERED: &str = "confidential computing is not offered by this provider";

/// Responds with 404, like a Go provider for a lease without confidential computing.
pub(super) async fn quote(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(path): Path<LeasePath>,
) -> RestResult {
    permitted(&app, &caller, &path, Scope::Attestation)?;
    let words = format!("attestation quote failed: {NOT_OFFERED}");
    Ok(reply::text(StatusCode::NOT_FOUND, words))
}
