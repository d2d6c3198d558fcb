//! Flags of how hostnames become routes: of the provider, and of the operator that makes them.

use super::kubernetes::IngressArg;
use super::values;
use akash_provider_k8s::objects::INGRESS_CLASS;
use akash_provider_k8s::operators::hostname::route::{Controller, GatewayProvider, Mode};
use clap::{Args, ValueEnum};

/// How HTTP reaches services.
#[derive(Debug, Clone, Args)]
pub struct RoutesArgs {
    /// How HTTP reaches services.
    #[arg(long, value_enum, default_value = "ingress")]
    pub ingress_mode: IngressArg,
    /// The class that Ingresses name, with --ingress-mode ingress.
    #[arg(long, value_name = "NAME", default_value = INGRESS_CLASS, value_parser = values::dns_name)]
    pub ingress_class: String,
    /// Whose annotations Ingresses have: who serves that class.
    #[arg(long, value_enum, default_value = "nginx")]
    pub ingress_controller: ControllerArg,
    /// The Gateway that HTTPRoutes name, with --ingress-mode gateway-api.
    #[arg(long, value_name = "NAME", default_value = "akash-gateway", value_parser = values::dns_name)]
    pub gateway_name: String,
    /// Namespace of that Gateway.
    #[arg(long, value_name = "NAMESPACE", default_value = "akash-gateway", value_parser = values::dns_name)]
    pub gateway_namespace: String,
    /// Who implements that Gateway: nginx, or any other for the standard's own fields alone. Without it
    /// AP_GATEWAY_IMPLEMENTATION, as charts set it, else nginx.
    #[arg(long, value_name = "NAME")]
    pub gateway_provider: Option<String>,
    /// The same, as charts call it.
    #[arg(long, value_name = "NAME", hide = true)]
    pub gateway_implementation: Option<String>,
    /// Size of the Gateway's proxy buffer, with the unit k or m.
    #[arg(long, value_name = "SIZE", default_value = "16k", value_parser = values::buffer_size)]
    pub proxy_buffer_size: String,
}

/// Who serves a class of Ingresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ControllerArg {
    /// Ingress-nginx, or who reads its annotations.
    Nginx,
    /// Traefik.
    Traefik,
    /// HAProxy.
    Haproxy,
}

impl RoutesArgs {
    /// The same for the operator.
    #[must_use]
    pub fn mode(&self) -> Mode {
        let names = [&self.gateway_provider, &self.gateway_implementation];
        let mut names = names.into_iter().flatten().map(|name| name.trim());
        let provider = match names.find(|name| !name.is_empty()) {
            None | Some("nginx") => GatewayProvider::Nginx,
            Some(_) => GatewayProvider::Standard,
        };
        match self.ingress_mode {
            IngressArg::Ingress => Mode::Ingress {
                class: self.ingress_class.clone(),
                controller: match self.ingress_controller {
                    ControllerArg::Nginx => Controller::Nginx,
                    ControllerArg::Traefik => Controller::Traefik,
                    ControllerArg::Haproxy => Controller::Haproxy,
                },
            },
            IngressArg::GatewayApi => Mode::GatewayApi {
                name: self.gateway_name.clone(),
                namespace: self.gateway_namespace.clone(),
                provider,
                buffer_size: self.proxy_buffer_size.clone(),
            },
        }
    }
}
