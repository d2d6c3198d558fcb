//! Generation of certificates.

use super::{CertError, CertUsage, OwnCertificate, VALIDITY};
use akash_provider_core::types::Address;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::pkcs8::{EncodePrivateKey, EncodePublicKey};
use std::time::Duration;
use x509_cert::TbsCertificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{Builder, CertificateBuilder};
use x509_cert::der::asn1::{Any, Ia5String, ObjectIdentifier, OctetString, PrintableString, UtcTime};
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::constraints::name::GeneralSubtree;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, NameConstraints, SubjectAltName,
};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef};
use x509_cert::time::{Time, Validity};
use zeroize::Zeroizing;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
/// Object identifier of the subject attribute that contains the version of the certificate format.
const VERSION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.23.133.2.6");
const VERSION_TEXT: &str = "v0.0.1";
pub(super) const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");
pub(super) const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
/// Maximum length of a domain name in bytes, without a final dot: the limit of DNS.
const DOMAIN_BYTES_MAX: usize = 253;

struct Profile {
    name: Name,
    extensions: Vec<Extension>,
}

impl BuilderProfile for Profile {
    fn get_issuer(&self, _subject: &Name) -> Name {
        self.name.clone()
    }

    fn get_subject(&self) -> Name {
        self.name.clone()
    }

    fn build_extensions(
        &self,
        _key: SubjectPublicKeyInfoRef<'_>,
        _issuer_key: SubjectPublicKeyInfoRef<'_>,
        _tbs: &TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        Ok(self.extensions.clone())
    }
}

pub(super) fn make(owner: &Address, usage: &CertUsage, now: Duration) -> Result<OwnCertificate, CertError> {
    let domains = domains(usage)?;
    let key = new_key()?;
    let der = build(owner, &domains, now, &key).map_err(|e| CertError::Malformed(e.to_string()))?;
    OwnCertificate::new(der, key)
}

fn build(
    owner: &Address,
    domains: &[String],
    now: Duration,
    key: &SigningKey,
) -> Result<Vec<u8>, x509_cert::builder::Error> {
    let profile = Profile {
        name: name(owner)?,
        extensions: extensions(domains)?,
    };
    let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    // The serial has nanoseconds. The validity dates have whole seconds only.
    let start = Duration::from_secs(now.as_secs());
    let validity = Validity::new(time(start)?, time(start.saturating_add(VALIDITY))?);
    let spki = key.verifying_key().to_public_key_der()?;
    let spki = SubjectPublicKeyInfoOwned::from_der(spki.as_bytes())?;
    let builder = CertificateBuilder::new(profile, SerialNumber::from(nanos), validity, spki)?;
    let certificate = builder.build::<_, DerSignature>(key)?;
    Ok(certificate.to_der()?)
}

/// Encodes a time for X.509: as `UTCTime` until 2049, as `GeneralizedTime` afterwards.
fn time(since_epoch: Duration) -> Result<Time, x509_cert::der::Error> {
    match UtcTime::from_unix_duration(since_epoch) {
        Ok(time) => Ok(Time::UtcTime(time)),
        Err(_) => Ok(Time::GeneralTime(
            x509_cert::der::asn1::GeneralizedTime::from_unix_duration(since_epoch)?,
        )),
    }
}

fn name(owner: &Address) -> Result<Name, x509_cert::der::Error> {
    let mut sequence = RdnSequence::default();
    for (oid, text) in [(COMMON_NAME, owner.as_str()), (VERSION, VERSION_TEXT)] {
        let value = Any::encode_from(&PrintableString::new(text)?)?;
        let mut part = RelativeDistinguishedName::default();
        part.insert(AttributeTypeAndValue { oid, value })?;
        sequence.push(part);
    }
    Name::from_der(&sequence.to_der()?)
}

/// Returns the extensions of a new certificate, in the same order as in a certificate of the Go provider.
fn extensions(domains: &[String]) -> Result<Vec<Extension>, x509_cert::der::Error> {
    let mut uses = vec![CLIENT_AUTH];
    if !domains.is_empty() {
        uses.push(SERVER_AUTH);
    }
    let usage = KeyUsage(KeyUsages::KeyEncipherment | KeyUsages::DataEncipherment);
    let basic = BasicConstraints {
        ca: false,
        path_len_constraint: None,
    };
    let mut all = vec![
        extension(true, &usage)?,
        extension(false, &ExtendedKeyUsage(uses))?,
        extension(true, &basic)?,
    ];
    if !domains.is_empty() {
        let names = domains
            .iter()
            .map(|d| Ia5String::new(d).map(GeneralName::DnsName));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let subtree = |base: &GeneralName| GeneralSubtree {
            base: base.clone(),
            minimum: 0,
            maximum: None,
        };
        // Name constraints are for certificate authorities only. The Go provider writes them, so this format has them
        // too.
        let constraints = NameConstraints {
            permitted_subtrees: Some(names.iter().map(subtree).collect()),
            excluded_subtrees: None,
        };
        all.push(extension(false, &SubjectAltName(names))?);
        all.push(extension(true, &constraints)?);
    }
    Ok(all)
}

fn extension<E: Encode + AssociatedOid>(
    critical: bool,
    value: &E,
) -> Result<Extension, x509_cert::der::Error> {
    Ok(Extension {
        extn_id: E::OID,
        critical,
        extn_value: OctetString::new(value.to_der()?)?,
    })
}

fn domains(usage: &CertUsage) -> Result<Vec<String>, CertError> {
    let CertUsage::Server { domains } = usage else {
        return Ok(Vec::new());
    };
    if domains.is_empty() {
        return Err(CertError::NoDomain);
    }
    for domain in domains {
        if !is_domain(domain) {
            let domain = domain.chars().take(80).collect();
            return Err(CertError::Domain { domain });
        }
    }
    Ok(domains.clone())
}

/// Returns true if the text is a domain name. The first label may be `*`. IP addresses are not domain names.
fn is_domain(text: &str) -> bool {
    let label = |(at, label): (usize, &str)| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        let fits = !label.is_empty() && label.len() <= 63 && label.bytes().all(plain);
        (fits && !label.starts_with('-') && !label.ends_with('-')) || (at == 0 && label == "*")
    };
    text.len() <= DOMAIN_BYTES_MAX
        // An IP address such as `10.0.0.1` consists of valid labels.
        && text.parse::<std::net::IpAddr>().is_err()
        && text.split('.').enumerate().all(label)
}

fn new_key() -> Result<SigningKey, CertError> {
    let mut bytes = Zeroizing::new([0; 32]);
    // About 1 of 2^32 random values is not a valid key of the curve.
    for _ in 0..8 {
        getrandom::fill(bytes.as_mut_slice()).map_err(|e| CertError::Randomness(e.to_string()))?;
        if let Ok(key) = SigningKey::from_slice(bytes.as_slice()) {
            return Ok(key);
        }
    }
    Err(CertError::Randomness(
        "eight random values in a row are not valid keys".to_owned(),
    ))
}

pub(super) fn spki(key: &SigningKey) -> Result<Vec<u8>, CertError> {
    let der = key.verifying_key().to_public_key_der();
    der.map(|d| d.as_bytes().to_vec())
        .map_err(|e| CertError::Malformed(e.to_string()))
}

pub(super) fn private_key_der(key: &SigningKey) -> Result<Zeroizing<Vec<u8>>, CertError> {
    let der = p256::SecretKey::from(key.as_nonzero_scalar()).to_pkcs8_der();
    der.map(|d| d.to_bytes())
        .map_err(|e| CertError::Malformed(e.to_string()))
}
