//! Routing decisions of a controller. The rules are those of ingress-nginx and the Gateway API: the oldest
//! route of a hostname applies, a service without ready endpoints results in 503, and an HTTPRoute to a
//! missing service in 500.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use testbed::ProxyBackend;

/// Namespace and name.
pub(crate) type ObjectKey = (String, String);

/// Objects of one kind.
pub(crate) type Objects = BTreeMap<ObjectKey, Value>;

#[derive(Debug, Default)]
pub(crate) struct ObservedObjects {
    pub(crate) ingresses: Objects,
    pub(crate) routes: Objects,
    pub(crate) services: Objects,
    pub(crate) slices: Objects,
}

/// Ingresses and HTTPRoutes that a controller handles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    /// Class of the Ingresses that the controller handles.
    pub(crate) class: Option<String>,
    /// Namespace and name of the Gateway. The controller handles the HTTPRoutes of this Gateway.
    pub(crate) gateway: Option<ObjectKey>,
    /// True for a controller that writes no status, like some Ingress controllers.
    pub(crate) is_silent: bool,
}

/// Target of a hostname, and the object that defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) service: String,
    pub(crate) backend: ProxyBackend,
}

pub(crate) fn targets(seen: &ObservedObjects, follows: &Scope) -> BTreeMap<String, Target> {
    let mut candidates: Vec<(String, &ObjectKey, String, Target)> = Vec::new();
    for (place, object) in &seen.ingresses {
        if !is_of_class(object, follows) {
            continue;
        }
        for rule in list(object, "/spec/rules") {
            let backend = rule
                .pointer("/http/paths/0/backend/service")
                .unwrap_or(&Value::Null);
            let port = backend.pointer("/port/number").and_then(Value::as_u64);
            let (service, backend) = resolve(seen, &place.0, &text(backend, "/name"), port);
            // A missing service counts as a service without endpoints.
            let backend = backend.unwrap_or(ProxyBackend::Servers(Vec::new()));
            let target = of("Ingress", place, service, backend);
            candidates.push((
                text(object, "/metadata/creationTimestamp"),
                place,
                text(rule, "/host"),
                target,
            ));
        }
    }
    for (place, object) in &seen.routes {
        if parent(place, object, follows).is_none() {
            continue;
        }
        let (service, backend) = resolve_route(seen, place, object);
        let target = of(
            "HTTPRoute",
            place,
            service,
            backend.unwrap_or(ProxyBackend::Broken),
        );
        for host in list(object, "/spec/hostnames") {
            let host = host.as_str().unwrap_or_default().to_owned();
            candidates.push((
                text(object, "/metadata/creationTimestamp"),
                place,
                host,
                target.clone(),
            ));
        }
    }
    // Timestamps of the API server sort as strings.
    candidates.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let mut all = BTreeMap::new();
    for (_, _, host, target) in candidates {
        all.entry(host).or_insert(target);
    }
    all
}

pub(crate) fn is_of_class(ingress: &Value, follows: &Scope) -> bool {
    let class = ingress.pointer("/spec/ingressClassName").and_then(Value::as_str);
    class.is_some() && class == follows.class.as_deref()
}

/// Returns the status of an HTTPRoute at the Gateway, or `None` for a route of another Gateway.
pub(crate) fn gateway_status(
    seen: &ObservedObjects,
    place: &ObjectKey,
    route: &Value,
    follows: &Scope,
) -> Option<Value> {
    let parent = parent(place, route, follows)?;
    let (is_found, reason) = match resolve_route(seen, place, route).1 {
        Some(_) => ("True", "ResolvedRefs"),
        None => ("False", "BackendNotFound"),
    };
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": "",
            "observedGeneration": route.pointer("/metadata/generation"),
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        })
    };
    Some(json!({"parents": [{
        "parentRef": parent, "controllerName": "testbed.akash.network/proxy",
        "conditions": [
            condition("Accepted", "True", "Accepted"), condition("ResolvedRefs", is_found, reason),
        ],
    }]}))
}

fn parent<'a>(place: &ObjectKey, route: &'a Value, follows: &Scope) -> Option<&'a Value> {
    let gateway = follows.gateway.as_ref()?;
    list(route, "/spec/parentRefs").find(|parent| {
        let namespace = parent
            .pointer("/namespace")
            .and_then(Value::as_str)
            .unwrap_or(&place.0);
        namespace == gateway.0 && text(parent, "/name") == gateway.1
    })
}

fn resolve_route(seen: &ObservedObjects, place: &ObjectKey, route: &Value) -> (String, Option<ProxyBackend>) {
    let backend = route
        .pointer("/spec/rules/0/backendRefs/0")
        .unwrap_or(&Value::Null);
    let port = backend.pointer("/port").and_then(Value::as_u64);
    resolve(seen, &place.0, &text(backend, "/name"), port)
}

/// Returns the ready endpoints of a service port, or `None` for a missing port.
fn resolve(
    seen: &ObservedObjects,
    namespace: &str,
    name: &str,
    port: Option<u64>,
) -> (String, Option<ProxyBackend>) {
    let service = seen.services.get(&(namespace.to_owned(), name.to_owned()));
    let mut ports = service
        .into_iter()
        .flat_map(|service| list(service, "/spec/ports"));
    let Some(port) = ports.find(|one| one.pointer("/port").and_then(Value::as_u64) == port) else {
        return (name.to_owned(), None);
    };
    let mut servers = Vec::new();
    for ((_, _), slice) in seen.slices.iter().filter(|((place, _), _)| place == namespace) {
        if slice
            .pointer("/metadata/labels/kubernetes.io~1service-name")
            .and_then(Value::as_str)
            != Some(name)
        {
            continue;
        }
        let number = list(slice, "/ports").find(|one| text(one, "/name") == text(port, "/name"));
        let number = number.and_then(|one| one.pointer("/port")?.as_u64());
        let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else {
            continue;
        };
        let is_ready = |endpoint: &&Value| endpoint.pointer("/conditions/ready") != Some(&json!(false));
        for endpoint in list(slice, "/endpoints").filter(is_ready) {
            let addresses = list(endpoint, "/addresses").filter_map(|one| one.as_str()?.parse().ok());
            servers.extend(addresses.map(|address| SocketAddr::new(address, number)));
        }
    }
    servers.sort_unstable();
    (name.to_owned(), Some(ProxyBackend::Servers(servers)))
}

fn of(kind: &'static str, place: &ObjectKey, service: String, backend: ProxyBackend) -> Target {
    Target {
        kind,
        namespace: place.0.clone(),
        service,
        backend,
    }
}

fn list<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value
        .pointer(path)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text(value: &Value, path: &str) -> String {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(created: &str, spec: &Value) -> Value {
        json!({"metadata": {"creationTimestamp": created, "generation": 4}, "spec": spec})
    }

    fn ingress(created: &str, class: &str, service: &str) -> Value {
        let backend = json!({"service": {"name": service, "port": {"number": 80}}});
        object(
            created,
            &json!({"ingressClassName": class, "rules": [
                {"host": "a.example.com", "http": {"paths": [{"path": "/", "backend": backend}]}},
            ]}),
        )
    }

    fn route(created: &str, gateway: &str, service: &str) -> Value {
        object(
            created,
            &json!({
                "parentRefs": [{"name": gateway, "namespace": "gates"}], "hostnames": ["a.example.com"],
                "rules": [{"backendRefs": [{"name": service, "port": 80}]}],
            }),
        )
    }

    fn place(namespace: &str, name: &str) -> ObjectKey {
        (namespace.to_owned(), name.to_owned())
    }

    fn world() -> ObservedObjects {
        let mut seen = ObservedObjects::default();
        for home in ["one", "two"] {
            let service = json!({"spec": {"ports": [{"name": "0-80", "port": 80}]}});
            seen.services.insert(place(home, "web"), service);
            let slice = json!({
                "metadata": {"labels": {"kubernetes.io/service-name": "web"}},
                "ports": [{"name": "0-80", "port": 9000}],
                "endpoints": [
                    {"addresses": ["10.0.0.1"], "conditions": {"ready": home == "one"}},
                    {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                ],
            });
            seen.slices.insert(place(home, "web-x1"), slice);
        }
        seen
    }

    fn both() -> Scope {
        Scope {
            class: Some("ours".to_owned()),
            gateway: Some(place("gates", "gate")),
            is_silent: false,
        }
    }

    #[test]
    fn oldest_route_of_a_hostname_applies() {
        let mut seen = world();
        seen.ingresses
            .insert(place("one", "a"), ingress("2030-01-02", "ours", "web"));
        seen.ingresses
            .insert(place("two", "a"), ingress("2030-01-01", "theirs", "web"));
        assert_eq!(
            targets(&seen, &both())["a.example.com"].namespace,
            "one",
            "a route of another class is ignored"
        );
        seen.routes
            .insert(place("two", "a"), route("2030-01-03", "gate", "web"));
        assert_eq!(targets(&seen, &both())["a.example.com"].kind, "Ingress");
        seen.ingresses.clear();
        assert_eq!(targets(&seen, &both())["a.example.com"].kind, "HTTPRoute");
        seen.routes
            .insert(place("one", "a"), route("2030-01-03", "gate", "web"));
        assert_eq!(
            targets(&seen, &both())["a.example.com"].namespace,
            "one",
            "routes of equal age are ordered by name"
        );
    }

    #[test]
    fn only_ready_endpoints_are_used_and_missing_targets_are_errors() {
        let mut seen = world();
        seen.ingresses
            .insert(place("one", "a"), ingress("2030", "ours", "web"));
        let to = |seen: &ObservedObjects| targets(seen, &both())["a.example.com"].backend.clone();
        assert_eq!(
            to(&seen),
            ProxyBackend::Servers(vec!["10.0.0.1:9000".parse().unwrap()])
        );
        seen.ingresses = Objects::from([(place("two", "a"), ingress("2030", "ours", "web"))]);
        assert_eq!(to(&seen), ProxyBackend::Servers(Vec::new()));
        seen.ingresses = Objects::from([(place("one", "a"), ingress("2030", "ours", "none"))]);
        assert_eq!(to(&seen), ProxyBackend::Servers(Vec::new()));
        seen.ingresses.clear();
        seen.routes
            .insert(place("one", "a"), route("2030", "gate", "none"));
        assert_eq!(to(&seen), ProxyBackend::Broken);
        let status_of = |seen: &ObservedObjects, gateway: &str| {
            let route = route("2030", gateway, "none");
            gateway_status(seen, &place("one", "a"), &route, &both())
        };
        assert_eq!(status_of(&seen, "other"), None);
        let status = status_of(&seen, "gate").unwrap();
        let resolved = &status["parents"][0]["conditions"][1];
        assert_eq!(
            (&resolved["status"], &resolved["observedGeneration"]),
            (&json!("False"), &json!(4))
        );
    }
}
