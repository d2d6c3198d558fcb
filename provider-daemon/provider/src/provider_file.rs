//! The file `provider.yaml`: the record of a provider on the chain.

use akash_provider_chain::regular_file;
use akash_provider_cli::error::WithHelp;
use akash_provider_core::types::Attribute;
use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use url::Url;

/// Maximum size of `provider.yaml`, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Valid lengths of an attribute key on the chain, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 2..=127;

/// Content of `provider.yaml`; missing fields are empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderFile {
    /// URL of the provider for tenants.
    pub host: String,
    /// Contact address; empty if unset.
    pub email: String,
    /// Website of the provider; empty if unset.
    pub website: String,
    /// Declared attributes, in the order of the file.
    pub attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
struct ProviderYaml {
    host: Option<String>,
    info: Option<Contact>,
    attributes: Option<Vec<Pair>>,
}

#[derive(Deserialize)]
struct Contact {
    email: Option<String>,
    website: Option<String>,
}

#[derive(Deserialize)]
struct Pair {
    key: Option<String>,
    value: Option<String>,
}

impl ProviderFile {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns an error with location and remedy if the file cannot be read or the chain would reject it.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let file = regular_file::open(path).with_context(|| format!("cannot open {name}"))?;
        let bytes = match regular_file::limited(file, FILE_BYTES_MAX) {
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                bail!(WithHelp::new(
                    format!("cannot read {name}: larger than {FILE_BYTES_MAX} bytes"),
                    "check the path of provider.yaml"
                ));
            }
            read => read.with_context(|| format!("cannot read {name}"))?,
        };
        let text = String::from_utf8(bytes).with_context(|| format!("cannot read {name}: invalid UTF-8"))?;
        Self::parse(&text).with_context(|| format!("invalid provider.yaml {name}"))
    }

    /// Parses the text. Plain values such as `5` or `true` are read as text.
    ///
    /// # Errors
    /// Same as [`ProviderFile::read`].
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let contents: ProviderYaml = serde_saphyr::from_str(text)?;
        let pairs = contents.attributes.unwrap_or_default().into_iter();
        let pair = |pair: Pair| Attribute::new(pair.key.unwrap_or_default(), pair.value.unwrap_or_default());
        let file = Self {
            host: contents.host.unwrap_or_default(),
            email: contents
                .info
                .as_ref()
                .and_then(|i| i.email.clone())
                .unwrap_or_default(),
            website: contents.info.and_then(|i| i.website).unwrap_or_default(),
            attributes: pairs.map(pair).collect(),
        };
        file.check_attributes()?;
        Ok(file)
    }

    /// Checks that the host is valid for a record on the chain.
    ///
    /// # Errors
    /// Returns an error if the host is missing or invalid.
    pub fn check_host(&self) -> anyhow::Result<()> {
        let host = &self.host;
        if host.is_empty() {
            bail!(WithHelp::new(
                "missing `host`",
                "expected a URL such as https://provider.example.com:8443"
            ));
        }
        let rest = host.strip_prefix("https://").unwrap_or_default();
        let is_bare = !rest.is_empty() && !rest.contains(['/', '?', '#', '@']);
        let parsed = Url::parse(host).is_ok_and(|url| url.host_str().is_some_and(|h| !h.is_empty()));
        if !is_bare || !parsed {
            bail!(WithHelp::new(
                format!("invalid `host: {host}`"),
                "expected an https URL with host and port, such as https://provider.example.com:8443"
            ));
        }
        Ok(())
    }

    fn check_attributes(&self) -> anyhow::Result<()> {
        let mut seen = BTreeSet::new();
        for (at, Attribute { key, .. }) in self.attributes.iter().enumerate() {
            let is_word = |c: char| c.is_ascii_alphanumeric() || "_/.-".contains(c);
            let fits = KEY_BYTES.contains(&key.len())
                && key.starts_with(|c: char| c.is_ascii_alphabetic())
                && key.chars().all(is_word);
            if !fits {
                bail!(WithHelp::new(
                    format!("attribute {}: invalid key `{key}`", at + 1),
                    "use 2 to 127 letters, digits or `_/.-`, and start with a letter"
                ));
            }
            if !seen.insert(key) {
                bail!(WithHelp::new(
                    format!("attribute {}: duplicate key `{key}`", at + 1),
                    "remove one of the attributes with this key"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::message_text;

    const FILE: &str = "host: https://provider.example.com:8443\nattributes:\n  - key: region\n    value: us-west\n  \
                        - key: capabilities/gpu/vendor/nvidia/model/a100\n    value: true\n  - key: tier\n    value: \
                        1.10\n  - key: empty\n    value:\ninfo:\n  email: ops@example.com\n  website: \nowner: x\n";

    #[test]
    fn reads_plain_values_as_text() {
        let file = ProviderFile::parse(FILE).unwrap();
        let pairs: Vec<_> = file
            .attributes
            .iter()
            .map(|a| (a.key.as_str(), a.value.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("region", "us-west"),
                ("capabilities/gpu/vendor/nvidia/model/a100", "true"),
                ("tier", "1.10"),
                ("empty", ""),
            ]
        );
        assert_eq!(
            (file.email.as_str(), file.website.as_str()),
            ("ops@example.com", "")
        );
        assert!(file.check_host().is_ok());
    }

    #[test]
    fn rejects_values_that_the_chain_would_reject() {
        let attribute = |key: &str| format!("host: https://h\nattributes:\n- key: {key}\n  value: v\n");
        for (text, word) in [
            (attribute("1x"), "attribute 1"),
            (attribute("a"), "2 to 127"),
            (attribute("a b"), "`a b`"),
            (format!("{}- key: ab\n  value: w\n", attribute("ab")), "duplicate"),
            ("host: [1]\n".to_owned(), "host"),
            ("attributes: 5\n".to_owned(), "attributes"),
            ("host: a\nhost: b\n".to_owned(), "duplicate"),
            ("host: a: b\n".to_owned(), "line 1"),
        ] {
            let error = message_text(&ProviderFile::parse(&text).unwrap_err());
            assert!(error.contains(word), "{text}: {error}");
        }
        for host in [
            "",
            "http://h",
            "https://",
            "https://h/",
            "https://h/path",
            "h:8443",
            "https://a b",
        ] {
            let file = ProviderFile::parse(&format!("host: {host}\n")).unwrap();
            assert!(file.check_host().is_err(), "{host}");
        }
    }
}
