//! Gateway of the embedded market, with a new certificate for each run. A tenant with a well-known key and a
//! node are also created, so that the tenant commands work as on the Akash network.

use crate::args::DevArgs;
use crate::{World, node};
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use akash_provider_chain::keyring::{Keyring, KeyringBackend, KeyringError};
use akash_provider_core::chain::ChainQuery;
use akash_provider_core::types::{Coin, Msg};
use akash_provider_devnet::Devnet;
use akash_provider_devnet::keys::cache;
use akash_provider_gateway::auth::memory::InMemory;
use akash_provider_gateway::auth::token::{self, Algorithm};
use akash_provider_gateway::descriptors::raise;
use akash_provider_gateway::{Gateway, GatewayBackends, GatewayError, GatewaySettings};
use akash_provider_service::error::message_text;
use akash_provider_service::printer::Printer;
use akash_provider_service::trial;
use anyhow::{Context, anyhow};
use serde_json::json;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Default port of the gateway. If the default port is in use, another port is tried. A requested port must
/// be free.
const PORT: u16 = 8443;
/// Lifetime of the printed token: one day.
const TOKEN_FOR: Duration = Duration::from_secs(24 * 3600);
/// Number of the account that deploys the SDL files, for `trial::tenant`.
const GIVEN: u32 = 0;
/// Balance of the account that deploys the given SDLs, in millionths of each token.
const MONEY: u128 = 1_000_000_000;
/// Name of the tenant's key in the keyring.
const TENANT: &str = "tenant";

/// Running gateway of the embedded market.
#[derive(Debug)]
pub struct DevGateway {
    address: SocketAddr,
    grpc: Option<SocketAddr>,
    token: String,
    serving: JoinHandle<()>,
    /// URL of the node for tenant commands.
    node_url: String,
    /// Node for tenant commands; `None` if tenants use the node of the provider.
    node: Option<Devnet>,
}

impl DevGateway {
    /// Starts the gateway and prints its address; returns `None` if no gateway was requested.
    ///
    /// # Errors
    /// Returns an error if the requested address is unavailable.
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
        // The gateway reports an insufficient limit of open files.
        drop(raise());
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let own = certificate(world, now)?;
        let grpc = args
            .gateway_grpc_listen_address
            .unwrap_or_else(|| next_port(address));
        let gateway = match bind(world, address, grpc, &own).await {
            // Another port is used only if none was requested.
            Err(error) if fall_back && is_taken(&error) => {
                printer.note(&format!(
                    "{address} or {grpc} is in use; the gateway uses other ports"
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
        let gateway = gateway.context("cannot start the gateway")?;
        let address = gateway
            .address()
            .context("cannot read the listen address of the gateway")?;
        let grpc = gateway.grpc_address();
        let token = tenants_token(world, now)?;
        fund_tenant(world)?;
        // The port is known only now.
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
            node_url: node_url.context("the node of the embedded market has no RPC address")?,
            node: served,
        };
        started.tell(world, printer)?;
        Ok(Some(started))
    }

    /// Returns the listen address for REST and websockets.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the listen address for gRPC, or `None` without a gRPC server.
    #[must_use]
    pub const fn grpc_address(&self) -> Option<SocketAddr> {
        self.grpc
    }

    /// Returns a token with full access for the tenant of the given SDLs.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Waits for the end of the gateway after a shutdown.
    ///
    /// # Errors
    /// Returns the failure of the gateway.
    pub async fn stop(self) -> anyhow::Result<()> {
        if let Some(node) = self.node {
            node.stop().await;
        }
        self.serving.await.context("the gateway task failed")
    }

    fn tell(&self, world: &World, printer: &Printer) -> anyhow::Result<()> {
        let (address, token) = (self.address, &self.token);
        let tenant = trial::tenant(GIVEN)?;
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
                    "gateway at https://{address}; to act as a tenant, use another terminal:"
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
            Err(error) => printer.note(&without_key(address, &error)),
        }
        printer.note("or with other tools:");
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

pub(super) const fn is_wanted(args: &DevArgs) -> bool {
    !args.once || args.gateway_listen_address.is_some()
}

fn register(world: &World, address: SocketAddr) -> anyhow::Result<()> {
    world.chain.market(|market| {
        let mut record = market
            .provider(&world.provider)
            .cloned()
            .context("the provider is not registered on the dev chain")?;
        record.host_uri = format!("https://{address}");
        let updated = market.execute(&Msg::UpdateProvider(record));
        updated.map(drop).map_err(|e| {
            anyhow!("cannot store the address of the gateway in the provider record of the dev chain: {e}")
        })
    })
}

fn fund_tenant(world: &World) -> anyhow::Result<()> {
    let tenant = trial::tenant(GIVEN)?;
    world.chain.market(|market| {
        for denom in ["uakt", "uact"] {
            // A restored market contains the balance of the previous run.
            let amount = MONEY.saturating_sub(market.balance(&tenant, denom).amount);
            market.fund(&tenant, &Coin::new(denom, amount));
        }
    });
    Ok(())
}

fn without_key(address: SocketAddr, error: &anyhow::Error) -> String {
    let error = message_text(error);
    format!("gateway at https://{address}; cannot create the key of the tenant: {error}")
}

/// Returns the keyring directory with the tenant's key. This key is not a secret.
fn tenants_keyring() -> anyhow::Result<PathBuf> {
    let folder = cache("dev")?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let keyring = Keyring::open(KeyringBackend::Test, &folder, None)?;
    if keyring.show(TENANT).is_err() {
        match keyring.add(TENANT, &trial::tenant_key(GIVEN)?) {
            // Another process created the key at the same time.
            Ok(_) | Err(KeyringError::Exists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(folder)
}

fn certificate(world: &World, now: Duration) -> anyhow::Result<OwnCertificate> {
    let usage = CertUsage::Server {
        domains: vec!["localhost".to_owned()],
    };
    // Valid since one minute ago, because client clocks may be slightly behind.
    let made = now.saturating_sub(Duration::from_secs(60));
    let own = OwnCertificate::make(&world.provider, &usage, made)?;
    world
        .chain
        .market(|market| market.execute(&own.publish()))
        .map_err(|e| {
            anyhow::anyhow!("cannot publish the certificate of the gateway on the dev chain: {e}")
        })?;
    Ok(own)
}

/// Returns the address with the next port. Port 0 (any unused port) stays 0.
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
    let ports = GatewayBackends {
        handle: world.handle.clone(),
        cluster: Arc::clone(&world.cluster),
        chain: Arc::new(world.chain.clone()) as Arc<dyn ChainQuery>,
        memory: Arc::new(InMemory::default()),
    };
    let mut settings = GatewaySettings::at(address);
    settings.public_hostname = "localhost".to_owned();
    settings.grpc_listen = Some(grpc);
    settings.program = akash_provider_service::program();
    settings.screening = Some(world.screening.clone());
    Ok(Gateway::bind(world.provider.clone(), ports, own, settings).await?)
}

fn is_taken(error: &anyhow::Error) -> bool {
    let listen = error.downcast_ref::<GatewayError>();
    matches!(listen, Some(GatewayError::Listen { why, .. }) if why.kind() == ErrorKind::AddrInUse)
}

/// Returns a token for the tenant of the SDLs on the command line, and stores the tenant's public key on the
/// chain.
fn tenants_token(world: &World, now: Duration) -> anyhow::Result<String> {
    let key = trial::tenant_key(GIVEN)?;
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
    use akash_provider_cli::flags::Output;
    use akash_provider_core::sdl;
    use clap::Parser;

    #[derive(Parser)]
    struct DevLine {
        #[command(flatten)]
        args: DevArgs,
    }

    #[test]
    fn error_of_the_tenants_key_has_its_remedy() {
        let error = anyhow::Error::new(KeyringError::UnknownBackend("os".to_owned()));
        let note = without_key(([127, 0, 0, 1], 1).into(), &error);
        assert!(
            note.starts_with("gateway at https://127.0.0.1:1; cannot create")
                && note.ends_with("\nhelp: use file or test; export keys of os, pass and kwallet first"),
            "{note}"
        );
    }

    #[tokio::test]
    async fn rejects_a_requested_address_that_is_in_use() {
        let DevLine { args } = DevLine::parse_from(["dev", "--gateway-listen-address", "127.0.0.1:0"]);
        let printer = Arc::new(Printer::new(Output::Json));
        let (shutdown, abort) = (CancellationToken::new(), CancellationToken::new());
        let sdls = [("sample".to_owned(), sdl::parse(trial::SAMPLE).unwrap())];
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
        let message = format!("{:#}", taken.unwrap_err());
        assert!(message.contains("another program uses this address"), "{message}");
        // Without a requested address another port is used.
        let own = certificate(&world, Duration::from_secs(9)).unwrap();
        let busy = bind(&world, gateway.address(), ([127, 0, 0, 1], 0).into(), &own);
        assert!(is_taken(&busy.await.unwrap_err()));
        shutdown.cancel();
        gateway.stop().await.unwrap();
        world.stop().await.unwrap();
    }
}
