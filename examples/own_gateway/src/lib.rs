//! Embedded example with a gateway for its tenants, and a web page for the person who runs the provider.
//!
//! ```text
//!   tenants  ── TLS, tokens ──► gateway ──┬──► the provider's handle
//!   operator ── this machine ─► page ─────┘
//! ```
//! The gateway works with any cluster; this example uses the in-memory one. The gateway needs no Kubernetes, flags or
//! files.

mod page;
mod tenant;

use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::types::Address;
use akash_provider_gateway::auth::memory::InMemory;
use akash_provider_gateway::{Gateway, GatewayBackends, GatewaySettings, ProgramVersion};
use example_embedded::{Failed, PROVIDER};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
pub use tenant::{Caller, HttpReply, ask};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Running gateway and web page.
#[derive(Debug)]
pub struct GatewayServer {
    /// Listen address of the gateway.
    pub gateway: SocketAddr,
    /// Listen address of the web page for the provider's operator.
    pub page: SocketAddr,
    stop: CancellationToken,
    serving: [JoinHandle<()>; 2],
}

impl GatewayServer {
    /// Starts the gateway and the page of a provider, on free ports of the loopback interface.
    ///
    /// # Errors
    /// No port is free, or the chain refuses the certificate.
    pub async fn start(
        handle: &ProviderHandle,
        cluster: Arc<dyn Cluster>,
        chain: &MemoryChain,
    ) -> Result<Self, Failed> {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let account: Address = PROVIDER.parse()?;
        // Tenants trust the certificate because it is on the chain, under the provider's account.
        let usage = CertUsage::Server {
            domains: vec!["localhost".to_owned()],
        };
        let own = OwnCertificate::make(&account, &usage, UNIX_EPOCH.elapsed()?)?;
        chain.market(|market| market.execute(&own.publish()))?;

        let ports = GatewayBackends {
            handle: handle.clone(),
            cluster,
            chain: Arc::new(chain.clone()),
            memory: Arc::new(InMemory::default()),
        };
        let mut settings = GatewaySettings::at(free);
        settings.program = ProgramVersion {
            name: env!("CARGO_PKG_NAME"),
            version: env!("CARGO_PKG_VERSION"),
            commit: "",
        };
        let gateway = Gateway::bind(account, ports, &own, settings).await?;
        let page = TcpListener::bind(free).await?;

        let stop = CancellationToken::new();
        Ok(Self {
            gateway: gateway.address()?,
            page: page.local_addr()?,
            serving: [
                tokio::spawn(gateway.serve(stop.clone())),
                tokio::spawn(page::serve(page, handle.clone(), stop.clone())),
            ],
            stop,
        })
    }

    /// Stops the gateway and the page.
    ///
    /// # Errors
    /// The gateway or the page failed.
    pub async fn stop(self) -> Result<(), Failed> {
        self.stop.cancel();
        for serving in self.serving {
            serving.await?;
        }
        Ok(())
    }
}
