//! A chain on the wire with a connection that can be cut, a provider and tenants, each in its own process.

use crate::clients::{Client, Reply};
use crate::daemon::{Daemon, Scratch, program};
use crate::fixture::{Stage, until};
use akash_provider_chain::cert::{KeyFile, KeyFiles};
use akash_provider_devnet::keys::Keys;
use akash_provider_gateway::auth::token::{Algorithm, encode};
use fault_proxy::{Faults, Proxy};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Output};
use std::time::UNIX_EPOCH;
use tokio::runtime::Runtime;

/// Id of the test chain. `Stage::take` deletes the leases of earlier tests on this chain.
pub(crate) const CHAIN: &str = "node-tier";

/// Node of the chain, and a proxy that can cut the provider's connection to the node.
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
    /// Starts a network with a registered provider.
    pub(crate) fn start(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let args = [
            "devnet",
            "--listen-rpc=127.0.0.1:0",
            "--listen-grpc=127.0.0.1:0",
            "--block-time=500ms",
            "--output=json",
            "--chain-id",
            CHAIN,
            "--keyring-dir",
        ];
        let mut command = program(&args);
        command.arg(scratch.path("keys"));
        let devnet = Daemon::spawn(command, &scratch, "devnet");
        devnet.says("\"event\":\"devnet\"");
        let about = devnet.event_object("devnet").unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let node = text(&about["rpc"]);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let upstream = node.trim_start_matches("http://");
        let way = runtime.block_on(Proxy::start(upstream, 1)).unwrap();
        // A restarted provider uses the same port, so the port is chosen here.
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

    /// Cuts or restores the provider's connection to the chain.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.way.set(Faults {
            down: is_cut,
            ..Faults::default()
        });
    }

    /// Starts the provider and waits for its gateway.
    pub(crate) fn provider(&self, stage: &Stage, name: &str) -> Daemon {
        self.provider_with(stage, name, &[])
    }

    /// Starts a provider as [`Self::provider`] does, with additional flags.
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

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.scratch.path(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn who(&self, name: &'static str) -> Account<'_> {
        Account { network: self, name }
    }

    /// Returns the free and the reserved capacity of the provider.
    pub(crate) fn capacity(&self) -> Value {
        let status = self.runtime.block_on(Client::new(self.gateway).get("/status"));
        status.json()["cluster"].clone()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Account<'a> {
    network: &'a Network,
    name: &'static str,
}

impl Account<'_> {
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let scratch = &self.network.scratch;
        let mut command = program(args);
        command
            .env("AKASH_HOME", scratch.path(self.name))
            .env("AKASH_NODE", &self.network.node)
            .env("AKASH_CHAIN_ID", CHAIN)
            .env("AKASH_KEYRING_BACKEND", "test")
            .env("AKASH_KEYRING_DIR", scratch.path("keys"))
            .env("AKASH_FROM", self.name);
        command
    }

    pub(crate) fn ran(&self, args: &[&str]) -> (i32, String, String) {
        outcome_of(&self.command(args).output().unwrap())
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn good(&self, args: &[&str]) -> String {
        let (code, out, err) = self.ran(args);
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    }

    pub(crate) fn starts(&self, name: &str, args: &[&str]) -> Daemon {
        Daemon::spawn(self.command(args), &self.network.scratch, name)
    }

    /// Runs a `devnet tenant` command with the key of this account.
    pub(crate) fn acts(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = program(&["devnet", "tenant", "--chain-id", CHAIN]);
        command
            .args(["--from", self.name, "--node", &self.network.node, "--keyring-dir"])
            .arg(self.network.scratch.path("keys"))
            .args(args);
        outcome_of(&command.output().unwrap())
    }

    /// Repeats a command of [`Self::acts`] until the chain accepts the transaction.
    pub(crate) fn does(&self, args: &[&str]) {
        let mut last = Default::default();
        until(&format!("{args:?}"), || {
            last = self.acts(args);
            last.0 == 0
        });
    }

    /// Creates and publishes a certificate.
    pub(crate) fn certify(&self) {
        self.good(&["tx", "cert", "generate", "client"]);
        self.good(&["tx", "cert", "publish", "client", "--yes"]);
    }

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

    pub(crate) fn by_certificate(&self) -> Client {
        let scratch = &self.network.scratch;
        let key = Keys::open(Some(&scratch.path("keys"))).unwrap();
        let key = key.private_key(self.name).unwrap();
        let home = scratch.path(self.name);
        let own = KeyFiles::new(&home, &key).read(KeyFile::Current).unwrap();
        Client::new(self.network.gateway).certificate(&own)
    }

    pub(crate) fn clients(&self) -> [(&'static str, Client); 2] {
        [("jwt", self.by_token()), ("mtls", self.by_certificate())]
    }

    pub(crate) fn get(&self, client: &Client, path: &str) -> Reply {
        self.network.runtime.block_on(client.get(path))
    }
}

fn outcome_of(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}
