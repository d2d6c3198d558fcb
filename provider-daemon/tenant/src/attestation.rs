//! `lease-attestation`: evidence that a lease runs with confidential computing.
//!
//! The command sends a random nonce and checks that the report repeats the nonce. The signature of the report is not
//! checked.

use super::json::Json;
use super::lease::TenantClient;
use super::lease_query::{LeaseQuery, print, query_lease, report, selected_leases};
use crate::args::AttestationArgs;
use akash_provider_cli::error::WithHelp;
use akash_provider_gateway::auth::Scope;
use anyhow::Context;
use bytes::Bytes;
use data_encoding::BASE64;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Length of the nonce, in bytes.
const NONCE_BYTES: usize = 64;
/// Start of a report without hardware, for tests of providers.
const MOCK: &[u8] = b"MOCK";
/// Offset of the nonce in a report of AMD SEV-SNP, and in a mock report.
const SNP_OFFSET: usize = 0x50;
/// Offset of the nonce in a quote of Intel TDX: header and measurements come before.
const TDX_OFFSET: usize = 48 + 520;

pub(super) async fn run(args: &AttestationArgs, home: &Path) -> anyhow::Result<ExitCode> {
    let tenant = TenantClient::from_args(&args.lease.access, home).await?;
    let mut code = ExitCode::SUCCESS;
    for lease in selected_leases(&tenant, &args.lease).await? {
        let nonce = new_nonce()?;
        let query = LeaseQuery {
            name: "attestation quote",
            path: &["attestation", "quote"],
            scope: Scope::Attestation,
            body: Bytes::from(json!({ "nonce": BASE64.encode(&nonce) }).to_string()),
            is_valid: |response| matches!(response.field("report"), Some(Json::Text(_))),
        };
        match query_lease(&tenant, &lease, &query)
            .await
            .and_then(|quote| Evidence::new(&nonce, quote))
        {
            Ok(evidence) => {
                print(&evidence.to_json(), args.output)?;
                if !evidence.is_fresh {
                    code = ExitCode::FAILURE;
                    let error = WithHelp::new(
                        "the report does not contain the nonce, so it can be an old report",
                        "request the quote again; if the nonce is missing again, do not trust the lease",
                    );
                    report(&lease, error.into());
                }
            }
            Err(error) if args.lease.provider.is_some() => return Err(error),
            Err(error) => {
                code = ExitCode::FAILURE;
                report(&lease, error);
            }
        }
    }
    Ok(code)
}

fn new_nonce() -> anyhow::Result<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).context("cannot create a random nonce")?;
    Ok(nonce)
}

/// Quote of a provider, compared with the nonce of the request.
#[derive(Debug)]
struct Evidence {
    nonce: String,
    quote: Json,
    report_bytes: usize,
    /// True if the report contains the nonce.
    is_fresh: bool,
    is_mock: bool,
}

impl Evidence {
    /// Reads the report in a quote.
    ///
    /// # Errors
    /// Returns an error if the report is not base64.
    fn new(nonce: &[u8; NONCE_BYTES], quote: Json) -> anyhow::Result<Self> {
        let Some(Json::Text(text)) = quote.field("report") else {
            anyhow::bail!(WithHelp::new(
                "the attestation quote has no report",
                "ask the operator of the provider which version the provider runs",
            ));
        };
        let report = BASE64
            .decode(text.as_bytes())
            .context("cannot decode the report of the attestation quote")?;
        let contains = |offset: usize| report.get(offset..offset + NONCE_BYTES) == Some(&nonce[..]);
        let is_mock = report.starts_with(MOCK);
        Ok(Self {
            nonce: BASE64.encode(nonce),
            report_bytes: report.len(),
            is_fresh: contains(SNP_OFFSET) || (!is_mock && contains(TDX_OFFSET)),
            is_mock,
            quote,
        })
    }

    /// Returns the fields that the Go command prints.
    fn to_json(&self) -> Json {
        Json::Fields(Vec::new())
            .with("nonce", Json::Text(self.nonce.clone()))
            .with("quote", self.quote.clone())
            .with("report_size_bytes", Json::Number(self.report_bytes.into()))
            .with("nonce_verified", Json::Bool(self.is_fresh))
            .with("mock_report", Json::Bool(self.is_mock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(report: &[u8]) -> Evidence {
        let quote = Json::Fields(Vec::new()).with("report", Json::Text(BASE64.encode(report)));
        Evidence::new(&[7; NONCE_BYTES], quote).unwrap()
    }

    /// Returns a report with the nonce at `offset`.
    fn report_with(offset: usize, bytes: usize) -> Vec<u8> {
        let mut report = vec![0; bytes];
        report[offset..offset + NONCE_BYTES].fill(7);
        report
    }

    #[test]
    fn report_is_fresh_only_with_the_nonce_at_its_place() {
        assert!(evidence(&report_with(SNP_OFFSET, 1184)).is_fresh);
        assert!(evidence(&report_with(TDX_OFFSET, 5000)).is_fresh);
        assert!(!evidence(&report_with(SNP_OFFSET + 1, 1184)).is_fresh);
        assert!(!evidence(&[]).is_fresh);
        let mut mock = report_with(TDX_OFFSET, 5000);
        mock[..4].copy_from_slice(MOCK);
        let mock = evidence(&mock);
        assert!(mock.is_mock && !mock.is_fresh);
    }

    #[test]
    fn invalid_report_is_an_error() {
        let quote = Json::Fields(Vec::new()).with("report", Json::Text("%".to_owned()));
        assert!(Evidence::new(&[7; NONCE_BYTES], quote).is_err());
    }
}
