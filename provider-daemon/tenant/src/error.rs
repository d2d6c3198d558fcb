//! Failures of requests to a provider, with their remedies.

use super::auth::AuthMethod;
use std::fmt;
use std::time::Duration;

/// Websocket close code for expired or revoked credentials.
const CREDENTIALS_EXPIRED: u16 = 1008;
/// Remedy if a provider rejects the client certificate.
const CHECK_CERTIFICATE: &str =
    "check that your certificate is on the chain and not revoked (`query cert list --owner ADDRESS`)";

#[derive(Debug, thiserror::Error)]
pub(super) enum ProviderError {
    /// The connection failed, or the server does not support TLS 1.3.
    #[error("cannot reach {at}: {why}")]
    Unreachable { at: String, why: String },
    /// The server did not prove that it is the provider.
    #[error("cannot verify that {at} is the provider: {why}")]
    Unverified { at: String, why: String },
    /// The chain query for the server's certificate failed.
    #[error("cannot query the certificate of {at} on the chain")]
    Chain {
        at: String,
        #[source]
        source: akash_provider_core::Error,
    },
    /// The response has an error status.
    #[error("{0}")]
    Status(ErrorResponse),
    /// The response did not arrive in time.
    #[error("no response from {at} within {}", humantime::format_duration(*.limit))]
    Timeout { at: String, limit: Duration },
    /// The connection ended before the response was complete.
    #[error("connection to {at} interrupted: {why}")]
    Interrupted {
        at: String,
        why: String,
        auth: AuthMethod,
    },
    /// The response is not of the expected form.
    #[error("invalid response from {at}: {why}")]
    Invalid { at: String, why: String },
    /// The provider closed a stream with a close code.
    #[error("{at} closed the stream: {}", close_reason(*.code, .reason))]
    Closed { at: String, code: u16, reason: String },
}

/// How a client reopens a stream after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// Retry with a new token, because the token has expired.
    NewToken,
    /// Retry for a long time: the failure is probably temporary.
    Outage,
    /// Retry for a short time. The provider may be loading the lease or replacing pods.
    Brief,
    /// The stream is not reopened.
    Never,
}

impl ProviderError {
    /// Returns how the client reopens a stream after this failure.
    pub(super) const fn retry(&self, auth: AuthMethod) -> Retry {
        match self {
            Self::Unreachable { .. }
            | Self::Chain { .. }
            | Self::Timeout { .. }
            | Self::Interrupted { .. } => Retry::Outage,
            Self::Status(response) => match response.status {
                429 | 500.. => Retry::Outage,
                // A provider rejects requests until it has loaded its leases or received a new one.
                401 | 403 | 404 => Retry::Brief,
                _ => Retry::Never,
            },
            Self::Closed { code, .. } => match (*code, auth) {
                (CREDENTIALS_EXPIRED, AuthMethod::Token) => Retry::NewToken,
                (CREDENTIALS_EXPIRED, AuthMethod::Certificate | AuthMethod::None) => Retry::Never,
                (4000 | 4001, _) => Retry::Brief,
                _ => Retry::Outage,
            },
            Self::Unverified { .. } | Self::Invalid { .. } => Retry::Never,
        }
    }

    pub(super) fn response_text(&self) -> Option<&str> {
        match self {
            Self::Status(response) => Some(response.text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    pub(super) const fn status(&self) -> Option<u16> {
        match self {
            Self::Status(response) => Some(response.status),
            _ => None,
        }
    }

    pub(super) fn help(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => {
                "check that the provider is running and that its registered address is correct"
            }
            Self::Chain { .. } => "select another node with --node",
            Self::Status(response) => response.help(),
            Self::Timeout { .. } => "try again later, or contact the provider",
            Self::Interrupted {
                auth: AuthMethod::Certificate,
                ..
            } => CHECK_CERTIFICATE,
            Self::Interrupted { .. } | Self::Closed { code: 4002, .. } => "try again later",
            Self::Closed {
                code: CREDENTIALS_EXPIRED,
                ..
            } => "run the command again",
            Self::Unverified { .. } => {
                "contact the provider: its certificate is missing, revoked or expired, or another server responds"
            }
            Self::Invalid { .. } => "check that the address belongs to a provider",
            Self::Closed { code: 4001, .. } => "check the names of lease and service with `lease-status`",
            Self::Closed { .. } => "try again later, or contact the provider",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ErrorResponse {
    pub(super) at: String,
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) auth: AuthMethod,
}

impl ErrorResponse {
    const fn help(&self) -> &'static str {
        match (self.status, self.auth) {
            (400, AuthMethod::Token) => {
                "check the request and your clock: tokens require synchronized clocks"
            }
            (401 | 403, AuthMethod::Token) => {
                "check that the lease is yours, that your clock is correct, and that the chain has your public key (after \
                 the first transaction of the account)"
            }
            (401 | 403, AuthMethod::Certificate) => CHECK_CERTIFICATE,
            (404, _) => {
                "check the names of lease and service, send the manifest with `send-manifest`, or wait for the next block \
                 if the lease is new"
            }
            (422, _) => {
                "check the SDL; the manifest must match the deployment on the chain, which `tx deployment update` changes"
            }
            (429, _) => "wait one minute",
            (500.., _) => "try again later, or contact the provider",
            _ => "check the arguments of the command",
        }
    }
}

impl fmt::Display for ErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} responded with status {}", self.at, self.status)?;
        match shortened(self.text.trim()) {
            text if text.is_empty() => Ok(()),
            text => write!(f, ": {text}"),
        }
    }
}

/// Describes a websocket close code. The text also contains the code and the received reason.
fn close_reason(code: u16, reason: &str) -> String {
    let meaning = match code {
        1001 => "the provider is stopping",
        CREDENTIALS_EXPIRED => "the token or certificate is no longer valid",
        4001 => "no such lease or service, or the service is not running",
        4002 => "the cluster of the provider is unavailable",
        _ => "the provider failed",
    };
    match reason {
        "" => format!("{meaning} (code {code})"),
        reason => format!("{meaning} (code {code}, {})", shortened(reason)),
    }
}

/// Returns an untrusted text as one line without control characters, cut to a maximum length.
pub(super) fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 500;
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut short: String = plain.clone().take(CHARS_MAX).collect();
    if plain.count() > CHARS_MAX {
        short.push('…');
    }
    short
}

/// Shortens each 32-byte hexadecimal hash in a text to 12 digits.
pub(super) fn with_short_hashes(text: &str) -> String {
    const DIGITS: usize = 64;
    const PREFIX: usize = 12;
    let mut short = String::with_capacity(text.len());
    let is_alphanumeric = |c: char| c.is_ascii_alphanumeric();
    for part in text.split_inclusive(|c| !is_alphanumeric(c)) {
        let name = part.trim_end_matches(|c| !is_alphanumeric(c));
        let is_hash = name.len() == DIGITS && name.bytes().all(|b| b.is_ascii_hexdigit());
        match (is_hash, part.get(..PREFIX), part.get(name.len()..)) {
            (true, Some(begin), Some(after)) => short.extend([begin, after]),
            _ => short.push_str(part),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, text: &str, auth: AuthMethod) -> ProviderError {
        ProviderError::Status(ErrorResponse {
            at: "https://p.example".to_owned(),
            status,
            text: text.to_owned(),
            auth,
        })
    }

    #[test]
    fn reports_status_text_and_remedy_of_an_error_response() {
        let text = response(401, "{\"message\":\"unauthorized access\"}", AuthMethod::Token).to_string();
        assert_eq!(
            text,
            "https://p.example responded with status 401: {\"message\":\"unauthorized access\"}"
        );
        let help = |status, auth| response(status, "", auth).help();
        assert!(help(401, AuthMethod::Token).contains("your clock"));
        assert!(help(401, AuthMethod::Certificate).contains("not revoked"));
        assert!(help(404, AuthMethod::Token).contains("send-manifest"));
        assert!(help(422, AuthMethod::Token).contains("deployment on the chain"));
        assert!(help(503, AuthMethod::Token).contains("contact the provider"));
    }

    #[test]
    fn reopens_a_stream_after_temporary_failures_only() {
        let at = || "https://p.example".to_owned();
        let closed = |code, auth| {
            let reason = String::new();
            ProviderError::Closed {
                at: at(),
                code,
                reason,
            }
            .retry(auth)
        };
        assert_eq!(closed(1008, AuthMethod::Token), Retry::NewToken);
        assert_eq!(closed(1008, AuthMethod::Certificate), Retry::Never);
        for code in [1001, 1006, 1011, 1012, 1013, 4002] {
            assert_eq!(closed(code, AuthMethod::Token), Retry::Outage, "{code}");
        }
        assert_eq!(closed(4000, AuthMethod::Token), Retry::Brief);
        assert_eq!(closed(4001, AuthMethod::Token), Retry::Brief);
        let retry = |status| response(status, "", AuthMethod::Token).retry(AuthMethod::Token);
        assert_eq!([429, 500, 503].map(retry), [Retry::Outage; 3]);
        assert_eq!([401, 404].map(retry), [Retry::Brief; 2]);
        assert_eq!([400, 422].map(retry), [Retry::Never; 2]);
        let why = || "x".to_owned();
        assert_eq!(
            ProviderError::Unreachable { at: at(), why: why() }.retry(AuthMethod::Token),
            Retry::Outage
        );
        assert_eq!(
            ProviderError::Unverified { at: at(), why: why() }.retry(AuthMethod::Token),
            Retry::Never
        );
    }

    #[test]
    fn shortens_hashes_and_nothing_else() {
        let hash = "0123456789abcdef".repeat(4);
        assert_eq!(
            with_short_hashes(&format!(
                "the chain has {hash}, this is ({})\n",
                hash.to_uppercase()
            )),
            "the chain has 0123456789ab, this is (0123456789AB)\n"
        );
        assert_eq!(with_short_hashes(&hash), "0123456789ab");
        for text in [
            &format!("{hash}0 is longer"),
            &hash[1..],
            &format!("x{}", &hash[1..]),
            "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm ü…",
            "",
        ] {
            assert_eq!(with_short_hashes(text), text);
        }
    }

    #[test]
    fn removes_control_characters_and_limits_the_length() {
        let text = format!("\u{1b}[2Jboo\n{}", "x".repeat(5000));
        let text = response(500, &text, AuthMethod::None).to_string();
        assert!(text.contains(" [2Jboo ") && text.len() < 700, "{text}");
    }
}
