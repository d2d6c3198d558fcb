//! Record of the provider on the chain, compared with the settings.

use super::check::{Check, listed};
use akash_provider_core::types::{Attribute, ProviderRecord};
use akash_provider_service::provider_file::ProviderFile;
use std::collections::BTreeSet;

const SUBJECT: &str = "provider record";
const UPDATE: &str = "run `provider-daemon tx provider update provider.yaml`";
/// Maximum number of attributes that one check lists.
const ATTRIBUTES_MAX: usize = 5;

/// Checks the provider record on the chain. `file` is the content of `--provider-config`, if set.
pub(super) fn judge(
    record: Option<&ProviderRecord>,
    file: Option<&ProviderFile>,
    public_hostname: &str,
) -> Vec<Check> {
    let Some(record) = record else {
        return vec![Check::failure(
            SUBJECT,
            "this account is not registered on the chain",
            "run `provider-daemon tx provider create provider.yaml`",
        )];
    };
    let mut checks = Vec::new();
    if let Some(file) = file.filter(|file| !file.host.is_empty()) {
        if file.host != record.host_uri {
            let detail = format!(
                "the chain has host {}, provider.yaml has {}",
                record.host_uri, file.host
            );
            checks.push(Check::warning(SUBJECT, detail, UPDATE));
        }
    } else if let Some(host) = record
        .host()
        .filter(|host| !public_hostname.is_empty() && !host.eq_ignore_ascii_case(public_hostname))
    {
        checks.push(Check::warning(
            SUBJECT,
            format!("the chain has host {host}, --cluster-public-hostname is {public_hostname}"),
            "set --cluster-public-hostname to the name under which tenants reach node ports, or update the record with \
             `provider-daemon tx provider update provider.yaml`",
        ));
    }
    let differences = file.map(|file| differences(&record.attributes, &file.attributes));
    let differences = differences.unwrap_or_default();
    if !differences.is_empty() {
        let detail = format!("attributes differ from provider.yaml: {differences}");
        checks.push(Check::warning(SUBJECT, detail, UPDATE));
    }
    if checks.is_empty() {
        let attributes = akash_provider_cli::plain::count(record.attributes.len(), "attribute");
        checks.push(Check::ok(SUBJECT, format!("{}, {attributes}", record.host_uri)));
    }
    checks
}

/// Returns the differences between the lists. `+` marks an attribute that only the file contains, and `-` an
/// attribute that only the chain contains.
fn differences(chain: &[Attribute], file: &[Attribute]) -> String {
    let pair = |attribute: &Attribute| format!("{}={}", attribute.key, attribute.value);
    let [chain, file] = [chain, file].map(|list| list.iter().map(pair).collect::<BTreeSet<_>>());
    let added = file.difference(&chain).map(|pair| format!("+{pair}"));
    let removed = chain.difference(&file).map(|pair| format!("-{pair}"));
    listed(added.chain(removed), ATTRIBUTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;
    use akash_provider_core::types::Address;

    #[test]
    fn record_is_compared_with_the_file_and_the_public_name() {
        let attribute = |value: &str| Attribute::new("region", value);
        let record = ProviderRecord {
            owner: Address::from_bytes(&[7; 20]).unwrap(),
            host_uri: "https://a.example:8443".to_owned(),
            attributes: vec![attribute("us")],
            info: Default::default(),
        };
        let file = |host: &str, value: &str| ProviderFile {
            host: host.to_owned(),
            attributes: vec![attribute(value)],
            ..ProviderFile::default()
        };
        let same = file("https://a.example:8443", "us");
        let severity = |file: Option<&ProviderFile>, name: &str| {
            let checks = judge(Some(&record), file, name);
            checks.iter().map(Check::severity).max()
        };
        assert_eq!(severity(Some(&same), "b.example"), Some(Severity::Ok));
        assert_eq!(severity(None, "A.example"), Some(Severity::Ok));
        assert_eq!(severity(None, ""), Some(Severity::Ok));
        assert_eq!(severity(None, "b.example"), Some(Severity::Warning));
        let moved = file("https://b.example:8443", "us");
        assert_eq!(severity(Some(&moved), ""), Some(Severity::Warning));
        let other = judge(Some(&record), Some(&file("https://a.example:8443", "eu")), "");
        assert!(other[0].detail().contains("+region=eu, -region=us"), "{other:?}");
        let missing = judge(None, Some(&same), "");
        assert_eq!(missing[0].severity(), Severity::Failure);
    }
}
