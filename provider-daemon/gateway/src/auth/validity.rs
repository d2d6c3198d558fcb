//! For how long what was shown holds: a token to its end, a certificate to its end or its revocation.
//!
//! A request is judged when it comes. What stays open after that, a stream or a connection that is kept, is watched.

use super::{Authenticator, ClientCertificate};
use crate::connections::Connection;
use crate::listen::Peer;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Why something that was open is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The token or the certificate has come to its end.
    Expired,
    /// The certificate is not on the chain any more.
    Revoked,
    /// Another account's connection needs the place.
    Displaced,
}

impl Over {
    /// The reason in the close frame of a websocket, and in the log.
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Expired => "what was shown is expired",
            Self::Revoked => "the certificate is revoked",
            Self::Displaced => "too many connections are open; connect again later",
        }
    }
}

/// The watch over something that is open.
#[derive(Debug, Clone)]
pub(crate) struct CredentialValidity {
    auth: Arc<Authenticator>,
    certificate: Option<Arc<ClientCertificate>>,
    peer: IpAddr,
    until: Duration,
    every: Duration,
    /// Place of what is open, released with it.
    connection: Option<Arc<Connection>>,
}

impl CredentialValidity {
    /// Of what this peer has shown, good until then, looked at so often.
    pub(crate) fn new(
        auth: &Arc<Authenticator>,
        peer: Option<&Peer>,
        until: Duration,
        every: Duration,
    ) -> Self {
        Self {
            auth: Arc::clone(auth),
            certificate: peer.and_then(|p| p.certificate.clone()),
            peer: Peer::ip(peer),
            until,
            every,
            connection: peer.map(|p| Arc::clone(&p.connection)),
        }
    }

    /// Waits for its end. While the chain is away a certificate stays what it was.
    pub(crate) async fn over(&self) -> Over {
        let displaced = async {
            match &self.connection {
                Some(connection) => connection.displaced().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            over = self.invalid() => over,
            () = displaced => Over::Displaced,
        }
    }

    async fn invalid(&self) -> Over {
        loop {
            let left = self.until.saturating_sub(self.auth.clock.now());
            if left.is_zero() {
                return Over::Expired;
            }
            // Never longer than the time between two looks: clocks are set.
            tokio::time::sleep(left.min(self.every)).await;
            if let Some(certificate) = &self.certificate {
                // A question to the chain is large and short: ten thousand that wait do not keep room for it.
                let asking = Box::pin(self.auth.is_welcome(certificate, self.peer));
                // Only a clear "no" cuts it. An error is an outage, and an outage ends nobody's stream.
                if asking.await == Ok(false) {
                    return Over::Revoked;
                }
            }
        }
    }
}
