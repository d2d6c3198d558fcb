//! Settings of the ACME client.

use super::challenge::ChallengePorts;
use crate::args::RunArgs;
use akash_provider_cli::error::WithHelp;
use data_encoding::{BASE64URL, BASE64URL_NOPAD};
use instant_acme::ExternalAccountKey;
use rustls::pki_types::ServerName;
use std::fmt;
use std::path::{Path, PathBuf};
use url::Url;

/// Settings of the ACME client.
#[derive(Clone)]
pub(crate) struct AcmeSettings {
    domain: String,
    directory: Url,
    email: String,
    /// Key ID and HMAC key of the external account.
    binding: Option<(String, Vec<u8>)>,
    ports: ChallengePorts,
    storage: PathBuf,
}

impl fmt::Debug for AcmeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the HMAC key.
        f.debug_struct("AcmeSettings")
            .field("domain", &self.domain)
            .field("directory", &self.directory.as_str())
            .finish_non_exhaustive()
    }
}

impl AcmeSettings {
    /// Returns the settings, or `None` if no certificate is ordered: the issuer is disabled, has no challenge port,
    /// or --gateway-tls-cert or a disabled gateway makes it useless.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid.
    pub(crate) fn from_args(args: &RunArgs, home: &Path) -> anyhow::Result<Option<Self>> {
        let acme = &args.acme;
        if !acme.cert_issuer_enabled || acme.unused(args.gateway.gateway_tls_cert.is_some()).is_some() {
            return Ok(None);
        }
        let Some(listen) = args.gateway.gateway_listen_address.0 else {
            return Ok(None);
        };
        let storage = acme.cert_issuer_storage_dir.clone();
        Ok(Some(Self {
            domain: domain(&args.kubernetes.cluster_public_hostname)?,
            directory: acme.cert_issuer_ca_dir_url.clone(),
            email: acme.cert_issuer_email.trim().to_owned(),
            binding: binding(&acme.cert_issuer_kid, &acme.cert_issuer_hmac)?,
            ports: ChallengePorts::new(
                listen.ip(),
                acme.cert_issuer_http_challenge_port,
                acme.cert_issuer_tls_challenge_port,
            ),
            storage: storage.unwrap_or_else(|| home.join(".certissuer")),
        }))
    }

    /// Hostname of the certificate.
    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    pub(super) const fn directory(&self) -> &Url {
        &self.directory
    }

    pub(super) fn email(&self) -> &str {
        &self.email
    }

    pub(super) const fn ports(&self) -> &ChallengePorts {
        &self.ports
    }

    /// Returns the key ID of the external account, or an empty text.
    pub(super) fn kid(&self) -> &str {
        self.binding.as_ref().map_or("", |(kid, _)| kid)
    }

    pub(super) fn external_account(&self) -> Option<ExternalAccountKey> {
        let (kid, key) = self.binding.as_ref()?;
        Some(ExternalAccountKey::new(kid.clone(), key))
    }

    /// Returns the folder of the account and certificates of this server. Certificates of a staging server are
    /// therefore never used in place of those of another server.
    pub(super) fn folder(&self) -> PathBuf {
        let url = self.directory.as_str();
        let name = url.trim_start_matches("https://");
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let name: String = name.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
        self.storage.join(name)
    }

    /// Returns the file (PEM) with the private key and the certificate chain.
    pub(super) fn certificate_file(&self) -> PathBuf {
        self.folder().join(format!("{}.pem", self.domain))
    }
}

fn domain(name: &str) -> anyhow::Result<String> {
    let name = name.trim().to_ascii_lowercase();
    match ServerName::try_from(name.as_str()) {
        Ok(ServerName::DnsName(_)) if name.contains('.') => Ok(name),
        _ => Err(WithHelp::new(
            format!(
                "--cert-issuer-enabled needs a public DNS name, but --cluster-public-hostname is `{name}`"
            ),
            "set --cluster-public-hostname to the DNS name of the provider",
        )
        .into()),
    }
}

fn binding(kid: &str, hmac: &str) -> anyhow::Result<Option<(String, Vec<u8>)>> {
    if kid.is_empty() && hmac.is_empty() {
        return Ok(None);
    }
    let key = BASE64URL_NOPAD
        .decode(hmac.as_bytes())
        .or_else(|_| BASE64URL.decode(hmac.as_bytes()));
    match key {
        Ok(key) if !kid.is_empty() && !key.is_empty() => Ok(Some((kid.to_owned(), key))),
        _ => Err(WithHelp::new(
            "--cert-issuer-kid and --cert-issuer-hmac are incomplete or not base64url",
            "set both flags to the values of the ACME server's operator",
        )
        .into()),
    }
}
