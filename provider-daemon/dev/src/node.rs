//! Node of the embedded market for tenant commands, at the same port in every run.

use akash_provider_core::chain::MemoryChain;
use akash_provider_devnet::{Devnet, DevnetConfig};
use akash_provider_service::printer::Printer;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// First port to try, different from the usual port 26657.
const FIRST_PORT: u16 = 26_757;
/// Number of consecutive ports to try before the operating system selects a port.
const TRIED: u16 = 20;

/// Serves a chain at the first unused port.
///
/// # Errors
/// Returns an error if there is no unused port.
pub(super) async fn start(chain: &MemoryChain, printer: &Printer) -> anyhow::Result<Devnet> {
    let mut taken = None;
    for port in FIRST_PORT..FIRST_PORT + TRIED {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if !is_free(at) {
            taken = Some(at);
            continue;
        }
        // Another process may have taken the port.
        if let Ok(devnet) = serve(chain, at).await {
            if let Some(taken) = taken {
                printer.note(&format!("{taken} is in use; the node is at {at}"));
            }
            return Ok(devnet);
        }
        taken = Some(at);
    }
    let devnet = serve(chain, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    printer.note(&format!(
        "the ports from {FIRST_PORT} are in use; the node is at {}",
        devnet.rpc_url()
    ));
    Ok(devnet)
}

async fn serve(chain: &MemoryChain, at: SocketAddr) -> anyhow::Result<Devnet> {
    let mut config = DevnetConfig::new(chain.clone());
    config.listen_rpc = at;
    Ok(Devnet::start(config).await?)
}

fn is_free(at: SocketAddr) -> bool {
    TcpListener::bind(at).is_ok()
}
