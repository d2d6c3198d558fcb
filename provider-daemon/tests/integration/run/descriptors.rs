//! A provider with a low limit of open files, while more connections than this limit are opened.

use crate::any_certificate::AnyCertificate;
use crate::run::served::Served;
use crate::run::websocket::Websocket;
use crate::stage::{Stage, until};
use akash_provider_gateway::descriptors::raise;
use nix::sys::signal::Signal;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const FAST: Option<Duration> = Some(Duration::from_millis(250));
const PATIENCE: Duration = Duration::from_secs(60);
/// Limit of open files of the provider process.
const FILES: u32 = 1024;
/// Maximum number of open files under load: `FILES` minus the 256 files that the gateway reserves.
const FILES_MAX: usize = 768;
/// Number of idle connections in each group of [`crowd`].
const EACH: u16 = 400;
/// Maximum number of open connections of one address.
const OF_ONE: usize = 100;

enum Idle {
    Silent(TcpStream),
    Greeted(Box<TlsStream<TcpStream>>),
}

impl Idle {
    async fn open(server: SocketAddr, from: Ipv4Addr, greets: bool) -> Option<Self> {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(IpAddr::V4(from), 0)).unwrap();
        let tcp = timeout(PATIENCE, socket.connect(server)).await.ok()?.ok()?;
        if !greets {
            return Some(Self::Silent(tcp));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate))
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp);
        // The provider may have closed the connection meanwhile.
        let tls = timeout(PATIENCE, tls).await.ok()?.ok()?;
        Some(Self::Greeted(Box::new(tls)))
    }

    fn is_open(&self) -> bool {
        let tcp = match self {
            Self::Silent(tcp) => tcp,
            Self::Greeted(tls) => tls.get_ref().0,
        };
        // Unread data is not the end of the connection.
        let mut bytes = [0; 16 * 1024];
        loop {
            match tcp.try_read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    }
}

/// Opens three groups of idle connections: from one address, from many addresses, and to the gRPC port.
async fn crowd(rest: SocketAddr, grpc: SocketAddr) -> [Vec<Idle>; 3] {
    let many = |number: u16| {
        let [high, low] = number.to_be_bytes();
        Ipv4Addr::new(127, 3, high, low.max(1))
    };
    let mut crowd = [Vec::new(), Vec::new(), Vec::new()];
    for number in 0..EACH {
        let kinds = [
            (rest, Ipv4Addr::new(127, 0, 0, 2)),
            (rest, many(number)),
            (grpc, many(number)),
        ];
        for (kind, (server, from)) in kinds.into_iter().enumerate() {
            crowd[kind].extend(Idle::open(server, from, number % 4 == 0).await);
        }
    }
    crowd
}

/// Starts a thread that counts the open files of the provider. After the returned flag is set, the thread
/// returns the maximum.
fn count_files(served: &Served) -> (Arc<AtomicBool>, JoinHandle<usize>) {
    let (folder, until) = (served.provider.about("fd"), Arc::new(AtomicBool::new(false)));
    let ends = Arc::clone(&until);
    let counting = std::thread::spawn(move || {
        let mut most = 0;
        while !ends.load(Ordering::SeqCst) {
            most = most.max(std::fs::read_dir(&folder).unwrap().count());
            std::thread::sleep(Duration::from_millis(20));
        }
        most
    });
    (until, counting)
}

/// Opens idle connections. Asserts that the provider serves a tenant and reconnects to the chain.
fn serve_under_load(served: &mut Served) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let at = |url: &str| url.rsplit('/').next().unwrap().parse::<SocketAddr>().unwrap();
    let [one, _many, _grpc] = runtime.block_on(crowd(at(&served.url), at(&served.grpc)));
    let still = || one.iter().filter(|idle| idle.is_open()).count();
    until(
        "the oldest connections of one address are closed",
        || still().to_string(),
        || still() <= OF_ONE,
    );
    let is_served = |served: &Served| {
        let (code, out, err) = served.tenants(&["lease-status", "--dseq", "9"]);
        let dump = || served.provider.dump();
        assert!(code == 0 && out.contains("web"), "{out}{err}\n{}", dump());
    };
    is_served(served);
    // Over new connections.
    let waits = |served: &Served| served.provider.output().matches("\"is_ready\":false").count();
    let before = waits(served);
    served.stage.stop_node();
    until(
        "the provider waits for the chain",
        || served.provider.dump(),
        || waits(served) > before,
    );
    served.stage.start_node(FAST);
    let id = served.stage.order(77);
    served.stage.bid(&id, &served.provider);
    is_served(served);
}

#[test]
fn tenants_and_chain_are_served_with_more_foreign_connections_than_files() {
    let ours = raise().unwrap();
    if ours < 4096 {
        println!("skipped: this process may open only {ours} files");
        return;
    }
    let stage = Stage::new("descriptors", true).with_files(FILES);
    let mut served = Served::on(stage, FAST, &[&format!("--gateway-strangers={OF_ONE}")]);
    let limits = std::fs::read_to_string(served.provider.about("limits")).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files"));
    let files: Vec<&str> = files.unwrap().split_whitespace().skip(3).take(2).collect();
    assert_eq!(files, ["1024", "1024"]);
    let stream = Websocket::open(&served.url, "/lease/9/1/1/logs?follow=true", &served.token());
    let stream = stream.ok().unwrap();
    let listening = std::thread::spawn(move || stream.received());
    let (until, counting) = count_files(&served);
    serve_under_load(&mut served);
    until.store(true, Ordering::SeqCst);
    let most = counting.join().unwrap();
    println!("{most} files were open at once");
    let dump = served.provider.dump();
    assert!(most > 2 * OF_ONE && most < FILES_MAX, "{most} files\n{dump}");
    for problem in ["could not be accepted", "Too many open files", "panicked"] {
        assert!(!dump.contains(problem), "{problem}: {dump}");
    }
    // The tenant's stream stayed open all the time.
    served.provider.signal(Signal::SIGTERM);
    let frames = listening.join().unwrap();
    assert_eq!(frames.close, Some((1001, "the provider is stopping".to_owned())));
    assert_eq!(served.provider.ended(), Some(0), "{}", served.provider.dump());
}
