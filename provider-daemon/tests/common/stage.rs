//! Fixture: a development network, a home folder with a key, and programs under test.

use crate::environment::without_settings;
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::market::{MarketConfig, TenantMsg};
use akash_provider_core::sdl;
use akash_provider_core::types::{
    Address, Bid, BidId, BidState, BlockTime, Coin, DeploymentId, LeaseState, Msg, ProviderRecord,
};
use akash_provider_devnet::{Devnet, DevnetConfig};
use fault_proxy::Proxy;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};
use testbed::{Redis, free_port};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

pub(crate) const WORDS: &str =
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
pub(crate) const ADDRESS: &str = "akash19rl4cm2hmr8afy4kldpxz3fka4jguq0a3mq6x0";
pub(crate) const TENANT: &str = "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla";
/// Price flags that these tests pass to every provider.
pub(crate) const PRICES: [&str; 4] = [
    "--bid-price-cpu-scale=0.001",
    "--bid-price-memory-scale=0.0002",
    "--bid-price-storage-scale=0.00001",
    "--bid-price-endpoint-scale=0.01",
];
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `done` returns true. After `PATIENCE`, panics with `what` and `dump`.
#[track_caller]
pub(crate) fn until(what: &str, dump: impl Fn() -> String, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(
            Instant::now() < deadline,
            "{what}: condition not reached in time\n{}",
            dump()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Chain with a node address, and a home directory for the programs.
pub(crate) struct Stage {
    pub(crate) chain: MemoryChain,
    runtime: Runtime,
    devnet: Option<Devnet>,
    at: SocketAddr,
    folder: PathBuf,
    /// Command prefix that limits the resources of each program.
    before: Vec<String>,
}

/// Script that limits open files and then executes the program.
const LIMITED: &str = r#"ulimit -n "$1" && shift && exec "$@""#;

impl Stage {
    /// Creates a chain without a running node. The provider has funds. If `is_registered` is true, the
    /// provider is registered.
    pub(crate) fn new(name: &str, is_registered: bool) -> Self {
        // Tests of one process run concurrently, and several of them use the same name.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("run-{}-{number}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("words"), WORDS).unwrap();
        let now = i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        // One hour ago, because blocks that are produced faster than real time must not be in the future.
        let start = BlockTime(now).minus(Duration::from_secs(3600));
        let chain = MemoryChain::new(MarketConfig::new("devnet", start));
        let owner: Address = ADDRESS.parse().unwrap();
        chain.market(|market| {
            for denom in ["uact", "uakt"] {
                let coin = Coin::new(denom, 1_000_000_000_000);
                market.fund(&owner, &coin);
                market.fund(&TENANT.parse().unwrap(), &coin);
            }
            if is_registered {
                let record = ProviderRecord {
                    owner,
                    host_uri: "https://localhost:8443".to_owned(),
                    attributes: Vec::new(),
                    info: Default::default(),
                };
                market.execute(&Msg::CreateProvider(record)).unwrap();
            }
        });
        // The node may start later, and more than once, on the same port.
        let at = (Ipv4Addr::LOCALHOST, free_port().unwrap()).into();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        Self {
            chain,
            runtime,
            devnet: None,
            at,
            folder,
            before: Vec::new(),
        }
    }

    /// Limits the number of open files of the programs.
    pub(crate) fn with_files(mut self, files: u32) -> Self {
        self.before = ["sh", "-c", LIMITED, "sh", &files.to_string()]
            .map(str::to_owned)
            .into();
        self
    }

    /// Starts the node. Without a block time, only the test creates blocks.
    pub(crate) fn start_node(&mut self, block_time: Option<Duration>) {
        self.start_node_with(block_time, |_| {});
    }

    /// Starts the node with a configuration changed by `change`.
    pub(crate) fn start_node_with(
        &mut self,
        block_time: Option<Duration>,
        change: impl FnOnce(&mut DevnetConfig),
    ) {
        let mut config = DevnetConfig::new(self.chain.clone());
        config.block_time = block_time;
        config.listen_rpc = self.at;
        change(&mut config);
        // The port is still in use for a moment if a process was forked while `free_port` tried it.
        let at = self.at;
        until("a free port", String::new, || {
            std::net::TcpListener::bind(at).is_ok()
        });
        self.devnet = Some(self.runtime.block_on(Devnet::start(config)).unwrap());
    }

    pub(crate) fn stop_node(&mut self) {
        if let Some(devnet) = self.devnet.take() {
            self.runtime.block_on(devnet.stop());
        }
    }

    pub(crate) fn make_block(&self) {
        self.devnet.as_ref().unwrap().make_block();
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.at)
    }

    pub(crate) fn proxy(&self) -> Proxy {
        let upstream = self.at.to_string();
        self.runtime.block_on(Proxy::start(&upstream, 1)).unwrap()
    }

    /// Starts a TLS proxy for the node, and returns its URL.
    pub(crate) fn tls(&self, certificate: &Path, key: &Path) -> String {
        let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let (acceptor, node) = (TlsAcceptor::from(Arc::new(config)), self.at);
        let listening = tokio::net::TcpListener::bind("127.0.0.1:0");
        let listener = self.runtime.block_on(listening).unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        self.runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut client = acceptor.accept(stream).await?;
                    let mut node = tokio::net::TcpStream::connect(node).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut node).await
                });
            }
        });
        url
    }

    /// Starts a Redis server on this port with additional settings; `None` if Redis is not installed.
    pub(crate) fn redis(&self, port: u16, more: &[&str]) -> Option<Redis> {
        let (at, dir) = (port.to_string(), self.folder.display().to_string());
        let words = ["--bind", "127.0.0.1", "--save", "", "--port", &at, "--dir", &dir];
        let words: Vec<String> = words.iter().chain(more).map(|&word| word.to_owned()).collect();
        Redis::start("redis-server", port, &self.folder, &words).unwrap()
    }

    pub(crate) fn grpc_url(&self) -> String {
        self.devnet.as_ref().unwrap().grpc_url()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let before: Vec<&str> = self.before.iter().map(String::as_str).collect();
        self.command_after(&before, words)
    }

    /// Returns the same command as [`Self::command`]. The program in `before` starts this command.
    pub(crate) fn command_after(&self, before: &[&str], words: &[&str]) -> Command {
        // Benchmarks measure a release build.
        let named = std::env::var("MEASURED_PROGRAM");
        let program = named.as_deref().unwrap_or(env!("CARGO_BIN_EXE_provider-daemon"));
        let all = [before, &[program]].concat();
        let mut command = Command::new(all[0]);
        command.args(&all[1..]);
        without_settings(&mut command);
        command
            .args(words)
            .env("AKASH_HOME", &self.folder)
            .env("AKASH_NODE", self.url())
            .env("AKASH_CHAIN_ID", "devnet")
            .env("AKASH_GATEWAY_LISTEN_ADDRESS", "none")
            .env("AKASH_GATEWAY_GRPC_LISTEN_ADDRESS", "127.0.0.1:0")
            .env("AKASH_KEY_FILE", self.folder.join("words"))
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end. Returns exit code, stdout and stderr.
    pub(crate) fn ran(&self, words: &[&str]) -> (i32, String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    pub(crate) fn provider(&self, name: &str, more: &[&str]) -> Running {
        self.running(name, &[&["run"], &PRICES[..], more].concat())
    }

    pub(crate) fn running(&self, name: &str, words: &[&str]) -> Running {
        self.running_with(name, words, |_| {})
    }

    /// Starts a command as [`Self::running`] does. `change` can modify the command before the start.
    pub(crate) fn running_with(
        &self,
        name: &str,
        words: &[&str],
        change: impl FnOnce(&mut Command),
    ) -> Running {
        self.spawn(name, self.command(words), change)
    }

    /// Starts a command, and writes its output to files.
    pub(crate) fn started(&self, name: &str, command: Command) -> Running {
        self.spawn(name, command, |_| {})
    }

    fn spawn(&self, name: &str, mut command: Command, change: impl FnOnce(&mut Command)) -> Running {
        let (output, log) = (
            self.path(&format!("{name}.out")),
            self.path(&format!("{name}.log")),
        );
        command
            .stdout(File::create(&output).unwrap())
            .stderr(File::create(&log).unwrap());
        // After the output files, because a test may redirect the output.
        change(&mut command);
        let child = command.spawn().unwrap();
        Running { child, output, log }
    }

    pub(crate) fn order(&self, dseq: u64) -> DeploymentId {
        self.order_of(&TENANT.parse().unwrap(), dseq)
    }

    pub(crate) fn order_of(&self, tenant: &Address, dseq: u64) -> DeploymentId {
        self.order_from(tenant, dseq, include_str!("../../samples/web.yaml"))
    }

    pub(crate) fn order_from(&self, tenant: &Address, dseq: u64, text: &str) -> DeploymentId {
        let sdl = sdl::parse(text).unwrap();
        let id = DeploymentId::new(tenant.clone(), dseq);
        let deposit = Coin::new("uact", 5_000_000);
        let created = self.chain.tenant(TenantMsg::CreateDeployment {
            id: id.clone(),
            groups: sdl.groups,
            hash: sdl.hash,
            deposit,
            reclamation_min_window: None,
        });
        created.unwrap();
        id
    }

    pub(crate) fn bids(&self, id: &DeploymentId) -> Vec<Bid> {
        self.chain.market(|market| {
            market
                .bids()
                .filter(|b| b.id.deployment() == id)
                .cloned()
                .collect()
        })
    }

    /// Waits for the provider's bid.
    #[track_caller]
    pub(crate) fn bid(&self, id: &DeploymentId, provider: &Running) -> Bid {
        until("a bid", || provider.dump(), || !self.bids(id).is_empty());
        let bids = self.bids(id);
        assert_eq!((bids.len(), bids[0].state), (1, BidState::Open));
        bids[0].clone()
    }

    /// Lets the tenant accept a bid, so that the bid becomes a lease.
    pub(crate) fn accept(&self, bid: BidId) {
        self.chain.tenant(TenantMsg::CreateLease { bid }).unwrap();
    }

    /// Lets the tenant close a deployment.
    pub(crate) fn close(&self, id: DeploymentId) {
        self.chain.tenant(TenantMsg::CloseDeployment { id }).unwrap();
    }

    pub(crate) fn live_leases(&self) -> usize {
        self.chain.market(|market| {
            let lives = |state| matches!(state, LeaseState::Active | LeaseState::Reclaiming);
            market.leases().filter(|l| lives(l.lease.state)).count()
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop_node();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub(crate) struct Running {
    child: Child,
    output: PathBuf,
    log: PathBuf,
}

impl Running {
    pub(crate) fn output(&self) -> String {
        std::fs::read_to_string(&self.output).unwrap()
    }

    /// Returns the complete output, for messages of failed tests.
    pub(crate) fn dump(&self) -> String {
        format!(
            "{}\n{}",
            self.output(),
            std::fs::read_to_string(&self.log).unwrap()
        )
    }

    /// Waits until the output contains this text.
    #[track_caller]
    pub(crate) fn says(&self, word: &str) {
        until(
            &format!("`{word}`"),
            || self.dump(),
            || self.output().contains(word),
        );
    }

    /// Returns a path in the `/proc` directory of the process.
    pub(crate) fn about(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.child.id()))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until the process ends, and returns its exit code; `None` after a signal.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        let (output, log) = (self.output.clone(), self.log.clone());
        let dump = || {
            let read = |path| std::fs::read_to_string(path).unwrap();
            format!("{}\n{}", read(&output), read(&log))
        };
        until("the end", dump, || {
            status = self.has_ended();
            status.is_some()
        });
        status.unwrap().code()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
