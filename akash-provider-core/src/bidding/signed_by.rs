//! Check of the audits that an order requires.

use super::{Decline, attributes};
use crate::types::{Attribute, AuditedAttributes, GroupSpec, SignedBy};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of auditors in one order. Each auditor costs one query of the chain.
pub const AUDITORS_MAX: usize = 32;
/// Maximum number of auditors that a decline message lists.
const SHOWN: usize = 3;

/// Returns the auditors of an order without duplicates: those of `all_of`, then those of `any_of`.
#[must_use]
pub fn auditors(group: &GroupSpec) -> Vec<&str> {
    let signed_by = &group.requirements.signed_by;
    let mut seen = BTreeSet::new();
    let named = signed_by.all_of.iter().chain(&signed_by.any_of);
    named
        .map(String::as_str)
        .filter(|name| seen.insert(*name))
        .collect()
}

/// Checks the number of auditors in an order. An auditor that occurs twice counts twice.
///
/// # Errors
/// Returns [`Decline::TooManyAuditors`].
pub(super) fn check_count(signed_by: &SignedBy) -> Result<(), Decline> {
    let auditors = signed_by.all_of.len().saturating_add(signed_by.any_of.len());
    if auditors > AUDITORS_MAX {
        return Err(Decline::TooManyAuditors {
            auditors: u32::try_from(auditors).unwrap_or(u32::MAX),
            limit: u32::try_from(AUDITORS_MAX).unwrap_or(u32::MAX),
        });
    }
    Ok(())
}

/// Checks that every auditor of `all_of`, and at least one auditor of a non-empty `any_of`, has signed all
/// required attributes.
///
/// Of several records of one auditor, only the last is used.
///
/// # Errors
/// Returns [`Decline::SignedBy`] with the first missing audit.
pub(super) fn check(
    signed_by: &SignedBy,
    required: &[Attribute],
    audited: &[AuditedAttributes],
) -> Result<(), Decline> {
    if signed_by.is_empty() {
        return Ok(());
    }
    let records: BTreeMap<&str, &[Attribute]> = audited
        .iter()
        .map(|a| (a.auditor.as_str(), a.attributes.as_slice()))
        .collect();
    for auditor in &signed_by.all_of {
        let Some(signed) = records.get(auditor.as_str()) else {
            return Err(missing(format!(
                "{auditor} has not signed any attribute of this provider"
            )));
        };
        if let Some(unmet) = attributes::first_unmet(required, signed) {
            return Err(missing(format!(
                "{auditor} has not signed {}={}",
                unmet.key, unmet.value
            )));
        }
    }
    let covers = |auditor: &String| {
        records
            .get(auditor.as_str())
            .is_some_and(|signed| attributes::is_subset(required, signed))
    };
    if signed_by.any_of.is_empty() || signed_by.any_of.iter().any(covers) {
        return Ok(());
    }
    let any_of = &signed_by.any_of;
    let mut named = any_of[..any_of.len().min(SHOWN)].join(", ");
    if any_of.len() > SHOWN {
        named.push_str(&format!(" and {} more", any_of.len() - SHOWN));
    }
    Err(missing(format!(
        "none of {named} has signed all required attributes"
    )))
}

fn missing(missing: String) -> Decline {
    Decline::SignedBy { missing }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bidding::fixtures::group;

    fn signed_by(all_of: &[&str], any_of: &[&str]) -> SignedBy {
        let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        SignedBy {
            all_of: owned(all_of),
            any_of: owned(any_of),
        }
    }

    fn record(auditor: &str, pairs: &[(&str, &str)]) -> AuditedAttributes {
        AuditedAttributes::new(
            auditor,
            pairs.iter().map(|(k, v)| Attribute::new(*k, *v)).collect(),
        )
    }

    #[test]
    fn required_audits_of_all_of_and_any_of_must_both_exist() {
        let wanted = [Attribute::new("region", "us"), Attribute::new("tier/*", "1")];
        let both = [("region", "us"), ("tier/x", "1")];
        let ok =
            |signed_by: &SignedBy, records: &[AuditedAttributes]| check(signed_by, &wanted, records).is_ok();

        let all = signed_by(&["X", "Y"], &[]);
        assert!(!ok(&all, &[record("X", &both)]));
        assert!(ok(&all, &[record("X", &both), record("Y", &both)]));
        let any = signed_by(&[], &["X", "Y"]);
        assert!(ok(&any, &[record("Y", &both)]));
        assert!(!ok(
            &any,
            &[record("X", &[("region", "us")]), record("Y", &[("tier/x", "1")])]
        ));
        let mixed = signed_by(&["X"], &["Y", "Z"]);
        assert!(!ok(&mixed, &[record("X", &both)]));
        assert!(!ok(&mixed, &[record("Z", &both)]));
        assert!(ok(&mixed, &[record("X", &both), record("Z", &both)]));
        assert!(!ok(&any, &[]), "an audit is required and no record exists");
        assert!(ok(&signed_by(&[], &[]), &[]), "no audit is required");
    }

    #[test]
    fn the_missing_audit_is_named() {
        let wanted = [Attribute::new("region", "us")];
        let text = |s: &SignedBy, r: &[AuditedAttributes]| check(s, &wanted, r).unwrap_err().to_string();
        let all = signed_by(&["X"], &[]);
        assert_eq!(
            text(&all, &[]),
            "the order requires signatures: X has not signed any attribute of this provider"
        );
        assert_eq!(
            text(&all, &[record("X", &[])]),
            "the order requires signatures: X has not signed region=us"
        );
        assert_eq!(
            text(&signed_by(&[], &["X", "Y"]), &[]),
            "the order requires signatures: none of X, Y has signed all required attributes"
        );
    }

    #[test]
    fn a_later_record_of_an_auditor_replaces_an_earlier_one() {
        let wanted = [Attribute::new("region", "us")];
        let full = record("X", &[("region", "us")]);
        let empty = record("X", &[]);
        let all = signed_by(&["X"], &[]);
        assert!(check(&all, &wanted, &[full.clone(), empty.clone()]).is_err());
        assert!(check(&all, &wanted, &[empty, full]).is_ok());
    }

    #[test]
    fn auditors_are_listed_once() {
        let mut group = group();
        group.requirements.signed_by = signed_by(&["X", "Y"], &["Z", "X"]);
        assert_eq!(auditors(&group), ["X", "Y", "Z"]);
    }
}
