//! Who asks, as the routes see it.

use super::{Refused, answer};
use crate::gateway::auth::{Access, Authenticator, Credentials, Denial, Identity, Scope, Services, Target};
use crate::gateway::listen::Peer;
use axum::extract::Request;
use http::header::{AUTHORIZATION, HeaderValue};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The caller of a request; nobody where nothing was shown.
#[derive(Debug, Clone)]
pub(in crate::gateway) struct Caller(Option<Arc<Identity>>);

impl Caller {
    /// What a request shows is taken out first: bodies cannot be shared between threads.
    pub(super) fn of<'a>(
        auth: &'a Authenticator,
        request: &Request,
    ) -> impl Future<Output = Result<Self, Denial>> + Send + use<'a> {
        let peer = request.extensions().get::<Peer>().cloned();
        let header = request.headers().get(AUTHORIZATION).cloned();
        async move {
            let shown = Credentials {
                header: header.as_ref().map(HeaderValue::as_bytes),
                certificate: peer.as_ref().and_then(|p| p.certificate.as_deref()),
                peer: peer
                    .as_ref()
                    .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |p| p.address.ip()),
            };
            auth.identify(shown).await.map(Self)
        }
    }

    /// The tenant; somebody who may do anything here at all.
    pub(in crate::gateway) fn tenant(&self) -> Result<&Arc<Identity>, Refused> {
        match &self.0 {
            Some(identity) if identity.access != Access::Elsewhere => Ok(identity),
            Some(_) | None => Err(unauthorized()),
        }
    }
}

/// In which services this may be done.
pub(in crate::gateway) fn permit(
    identity: &Identity,
    scope: Scope,
    target: Target,
) -> Result<Services, Refused> {
    identity.permits(scope, target).ok_or_else(unauthorized)
}

/// Not allowed.
pub(in crate::gateway) fn unauthorized() -> Refused {
    Box::new(answer::denied(Denial::Unauthorized))
}
