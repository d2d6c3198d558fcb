//! Where tenants' tools ask the chain of the embedded market: at the same port at every start.

use super::Printer;
use akash_provider_core::chain::MemoryChain;
use akash_provider_devnet::{Devnet, DevnetConfig};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// The first that is tried: apart from a real node's and a development network's 26657.
const FIRST_PORT: u16 = 26_757;
/// How many are tried before any free one is taken.
const TRIED: u16 = 20;

/// Serves a chain, at the first of its ports that is free.
///
/// # Errors
/// There is no free port on this machine.
pub(super) async fn start(chain: &MemoryChain, printer: &Printer) -> anyhow::Result<Devnet> {
    let mut taken = None;
    for port in FIRST_PORT..FIRST_PORT + TRIED {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if !is_free(at) {
            taken = Some(at);
            continue;
        }
        // Somebody may have been faster.
        if let Ok(devnet) = serve(chain, at).await {
            if let Some(taken) = taken {
                printer.note(&format!("{taken} is taken; the node is at {at}"));
            }
            return Ok(devnet);
        }
        taken = Some(at);
    }
    let devnet = serve(chain, SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
    printer.note(&format!(
        "the ports from {FIRST_PORT} on are taken; the node is at {}",
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
