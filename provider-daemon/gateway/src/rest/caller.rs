//! Who asks, as the routes see it.

use super::{Refused, answer};
use crate::App;
use crate::auth::{Access, CredentialValidity, Credentials, Denial, Identity, Scope, Services, Target};
use crate::listen::Peer;
use axum::extract::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use std::sync::Arc;
use std::time::Duration;

/// The caller of a request; nobody where nothing was shown.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    identity: Option<Arc<Identity>>,
    peer: Option<Peer>,
}

impl Caller {
    /// What a request shows is taken out first: bodies cannot be shared between threads.
    pub(super) fn of<'a>(
        app: &'a App,
        request: &Request,
    ) -> impl Future<Output = Result<Self, Denial>> + Send + use<'a> {
        let peer = request.extensions().get::<Peer>().cloned();
        let header = request.headers().get(AUTHORIZATION).cloned();
        async move {
            let shown = Credentials {
                header: header.as_ref().map(HeaderValue::as_bytes),
                certificate: peer.as_ref().and_then(|p| p.certificate.as_deref()),
                peer: Peer::ip(peer.as_ref()),
            };
            let identity = app.auth.identify(shown).await?;
            if let (Some(identity), Some(peer)) = (&identity, &peer) {
                // Before the request is judged: a connection that shows a token is not closed like one that shows none.
                let is_leased = app.status.has_lease(&identity.owner).await;
                peer.connection.used_by(&identity.owner, is_leased);
            }
            Ok(Self { identity, peer })
        }
    }

    /// True when nothing was shown.
    pub(super) const fn is_nobody(&self) -> bool {
        self.identity.is_none()
    }

    /// The tenant; somebody who may do anything here at all.
    pub(crate) fn tenant(&self) -> Result<&Arc<Identity>, Refused> {
        match &self.identity {
            Some(identity) if identity.access != Access::Elsewhere => Ok(identity),
            Some(_) | None => Err(unauthorized()),
        }
    }

    /// For how long what was shown holds.
    pub(crate) fn validity(&self, app: &App) -> CredentialValidity {
        let until = self.identity.as_ref().map_or(Duration::MAX, |i| i.until);
        CredentialValidity::new(&app.auth, self.peer.as_ref(), until, app.limits.recheck)
    }
}

/// In which services this may be done.
pub(crate) fn permit(identity: &Identity, scope: Scope, target: Target) -> Result<Services, Refused> {
    identity.permits(scope, target).ok_or_else(unauthorized)
}

/// 401 for whoever may not do this; the same words as for nobody, so that they tell nothing about the lease.
pub(crate) fn unauthorized() -> Refused {
    Box::new(answer::denied(Denial::Unauthorized))
}
