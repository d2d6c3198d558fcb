//! `fault-proxy --rpc LISTEN=NODE --grpc LISTEN=NODE --tls LISTEN=NODE --control LISTEN`: a fault proxy in
//! front of any node.

use clap::Parser;
use fault_proxy::{Control, Proxy, TlsProxy};
use std::net::SocketAddr;
use std::process::ExitCode;

/// Proxy in front of a chain node that injects faults on request
#[derive(Debug, Parser)]
struct Cli {
    /// Listen address and JSON-RPC address of the node, such as 127.0.0.1:36657=127.0.0.1:26657; repeatable
    #[arg(long, value_parser = pair)]
    rpc: Vec<(SocketAddr, String)>,
    /// Listen address and gRPC address of the node, such as 127.0.0.1:39090=127.0.0.1:9090; repeatable
    #[arg(long, value_parser = pair)]
    grpc: Vec<(SocketAddr, String)>,
    /// Listen address and TLS address of the node, such as 127.0.0.1:3443=rpc.example:443; TLS is not
    /// decrypted; repeatable
    #[arg(long, value_parser = pair)]
    tls: Vec<(SocketAddr, String)>,
    /// Listen address of the control endpoint; to set faults: curl -X PUT -d '{"lag": 3}'
    /// http://ADDRESS/faults
    #[arg(long, default_value = "127.0.0.1:0")]
    control: SocketAddr,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn pair(text: &str) -> Result<(SocketAddr, String), String> {
    let (listen, node) = text
        .split_once('=')
        .ok_or_else(|| "write it as 127.0.0.1:36657=127.0.0.1:26657".to_owned())?;
    let listen = listen.parse().map_err(|e| format!("`{listen}`: {e}"))?;
    Ok((listen, node.to_owned()))
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fault-proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: &Cli) -> std::io::Result<()> {
    let (mut proxies, mut pipes) = (Vec::new(), Vec::new());
    for (listen, node) in &cli.rpc {
        let proxy = Proxy::start_at(*listen, node, cli.seed).await?;
        println!("JSON-RPC proxy for node {node} listens on {}", proxy.address());
        proxies.push(proxy);
    }
    for (listen, node) in &cli.grpc {
        let proxy = Proxy::start_grpc_at(*listen, node, cli.seed).await?;
        println!("gRPC proxy for node {node} listens on {}", proxy.address());
        proxies.push(proxy);
    }
    for (listen, node) in &cli.tls {
        let pipe = TlsProxy::start_at(*listen, node, cli.seed).await?;
        println!("TLS proxy for node {node} listens on {}", pipe.address());
        pipes.push(pipe);
    }
    let (all, every): (Vec<_>, Vec<_>) = (proxies.iter().collect(), pipes.iter().collect());
    let control = Control::start_at(cli.control, &all, &every).await?;
    println!("control {}", control.address());
    tokio::signal::ctrl_c().await
}
