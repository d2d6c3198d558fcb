//! A chain on the wire that can be cut off, a provider on it, and tenants: each a process of its own.

use crate::clients::{Client, Reply};
use crate::corner::{Stage, until};
use crate::daemon::{Daemon, Scratch, program};
use akash_provider_chain::cert::{KeyFile, KeyFiles};
use akash_provider_devnet::keys::Keys;
use akash_provider_gateway::auth::token::{Algorithm, encode};
use fault_proxy::{Faults, Proxy};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Output};
use std::time::UNIX_EPOCH;
use tokio::runtime::Runtime;

/// `Stage::take` removes what is left of this chain.
pub(crate) const CHAIN: &str = "node-tier";

/// The chain's node, which tenants ask, and the way to it that the provider goes, which can be cut.
pub(crate) struct Network {
    scratch: Scratch,
    pub(crate) runtime: Runtime,
    node: String,
    way: Proxy,
    gateway: SocketAddr,
    pub(crate) account: String,
    _devnet: Daemon,
}

impl Network {
    /// With a provider that is registered.
    pub(crate) fn start(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let words = [
            "devnet",
            "--listen-rpc=127.0.0.1:0",
            "--listen-grpc=127.0.0.1:0",
            "--block-time=500ms",
            "--output=json",
            "--chain-id",
            CHAIN,
            "--keyring-dir",
        ];
        let mut command = program(&words);
        command.arg(scratch.path("keys"));
        let devnet = Daemon::spawn(command, &scratch, "devnet");
        devnet.says("\"event\":\"devnet\"");
        let about = devnet.said("devnet").unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let node = text(&about["rpc"]);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let upstream = node.trim_start_matches("http://");
        let way = runtime.block_on(Proxy::start(upstream, 1)).unwrap();
        // A provider comes back where it was, so its port is chosen here.
        let gateway = (Ipv4Addr::LOCALHOST, testbed::free_port().unwrap()).into();
        let network = Self {
            runtime,
            way,
            gateway,
            account: text(&about["accounts"]["provider"]),
            node,
            scratch,
            _devnet: devnet,
        };
        let record = network.file(
            "provider.yaml",
            &format!("host: https://{gateway}\nattributes: []\n"),
        );
        network
            .who("provider")
            .good(&["tx", "provider", "create", &record, "--yes"]);
        network
    }

    /// The provider's way to the chain breaks off, or is there again.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.way.set(Faults {
            down: is_cut,
            ..Faults::default()
        });
    }

    /// Starts the provider on a cluster and waits for its gateway.
    pub(crate) fn provider(&self, stage: &Stage, name: &str) -> Daemon {
        self.provider_with(stage, name, &[])
    }

    /// The same with more flags.
    pub(crate) fn provider_with(&self, stage: &Stage, name: &str, more: &[&str]) -> Daemon {
        let mut command = self.who("provider").command(&[
            "run",
            "--bid-price-cpu-scale=0.001",
            "--bid-price-memory-scale=0.0002",
            "--bid-price-storage-scale=0.00001",
            "--bid-price-endpoint-scale=0.01",
            "--certificate-domain=localhost",
            "--gateway-grpc-listen-address=none",
            "--output=json",
        ]);
        command
            .env("AKASH_NODE", self.way.url())
            .env("AKASH_GATEWAY_LISTEN_ADDRESS", self.gateway.to_string())
            .env("AP_LOG_LEVEL", "info,akash_provider_gateway=debug")
            .arg("--kubeconfig")
            .arg(stage.testbed.kubeconfig())
            .args(more);
        let provider = Daemon::spawn(command, &self.scratch, name);
        provider.says("\"event\":\"gateway\"");
        provider
    }

    /// A file for a command.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.scratch.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// One of the accounts of the network.
    pub(crate) fn who(&self, name: &'static str) -> Who<'_> {
        Who { network: self, name }
    }

    /// What the provider has to give at the moment, and what it holds for bids and leases.
    pub(crate) fn capacity(&self) -> Value {
        let status = self.runtime.block_on(Client::new(self.gateway).get("/status"));
        status.json()["cluster"].clone()
    }
}

/// Somebody with a key and a home folder.
#[derive(Clone, Copy)]
pub(crate) struct Who<'a> {
    network: &'a Network,
    name: &'static str,
}

impl Who<'_> {
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let scratch = &self.network.scratch;
        let mut command = program(words);
        command
            .env("AKASH_HOME", scratch.path(self.name))
            .env("AKASH_NODE", &self.network.node)
            .env("AKASH_CHAIN_ID", CHAIN)
            .env("AKASH_KEYRING_BACKEND", "test")
            .env("AKASH_KEYRING_DIR", scratch.path("keys"))
            .env("AKASH_FROM", self.name);
        command
    }

    /// Runs a command to its end: exit code, output, errors.
    pub(crate) fn ran(&self, words: &[&str]) -> (i32, String, String) {
        told(&self.command(words).output().unwrap())
    }

    /// Runs a command that succeeds.
    #[track_caller]
    pub(crate) fn good(&self, words: &[&str]) -> String {
        let (code, out, err) = self.ran(words);
        assert_eq!(code, 0, "{words:?}: {out}{err}");
        out
    }

    /// Starts a command that goes on.
    pub(crate) fn starts(&self, name: &str, words: &[&str]) -> Daemon {
        Daemon::spawn(self.command(words), &self.network.scratch, name)
    }

    /// Does something as a tenant of the network.
    pub(crate) fn acts(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = program(&["devnet", "tenant", "--chain-id", CHAIN]);
        command
            .args(["--from", self.name, "--node", &self.network.node, "--keyring-dir"])
            .arg(self.network.scratch.path("keys"))
            .args(words);
        told(&command.output().unwrap())
    }

    /// The same, until the chain lets it.
    pub(crate) fn does(&self, words: &[&str]) {
        let mut last = Default::default();
        until(&format!("{words:?}"), || {
            last = self.acts(words);
            last.0 == 0
        });
    }

    /// A certificate that is on the chain.
    pub(crate) fn certify(&self) {
        self.good(&["tx", "cert", "generate", "client"]);
        self.good(&["tx", "cert", "publish", "client", "--yes"]);
    }

    /// A client that shows a token for everything.
    pub(crate) fn by_token(&self) -> Client {
        let key = Keys::open(Some(&self.network.scratch.path("keys"))).unwrap();
        let key = key.private_key(self.name).unwrap();
        let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
        let claims = json!({
            "iss": key.address().as_str(), "iat": now - 5, "nbf": now - 5, "exp": now + 3600, "version": "v1",
            "leases": { "access": "full" },
        });
        let token = encode(Algorithm::Es256k, key.address(), &claims, |text| key.sign(text));
        Client::new(self.network.gateway).bearer(&token)
    }

    /// A client that shows the certificate.
    pub(crate) fn by_certificate(&self) -> Client {
        let scratch = &self.network.scratch;
        let key = Keys::open(Some(&scratch.path("keys"))).unwrap();
        let key = key.private_key(self.name).unwrap();
        let home = scratch.path(self.name);
        let own = KeyFiles::new(&home, &key).read(KeyFile::Current).unwrap();
        Client::new(self.network.gateway).certificate(&own)
    }

    /// Both of them, with their names.
    pub(crate) fn clients(&self) -> [(&'static str, Client); 2] {
        [("jwt", self.by_token()), ("mtls", self.by_certificate())]
    }

    /// An answer to one of the clients.
    pub(crate) fn get(&self, client: &Client, path: &str) -> Reply {
        self.network.runtime.block_on(client.get(path))
    }
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}
