//! Parsing of certificates, and the chain's rules for a published certificate.

use super::generate::{CLIENT_AUTH, SERVER_AUTH};
use super::{CERTIFICATE, CertError, PUBLIC_KEY, only_block};
use akash_provider_core::types::Address;
use p256::ecdsa::signature::Verifier;
use p256::ecdsa::{DerSignature, VerifyingKey};
use p256::pkcs8::DecodePublicKey;
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{ExtendedKeyUsage, SubjectAltName};

const ECDSA_WITH_SHA256: &str = "1.2.840.10045.4.3.2";

/// Contents of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Chain account that owns the certificate.
    pub owner: Address,
    /// Serial number in decimal digits, the form that the chain stores.
    pub serial: String,
    /// Start of the validity period, since the Unix epoch.
    pub not_before: Duration,
    /// End of the validity period (inclusive), since the Unix epoch.
    pub not_after: Duration,
    /// Public key in SPKI form.
    pub public_key: Vec<u8>,
    /// The certificate is valid for client authentication.
    pub client: bool,
    /// The certificate is valid for server authentication.
    pub server: bool,
    /// Domain names in the certificate.
    pub domains: Vec<String>,
}

impl CertificateInfo {
    /// Returns true if the time `now` (since the Unix epoch) is within the validity period.
    #[must_use]
    pub fn is_valid_at(&self, now: Duration) -> bool {
        self.not_before <= now && now <= self.not_after
    }
}

fn malformed(why: impl ToString) -> CertError {
    CertError::Malformed(why.to_string())
}

/// Parses a certificate from PEM.
///
/// # Errors
/// Returns an error unless the text is exactly one certificate in the format of the Akash network.
pub fn read(cert_pem: &[u8]) -> Result<CertificateInfo, CertError> {
    read_der(&only_block(cert_pem, CERTIFICATE)?)
}

/// Parses a certificate from DER, the format in which TLS transfers certificates.
///
/// # Errors
/// Returns an error unless the bytes are one certificate in the format of the Akash network.
pub fn read_der(der: &[u8]) -> Result<CertificateInfo, CertError> {
    info(&Certificate::from_der(der).map_err(malformed)?)
}

fn info(certificate: &Certificate) -> Result<CertificateInfo, CertError> {
    let tbs = certificate.tbs_certificate();
    let owner = |name: &x509_cert::name::Name| {
        let name = name.common_name().map_err(malformed)?;
        let text = name.map(|n| n.value().to_string()).unwrap_or_default();
        text.parse::<Address>()
            .map_err(|e| malformed(format!("the subject is not an account: {e}")))
    };
    let subject = owner(tbs.subject())?;
    // The signature is verified in `check_published` only.
    if owner(tbs.issuer())? != subject {
        return Err(malformed("the issuer differs from the subject"));
    }
    let usage: Option<(bool, ExtendedKeyUsage)> = tbs.get_extension().map_err(malformed)?;
    let uses = usage.map(|(_, u)| u.0).unwrap_or_default();
    let names: Option<(bool, SubjectAltName)> = tbs.get_extension().map_err(malformed)?;
    let names = names.map(|(_, n)| n.0).unwrap_or_default();
    let domain = |name: GeneralName| match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        // The format of the network supports domain names only.
        _ => None,
    };
    Ok(CertificateInfo {
        owner: subject,
        serial: decimal(tbs.serial_number().as_bytes()),
        not_before: tbs.validity().not_before.to_unix_duration(),
        not_after: tbs.validity().not_after.to_unix_duration(),
        public_key: tbs.subject_public_key_info().to_der().map_err(malformed)?,
        client: uses.contains(&CLIENT_AUTH),
        server: uses.contains(&SERVER_AUTH),
        domains: names.into_iter().filter_map(domain).collect(),
    })
}

/// Checks a new certificate by the rules of the chain: format, account and signature.
///
/// Validity dates and key usages are not checked.
///
/// # Errors
/// Returns an error if the chain would refuse the certificate.
pub fn check_published(
    owner: &Address,
    cert_pem: &[u8],
    public_key_pem: &[u8],
) -> Result<CertificateInfo, CertError> {
    let der = only_block(cert_pem, CERTIFICATE)?;
    let certificate = Certificate::from_der(&der).map_err(malformed)?;
    let info = info(&certificate)?;
    if info.owner != *owner {
        return Err(CertError::Owner {
            expected: owner.clone(),
            found: info.owner.to_string(),
        });
    }
    let refused = |why: &str| CertError::Refused(why.to_owned());
    let spki = only_block(public_key_pem, PUBLIC_KEY)?;
    let key =
        VerifyingKey::from_public_key_der(&spki).map_err(|_| refused("the public key is not a P-256 key"))?;
    if certificate.signature_algorithm().oid.to_string() != ECDSA_WITH_SHA256 {
        return Err(refused("the signature algorithm is not ECDSA with SHA-256"));
    }
    let signature = certificate.signature().as_bytes().unwrap_or_default();
    let signature = DerSignature::try_from(signature).map_err(|_| refused("invalid signature"))?;
    let signed = certificate.tbs_certificate().to_der().map_err(malformed)?;
    key.verify(&signed, &signature)
        .map_err(|_| refused("the signature does not match the public key"))?;
    Ok(info)
}

/// Formats a big-endian number as decimal text.
fn decimal(number: &[u8]) -> String {
    let mut digits = vec![0_u8];
    for byte in number {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            let value = u32::from(*digit) * 256 + carry;
            *digit = u8::try_from(value % 10).unwrap_or(0);
            carry = value / 10;
        }
        while carry > 0 {
            digits.push(u8::try_from(carry % 10).unwrap_or(0));
            carry /= 10;
        }
    }
    digits.iter().rev().map(|d| char::from(b'0' + d)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_serials_in_decimal() {
        assert_eq!(decimal(&[]), "0");
        assert_eq!(decimal(&[0, 0]), "0");
        assert_eq!(decimal(&[0, 1, 0]), "256");
        assert_eq!(decimal(&u64::MAX.to_be_bytes()), u64::MAX.to_string());
        assert_eq!(decimal(&u128::MAX.to_be_bytes()), u128::MAX.to_string());
    }
}
