//! The route of a hostname as an object: Ingress or HTTPRoute, in the words of the proxy that reads it.

use super::facts::Host;
use super::sort::Sort;
use super::{certificate, filter};
use crate::objects::{self, INGRESS_CLASS, ParentRef};
use akash_provider_core::cluster::HostnameDeclaration;
use akash_provider_core::manifest::HttpOptions;
use k8s_openapi::api::networking::v1::IngressTLS;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Prefixes of the annotations that are written by one or another kind of route.
const PREFIXES: [&str; 3] = ["nginx.ingress.kubernetes.io/", "nginx.org/", "haproxy.org/"];
/// The annotations below these prefixes.
const ANNOTATIONS: [&str; 9] = [
    "client-max-body-size",
    "proxy-body-size",
    "proxy-buffer-size",
    "proxy-next-upstream",
    "proxy-next-upstream-timeout",
    "proxy-next-upstream-tries",
    "proxy-read-timeout",
    "proxy-send-timeout",
    "timeout-server",
];

/// How hostnames become routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// Ingresses of one class (`--ingress-mode ingress`).
    Ingress {
        /// Class that they name (`--ingress-class`).
        class: String,
        /// Whose annotations they have (`--ingress-controller`).
        controller: Controller,
    },
    /// HTTPRoutes at one Gateway (`--ingress-mode gateway-api`).
    GatewayApi {
        /// Name of the Gateway (`--gateway-name`).
        name: String,
        /// Namespace of the Gateway (`--gateway-namespace`).
        namespace: String,
        /// Who implements it (`--gateway-provider`).
        provider: GatewayProvider,
        /// Size of the proxy's buffer, for example `16k` (`--proxy-buffer-size`).
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

/// Who reads Ingresses, and so in whose words options are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// ingress-nginx, and whatever reads its annotations: all options.
    Nginx,
    /// Traefik: an Ingress has no words for the options of a tenant there, its own defaults hold.
    Traefik,
    /// HAProxy: the time an answer may take.
    Haproxy,
}

/// Who implements the Gateway API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayProvider {
    /// NGINX, with its annotations.
    Nginx,
    /// Any other: only what the standard has words for.
    Standard,
}

/// What a route refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refers {
    /// An HTTPRoute: the filter of its name.
    pub filter: bool,
    /// An Ingress: the Secret of its certificate.
    pub certificate: bool,
}

impl Mode {
    /// The kind of the routes.
    #[must_use]
    pub const fn sort(&self) -> Sort {
        match self {
            Self::Ingress { .. } => Sort::Ingress,
            Self::GatewayApi { .. } => Sort::HttpRoute,
        }
    }

    /// The kind of the routes of the other mode.
    #[must_use]
    pub const fn other(&self) -> Sort {
        match self {
            Self::Ingress { .. } => Sort::HttpRoute,
            Self::GatewayApi { .. } => Sort::Ingress,
        }
    }

    /// True where options are in filters: annotations do nothing there.
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

    /// The route of a hostname, which refers to nothing.
    #[must_use]
    pub fn render(&self, name: &str, host: &Host, options: &HttpOptions) -> Value {
        self.render_with(name, host, options, Refers::default())
    }

    /// The route of a hostname.
    #[must_use]
    pub fn render_with(&self, name: &str, host: &Host, options: &HttpOptions, refers: Refers) -> Value {
        let declaration = HostnameDeclaration {
            hostname: name.to_owned(),
            service: host.service.clone(),
            external_port: host.port,
        };
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
        // Both are plain data, which always has a form in JSON.
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

/// The standard limits the whole answer where others limit its pauses, so that it is set only where a tenant asks for
/// less than what everybody has: a long download of anybody else goes on.
fn timed(mut route: Value, provider: GatewayProvider, options: &HttpOptions) -> Value {
    let usual = HttpOptions::default().read_timeout;
    let is_own = options.max_body_size != 0 && (1..usual).contains(&options.read_timeout);
    if provider == GatewayProvider::Standard && is_own {
        let limit = format!("{}ms", options.read_timeout);
        route["spec"]["rules"][0]["timeouts"] = json!({"backendRequest": limit});
    }
    route
}

/// True for an annotation that routes have of us or of the other provider's operator, so that one too many goes.
#[must_use]
pub fn is_of_routes(annotation: &str) -> bool {
    let name = PREFIXES.iter().find_map(|prefix| annotation.strip_prefix(prefix));
    name.is_some_and(|name| ANNOTATIONS.contains(&name))
}
