//! Flags of HTTP routing, for the provider and for the hostname operator.

use super::values;
use akash_provider_cli::setting::FileKey;
use akash_provider_kube_model::objects::INGRESS_CLASS;
use akash_provider_operators::hostname::route::{Controller, GatewayProvider, Mode};
use clap::{Args, ValueEnum};

/// Routing of HTTP to services.
#[derive(Debug, Clone, Args)]
pub struct RoutesArgs {
    /// Kind of HTTP routes to services
    #[arg(long, value_enum, default_value = "ingress")]
    pub ingress_mode: IngressArg,
    /// Class name in Ingresses, with --ingress-mode ingress
    #[arg(long, value_name = "NAME", default_value = INGRESS_CLASS, value_parser = values::dns_name)]
    #[arg(add = FileKey::Chart("ingress.className"))]
    pub ingress_class: String,
    /// Controller of the Ingress class; decides the annotations of Ingresses
    #[arg(long, value_enum, default_value = "nginx")]
    pub ingress_controller: ControllerArg,
    /// Gateway that HTTPRoutes refer to, with --ingress-mode gateway-api
    #[arg(long, value_name = "NAME", default_value = "akash-gateway", value_parser = values::dns_name)]
    #[arg(add = FileKey::Chart("gatewayApi.gatewayName"))]
    pub gateway_name: String,
    /// Namespace of the Gateway that HTTPRoutes refer to
    #[arg(long, value_name = "NAMESPACE", default_value = "akash-gateway", value_parser = values::dns_name)]
    #[arg(add = FileKey::Chart("gatewayApi.gatewayNamespace"))]
    pub gateway_namespace: String,
    /// Implementation of the Gateway: nginx, or any other name for standard fields only [default: nginx]
    #[arg(long, value_name = "NAME")]
    pub gateway_provider: Option<String>,
    /// Alias of --gateway-provider, as charts set it
    #[arg(long, value_name = "NAME", hide = true)]
    #[arg(add = FileKey::Chart("gatewayApi.implementation"))]
    pub gateway_implementation: Option<String>,
    /// Proxy buffer size of the Gateway, with the unit k or m
    #[arg(long, value_name = "SIZE", default_value = "16k", value_parser = values::buffer_size)]
    pub proxy_buffer_size: String,
}

/// Kind of HTTP routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IngressArg {
    /// Ingress objects
    Ingress,
    /// HTTPRoutes of the Gateway API
    GatewayApi,
}

/// Controller of an Ingress class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ControllerArg {
    /// Ingress-nginx, or a controller that reads its annotations
    Nginx,
    /// Traefik
    Traefik,
    /// HAProxy
    Haproxy,
}

impl RoutesArgs {
    /// Returns the routing mode.
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
