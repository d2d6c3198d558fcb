//! Why there is no connection to a node, in the words of who runs it: what a library says of it is its own business.

use crate::fault::{Fault, causes};
use std::error::Error;
use std::io::{self, ErrorKind};

/// The fault that a library's error of a connection is; `is_certain` where it never came about, so that nothing was
/// heard.
pub(crate) fn fault(error: &(dyn Error + 'static), is_certain: bool) -> Fault {
    match (explained(error), is_certain) {
        (Some((why, mend)), true) => Fault::NotConnected(format!("({why}): {mend}")),
        (Some((why, mend)), false) => Fault::Unreachable(format!("{why}: {mend}")),
        (None, true) => Fault::NotConnected(format!("({})", causes(error))),
        (None, false) => Fault::Unreachable(causes(error)),
    }
}

const NO_TLS: (&str, &str) = (
    "it does not speak TLS",
    "write http:// or grpc://, or name a port that speaks TLS",
);

/// True for what a server says that was spoken to without TLS and speaks nothing else: ours, those written in Go, nginx.
pub(crate) fn wants_tls(answer: &[u8]) -> bool {
    const SIGNS: [&str; 3] = [
        "this is an https port",
        "HTTP request to an HTTPS server",
        "plain HTTP request was sent to HTTPS port",
    ];
    let text = String::from_utf8_lossy(answer);
    SIGNS.iter().any(|sign| text.contains(sign))
}

/// The fault that such an answer is. Nothing of the question was looked at.
pub(crate) fn no_plain_http() -> Fault {
    Fault::NotConnected("(this is an https port): write https:// or grpcs://".to_owned())
}

/// True for a connection that the other end closed before it responded.
pub(crate) fn is_closed(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|cause| {
        let http = cause.downcast_ref::<hyper::Error>();
        let socket = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        http.is_some_and(|error| error.is_incomplete_message() || error.is_closed())
            || matches!(socket, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe))
    })
}

/// What is behind an error, and the mend; `None` where that is not known.
fn explained(error: &(dyn Error + 'static)) -> Option<(String, &'static str)> {
    let text = causes(error);
    // The resolver's failure has no public type: it is known by its text alone.
    if text.contains("dns error") || text.contains("failed to lookup address") {
        let mend = "is the address right, and does the name service answer?";
        return Some(("its name leads nowhere".to_owned(), mend));
    }
    for cause in chain(error) {
        if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
            return of_tls(tls);
        }
        let socket = cause.downcast_ref::<io::Error>();
        if let Some(known) = socket.and_then(|e| of_socket(e.kind())) {
            return Some(known);
        }
    }
    // What does not know the protocol hangs up.
    if text.contains("tls handshake eof") {
        return Some((NO_TLS.0.to_owned(), NO_TLS.1));
    }
    if text.contains("invalid HTTP version") || text.contains("unexpected message from connection") {
        let mend = "is it a port of gRPC (grpc://) or of TLS (https://)?";
        return Some(("it does not speak HTTP".to_owned(), mend));
    }
    None
}

/// An error and its causes. An error of a socket leaves out what it was made from.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let made_from = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        made_from.map_or_else(|| (*error).source(), |inner| Some(inner as _))
    })
}

fn of_socket(kind: ErrorKind) -> Option<(String, &'static str)> {
    let (why, mend) = match kind {
        ErrorKind::ConnectionRefused => ("connection refused", "is the node running?"),
        ErrorKind::TimedOut => (
            "no answer in time",
            "is the address right, and let through by firewalls?",
        ),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => (
            "no way leads there",
            "is the address right, and is this machine on the network?",
        ),
        _ => return None,
    };
    Some((why.to_owned(), mend))
}

fn of_tls(error: &rustls::Error) -> Option<(String, &'static str)> {
    use rustls::CertificateError::{BadSignature, UnknownIssuer};
    let mend = match error {
        rustls::Error::InvalidMessage(_) => {
            return Some((NO_TLS.0.to_owned(), NO_TLS.1));
        }
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => {
            "nobody who is trusted vouches for this node: correct the address, or name the file of its own certificate \
             authority"
        }
        rustls::Error::InvalidCertificate(_) => "correct the address, or mend the node's certificate",
        _ => return None,
    };
    Some((error.to_string(), mend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Outer(#[source] io::Error);

    fn told(error: io::Error) -> String {
        fault(&Outer(error), true).to_string()
    }

    #[test]
    fn a_port_of_https_is_known_by_what_it_answers_to_plain_http() {
        for answer in [
            "Client sent an HTTP request to an HTTPS server.\n",
            "<center>The plain HTTP request was sent to HTTPS port</center>",
            "this is an https port: write https:// in front of the address\n",
        ] {
            assert!(wants_tls(answer.as_bytes()), "{answer}");
        }
        assert!(!wants_tls(b"404 page not found"));
        let told = no_plain_http().to_string();
        assert_eq!(told, "(this is an https port): write https:// or grpcs://");
    }

    #[test]
    fn each_cause_is_said_once_and_with_its_mend() {
        assert_eq!(
            told(ErrorKind::ConnectionRefused.into()),
            "(connection refused): is the node running?"
        );
        let tls = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        assert_eq!(
            told(io::Error::other(io::Error::new(ErrorKind::InvalidData, tls))),
            "(it does not speak TLS): write http:// or grpc://, or name a port that speaks TLS"
        );
        let name = io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(
            told(name),
            "(its name leads nowhere): is the address right, and does the name service answer?"
        );
        assert_eq!(
            told(ErrorKind::TimedOut.into()).split(')').next(),
            Some("(no answer in time")
        );
        let other = fault(&Outer(io::Error::other("the moon is full")), false);
        assert_eq!(
            other.to_string(),
            "cannot be reached: client error (Connect): the moon is full"
        );
    }
}
