//! Caller of a REST request.

use super::reply::{self, RejectionReply};
use crate::App;
use crate::auth::{
    Access, AccessTarget, CredentialValidity, Denial, Identity, RequestCredentials, Scope, Services,
};
use crate::listen::Peer;
use axum::extract::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use std::sync::Arc;
use std::time::Duration;

/// Caller of a request. A caller without credentials is anonymous.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    identity: Option<Arc<Identity>>,
    peer: Option<Peer>,
}

impl Caller {
    /// Identifies the caller. The returned future does not borrow the request.
    pub(super) fn from_request<'a>(
        app: &'a App,
        request: &Request,
    ) -> impl Future<Output = Result<Self, Denial>> + Send + use<'a> {
        let peer = request.extensions().get::<Peer>().cloned();
        let header = request.headers().get(AUTHORIZATION).cloned();
        async move {
            let credentials = RequestCredentials {
                header: header.as_ref().map(HeaderValue::as_bytes),
                certificate: peer.as_ref().and_then(|p| p.certificate.as_deref()),
                peer: Peer::ip(peer.as_ref()),
            };
            let identified = app.auth.identify(credentials).await;
            let identity = identified.inspect_err(|denial| app.counters.count_denial(*denial))?;
            if let (Some(identity), Some(peer)) = (&identity, &peer) {
                // Before the permission check: a connection that authenticates is closed later than an anonymous one.
                let is_leased = app.status.has_lease(&identity.owner).await;
                peer.connection.used_by(&identity.owner, is_leased);
            }
            Ok(Self { identity, peer })
        }
    }

    pub(super) const fn is_anonymous(&self) -> bool {
        self.identity.is_none()
    }

    /// Returns the identity of a caller that has a permission at this provider. For other callers, returns
    /// the 401 response.
    pub(crate) fn tenant(&self) -> Result<&Arc<Identity>, RejectionReply> {
        match &self.identity {
            Some(identity) if identity.access != Access::OtherProviders => Ok(identity),
            Some(_) | None => Err(unauthorized()),
        }
    }

    pub(crate) fn validity(&self, app: &App) -> CredentialValidity {
        let until = self.identity.as_ref().map_or(Duration::MAX, |i| i.until);
        CredentialValidity::new(&app.auth, self.peer.as_ref(), until, app.limits.recheck)
    }
}

/// Returns the services of `target` that the permission `scope` covers. Without this permission, returns the
/// 401 response.
pub(crate) fn permit(
    identity: &Identity,
    scope: Scope,
    target: AccessTarget,
) -> Result<Services, RejectionReply> {
    identity.permits(scope, target).ok_or_else(unauthorized)
}

/// Returns the 401 response for a missing permission or credential. The response does not show whether the
/// lease exists.
pub(crate) fn unauthorized() -> RejectionReply {
    reply::denied(Denial::Unauthorized).into()
}
