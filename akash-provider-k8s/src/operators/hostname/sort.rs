//! The kinds of objects that are made of a hostname.

use crate::objects::HTTPRoute;
use k8s_openapi::api::networking::v1::Ingress;
use kube::core::{ApiResource, GroupVersionKind};

/// A kind of object that is made of a hostname.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sort {
    /// A route of `--ingress-mode ingress`.
    Ingress,
    /// A route of `--ingress-mode gateway-api`.
    HttpRoute,
    /// What an HTTPRoute cannot say, in the words of NGINX Gateway Fabric.
    Filter,
    /// What cert-manager is asked for, for an Ingress.
    Certificate,
}

impl Sort {
    /// All of them, routes first: nothing that a route refers to goes before it.
    pub const ALL: [Self; 4] = [Self::Ingress, Self::HttpRoute, Self::Filter, Self::Certificate];

    /// The kind, as the API server knows it.
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

    /// The kind, as the status names its watch.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Ingress => "ingresses",
            Self::HttpRoute => "httproutes",
            Self::Filter => "snippetsfilters",
            Self::Certificate => "certificates",
        }
    }

    /// True for what leads requests to a service.
    #[must_use]
    pub const fn is_route(self) -> bool {
        matches!(self, Self::Ingress | Self::HttpRoute)
    }

    /// The kind of route that refers to it; a route is its own.
    #[must_use]
    pub const fn route(self) -> Self {
        match self {
            Self::Ingress | Self::Certificate => Self::Ingress,
            Self::HttpRoute | Self::Filter => Self::HttpRoute,
        }
    }
}
