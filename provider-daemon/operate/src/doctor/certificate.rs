//! Certificate of the gateway: file, key, validity, host name and the copy on the chain.

use super::DoctorContext;
use super::check::{Check, within};
use akash_provider_chain::Reader;
use akash_provider_chain::cert::{CertError, CertificateInfo, KeyFile, KeyFiles};
use akash_provider_core::chain::ChainQuery;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

const SUBJECT: &str = "certificate";
const LIMIT: Duration = Duration::from_secs(4);
/// Remaining lifetime below which a certificate causes a warning.
const REMAINING_MIN: Duration = Duration::from_secs(14 * 24 * 3600);
const PUBLISH: &str = "run `provider-daemon tx cert publish server`";

/// Certificate file, and the copy on the chain.
#[derive(Debug)]
struct CertificateFacts {
    file: Result<CertificateInfo, FileProblem>,
    /// Whether the certificate is valid on the chain; `None` if the chain does not have the certificate.
    on_chain: Result<Option<bool>, String>,
    /// Host name of the provider; empty if it is unknown.
    host: String,
    /// Whether the provider creates and renews the certificate.
    is_maintained: bool,
    /// Current time, since the Unix epoch.
    now: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum FileProblem {
    Missing(String),
    Unusable(String),
}

/// Checks the certificate. `reader` is the client of the first usable node.
pub(super) async fn checks(context: &DoctorContext<'_>, reader: Option<Reader>) -> Vec<Check> {
    if context.args.gateway.gateway_listen_address.0.is_none() {
        return vec![Check::skipped(SUBJECT, "the gateway is disabled")];
    }
    let (Some(key), Some(home)) = (&context.key, context.home) else {
        return vec![Check::skipped(SUBJECT, "the key cannot be read")];
    };
    let (home, key) = (home.to_owned(), Arc::clone(key));
    // The decryption takes several hundred milliseconds.
    let reading = move || KeyFiles::new(&home, &key).read(KeyFile::Current);
    let file = match tokio::time::timeout(LIMIT, tokio::task::spawn_blocking(reading)).await {
        Ok(Ok(Ok(own))) => Ok(own),
        Ok(Ok(Err(error @ CertError::Absent { .. }))) => Err(FileProblem::Missing(error.to_string())),
        Ok(Ok(Err(error))) => Err(FileProblem::Unusable(error.to_string())),
        Ok(Err(error)) => Err(FileProblem::Unusable(error.to_string())),
        Err(_) => Err(FileProblem::Unusable(format!("not decrypted within {LIMIT:?}"))),
    };
    let on_chain = match (&file, reader) {
        (Ok(own), Some(reader)) => {
            let (owner, serial) = (&own.info().owner, own.info().serial.as_str());
            let listing = reader.certificates(owner, Some(serial));
            within(LIMIT, listing).await.map(|found| {
                let same = found.into_iter().find(|found| found.serial == serial);
                same.map(|found| found.valid)
            })
        }
        (_, None) => Err("no usable node of the chain".to_owned()),
        (Err(_), _) => Err("no certificate".to_owned()),
    };
    judge(&CertificateFacts {
        file: file.map(|own| own.info().clone()),
        on_chain,
        host: context.host(),
        is_maintained: context
            .args
            .gateway
            .certificate_domain
            .iter()
            .any(|name| !name.trim().is_empty()),
        now: UNIX_EPOCH.elapsed().unwrap_or_default(),
    })
}

fn judge(facts: &CertificateFacts) -> Vec<Check> {
    let host = match facts.host.as_str() {
        "" => "HOST",
        host => host,
    };
    let generate = format!(
        "run `provider-daemon tx cert generate server {host} --overwrite` and `provider-daemon tx cert publish server`, or \
         set --certificate-domain={host}"
    );
    let info = match &facts.file {
        Ok(info) => info,
        Err(FileProblem::Missing(_)) if facts.is_maintained => {
            return vec![Check::ok(
                SUBJECT,
                "missing; the provider creates it at its start",
            )];
        }
        Err(FileProblem::Missing(why) | FileProblem::Unusable(why)) => {
            return vec![Check::failure(SUBJECT, why, generate)];
        }
    };
    let checks = [
        Some(judge_validity(facts, info, &generate)),
        Some(judge_chain(facts)),
        judge_name(facts, info, generate),
    ];
    checks.into_iter().flatten().collect()
}

fn judge_validity(facts: &CertificateFacts, info: &CertificateInfo, generate: &str) -> Check {
    const START: &str = "start the provider, which renews the certificate";
    let help = if facts.is_maintained { START } else { generate };
    let until = humantime::format_rfc3339_seconds(UNIX_EPOCH + info.not_after);
    if facts.now > info.not_after {
        return Check::failure(SUBJECT, format!("expired at {until}"), help);
    }
    if !info.is_valid_at(facts.now) {
        let from = humantime::format_rfc3339_seconds(UNIX_EPOCH + info.not_before);
        return Check::failure(
            SUBJECT,
            format!("not valid before {from}"),
            "check the clock of this machine",
        );
    }
    let left = info.not_after.saturating_sub(facts.now);
    let days = left.as_secs() / (24 * 3600);
    let detail = format!("serial {}, valid until {until}, {days} days left", info.serial);
    if left < REMAINING_MIN {
        return Check::warning(SUBJECT, detail, help);
    }
    Check::ok(SUBJECT, detail)
}

fn judge_chain(facts: &CertificateFacts) -> Check {
    const SUBJECT: &str = "certificate on the chain";
    match &facts.on_chain {
        Err(why) => Check::skipped(SUBJECT, why),
        Ok(Some(true)) => Check::ok(SUBJECT, "published and valid"),
        Ok(Some(false)) => Check::failure(
            SUBJECT,
            "revoked",
            "run `provider-daemon tx cert generate server HOST --overwrite` and `provider-daemon tx cert publish server`",
        ),
        Ok(None) if facts.is_maintained => Check::warning(
            SUBJECT,
            "not published",
            "start the provider, which publishes the certificate",
        ),
        Ok(None) => Check::failure(SUBJECT, "not published", PUBLISH),
    }
}

/// Returns a warning if the certificate does not cover the provider's host name.
fn judge_name(facts: &CertificateFacts, info: &CertificateInfo, generate: String) -> Option<Check> {
    let host = facts.host.to_lowercase();
    let covers = |name: &String| {
        let name = name.to_lowercase();
        let below = name.strip_prefix("*.");
        name == host
            || below.is_some_and(|parent| host.split_once('.').is_some_and(|(_, rest)| rest == parent))
    };
    if host.is_empty() || info.domains.iter().any(covers) {
        return None;
    }
    let detail = format!("the names {} do not include {host}", info.domains.join(", "));
    Some(Check::warning(SUBJECT, detail, generate))
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;
    use akash_provider_core::types::Address;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn facts(days_left: i32, name: &str, on_chain: Result<Option<bool>, String>) -> CertificateFacts {
        let now = DAY * 1000;
        let not_after = match u32::try_from(days_left) {
            Ok(days) => now + DAY * days,
            Err(_) => now - DAY * days_left.unsigned_abs(),
        };
        let info = CertificateInfo {
            owner: Address::from_bytes(&[7; 20]).unwrap(),
            serial: "1".to_owned(),
            not_before: DAY,
            not_after,
            public_key: Vec::new(),
            client: true,
            server: true,
            domains: vec![name.to_owned()],
        };
        CertificateFacts {
            file: Ok(info),
            on_chain,
            host: "p.example.com".to_owned(),
            is_maintained: false,
            now,
        }
    }

    #[test]
    fn certificate_is_valid_published_and_named() {
        let [ok, skipped, warning, failure] = [
            Severity::Ok,
            Severity::Skipped,
            Severity::Warning,
            Severity::Failure,
        ];
        let name = "p.example.com";
        for (facts, wanted) in [
            (facts(200, name, Ok(Some(true))), vec![ok, ok]),
            (facts(200, "*.Example.com", Ok(Some(true))), vec![ok, ok]),
            (facts(14, name, Ok(Some(true))), vec![ok, ok]),
            (facts(13, name, Ok(Some(true))), vec![warning, ok]),
            (facts(-1, name, Ok(Some(true))), vec![failure, ok]),
            (facts(200, name, Ok(Some(false))), vec![ok, failure]),
            (facts(200, name, Ok(None)), vec![ok, failure]),
            (facts(200, name, Err("x".to_owned())), vec![ok, skipped]),
            (facts(200, "example.com", Ok(Some(true))), vec![ok, ok, warning]),
        ] {
            let severities: Vec<Severity> = judge(&facts).iter().map(Check::severity).collect();
            assert_eq!(severities, wanted, "{facts:?}");
        }
    }

    #[test]
    fn missing_file_is_fine_if_the_provider_creates_it() {
        let missing = |is_maintained| CertificateFacts {
            file: Err(FileProblem::Missing("no certificate".to_owned())),
            is_maintained,
            ..facts(1, "x", Ok(None))
        };
        assert_eq!(judge(&missing(true))[0].severity(), Severity::Ok);
        let check = judge(&missing(false)).remove(0);
        assert_eq!(check.severity(), Severity::Failure);
        assert!(
            check
                .help()
                .is_some_and(|help| help.contains("p.example.com --overwrite"))
        );
    }
}
