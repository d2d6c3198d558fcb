//! HTTP routes to a service: Ingress, or HTTPRoute of the Gateway API.

use akash_provider_core::cluster::HostnameDeclaration;
use akash_provider_core::manifest::{HttpOptions, NEXT_CASES, without_star};
use akash_provider_core::types::LeaseId;
use akash_provider_kube_kernel::labels::{self, Labels};
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend,
    IngressSpec, ServiceBackendPort,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Ingress class of all leases.
pub const INGRESS_CLASS: &str = "akash-ingress-class";

/// Renders the Ingress that routes a hostname to a service of a lease.
#[must_use]
pub fn ingress(lease: &LeaseId, host: &HostnameDeclaration, options: &HttpOptions) -> Ingress {
    let backend = IngressBackend {
        service: Some(IngressServiceBackend {
            name: host.service.clone(),
            port: Some(ServiceBackendPort {
                // Port of the Service, which routes to that of the container.
                number: Some(i32::from(host.external_port)),
                ..ServiceBackendPort::default()
            }),
        }),
        ..IngressBackend::default()
    };
    let path = HTTPIngressPath {
        backend,
        path: Some("/".to_owned()),
        path_type: "Prefix".to_owned(),
    };
    Ingress {
        metadata: meta(lease, host, ingress_annotations(options)),
        spec: Some(IngressSpec {
            ingress_class_name: Some(INGRESS_CLASS.to_owned()),
            rules: Some(vec![IngressRule {
                host: Some(host.hostname.clone()),
                http: Some(HTTPIngressRuleValue { paths: vec![path] }),
            }]),
            ..IngressSpec::default()
        }),
        ..Ingress::default()
    }
}

fn ingress_annotations(options: &HttpOptions) -> Labels {
    let options = &effective(options);
    let mut pairs = vec![
        ("proxy-read-timeout", seconds(options.read_timeout).to_string()),
        ("proxy-send-timeout", seconds(options.send_timeout).to_string()),
        ("proxy-next-upstream-tries", options.next_tries.to_string()),
        ("proxy-body-size", options.max_body_size.to_string()),
        (
            "proxy-next-upstream-timeout",
            seconds(options.next_timeout).to_string(),
        ),
        ("proxy-next-upstream", next_cases(options)),
    ];
    let buffer = u64::from(options.proxy_buffer_size);
    if buffer > 0 {
        // NGINX rejects its whole configuration unless one buffer <= busy buffers < all buffers minus one. The
        // defaults of the controller can violate this rule, so all three values are set.
        pairs.extend([
            ("proxy-buffer-size", buffer.to_string()),
            ("proxy-buffers-number", "4".to_owned()),
            ("proxy-busy-buffers-size", (2 * buffer).to_string()),
        ]);
    }
    let key = |name| format!("nginx.ingress.kubernetes.io/{name}");
    pairs
        .into_iter()
        .map(|(name, value)| (key(name), value))
        .collect()
}

/// HTTPRoute of the Gateway API, with the fields that leases use.
#[derive(CustomResource, Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[kube(
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "HTTPRoute",
    plural = "httproutes",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct HttpRouteSpec {
    /// Gateways that accept the requests.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// Hostnames of the route.
    #[serde(default)]
    pub hostnames: Vec<String>,
    /// Rules of the route.
    #[serde(default)]
    pub rules: Vec<RouteRule>,
}

/// Gateway to which a route is attached.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ParentRef {
    /// Name of the gateway.
    pub name: String,
    /// Namespace of the gateway. `None` if the route is in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Rule that routes matching paths to backends.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteRule {
    /// Paths of the rule.
    #[serde(default)]
    pub matches: Vec<RouteMatch>,
    /// Backends of the rule.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
}

/// Condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RouteMatch {
    /// Path; `None` matches all paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
}

/// Path and type of comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PathMatch {
    /// `PathPrefix` or `Exact`; leases use `PathPrefix`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Path, starting with `/`.
    pub value: String,
}

/// Service and port that receive the requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BackendRef {
    /// Name of the Service in the namespace of the route.
    pub name: String,
    /// Port of the Service, not of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Renders the HTTPRoute of a hostname through a gateway. `buffer_size` is the default size of the proxy
/// buffer, for example `16k`. A size in `options` takes precedence.
#[must_use]
pub fn http_route(
    lease: &LeaseId,
    host: &HostnameDeclaration,
    options: &HttpOptions,
    gateway: &ParentRef,
    buffer_size: &str,
) -> HTTPRoute {
    let rule = RouteRule {
        matches: vec![RouteMatch {
            path: Some(PathMatch {
                kind: "PathPrefix".to_owned(),
                value: "/".to_owned(),
            }),
        }],
        backend_refs: vec![BackendRef {
            name: host.service.clone(),
            port: Some(host.external_port),
        }],
    };
    let spec = HttpRouteSpec {
        parent_refs: vec![gateway.clone()],
        hostnames: vec![host.hostname.clone()],
        rules: vec![rule],
    };
    HTTPRoute {
        metadata: meta(lease, host, route_annotations(options, buffer_size)),
        spec,
    }
}

fn route_annotations(options: &HttpOptions, buffer_size: &str) -> Labels {
    let options = &effective(options);
    let buffer = match options.proxy_buffer_size {
        0 => buffer_size.to_owned(),
        bytes => bytes.to_string(),
    };
    let mut pairs = BTreeMap::from([
        ("client-max-body-size", options.max_body_size.to_string()),
        ("proxy-read-timeout", seconds(options.read_timeout).to_string()),
        ("proxy-send-timeout", seconds(options.send_timeout).to_string()),
        ("proxy-next-upstream-tries", options.next_tries.to_string()),
        ("proxy-next-upstream", next_cases(options)),
        ("proxy-buffer-size", buffer),
    ]);
    if options.next_timeout > 0 {
        pairs.insert(
            "proxy-next-upstream-timeout",
            format!("{}s", seconds(options.next_timeout)),
        );
    }
    let key = |name| format!("nginx.org/{name}");
    pairs
        .into_iter()
        .map(|(name, value)| (key(name), value))
        .collect()
}

/// Returns `options`, or the default options if the tenant set no options. A body size of 0 means that the
/// tenant set no options.
#[must_use]
pub fn effective(options: &HttpOptions) -> HttpOptions {
    if options.max_body_size == 0 {
        HttpOptions::default()
    } else {
        options.clone()
    }
}

/// Converts milliseconds to seconds, and rounds the seconds up.
const fn seconds(milliseconds: u32) -> u32 {
    milliseconds.div_ceil(1_000)
}

/// Formats the retry conditions for nginx. Drops unknown conditions.
#[must_use]
pub fn next_cases(options: &HttpOptions) -> String {
    let word = |case: &String| {
        let is_status = case.starts_with(|c: char| ('1'..='5').contains(&c));
        if is_status {
            format!("http_{case}")
        } else {
            case.clone()
        }
    };
    let cases = options.next_cases.iter().flatten();
    let cases = cases.filter(|case| NEXT_CASES.contains(&case.as_str()));
    let words: Vec<_> = cases.map(word).collect();
    words.join(" ")
}

fn meta(lease: &LeaseId, host: &HostnameDeclaration, annotations: Labels) -> ObjectMeta {
    let mut labels = labels::lease(lease);
    labels.insert(labels::MANAGED.to_owned(), "true".to_owned());
    ObjectMeta {
        // A second write of the same hostname updates the same route.
        name: Some(without_star(&host.hostname)),
        namespace: Some(lease.namespace()),
        labels: Some(labels),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}
