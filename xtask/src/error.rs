//! Errors of checks that list findings.

use anyhow::{Result, bail};

/// Returns an error with all findings, or `Ok` without findings.
pub(crate) fn from_findings(what: &str, findings: &[String]) -> Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    bail!("{what}:\n  {}", findings.join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_printed_one_per_line() {
        assert!(from_findings("links", &[]).is_ok());
        let error = from_findings("links", &["a".to_owned(), "b".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "links:\n  a\n  b");
    }
}
