//! Submission of manifests.

use super::caller::{Caller, permit, unauthorized};
use super::reply::{self, RejectionReply, RestReply, RestResult};
use super::{body, path};
use crate::App;
use crate::auth::{AccessTarget, Scope};
use crate::leadership::NotLeading;
use akash_provider_core::engine::{Refusal, RefusalKind};
use akash_provider_core::manifest::{self, Hashes, Manifest};
use axum::Extension;
use axum::extract::{Path, Request, State};
use bytes::Bytes;
use http::StatusCode;
use std::sync::Arc;

pub(super) async fn send(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Path(dseq): Path<String>,
    request: Request,
) -> RestResult {
    const SCOPE: Scope = Scope::SendManifest;
    let identity = caller.tenant()?;
    let deployment = path::deployment(&identity.owner, &dseq)?;
    // Before the body is read: a caller without permission must not make the gateway read a mebibyte.
    let services = permit(identity, SCOPE, AccessTarget::Deployment(deployment.dseq))?;
    // The manifest changes every lease of the deployment, so a grant for one of them alone is not enough.
    if identity.is_granular() {
        let status = app.handle.status().await;
        let mut of_it = status
            .leases
            .iter()
            .map(|l| &l.lease)
            .filter(|l| *l.deployment() == deployment);
        of_it.try_for_each(|lease| permit(identity, SCOPE, AccessTarget::lease(lease)).map(drop))?;
    }
    let bytes = body::read(request.into_body(), app.limits.body_bytes, app.limits.body).await?;
    let (manifest, hashes) = read(bytes).await?;
    let mut named = manifest.groups.iter().flat_map(|g| &g.services);
    // A granular token names services, and the manifest replaces all of them.
    if !named.all(|s| services.contains(&s.name)) {
        return Err(unauthorized());
    }
    let handed_in = app
        .handle
        .submit_manifest(&deployment, Arc::new(manifest), hashes);
    match handed_in.await {
        Ok(()) => {
            tracing::info!(%deployment, token = identity.token_id.as_deref(), "manifest accepted");
            Ok(reply::empty(StatusCode::OK))
        }
        Err(refusal) => {
            tracing::info!(%deployment, reason = %refusal, "manifest refused");
            Err(refused(&refusal).into())
        }
    }
}

/// Parses and hashes a manifest on a blocking thread. A manifest of 1 MiB takes milliseconds.
async fn read(bytes: Bytes) -> Result<(Manifest, Hashes), RejectionReply> {
    let reading = tokio::task::spawn_blocking(move || manifest::parse(&bytes));
    match reading.await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(reply::text(StatusCode::UNPROCESSABLE_ENTITY, error).into()),
        Err(error) => {
            tracing::error!(%error, "manifest of a tenant refused, because the parser panicked; report this as a bug");
            Err(reply::empty(StatusCode::INTERNAL_SERVER_ERROR).into())
        }
    }
}

pub(super) fn refused(refusal: &Refusal) -> RestReply {
    let status = match refusal.kind {
        RefusalKind::NoLease => StatusCode::NOT_FOUND,
        RefusalKind::VersionMismatch | RefusalKind::InvalidManifest | RefusalKind::CrossValidation => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        RefusalKind::Hostname => {
            return reply::text(StatusCode::UNPROCESSABLE_ENTITY, hostname_text(refusal));
        }
        RefusalKind::Rejected => {
            let words = format!("manifest rejected: {}", refusal.message);
            return reply::text(StatusCode::UNPROCESSABLE_ENTITY, words);
        }
        RefusalKind::Unavailable | RefusalKind::Busy | RefusalKind::Stopping | RefusalKind::NotLeader => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        // A kind without a code of its own still shows clients whether to send another manifest.
        kind if kind.is_manifest_error() => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut reply = reply::text(status, &refusal.message);
    if refusal.kind == RefusalKind::NotLeader {
        reply.extensions_mut().insert(NotLeading);
    }
    reply
}

/// Returns the text of a refusal after a fixed prefix. Consoles detect an unavailable hostname by this
/// prefix.
pub(super) fn hostname_text(refusal: &Refusal) -> String {
    const BEGINS: &str = "hostname not allowed: ";
    let words = refusal.message.strip_prefix(BEGINS).unwrap_or(&refusal.message);
    format!("{BEGINS}{words}")
}
