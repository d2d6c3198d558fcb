//! Takes over the managed fields of an adopted object.
//!
//! The Go provider writes with `Update`, with the name of its binary as field manager. While this manager owns a field,
//! a server-side apply cannot remove the field. The take-over merges the entries of the Go provider and of this
//! provider into one `Apply` entry of this provider.

use crate::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Field manager of the provider.
pub const MANAGER: &str = "akash-provider";

const APPLY: &str = "Apply";
const UPDATE: &str = "Update";

/// Returns the managed fields after the take-over, or `None` if a take-over is not necessary.
#[must_use]
pub fn taken_over(entries: &[ManagedFieldsEntry]) -> Option<Vec<ManagedFieldsEntry>> {
    let makers: BTreeSet<&str> = entries
        .iter()
        .filter(|e| made_it(e))
        .filter_map(manager)
        .collect();
    let is_theirs = |entry: &ManagedFieldsEntry| {
        // Entries of the status belong to controllers.
        entry.subresource.as_deref().unwrap_or_default().is_empty()
            && entry.operation.as_deref() == Some(UPDATE)
            && manager(entry).is_some_and(|name| name == MANAGER || makers.contains(name))
    };
    if !entries.iter().any(is_theirs) {
        return None;
    }
    let is_ours = |e: &ManagedFieldsEntry| {
        e.operation.as_deref() == Some(APPLY)
            && manager(e) == Some(MANAGER)
            && e.subresource.as_deref().unwrap_or_default().is_empty()
    };
    let (merged, mut entries): (Vec<_>, Vec<_>) =
        entries.iter().cloned().partition(|e| is_theirs(e) || is_ours(e));
    let last = merged.last()?;
    let mut fields = json!({});
    for entry in &merged {
        merge(&mut fields, entry.fields_v1.as_ref().map(|f| &f.0));
    }
    entries.push(ManagedFieldsEntry {
        manager: Some(MANAGER.to_owned()),
        operation: Some(APPLY.to_owned()),
        fields_v1: Some(FieldsV1(fields)),
        subresource: None,
        ..last.clone()
    });
    Some(entries)
}

/// Returns a merge patch that sets the managed fields. The patch fails if the object has changed.
#[must_use]
pub fn patch(resource_version: &str, entries: &[ManagedFieldsEntry]) -> Value {
    json!({"metadata": {"resourceVersion": resource_version, "managedFields": entries}})
}

fn manager(entry: &ManagedFieldsEntry) -> Option<&str> {
    entry.manager.as_deref()
}

/// Returns true if the manager created or rewrote the object: the manager owns a label with the prefix
/// `akash.network`.
fn made_it(entry: &ManagedFieldsEntry) -> bool {
    let fields = entry.fields_v1.as_ref().map(|f| &f.0);
    let labels = fields.and_then(|f| f.get("f:metadata")?.get("f:labels")?.as_object());
    let prefix = format!("f:{}", labels::MANAGED);
    labels.is_some_and(|labels| labels.keys().any(|label| label.starts_with(&prefix)))
}

/// Merges a field set into another. Field sets are nested maps.
fn merge(into: &mut Value, from: Option<&Value>) {
    if let (Value::Object(into), Some(Value::Object(from))) = (into, from) {
        for (key, value) in from {
            merge(into.entry(key.clone()).or_insert_with(|| json!({})), Some(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, subresource: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            subresource: (!subresource.is_empty()).then(|| subresource.to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            ..ManagedFieldsEntry::default()
        }
    }

    fn labelled(more: &str) -> Value {
        json!({"f:metadata": {"f:labels": {"f:akash.network": {}}}, "f:spec": {more: {}}})
    }

    #[test]
    fn takes_over_the_entries_of_the_creator_alone() {
        let entries = [
            entry("provider-services", UPDATE, "", labelled("f:replicas")),
            entry(
                "provider-services",
                UPDATE,
                "",
                json!({"f:spec": {"f:template": {}}}),
            ),
            entry(
                "kube-controller-manager",
                UPDATE,
                "status",
                json!({"f:status": {}}),
            ),
            entry(
                "kubectl-edit",
                UPDATE,
                "",
                json!({"f:metadata": {"f:labels": {"f:team": {}}}}),
            ),
            entry(
                MANAGER,
                APPLY,
                "",
                json!({"f:metadata": {"f:annotations": {"f:x": {}}}}),
            ),
        ];
        let after = taken_over(&entries).unwrap();
        let managers: Vec<_> = after.iter().filter_map(manager).collect();
        assert_eq!(managers, ["kube-controller-manager", "kubectl-edit", MANAGER]);
        let ours = after.last().unwrap();
        assert_eq!(ours.operation.as_deref(), Some(APPLY));
        let wanted = json!({
            "f:metadata": {"f:labels": {"f:akash.network": {}}, "f:annotations": {"f:x": {}}},
            "f:spec": {"f:replicas": {}, "f:template": {}},
        });
        assert_eq!(ours.fields_v1, Some(FieldsV1(wanted)));
        assert_eq!(taken_over(&after), None, "a second take-over changes nothing");
    }

    #[test]
    fn applied_fields_are_not_taken_over() {
        let entries = [
            entry(MANAGER, APPLY, "", labelled("f:replicas")),
            entry("kubectl-edit", UPDATE, "", json!({"f:spec": {"f:replicas": {}}})),
        ];
        assert_eq!(taken_over(&entries), None);
    }
}
