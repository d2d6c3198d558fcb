//! Flags of the ACME client, with the names of the Go provider.

use super::needs::Needs;
use super::values;
use akash_provider_cli::setting::{FileKey, HaRule};
use clap::{ArgAction, Args};
use std::path::PathBuf;
use url::Url;

/// Certificate of --cluster-public-hostname from an ACME server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "ACME")]
pub struct AcmeArgs {
    /// Obtain and renew the certificate of --cluster-public-hostname from an ACME server
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    #[arg(add = HaRule::LOCATION, add = FileKey::Chart("letsEncrypt.enabled"))]
    pub cert_issuer_enabled: bool,
    /// Directory URL of the ACME server; the default issues test certificates that clients do not trust
    #[arg(long, value_name = "URL", value_parser = directory)]
    #[arg(default_value = "https://acme-staging-v02.api.letsencrypt.org/directory")]
    #[arg(add = HaRule::LOCATION, add = Needs::ACME, add = FileKey::Chart("letsEncrypt.acme.caDirUrl"))]
    pub cert_issuer_ca_dir_url: Url,
    /// Email address of the ACME account
    #[arg(long, value_name = "EMAIL", default_value = "")]
    #[arg(add = HaRule::LOCATION, add = Needs::ACME, add = FileKey::Chart("letsEncrypt.acme.email"))]
    pub cert_issuer_email: String,
    /// Key ID of an external account, if the ACME server requires one
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    #[arg(add = HaRule::LOCATION, add = Needs::ACME)]
    pub cert_issuer_kid: String,
    /// HMAC key (base64url) of --cert-issuer-kid
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    #[arg(add = HaRule::LOCATION, add = Needs::ACME)]
    pub cert_issuer_hmac: String,
    /// Directory of ACME accounts and certificates [default: .certissuer in --home]
    #[arg(long, value_name = "DIR")]
    #[arg(add = HaRule::LOCATION, add = Needs::ACME)]
    pub cert_issuer_storage_dir: Option<PathBuf>,
    /// Port for HTTP-01 challenges, to which port 80 of the hostname leads; 0 disables them
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    #[arg(add = HaRule::LOCATION, add = Needs::ACME, add = FileKey::Chart("letsEncrypt.acme.httpChallengePort"))]
    pub cert_issuer_http_challenge_port: u16,
    /// Port for TLS-ALPN-01 challenges, to which port 443 of the hostname leads; 0 disables them
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    #[arg(add = HaRule::LOCATION, add = Needs::ACME)]
    pub cert_issuer_tls_challenge_port: u16,
}

impl AcmeArgs {
    /// Returns why the enabled client orders no certificate, or `None` if it orders one.
    #[must_use]
    pub const fn unused(&self, has_certificate: bool) -> Option<&'static str> {
        if has_certificate {
            return Some("no effect with --gateway-tls-cert");
        }
        if self.cert_issuer_http_challenge_port == 0 && self.cert_issuer_tls_challenge_port == 0 {
            return Some(
                "no effect without --cert-issuer-http-challenge-port or --cert-issuer-tls-challenge-port; for DNS-01, \
                 use cert-manager and --gateway-tls-cert",
            );
        }
        None
    }
}

fn directory(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    match url.scheme() {
        "https" => Ok(url),
        other => Err(format!("unsupported scheme `{other}`; expected https://…")),
    }
}
