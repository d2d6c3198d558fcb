//! Checks of the hostnames that tenants can use.

use super::punycode;
use super::wildcard::{WILDCARD_LABEL, is_wildcard};
use unicode_security::skeleton;

/// Default DNS domain of a Kubernetes cluster.
const CLUSTER_DOMAIN: &str = "cluster.local";

/// Maximum length of a hostname in DNS and Kubernetes.
pub const MAX_HOSTNAME: usize = 253;

const MAX_HOST_LABEL: usize = 63;

/// Reason why a tenant cannot use a hostname. Messages consist of the hostname and the text of the reason:
/// "`NAME` is an IP address".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostnameFault {
    /// The name is not a DNS name, with or without a wildcard.
    #[error("is not a hostname")]
    Malformed,
    /// The name is an IPv4 address in any notation. URL parsers interpret every name with a numeric last
    /// label as an address.
    #[error("is an IP address")]
    Address,
    /// The name is `localhost`.
    #[error("has no domain")]
    SingleLabel,
    /// The name is the DNS name of a Service inside a Kubernetes cluster.
    #[error("is a name inside the cluster")]
    Cluster,
    /// A label starts with `xn--` and is not valid Punycode.
    #[error("has a label with `xn--` that is not Punycode")]
    Punycode,
}

impl HostnameFault {
    /// Returns the remedy.
    #[must_use]
    pub const fn help(self) -> &'static str {
        match self {
            Self::Malformed => {
                "use lower-case labels of a-z, 0-9 and `-`, each at most 63 characters, with dots between, at most 253 \
                 characters; a wildcard is `*.` and at least two labels"
            }
            Self::Address | Self::Cluster => "list a public DNS name",
            Self::SingleLabel => "list a name of at least two labels",
            Self::Punycode => "encode the label as IDNA does",
        }
    }
}

/// Returns whether `host` is a lower-case DNS-1123 subdomain of at most [`MAX_HOSTNAME`] characters. Returns
/// false for a name with a wildcard, or with [`WILDCARD_LABEL`] as its first label.
#[must_use]
pub fn is_hostname(host: &str) -> bool {
    is_dns_name(host) && host.split('.').next() != Some(WILDCARD_LABEL)
}

pub(super) fn is_dns_name(host: &str) -> bool {
    host.len() <= MAX_HOSTNAME && host.split('.').all(is_label)
}

pub(super) fn is_label(label: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !label.is_empty()
        && label.len() <= MAX_HOST_LABEL
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(allowed)
}

/// Checks whether a tenant can use a hostname. The rules do not depend on the provider.
///
/// # Errors
/// Returns the first violated rule.
pub fn check_hostname(host: &str) -> Result<(), HostnameFault> {
    if !is_hostname(host) && !is_wildcard(host) {
        return Err(HostnameFault::Malformed);
    }
    let mut labels = host.rsplit('.');
    if labels.next().is_some_and(is_number) {
        return Err(HostnameFault::Address);
    }
    // The tools of the network accept names of one label, and public templates contain such names.
    // `localhost` means a different machine for every client.
    if labels.next().is_none() && host == "localhost" {
        return Err(HostnameFault::SingleLabel);
    }
    if host.ends_with(".svc") || is_within(host, CLUSTER_DOMAIN) {
        return Err(HostnameFault::Cluster);
    }
    let mut encoded = host.split('.').filter_map(|label| label.strip_prefix("xn--"));
    if encoded.any(|label| punycode::decode(label).is_none()) {
        return Err(HostnameFault::Punycode);
    }
    Ok(())
}

/// Returns whether a label is a decimal, octal or hexadecimal number.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x");
    let is_hex = hex.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    is_hex || label.bytes().all(|b| b.is_ascii_digit())
}

/// Returns whether `host` is `domain` or one of its subdomains.
#[must_use]
pub fn is_within(host: &str, domain: &str) -> bool {
    let stem = host.strip_suffix(domain);
    // `notexample.com` ends with `example.com` and is not a subdomain.
    stem.is_some_and(|stem| stem.is_empty() || stem.ends_with('.'))
}

/// Returns whether `host` imitates `domain` or a subdomain of `domain` by means of a Punycode label.
#[must_use]
pub fn looks_like(host: &str, domain: &str) -> bool {
    let mut is_encoded = false;
    let decoded = host.split('.').map(|label| match label.strip_prefix("xn--") {
        Some(encoded) => {
            is_encoded = true;
            punycode::decode(encoded).unwrap_or_default()
        }
        None => label.to_owned(),
    });
    let decoded = decoded.collect::<Vec<_>>().join(".");
    is_encoded && !is_within(host, domain) && is_within(&folded(&decoded), &folded(domain))
}

/// Returns a form of the name in which lookalike characters are equal.
fn folded(name: &str) -> String {
    let folded: String = skeleton(&name.to_lowercase()).collect();
    folded.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_cluster_names_and_names_without_a_domain_are_refused() {
        use HostnameFault as F;
        let long = format!("{}.com", "a".repeat(64));
        let longer = format!("{}.com", ["a"; 126].join("."));
        for (host, fault) in [
            ("169.254.169.254", F::Address),
            ("127.1", F::Address),
            ("2130706433", F::Address),
            ("0x7f000001", F::Address),
            ("0x7f.1", F::Address),
            ("127.0x1", F::Address),
            ("0177.0.0.01", F::Address),
            ("web.0x", F::Address),
            ("*.0.1", F::Address),
            ("::1", F::Malformed),
            ("[::1]", F::Malformed),
            ("localhost", F::SingleLabel),
            ("kubernetes.default.svc", F::Cluster),
            ("*.default.svc", F::Cluster),
            ("kubernetes.default.svc.cluster.local", F::Cluster),
            ("cluster.local", F::Cluster),
            ("*.cluster.local", F::Cluster),
            (&long, F::Malformed),
            (&longer, F::Malformed),
            ("xn--0.example.com", F::Punycode),
            ("xn--99999999.example.com", F::Punycode),
        ] {
            assert_eq!(check_hostname(host), Err(fault), "{host}");
        }
        for good in [
            "example.com",
            "https",
            "1.example.com",
            "*.1password.com",
            "a.0x1f.com",
            "svc.example.com",
            "a.svc.example.com",
            "mycluster.local",
            "app.localhost",
            "xn--bcher-kva.example",
            &long[1..],
            &longer[2..],
        ] {
            assert_eq!(check_hostname(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn punycode_that_looks_like_a_domain_or_subdomain_is_detected() {
        for alike in [
            // Two Cyrillic `а`.
            "xn--ksh-5cdb.example.com",
            "www.xn--ksh-5cdb.example.com",
            // A Greek omicron in the last label.
            "akash.example.xn--cm-jbc",
        ] {
            assert!(looks_like(alike, "akash.example.com"), "{alike}");
            assert!(!looks_like(alike, "other.example.com"), "{alike}");
        }
        for other in [
            "akash.example.com",
            "www.akash.example.com",
            "xn--bcher-kva.example.com",
            "xn--ksh-5cdb.example.org",
            "xn--bcher-kva.akash.example.com",
        ] {
            assert!(!looks_like(other, "akash.example.com"), "{other}");
        }
    }
}
