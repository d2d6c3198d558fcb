//! Reasons why an order fails.

use super::check::CertificateFault;
use super::http::HttpFault;
use akash_provider_cli::plain::{cut, line};
use instant_acme::Problem;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum length of a text from the server, in characters.
const TEXT_MAX: usize = 500;
/// Problem type of a request with an unknown account.
const ACCOUNT_UNKNOWN: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Reason why an order fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcmeError {
    /// No response, or a response of something that is not an ACME server.
    #[error("no usable response from the ACME server: {0}")]
    Unavailable(String),
    #[error("no certificate from the ACME server within {0:?}")]
    Slow(Duration),
    #[error("the ACME server refused the request: {0}")]
    Refused(String),
    #[error("the ACME server does not know the account")]
    AccountUnknown,
    #[error("the ACME server cannot validate the hostname: {0}")]
    Validation(String),
    #[error("the ACME server offers no HTTP-01 or TLS-ALPN-01 challenge for a configured port")]
    NoChallenge,
    #[error("cannot listen on {address} for the ACME challenge: {why}")]
    Listen { address: SocketAddr, why: io::Error },
    #[error("the ACME server returned an invalid certificate: {0}")]
    Certificate(#[from] CertificateFault),
    #[error("the ACME server returned a certificate that is already due for renewal")]
    ShortLived,
    #[error("cannot write {}: {why}", .path.display())]
    Storage { path: PathBuf, why: io::Error },
    #[error("cannot configure TLS: {0}")]
    Tls(String),
}

impl AcmeError {
    /// Returns the remedy.
    pub(super) const fn help(&self) -> &'static str {
        match self {
            Self::Unavailable(_) | Self::Slow(_) => {
                "check --cert-issuer-ca-dir-url and the network; the order is repeated automatically"
            }
            Self::Refused(_) => "follow the reason of the ACME server; the order is repeated automatically",
            Self::AccountUnknown => "the next order registers a new account",
            Self::Validation(_) => {
                "port 80 (HTTP-01) or 443 (TLS-ALPN-01) of --cluster-public-hostname must lead to the challenge port \
                 of this provider"
            }
            Self::NoChallenge => {
                "set --cert-issuer-http-challenge-port or --cert-issuer-tls-challenge-port; for DNS-01, use \
                 cert-manager and --gateway-tls-cert"
            }
            Self::Listen { .. } => "free the port or change the challenge port",
            Self::Certificate(_) | Self::ShortLived => {
                "report the certificate to the operator of the ACME server, or change --cert-issuer-ca-dir-url"
            }
            Self::Storage { .. } => "make --cert-issuer-storage-dir writable for the provider",
            Self::Tls(_) => "check the certificate authorities of the system",
        }
    }

    /// Creates the error of a problem document.
    pub(super) fn refused(problem: &Problem) -> Self {
        if problem.r#type.as_deref() == Some(ACCOUNT_UNKNOWN) {
            return Self::AccountUnknown;
        }
        Self::Refused(problem_text(problem))
    }
}

impl From<instant_acme::Error> for AcmeError {
    fn from(error: instant_acme::Error) -> Self {
        match error {
            instant_acme::Error::Api(problem) => Self::refused(&problem),
            instant_acme::Error::Timeout(_) => Self::Slow(super::order::POLL_TIME),
            instant_acme::Error::Other(cause) if cause.is::<HttpFault>() => {
                Self::Unavailable(text(&cause.to_string()))
            }
            error => Self::Unavailable(text(&format!("unexpected response: {error}"))),
        }
    }
}

/// Returns the reason in a problem document.
pub(super) fn problem_text(problem: &Problem) -> String {
    let kind = problem.r#type.as_deref().unwrap_or("no problem type");
    let detail = problem.detail.as_deref().unwrap_or("no reason");
    let parts = problem
        .subproblems
        .iter()
        .filter_map(|part| part.detail.as_deref());
    let all: Vec<&str> = [detail].into_iter().chain(parts).collect();
    text(&format!("{} ({kind})", all.join("; ")))
}

/// Returns a text from the server as part of a line, shortened.
fn text(text: &str) -> String {
    cut(line(text).into_owned(), TEXT_MAX)
}
