//! Requests of the provider to the API server, according to the audit log of the API server.

use crate::scrape::{get, parse};
use crate::stage::{Running, Stage, until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use testbed::Testbed;

/// ServiceAccount of the requests in the audit log.
const ACCOUNT: &str = "logged";
/// Resources that the actions of the Go provider name differently.
const NAMES: [(&str, &str); 5] = [
    ("networkpolicies", "networking-policies"),
    ("statefulsets", "statefulset"),
    ("manifests", "akash-manifests"),
    ("ingresses", "networking-ingresses"),
    ("httproutes", "gateway-httproutes"),
];
/// Resources without a different name that the Go provider reads and writes.
const RESOURCES: [&str; 7] = [
    "namespaces",
    "secrets",
    "deployments",
    "services",
    "serviceaccounts",
    "roles",
    "rolebindings",
];
/// Verbs and resources of the other actions of the Go provider.
const OTHERS: [(&str, &str, &str); 19] = [
    ("patch", "deployments", "deployments-patch"),
    ("get", "ingresses", "ingresses-get"),
    ("delete", "httproutes", "gateway-httproutes-delete"),
    ("list", "manifests", "manifests-list"),
    ("get", "manifests", "manifests-get"),
    ("delete", "manifests", "manifests-delete"),
    ("delete", "namespaces", "namespaces-delete"),
    ("get", "namespaces", "namespace-get"),
    ("list", "pods", "pods-list"),
    ("get", "pods/log", "pods-getlogs"),
    ("list", "services", "services-list"),
    ("list", "deployments", "deployments-list"),
    ("list", "statefulsets", "statefulsets-list"),
    ("get", "statefulsets", "statefulsets-get"),
    ("list", "events", "events-list"),
    ("watch", "events", "events-follow"),
    ("list", "providerhosts", "providerhosts-list"),
    ("list", "providerhosts", "provider-hosts"),
    ("get", "version", "discovery-serverversion"),
];

/// Returns true for a counter of requests, except requests for Leases: the election abandons slow requests.
fn is_compared(sample: &str) -> bool {
    let requests = "akash_provider_kubernetes_requests_total{";
    sample.starts_with("provider_kube_calls{")
        || sample.starts_with(requests) && !sample.contains("resource=\"leases\"")
}

/// Request in the audit log.
struct Request {
    verb: String,
    resource: String,
    code: u64,
}

impl Request {
    fn new(event: &Value) -> Self {
        let (object, uri) = (&event["objectRef"], event["requestURI"].as_str().unwrap());
        let code = event["responseStatus"]["code"].as_u64().unwrap();
        let resource = match (object["resource"].as_str(), object["subresource"].as_str()) {
            (Some("pods"), Some("log")) => "pods/log",
            (Some(resource), _) => resource,
            (None, _) => uri.trim_start_matches('/'),
        };
        let verb = match event["verb"].as_str().unwrap() {
            // Only a server-side apply creates objects or has the option `force`.
            "patch" if code == 201 || uri.contains("force=true") => "apply",
            verb => verb,
        };
        Self {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            code,
        }
    }

    fn is_read(&self) -> bool {
        ["get", "list", "watch"].contains(&self.verb.as_str())
    }

    fn sample(&self) -> String {
        let result = match self.code {
            201 => "created",
            401 | 403 => "denied",
            404 => "not_found",
            409 => "conflict",
            429 => "throttled",
            400.. => "error",
            _ => "success",
        };
        let (verb, resource) = (&self.verb, &self.resource);
        format!(
            "akash_provider_kubernetes_requests_total{{verb=\"{verb}\",resource=\"{resource}\",result=\"{result}\"}}"
        )
    }

    /// Returns the actions of the Go provider.
    fn actions(&self) -> Vec<String> {
        let (verb, resource) = (self.verb.as_str(), self.resource.as_str());
        let act = match (verb, self.code) {
            ("get", _) if !["ingresses", "httproutes"].contains(&resource) => Some("get"),
            ("create", _) | ("apply", 201) => Some("create"),
            ("patch", _) if resource == "deployments" => None,
            ("update" | "patch" | "apply", _) => Some("update"),
            _ => None,
        };
        let renamed = NAMES.iter().find(|(of, _)| *of == resource);
        let own = RESOURCES.iter().find(|of| **of == resource);
        let name = renamed.map(|(_, name)| name).or(own);
        let written = act.zip(name).map(|(act, name)| format!("{name}-{act}"));
        let others = OTHERS
            .iter()
            .filter(|other| (other.0, other.1) == (verb, resource));
        written
            .into_iter()
            .chain(others.map(|other| other.2.to_owned()))
            .collect()
    }

    fn compatible_samples(&self) -> Vec<String> {
        let is_success = self.code < 400 || self.code == 404 && self.is_read();
        let result = if is_success { "success" } else { "fail" };
        let sample = |action| format!("provider_kube_calls{{action=\"{action}\",result=\"{result}\"}}");
        self.actions().into_iter().map(sample).collect()
    }
}

/// Account of a provider. The API server logs the requests of this account. Dropping the value deletes the
/// account and all leases.
pub(crate) struct LoggedAccount<'a> {
    cluster: &'a Testbed,
    /// Path of a kubeconfig with a token of the account.
    pub(crate) kubeconfig: PathBuf,
    /// Length of the audit log at the start, in bytes.
    from: usize,
}

impl<'a> LoggedAccount<'a> {
    pub(crate) fn new(cluster: &'a Testbed, stage: &Stage) -> Self {
        let account = Self {
            cluster,
            kubeconfig: stage.path("kubeconfig-logged"),
            from: std::fs::read_to_string(cluster.audit_log()).map_or(0, |text| text.len()),
        };
        let kubectl = |words: &[&str]| cluster.kubectl(words).unwrap();
        kubectl(&["create", "serviceaccount", ACCOUNT, "--namespace=lease"]);
        let subject = format!("--serviceaccount=lease:{ACCOUNT}");
        kubectl(&[
            "create",
            "clusterrolebinding",
            ACCOUNT,
            "--clusterrole=cluster-admin",
            &subject,
        ]);
        let token = kubectl(&["create", "token", ACCOUNT, "--namespace=lease"]);
        let config = kubectl(&["config", "view", "--raw", "--output=json"]);
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim()});
        std::fs::write(&account.kubeconfig, config.to_string()).unwrap();
        account
    }

    fn requests(&self) -> Vec<Request> {
        let text = std::fs::read_to_string(self.cluster.audit_log()).unwrap();
        let user = format!("system:serviceaccount:lease:{ACCOUNT}");
        let mut by_id = BTreeMap::new();
        for line in text[self.from..].lines() {
            // The last line may be incomplete.
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            // A watch has an event for its start and an event for its end.
            if event["user"]["username"] == *user && event["objectRef"]["resource"] != "leases" {
                let id = event["auditID"].as_str().unwrap().to_owned();
                by_id.insert(id, Request::new(&event));
            }
        }
        by_id.into_values().collect()
    }

    /// Returns true if the log has a request with this action of the Go provider.
    pub(crate) fn has_made(&self, action: &str) -> bool {
        let requests = self.requests();
        let mut actions = requests.iter().flat_map(Request::actions);
        actions.any(|made| made == action)
    }

    /// Returns the minimum and the maximum of each sample. The provider does not count a request that it abandoned,
    /// which has the code 504 in the log.
    fn samples(&self) -> BTreeMap<String, [f64; 2]> {
        let mut samples = BTreeMap::<String, [f64; 2]>::new();
        for request in self.requests() {
            let names = [request.sample()].into_iter();
            for sample in names.chain(request.compatible_samples()) {
                let [minimum, maximum] = samples.entry(sample).or_default();
                *maximum += 1.0;
                if request.code != 504 {
                    *minimum += 1.0;
                }
            }
        }
        samples
    }

    /// Waits until the metrics agree with the audit log. Asserts that each of `actions` was counted.
    #[track_caller]
    pub(crate) fn check(&self, port: u16, provider: &Running, actions: &[&str]) {
        let differing = || -> Vec<String> {
            let mut found = parse(&get(port, "text/plain").unwrap().1);
            found.retain(|sample, _| is_compared(sample));
            let expected = self.samples();
            let all: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
            let compared = all.into_iter().map(|sample| {
                let [minimum, maximum] = expected.get(sample).copied().unwrap_or_default();
                (
                    sample,
                    found.get(sample).copied().unwrap_or_default(),
                    minimum,
                    maximum,
                )
            });
            compared
                .filter(|(_, count, minimum, maximum)| count < minimum || count > maximum)
                .map(|differing| format!("{differing:?}"))
                .collect()
        };
        let dump = || format!("{:#?}\n{}", differing(), provider.dump());
        until("the requests of the audit log", dump, || differing().is_empty());
        let values = parse(&get(port, "text/plain").unwrap().1);
        for (kind, is_read) in [("read", true), ("write", false)] {
            let name = "akash_provider_kubernetes_request_duration_seconds_count";
            let requests = values.iter().filter(|(sample, _)| {
                let reads = ["get", "list"]
                    .iter()
                    .any(|verb| sample.contains(&format!("{{verb=\"{verb}\"")));
                sample.starts_with("akash_provider_kubernetes_requests_total{")
                    && !sample.contains("verb=\"watch\"")
                    && reads == is_read
            });
            let counted: f64 = requests.map(|(_, count)| count).sum();
            assert_eq!(values[&format!("{name}{{type=\"{kind}\"}}")], counted, "{kind}");
        }
        let missing: Vec<_> = actions.iter().filter(|action| !self.has_made(action)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

impl Drop for LoggedAccount<'_> {
    fn drop(&mut self) {
        let delete = |words: &[&str]| {
            let how = ["--ignore-not-found", "--wait=false"];
            drop(self.cluster.kubectl(&[&["delete"], words, &how].concat()));
        };
        // A failed test leaves its lease.
        delete(&["namespaces", "--selector=akash.network=true"]);
        for records in ["manifests.akash.network", "providerhosts.akash.network"] {
            delete(&[records, "--namespace=lease", "--all"]);
        }
        delete(&["clusterrolebinding", ACCOUNT]);
        delete(&["serviceaccount", ACCOUNT, "--namespace=lease"]);
    }
}
