//! Comparison of the rendered fields with a live object, which contains additional fields.
//!
//! Defaults and normalized quantities of the API server, omitted empty values, and elements that other clients add to
//! lists with keys do not count as differences.

use crate::labels;
use serde_json::{Map, Value};

/// List fields of workloads and Services. Other clients may add elements to these lists.
const OPEN_LISTS: [&str; 7] = [
    "containers",
    "env",
    "imagePullSecrets",
    "initContainers",
    "ports",
    "volumeMounts",
    "volumes",
];

/// Policy for list elements that other clients add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    /// Additional elements are allowed in some lists of workloads and Services.
    Open,
    /// Additional elements are forbidden: in policies and roles, each additional element would be an
    /// additional right.
    Closed,
}

/// Returns the path of the first rendered field that is missing or has another value in the live object.
#[must_use]
pub fn missing(wanted: &Value, live: &Value, lists: Lists) -> Option<String> {
    let mut path = Vec::new();
    let found = Comparison { lists }.differs(wanted, Some(live), &mut path);
    found.then(|| path.join("."))
}

struct Comparison {
    lists: Lists,
}

impl Comparison {
    /// Returns true if the values differ, and sets `path` to the path of the first difference.
    fn differs(&self, wanted: &Value, live: Option<&Value>, path: &mut Vec<String>) -> bool {
        let Some(live) = live.filter(|l| !l.is_null()) else {
            return !is_empty(wanted);
        };
        match (wanted, live) {
            (Value::Object(wanted), Value::Object(live)) => self.fields_differ(wanted, live, path),
            (Value::Array(wanted), Value::Array(live)) => self.lists_differ(wanted, live, path),
            (Value::Null, _) => false,
            (Value::String(_) | Value::Number(_), _) if wanted != live => {
                quantity(wanted).is_none() || quantity(wanted) != quantity(live)
            }
            _ => wanted != live && !(is_empty(wanted) && is_empty(live)),
        }
    }

    fn fields_differ(
        &self,
        wanted: &Map<String, Value>,
        live: &Map<String, Value>,
        path: &mut Vec<String>,
    ) -> bool {
        // The version label changes at each write.
        for (key, value) in wanted.iter().filter(|(k, _)| *k != labels::MANIFEST_VERSION) {
            path.push(key.clone());
            if self.differs(value, live.get(key), path) {
                return true;
            }
            path.pop();
        }
        false
    }

    /// Returns true if the lists differ in an element or in the order. With [`Lists::Open`], ignores
    /// additional live elements in one of [`OPEN_LISTS`].
    fn lists_differ(&self, wanted: &[Value], live: &[Value], path: &mut Vec<String>) -> bool {
        let open = self.lists == Lists::Open && path.last().is_some_and(|p| OPEN_LISTS.contains(&p.as_str()));
        if !open && wanted.len() != live.len() {
            return true;
        }
        let mut rest = live.iter();
        for (index, element) in wanted.iter().enumerate() {
            path.push(index.to_string());
            let mut matches = |live: &Value| !self.differs(element, Some(live), &mut path.clone());
            // Elements of others may be in between, but ours must be in order.
            let found = if open {
                rest.any(matches)
            } else {
                rest.next().is_some_and(&mut matches)
            };
            if !found {
                return true;
            }
            path.pop();
        }
        false
    }
}

/// Returns true if the API server can omit the value.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
    }
}

/// Converts a quantity to billionths. Returns `None` if the value is not a quantity.
#[must_use]
pub fn quantity(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => parse_quantity(text),
        Value::Number(number) => parse_quantity(&number.to_string()),
        _ => None,
    }
}

fn parse_quantity(text: &str) -> Option<i128> {
    const NANO: i128 = 1_000_000_000;
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if digits.is_empty() || whole.len() > 19 || fraction.len() > 9 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let padded = format!("{fraction:0<9}");
    let nanos = whole * NANO + padded.parse::<i128>().ok()?;
    let (numerator, denominator): (i128, i128) = match suffix {
        "" => (1, 1),
        "n" => (1, NANO),
        "u" => (1, 1_000_000),
        "m" => (1, 1000),
        "k" => (1000, 1),
        "M" => (1_000_000, 1),
        "G" => (NANO, 1),
        "T" => (1000 * NANO, 1),
        "P" => (1_000_000 * NANO, 1),
        "E" => (NANO * NANO, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        _ => return None,
    };
    Some(nanos.checked_mul(numerator)? / denominator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn open(wanted: &Value, live: &Value) -> Option<String> {
        missing(wanted, live, Lists::Open)
    }

    #[test]
    fn additions_and_omissions_of_the_server_are_no_difference() {
        let wanted = json!({
            "metadata": {"name": "web", "labels": {"akash.network/manifest.resource.version": "9"}},
            "spec": {"replicas": 1, "template": {"spec": {
                "hostNetwork": false, "nodeName": "", "volumes": [], "affinity": {"nodeAffinity": {}},
                "containers": [{"name": "web", "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}],
            }}},
        });
        let live = json!({
            "metadata": {"name": "web", "uid": "1", "labels": {"akash.network/manifest.resource.version": "3"}},
            "spec": {"replicas": 1, "template": {"spec": {
                "restartPolicy": "Always",
                "containers": [
                    {"name": "proxy"},
                    {"name": "web", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "imagePullPolicy": "Always"},
                ],
            }}},
        });
        assert_eq!(open(&wanted, &live), None);
    }

    #[test]
    fn the_path_of_a_difference_is_returned() {
        let wanted = json!({"spec": {"replicas": 2, "containers": [{"name": "a", "args": ["x", "y"]}]}});
        let cases = [
            (json!({"spec": {"replicas": 1}}), "spec.containers"),
            (
                json!({"spec": {"replicas": 1, "containers": [{"name": "a", "args": ["x", "y"]}]}}),
                "spec.replicas",
            ),
            (
                json!({"spec": {"replicas": 2, "containers": [{"name": "a", "args": ["x"]}]}}),
                "spec.containers.0",
            ),
            (
                json!({"spec": {"replicas": 2, "containers": [{"name": "a", "args": ["y", "x"]}]}}),
                "spec.containers.0",
            ),
            (json!({"spec": {"replicas": 2}}), "spec.containers"),
        ];
        for (live, path) in cases {
            assert_eq!(open(&wanted, &live).as_deref(), Some(path), "{live}");
        }
    }

    #[test]
    fn an_additional_rule_of_a_policy_is_a_difference() {
        let wanted = json!({"egress": [{"ports": [{"port": 53}]}]});
        let more_rules = json!({"egress": [{"ports": [{"port": 53}]}, {}]});
        let more_ports = json!({"egress": [{"ports": [{"port": 53}, {"port": 22}]}]});
        assert_eq!(missing(&wanted, &wanted, Lists::Closed), None);
        for live in [more_rules, more_ports] {
            assert!(missing(&wanted, &live, Lists::Closed).is_some(), "{live}");
        }
    }

    #[test]
    fn quantities_are_compared_by_value() {
        for (one, two) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1Gi", "1073741824"),
            ("1k", "1000"),
            ("1.5Gi", "1536Mi"),
        ] {
            assert_eq!(parse_quantity(one), parse_quantity(two), "{one} {two}");
        }
        for (one, two) in [("1", "1k"), ("1M", "1Mi"), ("10", "10m")] {
            assert_ne!(parse_quantity(one), parse_quantity(two), "{one} {two}");
        }
        for text in [
            "",
            "x",
            "1x",
            "1 ",
            ".",
            "-1",
            "99999999999999999999",
            "1.0000000001",
        ] {
            let got = parse_quantity(text);
            assert!(got.is_none() || text == ".", "{text}: {got:?}");
        }
        assert!(open(&json!({"image": "nginx:1"}), &json!({"image": "nginx:2"})).is_some());
    }
}
