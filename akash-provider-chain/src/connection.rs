//! Explanations of connection errors for error messages, with a remedy where the cause is known.

use crate::fault::{Fault, causes};
use std::error::Error;
use std::io::{self, ErrorKind};

/// Converts a connection error to a [`Fault`]. `is_certain` is true if the connection failed before the node
/// received any data.
pub(crate) fn fault(error: &(dyn Error + 'static), is_certain: bool) -> Fault {
    match (explain(error), is_certain) {
        (Some((why, help)), true) => Fault::NotConnected(format!("({why}): {help}")),
        (Some((why, help)), false) => Fault::Unreachable(format!("{why}: {help}")),
        (None, true) => Fault::NotConnected(format!("({})", causes(error))),
        (None, false) => Fault::Unreachable(causes(error)),
    }
}

const NO_TLS: (&str, &str) = (
    "the port does not support TLS",
    "use http:// or grpc://, or a port that supports TLS",
);

/// Returns true if the response shows that plain HTTP was sent to a TLS port.
pub(crate) fn is_tls_required(response: &[u8]) -> bool {
    const SIGNS: [&str; 3] = [
        "this is an https port",
        "HTTP request to an HTTPS server",
        "plain HTTP request was sent to HTTPS port",
    ];
    let text = String::from_utf8_lossy(response);
    SIGNS.iter().any(|sign| text.contains(sign))
}

/// Returns the fault for a plain HTTP request that was sent to a TLS port.
pub(crate) fn tls_required() -> Fault {
    Fault::NotConnected("(this is an https port): use https:// or grpcs://".to_owned())
}

/// Returns true if the peer closed the connection without a response.
pub(crate) fn is_closed(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|cause| {
        let http = cause.downcast_ref::<hyper::Error>();
        let socket = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        http.is_some_and(|error| error.is_incomplete_message() || error.is_closed())
            || matches!(socket, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe))
    })
}

/// Returns the cause of an error and a remedy, or `None` if the cause is unknown.
fn explain(error: &(dyn Error + 'static)) -> Option<(String, &'static str)> {
    let text = causes(error);
    // The error of the resolver has no public type, so its text is compared.
    if text.contains("dns error") || text.contains("failed to lookup address") {
        let help = "check the DNS server, and the host name in the URL of the chain node";
        return Some(("DNS lookup failed".to_owned(), help));
    }
    for cause in chain(error) {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return explain_tls_error(tls);
        }
        let socket = cause.downcast_ref::<io::Error>();
        if let Some(explanation) = socket.and_then(|e| explain_socket_error(e.kind())) {
            return Some(explanation);
        }
    }
    // A server without TLS closes the connection.
    if text.contains("tls handshake eof") {
        return Some((NO_TLS.0.to_owned(), NO_TLS.1));
    }
    if text.contains("invalid HTTP version") || text.contains("unexpected message from connection") {
        let help = "use grpc:// if the port serves gRPC, or https:// if the port serves TLS";
        return Some(("the port does not support HTTP".to_owned(), help));
    }
    None
}

/// Iterates over an error and its causes. `io::Error::source` skips the inner error, so `get_ref` is used for
/// `io::Error`.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let made_from = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        made_from.map_or_else(|| (*error).source(), |inner| Some(inner as _))
    })
}

fn explain_socket_error(kind: ErrorKind) -> Option<(String, &'static str)> {
    let (why, help) = match kind {
        ErrorKind::ConnectionRefused => ("connection refused", "is the node running?"),
        ErrorKind::TimedOut => ("timeout", "check the address and the firewall"),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => (
            "no route to host",
            "check the address and the network of this machine",
        ),
        _ => return None,
    };
    Some((why.to_owned(), help))
}

fn explain_tls_error(error: &rustls::Error) -> Option<(String, &'static str)> {
    use rustls::CertificateError::{BadSignature, UnknownIssuer};
    let help = match error {
        rustls::Error::InvalidMessage(_) => {
            return Some((NO_TLS.0.to_owned(), NO_TLS.1));
        }
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => {
            "no trusted authority has signed the certificate of this node: correct the address, or name the file of \
             the certificate authority"
        }
        rustls::Error::InvalidCertificate(_) => "correct the address, or replace the certificate of the node",
        _ => return None,
    };
    Some((error.to_string(), help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Outer(#[source] io::Error);

    fn message(error: io::Error) -> String {
        fault(&Outer(error), true).to_string()
    }

    #[test]
    fn detects_a_tls_port_by_its_response_to_plain_http() {
        for response in [
            "Client sent an HTTP request to an HTTPS server.\n",
            "<center>The plain HTTP request was sent to HTTPS port</center>",
            "this is an https port: write https:// in front of the address\n",
        ] {
            assert!(is_tls_required(response.as_bytes()), "{response}");
        }
        assert!(!is_tls_required(b"404 page not found"));
        let message = tls_required().to_string();
        assert_eq!(message, "(this is an https port): use https:// or grpcs://");
    }

    #[test]
    fn reports_each_cause_once_with_its_remedy() {
        assert_eq!(
            message(ErrorKind::ConnectionRefused.into()),
            "(connection refused): is the node running?"
        );
        let tls = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        assert_eq!(
            message(io::Error::other(io::Error::new(ErrorKind::InvalidData, tls))),
            "(the port does not support TLS): use http:// or grpc://, or a port that supports TLS"
        );
        let name = io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(
            message(name),
            "(DNS lookup failed): check the DNS server, and the host name in the URL of the chain node"
        );
        assert_eq!(
            message(ErrorKind::TimedOut.into()).split(')').next(),
            Some("(timeout")
        );
        let other = fault(&Outer(io::Error::other("unknown cause")), false);
        assert_eq!(
            other.to_string(),
            "the connection failed: client error (Connect): unknown cause"
        );
    }
}
