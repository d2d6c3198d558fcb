//! The gateway of the embedded market: a certificate made for this run, a tenant whose key everybody knows, and a node
//! that tenants' tools can ask, so that their commands work as they do on the network.

use super::{Printer, World, names, node};
use crate::args::DevArgs;
use akash_provider_chain::cert::{OwnCertificate, Usage};
use akash_provider_chain::keyring::{Backend, Keyring, KeyringError};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::{Coin, Msg};
use akash_provider_devnet::Devnet;
use akash_provider_devnet::keys::cache;
use akash_provider_gateway::auth::memory::InMemory;
use akash_provider_gateway::auth::token::{self, Algorithm};
use akash_provider_gateway::descriptors::raise;
use akash_provider_gateway::{Gateway, GatewayError, Ports, Settings};
use anyhow::{Context, anyhow};
use serde_json::json;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The port of today's provider; another one is taken where it is in use and nobody asked for it.
const PORT: u16 = 8443;
/// How long the printed token is good for: a day's work.
const TOKEN_FOR: Duration = Duration::from_secs(24 * 3600);
/// Account of the SDLs that were given.
const GIVEN: u32 = 0;
/// Money of that account at each start, in each denomination: a thousand AKT, a thousand ACT.
const MONEY: u128 = 1_000_000_000;
/// What that account's key is called in the keyring.
const TENANT: &str = "tenant";

/// A gateway that serves.
#[derive(Debug)]
pub struct DevGateway {
    address: SocketAddr,
    grpc: Option<SocketAddr>,
    token: String,
    serving: JoinHandle<()>,
    /// Where tenants' tools ask the chain.
    node_url: String,
    /// The node, where the provider needs none itself.
    node: Option<Devnet>,
}

impl DevGateway {
    /// Starts it and says how to reach it; `None` where nobody asked for it.
    ///
    /// # Errors
    /// The address that was asked for cannot be had.
    pub async fn start(
        args: &DevArgs,
        world: &World,
        printer: &Printer,
        shutdown: CancellationToken,
    ) -> anyhow::Result<Option<Self>> {
        let (address, fall_back) = match args.gateway_listen_address {
            Some(address) => (address, false),
            None if !is_wanted(args) => return Ok(None),
            None => (SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), true),
        };
        // The gateway reports a limit that it cannot raise and that matters.
        drop(raise());
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let own = certificate(world, now)?;
        let grpc = args
            .gateway_grpc_listen_address
            .unwrap_or_else(|| next_port(address));
        let gateway = match bind(world, address, grpc, &own).await {
            // Only a port that nobody asked for may become another one.
            Err(error) if fall_back && is_taken(&error) => {
                printer.note(&format!(
                    "{address} or {grpc} is taken; the gateway takes free ports"
                ));
                let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                bind(
                    world,
                    free,
                    args.gateway_grpc_listen_address.unwrap_or(free),
                    &own,
                )
                .await
            }
            bound => bound,
        };
        let gateway = gateway.context("the gateway")?;
        let address = gateway.address().context("the gateway's address")?;
        let grpc = gateway.grpc_address();
        let token = tenants_token(world, now)?;
        fund_tenant(world)?;
        // Only now is it known which port was taken.
        register(world, address)?;
        let served = match world.rpc_url() {
            Some(_) => None,
            None => Some(node::start(&world.chain, printer).await?),
        };
        let node_url = world.rpc_url().or_else(|| served.as_ref().map(Devnet::rpc_url));
        let serving = tokio::spawn(gateway.serve(shutdown));
        let started = Self {
            address,
            grpc,
            token,
            serving,
            node_url: node_url.context("the node of the embedded market")?,
            node: served,
        };
        started.tell(world, printer)?;
        Ok(Some(started))
    }

    /// Where REST and websockets are served, with the port that was really taken.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where gRPC is served, with the port that was really taken.
    #[must_use]
    pub const fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc
    }

    /// A token for everything that the tenant of the given SDLs has.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Waits for its end, after the shutdown.
    ///
    /// # Errors
    /// It ended badly.
    pub async fn stop(self) -> anyhow::Result<()> {
        if let Some(node) = self.node {
            node.stop().await;
        }
        self.serving.await.context("the gateway")
    }

    fn tell(&self, world: &World, printer: &Printer) -> anyhow::Result<()> {
        let (address, token) = (self.address, &self.token);
        let tenant = names::tenant(GIVEN)?;
        let chain_id = world.chain.market(|market| market.chain_id().to_owned());
        let keyring = tenants_keyring();
        printer.object(json!({
            "event": "gateway", "url": format!("https://{address}"), "token": token, "tenant": tenant.as_str(),
            "provider": world.provider.as_str(), "node": self.node_url, "chain_id": chain_id,
            "keyring": keyring.as_ref().ok().map(|folder| folder.display().to_string()),
            "grpc": self.grpc.map(|grpc| grpc.to_string()),
        }));
        if !printer.is_text() {
            return Ok(());
        }
        match keyring {
            Ok(folder) => {
                printer.note(&format!(
                    "gateway at https://{address}; be its tenant in another terminal:"
                ));
                printer.note(&format!(
                    "  export AKASH_NODE={} AKASH_CHAIN_ID={chain_id} AKASH_FROM={TENANT} AKASH_KEYRING_BACKEND=test \
                     AKASH_KEYRING_DIR='{}' AKASH_DSEQ=1",
                    self.node_url,
                    folder.display()
                ));
                printer.note("  provider-daemon lease-status");
                printer.note("  provider-daemon lease-events");
                printer.note(&format!("  provider-daemon status {}", world.provider));
            }
            Err(error) => printer.note(&format!(
                "gateway at https://{address}; no key for a tenant: {error:#}"
            )),
        }
        printer.note("or with what you have:");
        if let Some(grpc) = self.grpc {
            let method = "akash.provider.v1.ProviderRPC/GetStatus";
            printer.note(&format!("  grpcurl -insecure {grpc} {method}"));
        }
        printer.note(&format!(
            "  curl -sk https://{address}/lease/1/1/1/status -H 'Authorization: Bearer {token}'\n"
        ));
        Ok(())
    }
}

/// True where tenants are let in.
pub(super) const fn is_wanted(args: &DevArgs) -> bool {
    !args.once || args.gateway_listen_address.is_some()
}

/// The provider's record says where it really is.
fn register(world: &World, address: SocketAddr) -> anyhow::Result<()> {
    world.chain.market(|market| {
        let mut record = market
            .provider(&world.provider)
            .cloned()
            .context("the provider is not registered")?;
        record.host_uri = format!("https://{address}");
        let updated = market.execute(&Msg::UpdateProvider(record));
        updated
            .map(drop)
            .map_err(|e| anyhow!("registering the gateway's address: {e}"))
    })
}

/// Gives the tenant of the given SDLs money for the fees of its commands, and for deposits.
fn fund_tenant(world: &World) -> anyhow::Result<()> {
    let tenant = names::tenant(GIVEN)?;
    world.chain.market(|market| {
        for denom in ["uakt", "uact"] {
            // A market of a state file has the money of the start before.
            let amount = MONEY.saturating_sub(market.balance(&tenant, denom).amount);
            let denom = denom.into();
            market.fund(&tenant, &Coin { denom, amount });
        }
    });
    Ok(())
}

/// A keyring with the key of the tenant of the given SDLs, which is no secret.
fn tenants_keyring() -> anyhow::Result<PathBuf> {
    let folder = cache("dev")?;
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let keyring = Keyring::open(Backend::Test, &folder, None)?;
    if keyring.show(TENANT).is_err() {
        match keyring.add(TENANT, &names::tenant_key(GIVEN)?) {
            // Somebody else was faster.
            Ok(_) | Err(KeyringError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(folder)
}

/// A certificate that is published and used until the end of this run.
fn certificate(world: &World, now: Duration) -> anyhow::Result<OwnCertificate> {
    let usage = Usage::Server {
        domains: vec!["localhost".to_owned()],
    };
    // A moment ago: clocks of clients on the same machine may be a little behind.
    let made = now.saturating_sub(Duration::from_secs(60));
    let own = OwnCertificate::make(&world.provider, &usage, made)?;
    world
        .chain
        .market(|market| market.execute(&own.publish()))
        .map_err(|e| anyhow::anyhow!("publishing the gateway's certificate: {e}"))?;
    Ok(own)
}

/// 8444 for 8443; a free one where that is asked for.
fn next_port(address: SocketAddr) -> SocketAddr {
    let next = match address.port() {
        0 => 0,
        port => port.checked_add(1).unwrap_or(0),
    };
    SocketAddr::new(address.ip(), next)
}

async fn bind(
    world: &World,
    address: SocketAddr,
    grpc: SocketAddr,
    own: &OwnCertificate,
) -> anyhow::Result<Gateway> {
    let ports = Ports {
        handle: world.handle.clone(),
        cluster: Arc::clone(&world.cluster),
        chain: Arc::new(world.chain.clone()) as Arc<dyn ChainQuery>,
        memory: Arc::new(InMemory::default()),
    };
    let mut settings = Settings::at(address);
    settings.public_hostname = "localhost".to_owned();
    settings.grpc_listen = Some(grpc);
    settings.program = crate::program();
    settings.screening = Some(world.screening.clone());
    Ok(Gateway::bind(world.provider.clone(), ports, own, settings).await?)
}

fn is_taken(error: &anyhow::Error) -> bool {
    let listen = error.downcast_ref::<GatewayError>();
    matches!(listen, Some(GatewayError::Listen { why, .. }) if why.kind() == ErrorKind::AddrInUse)
}

/// A token of the tenant of the given SDLs, whose key the chain knows from then on.
fn tenants_token(world: &World, now: Duration) -> anyhow::Result<String> {
    let key = names::tenant_key(GIVEN)?;
    let public = key.public().as_bytes().to_vec();
    world
        .chain
        .market(|market| market.set_pubkey(key.address(), public));
    let (from, to) = (now.as_secs(), (now + TOKEN_FOR).as_secs());
    let claims = json!({
        "iss": key.address().as_str(), "iat": from, "nbf": from, "exp": to, "version": "v1",
        "leases": { "access": "full" },
    });
    Ok(token::encode(Algorithm::Es256k, key.address(), &claims, |text| {
        key.sign(text)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, Output};
    use akash_provider_core::sdl;
    use clap::Parser;

    #[tokio::test]
    async fn an_address_that_is_taken_is_an_error_where_it_was_asked_for() {
        let line = ["x", "dev", "--gateway-listen-address", "127.0.0.1:0"];
        let Command::Dev(args) = Cli::parse_from(line).command else {
            panic!()
        };
        let printer = Arc::new(Printer::new(Output::Json));
        let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
        let sdls = [("sample".to_owned(), sdl::parse(names::SAMPLE).unwrap())];
        let world = World::start(&args, &sdls, &printer, shutdown.clone(), abort)
            .await
            .unwrap();
        let gateway = DevGateway::start(&args, &world, &printer, shutdown.clone())
            .await
            .unwrap();
        let gateway = gateway.unwrap();
        let mut again = args.clone();
        again.gateway_listen_address = Some(gateway.address());
        let taken = DevGateway::start(&again, &world, &printer, shutdown.clone()).await;
        let told = format!("{:#}", taken.unwrap_err());
        assert!(told.contains("another program uses this address"), "{told}");
        // One that was not asked for is looked for elsewhere.
        let own = certificate(&world, Duration::from_secs(9)).unwrap();
        let busy = bind(&world, gateway.address(), ([127, 0, 0, 1], 0).into(), &own);
        assert!(is_taken(&busy.await.unwrap_err()));
        shutdown.cancel();
        gateway.stop().await.unwrap();
        world.stop().await.unwrap();
    }
}
