//! Validity of credentials while a connection or stream is open.
//!
//! A credential is checked for each new request. While a stream or connection stays open, its credential is checked
//! again: a token until it expires, a certificate until it expires or is revoked.

use super::{Authenticator, ClientCertificate};
use crate::connections::Connection;
use crate::listen::Peer;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// The token or certificate is expired.
    Expired,
    /// The chain no longer lists the certificate as valid, for example because its owner revoked it.
    Revoked,
    /// The connection was closed in favor of another connection, because a limit was reached.
    Displaced,
}

impl CloseReason {
    /// Returns the reason as text for the client and the log.
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Expired => "the token or certificate is expired",
            Self::Revoked => "the certificate is revoked",
            Self::Displaced => "too many connections are open; connect again later",
        }
    }
}

/// Monitor of the credential of an open connection or stream.
#[derive(Debug, Clone)]
pub(crate) struct CredentialValidity {
    auth: Arc<Authenticator>,
    certificate: Option<Arc<ClientCertificate>>,
    peer: IpAddr,
    until: Duration,
    every: Duration,
    /// Entry in the table of connections. The entry is removed when its last clone is dropped.
    connection: Option<Arc<Connection>>,
}

impl CredentialValidity {
    /// Creates a monitor of a credential that expires at `until`. `every` is the interval between two checks
    /// of a certificate.
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

    /// Waits until the connection must be closed, and returns the reason. A certificate stays valid during an
    /// outage of the chain.
    pub(crate) async fn ended(&self) -> CloseReason {
        let displaced = async {
            match &self.connection {
                Some(connection) => connection.displaced().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            reason = self.invalid() => reason,
            () = displaced => CloseReason::Displaced,
        }
    }

    async fn invalid(&self) -> CloseReason {
        loop {
            let left = self.until.saturating_sub(self.auth.clock.now());
            if left.is_zero() {
                return CloseReason::Expired;
            }
            // Limited by the check interval, because the clock can be changed.
            tokio::time::sleep(left.min(self.every)).await;
            if let Some(certificate) = &self.certificate {
                // Boxed: the future is large and short-lived, and ten thousand idle watches must not reserve memory for
                // it.
                let call = Box::pin(self.auth.is_certificate_valid(certificate, self.peer));
                // Only a definite "revoked" closes it. An error is an outage, which closes no stream.
                if call.await == Ok(false) {
                    return CloseReason::Revoked;
                }
            }
        }
    }
}
