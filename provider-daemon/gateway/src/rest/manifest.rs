//! Manifests come in.

use super::answer::{self, Answer};
use super::caller::{permit, unauthorized};
use super::{Caller, Refused, body, path};
use crate::App;
use crate::auth::{Scope, Target};
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
) -> Answer {
    match take(&app, &caller, &dseq, request).await {
        Ok(answer) => answer,
        Err(refused) => *refused,
    }
}

async fn take(app: &App, caller: &Caller, dseq: &str, request: Request) -> Result<Answer, Refused> {
    const SCOPE: Scope = Scope::SendManifest;
    let identity = caller.tenant()?;
    let deployment = path::deployment(&identity.owner, dseq)?;
    // Before the body is read: a mebibyte of somebody who may not send it is not taken.
    let services = permit(identity, SCOPE, Target::Deployment(deployment.dseq))?;
    // It changes every lease of the deployment, so a grant for one of them alone is not enough for the others.
    if identity.is_granular() {
        let status = app.handle.status().await;
        let mut of_it = status
            .leases
            .iter()
            .map(|l| &l.lease)
            .filter(|l| *l.deployment() == deployment);
        of_it.try_for_each(|lease| permit(identity, SCOPE, Target::lease(lease)).map(drop))?;
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
            tracing::info!(%deployment, token = identity.token_id.as_deref(), "a manifest was taken");
            Ok(answer::empty(StatusCode::OK))
        }
        Err(refusal) => {
            tracing::info!(%deployment, "a manifest was refused: {refusal}");
            Err(Box::new(refused(&refusal)))
        }
    }
}

/// Reads and hashes away from the tasks that serve others: a mebibyte takes milliseconds.
async fn read(bytes: Bytes) -> Result<(Manifest, Hashes), Refused> {
    let reading = tokio::task::spawn_blocking(move || manifest::parse(&bytes));
    match reading.await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(Box::new(answer::text(StatusCode::UNPROCESSABLE_ENTITY, error))),
        Err(error) => {
            tracing::error!("reading a manifest ended badly: {error}");
            Err(Box::new(answer::empty(StatusCode::INTERNAL_SERVER_ERROR)))
        }
    }
}

/// What a refusal means to a client.
pub(super) fn refused(refusal: &Refusal) -> Answer {
    let status = match refusal.kind {
        RefusalKind::NoLease => StatusCode::NOT_FOUND,
        RefusalKind::VersionMismatch | RefusalKind::InvalidManifest | RefusalKind::CrossValidation => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        RefusalKind::Hostname => {
            return answer::text(StatusCode::UNPROCESSABLE_ENTITY, hostname_text(refusal));
        }
        RefusalKind::Rejected => {
            let words = format!("manifest rejected: {}", refusal.message);
            return answer::text(StatusCode::UNPROCESSABLE_ENTITY, words);
        }
        RefusalKind::Unavailable | RefusalKind::Busy | RefusalKind::Stopping | RefusalKind::NotLeader => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        // A kind without a code of its own still tells a client whether it has to send another manifest.
        kind if kind.is_of_manifest() => StatusCode::UNPROCESSABLE_ENTITY,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut answer = answer::text(status, &refusal.message);
    if refusal.kind == RefusalKind::NotLeader {
        answer.extensions_mut().insert(NotLeading);
    }
    answer
}

/// Consoles know a hostname that cannot be had by how the text begins.
pub(super) fn hostname_text(refusal: &Refusal) -> String {
    const BEGINS: &str = "hostname not allowed: ";
    let words = refusal.message.strip_prefix(BEGINS).unwrap_or(&refusal.message);
    format!("{BEGINS}{words}")
}
