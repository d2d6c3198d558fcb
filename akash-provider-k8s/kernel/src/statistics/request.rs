//! Verb, resource and result of a request to the API server.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};

/// Resource name of all requests without a known resource.
const OTHER: &str = "other";

/// Resources that the backend reads or writes.
const RESOURCES: [&str; 36] = [
    "bgppeers",
    "cephblockpools",
    "cephclusters",
    "certificates",
    "configmaps",
    "csistoragecapacities",
    "customresourcedefinitions",
    "deployments",
    "endpointslices",
    "events",
    "gateways",
    "httproutes",
    "ingressclasses",
    "ingresses",
    "ipaddresspools",
    "leases",
    "manifests",
    "namespaces",
    "networkpolicies",
    "nodes",
    "persistentvolumes",
    "pods",
    "providerhosts",
    "providerleasedips",
    "replicasets",
    "resourcequotas",
    "rolebindings",
    "roles",
    "secrets",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "serviceaccounts",
    "services",
    "snippetsfilters",
    "statefulsets",
    "storageclasses",
];

/// Verb of a request, as in RBAC rules. `Apply` is a server-side apply, which RBAC checks as `patch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads all objects that match a selector.
    List,
    /// Starts a stream of changes.
    Watch,
    /// Creates an object.
    Create,
    /// Replaces an object.
    Update,
    /// Changes fields of an object.
    Patch,
    /// Creates an object, or replaces the fields that the provider owns.
    Apply,
    /// Deletes one object.
    Delete,
    /// Deletes all objects that match a selector.
    DeleteCollection,
    /// Starts a command in a container.
    Connect,
    /// Any other HTTP method.
    Other,
}

/// Result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApiResult {
    /// Success of a request that created no object.
    Success,
    /// The request created an object.
    Created,
    /// The object does not exist.
    NotFound,
    /// Another client changed or created the object.
    Conflict,
    /// The credentials are invalid, or a right is missing.
    Denied,
    /// The API server limits the rate of requests.
    Throttled,
    /// Any other error status.
    Error,
    /// The API server did not respond.
    Unreachable,
}

/// Requests that are counted together: verb, resource and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiCall {
    /// Verb of the request.
    pub verb: Verb,
    /// Plural name of the resource, such as `pods` or `pods/log`. The path `/version` has the name `version`.
    /// Unknown resources and paths have the name `other`.
    pub resource: &'static str,
    /// Result of the request.
    pub result: ApiResult,
}

impl Verb {
    /// Returns the name of the verb, as in rules of RBAC.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Connect => "connect",
            Self::Other => OTHER,
        }
    }

    /// Returns true if the request changes no object.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

impl ApiResult {
    pub(super) fn from_status(status: StatusCode) -> Self {
        match status {
            StatusCode::CREATED => Self::Created,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::CONFLICT => Self::Conflict,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Self::Denied,
            StatusCode::TOO_MANY_REQUESTS => Self::Throttled,
            // 101 starts a command in a container.
            status if status.is_success() || status.is_informational() => Self::Success,
            _ => Self::Error,
        }
    }

    /// Returns the name of the result, such as `not_found`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Created => "created",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Throttled => "throttled",
            Self::Error => "error",
            Self::Unreachable => "unreachable",
        }
    }
}

pub(super) fn classify<B>(request: &Request<B>) -> (Verb, &'static str) {
    let path = request.uri().path();
    if path == "/version" {
        return (Verb::Get, "version");
    }
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let is_named = match segments.next() {
        Some("api") => segments.next().is_some(),
        Some("apis") => segments.nth(1).is_some(),
        _ => false,
    };
    let rest: Vec<&str> = segments.collect();
    let (resource, name, subresource) = match rest[..] {
        ["namespaces", _, part @ ("status" | "finalize")] => ("namespaces", true, part),
        ["namespaces", _, resource, ref below @ ..] | [resource, ref below @ ..] if is_named => (
            resource,
            !below.is_empty(),
            below.get(1).copied().unwrap_or_default(),
        ),
        _ => return (Verb::Other, OTHER),
    };
    let resource = match (resource, subresource) {
        ("pods", "log") => "pods/log",
        ("pods", "exec") => return (Verb::Connect, "pods/exec"),
        (resource, _) => known_name(resource),
    };
    (verb(request, name), resource)
}

fn known_name(resource: &str) -> &'static str {
    let found = RESOURCES.binary_search(&resource);
    found
        .ok()
        .and_then(|at| RESOURCES.get(at))
        .copied()
        .unwrap_or(OTHER)
}

fn verb<B>(request: &Request<B>, has_name: bool) -> Verb {
    const APPLY: &[u8] = b"application/apply-patch";
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query
        .split('&')
        .any(|part| matches!(part, "watch=true" | "watch=1"));
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_apply = kind.is_some_and(|kind| kind.starts_with(APPLY));
    match (request.method(), has_name) {
        (&Method::GET, _) if is_watch => Verb::Watch,
        (&Method::GET, true) => Verb::Get,
        (&Method::GET, false) => Verb::List,
        (&Method::POST, _) => Verb::Create,
        (&Method::PUT, _) => Verb::Update,
        (&Method::PATCH, _) if is_apply => Verb::Apply,
        (&Method::PATCH, _) => Verb::Patch,
        (&Method::DELETE, true) => Verb::Delete,
        (&Method::DELETE, false) => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classified(method: &str, uri: &str) -> (Verb, &'static str) {
        classify(&Request::builder().method(method).uri(uri).body(()).unwrap())
    }

    #[test]
    fn path_and_method_determine_verb_and_resource() {
        let cases = [
            ("GET", "/version", Verb::Get, "version"),
            ("GET", "/api/v1/namespaces/a", Verb::Get, "namespaces"),
            ("GET", "/api/v1/namespaces", Verb::List, "namespaces"),
            ("PUT", "/api/v1/namespaces/a/finalize", Verb::Update, "namespaces"),
            ("GET", "/api/v1/pods?watch=true&x=1", Verb::Watch, "pods"),
            (
                "GET",
                "/api/v1/namespaces/a/pods/b/log?follow=true",
                Verb::Get,
                "pods/log",
            ),
            (
                "GET",
                "/api/v1/namespaces/a/pods/b/exec",
                Verb::Connect,
                "pods/exec",
            ),
            (
                "POST",
                "/apis/apps/v1/namespaces/a/deployments",
                Verb::Create,
                "deployments",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/a/deployments/b",
                Verb::Patch,
                "deployments",
            ),
            (
                "DELETE",
                "/apis/akash.network/v2beta2/namespaces/lease/manifests/b",
                Verb::Delete,
                "manifests",
            ),
            (
                "DELETE",
                "/apis/akash.network/v2beta2/namespaces/lease/providerhosts?labelSelector=a",
                Verb::DeleteCollection,
                "providerhosts",
            ),
            (
                "GET",
                "/apis/storage.k8s.io/v1/storageclasses",
                Verb::List,
                "storageclasses",
            ),
            ("GET", "/apis/secret.example/v1/tenants/a", Verb::Get, "other"),
            ("GET", "/apis", Verb::Other, "other"),
            ("TRACE", "/api/v1/pods/a", Verb::Other, "pods"),
        ];
        for (method, uri, verb, resource) in cases {
            assert_eq!(classified(method, uri), (verb, resource), "{method} {uri}");
        }
        let apply =
            Request::patch("/api/v1/namespaces/a").header("content-type", "application/apply-patch+yaml");
        assert_eq!(classify(&apply.body(()).unwrap()), (Verb::Apply, "namespaces"));
    }
}
