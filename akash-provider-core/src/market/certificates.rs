//! Certificates of accounts: published and revoked, never removed.

use super::{Market, Rejection};
use crate::types::{Address, Certificate, ChainEvent};
use data_encoding::BASE64;

/// Maximum size of a parsed certificate, in bytes.
const CERTIFICATE_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of an encoded serial number in X.509: 20 bytes and a leading zero byte.
const SERIAL_BYTES_MAX: usize = 21;

/// Decodes the first PEM block.
fn pem_bytes(pem: &[u8]) -> Option<Vec<u8>> {
    // Checked before decoding, because any account can publish a certificate.
    if pem.len() > CERTIFICATE_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(pem).ok()?;
    let body = text
        .lines()
        .map(str::trim)
        .skip_while(|l| !l.starts_with("-----BEGIN "));
    let body: String = body.skip(1).take_while(|l| !l.starts_with("-----END ")).collect();
    BASE64.decode(body.as_bytes()).ok()
}

/// Returns the tag and the content of the first DER element, and the bytes after the element.
fn der(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let octets = usize::from(first & 0x7f);
        // Zero octets mean the indefinite length, which DER does not allow. Four octets are sufficient.
        if octets == 0 || octets > 4 {
            return None;
        }
        let (head, tail) = rest.split_at_checked(octets)?;
        length = head.iter().fold(0, |sum, b| (sum << 8) | usize::from(*b));
        rest = tail;
    }
    let (contents, after) = rest.split_at_checked(length)?;
    Some((tag, contents, after))
}

/// Returns the serial number of a certificate: the first integer of its body, after the optional version.
fn serial(pem: &[u8]) -> Option<String> {
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    const INTEGER: u8 = 0x02;
    let bytes = pem_bytes(pem)?;
    let (SEQUENCE, certificate, _) = der(&bytes)? else {
        return None;
    };
    let (SEQUENCE, body, _) = der(certificate)? else {
        return None;
    };
    let mut element = der(body)?;
    if element.0 == VERSION {
        element = der(element.2)?;
    }
    let (INTEGER, number, _) = element else {
        return None;
    };
    // Serial numbers are not negative.
    let positive = number.first().is_some_and(|b| b & 0x80 == 0);
    (positive && number.len() <= SERIAL_BYTES_MAX).then(|| decimal(number))
}

/// Formats a big-endian number in decimal.
fn decimal(number: &[u8]) -> String {
    // Implemented here, because a serial number of 20 bytes exceeds the integer types of Rust.
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

impl Market {
    pub(super) fn create_certificate(
        &mut self,
        owner: &Address,
        cert: &[u8],
        pubkey: &[u8],
    ) -> Result<Vec<ChainEvent>, Rejection> {
        let serial = serial(cert).ok_or_else(|| Rejection::other("cert/6", "invalid certificate value"))?;
        let of_owner = self.certificates.entry(owner.clone()).or_default();
        if of_owner.iter().any(|c| c.serial == serial) {
            return Err(Rejection::other("cert/3", "certificate exists"));
        }
        of_owner.push(Certificate {
            serial,
            valid: true,
            cert: cert.to_vec(),
            pubkey: pubkey.to_vec(),
        });
        Ok(Vec::new())
    }

    pub(super) fn revoke_certificate(
        &mut self,
        owner: &Address,
        serial: &str,
    ) -> Result<Vec<ChainEvent>, Rejection> {
        let of_owner = self.certificates.get_mut(owner).into_iter().flatten();
        let certificate = of_owner.filter(|c| c.serial == serial).last();
        let certificate = certificate.ok_or_else(|| Rejection::other("cert/1", "certificate not found"))?;
        if !certificate.valid {
            return Err(Rejection::other("cert/4", "certificate already revoked"));
        }
        certificate.valid = false;
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_are_parsed_and_invalid_certificates_refused() {
        // SEQUENCE { SEQUENCE { [0] { INTEGER 2 }, INTEGER 0x0123456789abcdef01 } }
        let body = [
            0xa0, 3, 2, 1, 2, 2, 9, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01,
        ];
        let mut bytes = vec![0x30, 18, 0x30, 16];
        bytes.extend(body);
        let pem = |b: &[u8]| {
            format!(
                "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
                BASE64.encode(b)
            )
        };
        assert_eq!(
            serial(pem(&bytes).as_bytes()).as_deref(),
            Some("20988295479420645121")
        );
        for cut in 0..bytes.len() {
            assert_eq!(serial(pem(&bytes[..cut]).as_bytes()), None, "{cut}");
        }
        assert_eq!(serial(b"not a certificate"), None);
        assert_eq!(decimal(&[0]), "0");
        assert_eq!(decimal(&[1, 0]), "256");
    }
}
