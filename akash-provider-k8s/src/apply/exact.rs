//! Exact comparison of a live object with the rendered one, and the patch that restores it.
//!
//! In the top-level fields that `roots` returns, a missing, different or added field is a difference. In all
//! other fields, such as labels and annotations, added fields are ignored. `POD` and `SPEC` list the values
//! that the API server fills in.

use super::item::ItemKind;
use crate::labels;
use akash_provider_kube_kernel::subset::quantity;
use serde_json::{Map, Value};

/// JSON of a default value that the API server sets, or [`ANY`] for a value that the API server allocates.
type Filled = &'static str;
const ANY: Filled = "";

/// Default values in pod templates, each with its path below `spec`. `*` represents every index.
const POD: [(&str, Filled); 8] = [
    ("restartPolicy", r#""Always""#),
    ("terminationGracePeriodSeconds", "30"),
    ("dnsPolicy", r#""ClusterFirst""#),
    ("schedulerName", r#""default-scheduler""#),
    ("containers.*.terminationMessagePath", r#""/dev/termination-log""#),
    ("containers.*.terminationMessagePolicy", r#""File""#),
    ("containers.*.resources", "{}"),
    ("securityContext", "{}"),
];

/// Default values outside of pod templates, each with its kind and path.
const SPEC: [(ItemKind, &str, Filled); 17] = [
    (ItemKind::Deployment, "spec.progressDeadlineSeconds", "600"),
    (
        ItemKind::StatefulSet,
        "spec.podManagementPolicy",
        r#""OrderedReady""#,
    ),
    (
        ItemKind::StatefulSet,
        "spec.persistentVolumeClaimRetentionPolicy",
        r#"{"whenDeleted":"Retain","whenScaled":"Retain"}"#,
    ),
    (ItemKind::StatefulSet, "spec.serviceName", r#""""#),
    (
        ItemKind::StatefulSet,
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        "1",
    ),
    // Claims are immutable, and compared by the plan.
    (
        ItemKind::StatefulSet,
        "spec.volumeClaimTemplates.*.apiVersion",
        ANY,
    ),
    (ItemKind::StatefulSet, "spec.volumeClaimTemplates.*.kind", ANY),
    (ItemKind::StatefulSet, "spec.volumeClaimTemplates.*.status", ANY),
    (
        ItemKind::StatefulSet,
        "spec.volumeClaimTemplates.*.spec.volumeMode",
        ANY,
    ),
    (ItemKind::Service, "spec.clusterIP", ANY),
    (ItemKind::Service, "spec.clusterIPs", ANY),
    (ItemKind::Service, "spec.ipFamilies", ANY),
    (ItemKind::Service, "spec.ipFamilyPolicy", ANY),
    (ItemKind::Service, "spec.ports.*.nodePort", ANY),
    (ItemKind::Service, "spec.internalTrafficPolicy", r#""Cluster""#),
    (ItemKind::Service, "spec.externalTrafficPolicy", r#""Cluster""#),
    (ItemKind::Service, "spec.sessionAffinity", r#""None""#),
];

/// Fields for which `false` and a missing value have different meanings.
const FALSE_COUNTS: [&str; 5] = [
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "privileged",
    "readOnlyRootFilesystem",
    "runAsNonRoot",
];

/// Maps of quantities, which the API server normalizes.
const QUANTITIES: [&str; 3] = ["hard", "limits", "requests"];

/// Returns the top-level fields that must equal the rendered fields.
pub(crate) const fn roots(kind: ItemKind) -> &'static [&'static str] {
    match kind {
        ItemKind::NetworkPolicy
        | ItemKind::ResourceQuota
        | ItemKind::Deployment
        | ItemKind::StatefulSet
        | ItemKind::Service => &["spec"],
        ItemKind::ServiceAccount => &["automountServiceAccountToken"],
        ItemKind::Role => &["rules"],
        ItemKind::RoleBinding => &["roleRef", "subjects"],
        // Secrets are compared by the hashes of their data.
        ItemKind::Secret => &[],
    }
}

/// Returns the path of the first difference, or `None` for equal objects.
pub(crate) fn difference(kind: ItemKind, wanted: &Value, live: &Value) -> Option<String> {
    let mut comparison = Comparison::new(kind);
    comparison
        .differs(wanted, Some(live))
        .then(|| comparison.path.join("."))
}

/// Returns the JSON merge patch that makes the live object equal to the rendered object.
///
/// The patch fails for another object of the same name, and does not conflict with status writes.
pub(crate) fn replacement(kind: ItemKind, wanted: &Value, live: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (live, wanted) else {
        return wanted.clone();
    };
    let mut patch = Value::Object(Comparison::new(kind).patch(to, from));
    if let Some(uid) = live.pointer("/metadata/uid") {
        patch["metadata"]["uid"] = uid.clone();
    }
    patch
}

/// Returns the live object without the default values of the API server. A field that `wanted` contains is
/// never removed.
pub(crate) fn without_defaults(kind: ItemKind, wanted: &Value, live: &Value) -> Value {
    Comparison::new(kind).stripped(wanted, live)
}

struct Comparison {
    kind: ItemKind,
    path: Vec<String>,
}

impl Comparison {
    const fn new(kind: ItemKind) -> Self {
        let path = Vec::new();
        Self { kind, path }
    }

    /// Returns true if the values differ, and sets `path` to the path of the first difference.
    fn differs(&mut self, wanted: &Value, live: Option<&Value>) -> bool {
        let Some(live) = live.filter(|live| !live.is_null()) else {
            return !may_be_omitted(self.key(), wanted);
        };
        match (wanted, live) {
            (Value::Object(wanted), Value::Object(live)) => self.fields_differ(wanted, live),
            (Value::Array(wanted), Value::Array(live)) => self.elements_differ(wanted, live),
            (Value::String(_) | Value::Number(_), _) if wanted != live => {
                !self.is_quantity() || quantity(wanted).is_none() || quantity(wanted) != quantity(live)
            }
            _ => wanted != live,
        }
    }

    fn fields_differ(&mut self, wanted: &Map<String, Value>, live: &Map<String, Value>) -> bool {
        for (key, value) in rendered(wanted) {
            self.path.push(key.clone());
            if self.differs(value, live.get(key)) {
                return true;
            }
            self.path.pop();
        }
        let surplus = live
            .iter()
            .find(|(key, value)| self.is_surplus(wanted, key, value));
        self.path.extend(surplus.map(|(key, _)| key.clone()));
        surplus.is_some()
    }

    fn elements_differ(&mut self, wanted: &[Value], live: &[Value]) -> bool {
        if wanted.len() != live.len() {
            return true;
        }
        for (index, (wanted, live)) in wanted.iter().zip(live).enumerate() {
            self.path.push(index.to_string());
            if self.differs(wanted, Some(live)) {
                return true;
            }
            self.path.pop();
        }
        false
    }

    fn patch(&mut self, wanted: &Map<String, Value>, live: &Map<String, Value>) -> Map<String, Value> {
        let mut patch = Map::new();
        for (key, value) in rendered(wanted) {
            self.path.push(key.clone());
            let depth = self.path.len();
            match (value, live.get(key)) {
                (Value::Object(wanted), Some(Value::Object(live))) => {
                    let inner = self.patch(wanted, live);
                    if !inner.is_empty() {
                        patch.insert(key.clone(), Value::Object(inner));
                    }
                }
                (_, live) => {
                    if self.differs(value, live) {
                        patch.insert(key.clone(), value.clone());
                    }
                }
            }
            // `differs` leaves the path of the difference.
            self.path.truncate(depth - 1);
        }
        let surplus = live
            .iter()
            .filter(|(key, value)| self.is_surplus(wanted, key, value));
        patch.extend(surplus.map(|(key, _)| (key.clone(), Value::Null)));
        patch
    }

    fn stripped(&mut self, wanted: &Value, live: &Value) -> Value {
        match live {
            Value::Object(fields) => {
                let mut stripped = Map::new();
                for (key, value) in fields {
                    let inner = wanted.get(key).unwrap_or(&Value::Null);
                    // Deprecated alias of the same field.
                    let is_alias = key == "serviceAccount" && fields.get("serviceAccountName") == Some(value);
                    if inner.is_null() && (is_alias || self.is_default(key, value)) {
                        continue;
                    }
                    self.path.push(key.clone());
                    stripped.insert(key.clone(), self.stripped(inner, value));
                    self.path.pop();
                }
                Value::Object(stripped)
            }
            Value::Array(elements) => {
                let wanted = wanted.as_array().map(Vec::as_slice).unwrap_or_default();
                let stripped = elements.iter().enumerate().map(|(index, element)| {
                    self.path.push(index.to_string());
                    let inner = wanted
                        .get(index)
                        .or_else(|| wanted.last())
                        .unwrap_or(&Value::Null);
                    let stripped = self.stripped(inner, element);
                    self.path.pop();
                    stripped
                });
                stripped.collect()
            }
            value => value.clone(),
        }
    }

    /// Returns true for a field that another client added.
    fn is_surplus(&self, wanted: &Map<String, Value>, key: &str, value: &Value) -> bool {
        if value.is_null() || wanted.get(key).is_some_and(|wanted| !wanted.is_null()) {
            return false;
        }
        let root = self.path.first().map_or(key, String::as_str);
        // Others may annotate a template, for example with the time of a restart.
        let is_metadata = key == "metadata" || self.path.iter().any(|part| part == "metadata");
        if !roots(self.kind).contains(&root) || is_metadata {
            return false;
        }
        // Deprecated alias of the same field.
        if key == "serviceAccount" && wanted.get("serviceAccountName") == Some(value) {
            return false;
        }
        !self.is_default(key, value)
    }

    fn is_default(&self, key: &str, value: &Value) -> bool {
        let parts = self.path.iter().map(String::as_str).chain([key]);
        let parts = parts.map(|part| if part.parse::<usize>().is_ok() { "*" } else { part });
        let path = parts.collect::<Vec<_>>().join(".");
        let is =
            |filled: Filled| filled == ANY || serde_json::from_str(filled).is_ok_and(|f: Value| f == *value);
        if let Some(path) = path.strip_prefix("spec.template.spec.") {
            return POD.iter().any(|(default, filled)| *default == path && is(filled));
        }
        let mut defaults = SPEC.iter().filter(|(kind, ..)| *kind == self.kind);
        defaults.any(|(_, default, filled)| *default == path && is(filled))
    }

    fn key(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }

    fn is_quantity(&self) -> bool {
        let map = self.path.iter().nth_back(1);
        self.key() == "sizeLimit" || map.is_some_and(|map| QUANTITIES.contains(&map.as_str()))
    }
}

/// Returns the rendered fields without the version label.
fn rendered(wanted: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let fields = wanted.iter().filter(|(_, value)| !value.is_null());
    fields.filter(|(key, _)| *key != labels::MANIFEST_VERSION)
}

fn may_be_omitted(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value && !FALSE_COUNTS.contains(&key),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.iter().all(|(key, value)| may_be_omitted(key, value)),
    }
}

#[cfg(test)]
pub(crate) mod tests;
