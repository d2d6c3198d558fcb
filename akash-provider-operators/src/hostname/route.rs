//! Rendering of the route of a hostname: an Ingress or an HTTPRoute with the annotations of its proxy.

use super::facts::Host;
use super::object_kind::ObjectKind;
use super::{certificate, filter};
use akash_provider_core::cluster::HostnameDeclaration;
use akash_provider_core::manifest::HttpOptions;
use akash_provider_kube_model::objects::{self, INGRESS_CLASS, ParentRef};
use k8s_openapi::api::networking::v1::IngressTLS;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Prefixes of the route annotations that this operator or the Go operator writes.
const PREFIXES: [&str; 3] = ["nginx.ingress.kubernetes.io/", "nginx.org/", "haproxy.org/"];
/// Names of the proxy annotations, without their prefix ([`PREFIXES`]).
const ANNOTATIONS: [&str; 11] = [
    "client-max-body-size",
    "proxy-body-size",
    "proxy-buffer-size",
    "proxy-buffers-number",
    "proxy-busy-buffers-size",
    "proxy-next-upstream",
    "proxy-next-upstream-timeout",
    "proxy-next-upstream-tries",
    "proxy-read-timeout",
    "proxy-send-timeout",
    "timeout-server",
];

/// Kind of the routes that the operator creates, with the settings for this kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Ingresses of one class (`--ingress-mode ingress`).
    Ingress {
        /// Name of the IngressClass (`--ingress-class`).
        class: String,
        /// Controller for which annotations are written (`--ingress-controller`).
        controller: Controller,
    },
    /// HTTPRoutes of one Gateway (`--ingress-mode gateway-api`).
    GatewayApi {
        /// Name of the Gateway (`--gateway-name`).
        name: String,
        /// Namespace of the Gateway (`--gateway-namespace`).
        namespace: String,
        /// Implementation of the Gateway (`--gateway-provider`).
        provider: GatewayProvider,
        /// Buffer size of the proxy, for example `16k` (`--proxy-buffer-size`).
        buffer_size: String,
    },
}

impl Default for Mode {
    fn default() -> Self {
        Self::Ingress {
            class: INGRESS_CLASS.to_owned(),
            controller: Controller::Nginx,
        }
    }
}

/// Ingress controller, which determines the annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// ingress-nginx, or a controller that reads ingress-nginx annotations: applies all HTTP options of the
    /// tenant.
    Nginx,
    /// Traefik: ignores the HTTP options of the tenant, because Traefik has no Ingress annotations for these
    /// options.
    Traefik,
    /// HAProxy: applies only the read timeout of the tenant.
    Haproxy,
}

/// Implementation of the Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayProvider {
    /// NGINX Gateway Fabric, with its annotations and with a filter for the options of the tenant.
    Nginx,
    /// Any other implementation: only the options of the Gateway API standard.
    Standard,
}

/// Objects that a route references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct References {
    /// The HTTPRoute references the filter of its hostname.
    pub filter: bool,
    /// The Ingress references the Secret of its certificate.
    pub certificate: bool,
}

impl Mode {
    /// Returns the kind of the routes.
    #[must_use]
    pub const fn sort(&self) -> ObjectKind {
        match self {
            Self::Ingress { .. } => ObjectKind::Ingress,
            Self::GatewayApi { .. } => ObjectKind::HttpRoute,
        }
    }

    /// Returns the kind of route that this mode does not create.
    #[must_use]
    pub const fn other(&self) -> ObjectKind {
        match self {
            Self::Ingress { .. } => ObjectKind::HttpRoute,
            Self::GatewayApi { .. } => ObjectKind::Ingress,
        }
    }

    /// Returns true if proxy options are written as filters instead of annotations.
    #[must_use]
    pub const fn has_filters(&self) -> bool {
        matches!(
            self,
            Self::GatewayApi {
                provider: GatewayProvider::Nginx,
                ..
            }
        )
    }

    /// Renders the route of a hostname, without references to a filter or a certificate.
    #[must_use]
    pub fn render(&self, name: &str, host: &Host, options: &HttpOptions) -> Value {
        self.render_with(name, host, options, References::default())
    }

    /// Renders the route of a hostname.
    #[must_use]
    pub fn render_with(&self, name: &str, host: &Host, options: &HttpOptions, refers: References) -> Value {
        let declaration = HostnameDeclaration::new(name, host.service.clone(), host.port);
        let (lease, host) = (&host.lease, &declaration);
        let rendered = match self {
            Self::Ingress { class, controller } => {
                let mut ingress = objects::ingress(lease, host, options);
                if let Some(spec) = &mut ingress.spec {
                    spec.ingress_class_name = Some(class.clone());
                    spec.tls = refers.certificate.then(|| vec![tls(name)]);
                }
                match controller {
                    Controller::Nginx => {}
                    Controller::Traefik => ingress.metadata.annotations = None,
                    Controller::Haproxy => ingress.metadata.annotations = Some(haproxy(options)),
                }
                serde_json::to_value(ingress)
            }
            Self::GatewayApi {
                name: gateway,
                namespace,
                provider,
                buffer_size,
            } => {
                let gateway = ParentRef {
                    name: gateway.clone(),
                    namespace: Some(namespace.clone()),
                };
                let mut route = objects::http_route(lease, host, options, &gateway, buffer_size);
                if *provider == GatewayProvider::Standard {
                    route.metadata.annotations = None;
                }
                serde_json::to_value(route).map(|route| {
                    let mut route = timed(route, *provider, options);
                    if refers.filter {
                        route["spec"]["rules"][0]["filters"] = json!([filter::reference(name)]);
                    }
                    route
                })
            }
        };
        // Plain data always serializes to JSON.
        rendered.unwrap_or_default()
    }
}

fn tls(name: &str) -> IngressTLS {
    IngressTLS {
        hosts: Some(vec![name.to_owned()]),
        secret_name: Some(certificate::secret(name)),
    }
}

fn haproxy(options: &HttpOptions) -> BTreeMap<String, String> {
    let limit = if options.max_body_size == 0 {
        HttpOptions::default().read_timeout
    } else {
        options.read_timeout
    };
    BTreeMap::from([("haproxy.org/timeout-server".to_owned(), format!("{limit}ms"))])
}

/// Adds the tenant's timeout to an HTTPRoute of a standard Gateway, if this timeout is shorter than the
/// default. Otherwise, the HTTPRoute gets no timeout. The timeout of an HTTPRoute limits the whole response,
/// so the default timeout would interrupt long downloads.
fn timed(mut route: Value, provider: GatewayProvider, options: &HttpOptions) -> Value {
    let usual = HttpOptions::default().read_timeout;
    let is_own = options.max_body_size != 0 && (1..usual).contains(&options.read_timeout);
    if provider == GatewayProvider::Standard && is_own {
        let limit = format!("{}ms", options.read_timeout);
        route["spec"]["rules"][0]["timeouts"] = json!({"backendRequest": limit});
    }
    route
}

/// Returns true if this operator or the Go operator sets the annotation on routes.
#[must_use]
pub fn is_of_routes(annotation: &str) -> bool {
    let name = PREFIXES.iter().find_map(|prefix| annotation.strip_prefix(prefix));
    name.is_some_and(|name| ANNOTATIONS.contains(&name))
}
