//! Kinds of the objects of a hostname.

use akash_provider_kube_model::objects::HTTPRoute;
use k8s_openapi::api::networking::v1::Ingress;
use kube::core::{ApiResource, GroupVersionKind};

/// Kind of a Kubernetes object that serves a hostname: a route, a filter or a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// Route of `--ingress-mode ingress`.
    Ingress,
    /// Route of `--ingress-mode gateway-api`.
    HttpRoute,
    /// Options that an HTTPRoute cannot express, for NGINX Gateway Fabric.
    Filter,
    /// Certificate of cert-manager, for an Ingress.
    Certificate,
}

impl ObjectKind {
    /// All kinds, routes first, so that a route is deleted before its filter and certificate.
    pub const ALL: [Self; 4] = [Self::Ingress, Self::HttpRoute, Self::Filter, Self::Certificate];

    /// Returns the API resource.
    #[must_use]
    pub fn resource(self) -> ApiResource {
        let of = |group, version, kind, plural| {
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
        };
        match self {
            Self::Ingress => ApiResource::erase::<Ingress>(&()),
            Self::HttpRoute => ApiResource::erase::<HTTPRoute>(&()),
            Self::Filter => of(
                "gateway.nginx.org",
                "v1alpha1",
                "SnippetsFilter",
                "snippetsfilters",
            ),
            Self::Certificate => of("cert-manager.io", "v1", "Certificate", "certificates"),
        }
    }

    /// Returns the plural name, which is also the name of the watch in the status.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Ingress => "ingresses",
            Self::HttpRoute => "httproutes",
            Self::Filter => "snippetsfilters",
            Self::Certificate => "certificates",
        }
    }

    /// Returns true for a kind that routes requests to a service.
    #[must_use]
    pub const fn is_route(self) -> bool {
        matches!(self, Self::Ingress | Self::HttpRoute)
    }

    /// Returns the kind of route that can reference an object of this kind. For a route, returns the same
    /// kind.
    #[must_use]
    pub const fn route(self) -> Self {
        match self {
            Self::Ingress | Self::Certificate => Self::Ingress,
            Self::HttpRoute | Self::Filter => Self::HttpRoute,
        }
    }
}
