//! The program with one running lease of a tenant.

use crate::http::token_within;
use crate::run::tenant::tenant;
use crate::stage::{ADDRESS, Running, Stage, until};
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::types::{Address, BidId};
use serde_json::Value;
use std::time::Duration;

const DSEQ: u64 = 9;

/// Running provider with a lease, and the tenant.
pub(crate) struct Served {
    pub(crate) stage: Stage,
    pub(crate) provider: Running,
    pub(crate) url: String,
    pub(crate) grpc: String,
    pub(crate) tenant: PrivateKey,
    makes_blocks: bool,
}

impl Served {
    /// Starts the provider, creates a lease and waits until its workload runs. If `block_time` is `None`,
    /// blocks are created only while the test waits.
    pub(crate) fn start(name: &str, block_time: Option<Duration>, more: &[&str]) -> Self {
        Self::on(Stage::new(name, true), block_time, more)
    }

    /// Starts a provider as [`Self::start`] does, on `stage`.
    pub(crate) fn on(mut stage: Stage, block_time: Option<Duration>, more: &[&str]) -> Self {
        let (tenant, _) = tenant(&stage);
        stage
            .chain
            .market(|market| market.set_pubkey(tenant.address(), tenant.public().as_bytes().to_vec()));
        stage.start_node(block_time);
        let provider = provider(&stage, "first", more);
        let mut served = Self {
            stage,
            provider,
            url: String::new(),
            grpc: String::new(),
            tenant,
            makes_blocks: block_time.is_none(),
        };
        // First the certificate must be on the chain.
        served.until("the gateway", || served.has_printed("\"event\":\"gateway\""));
        (served.url, served.grpc) = addresses(&served.provider);
        let account: Address = ADDRESS.parse().unwrap();
        let published = || served.stage.chain.market(|m| m.certificates(&account).len() == 1);
        served.until("the certificate on the chain", published);
        served.until("a provider that bids", || served.has_printed("\"is_ready\":true"));
        served.lease();
        served
    }

    /// Creates blocks until a condition is met.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        until(
            what,
            || self.provider.dump(),
            || {
                if self.makes_blocks {
                    self.stage.make_block();
                }
                done()
            },
        );
    }

    pub(crate) fn has_printed(&self, words: &str) -> bool {
        self.provider.output().contains(words)
    }

    fn lease(&self) {
        let id = self.stage.order_of(self.tenant.address(), DSEQ);
        let bid = || -> Option<BidId> { Some(self.stage.bids(&id).first()?.id.clone()) };
        self.until("a bid", || bid().is_some());
        let bid = bid().unwrap();
        self.stage.accept(bid);
        self.until("the lease", || self.has_printed("\"event\":\"lease_won\""));
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
        let dseq = DSEQ.to_string();
        let (code, out, err) = self.tenants(&["send-manifest", sample, "--dseq", &dseq]);
        assert_eq!(code, 0, "{out}{err}\n{}", self.provider.dump());
        self.until("a workload that runs", || self.has_printed("\"health\":\"good\""));
    }

    pub(crate) fn tenants(&self, words: &[&str]) -> (i32, String, String) {
        let key = self.stage.path("tenant");
        let key = key.to_str().unwrap();
        let of = [
            "--provider",
            ADDRESS,
            "--provider-url",
            &self.url,
            "--key-file",
            key,
        ];
        self.stage.ran(&[words, &of].concat())
    }

    /// Returns a full-access token, valid for an hour.
    pub(crate) fn token(&self) -> String {
        self.token_for(Duration::from_secs(3600))
    }

    pub(crate) fn token_for(&self, lifetime: Duration) -> String {
        token_within(&self.tenant, 5, lifetime.as_secs())
    }

    /// Starts a new provider process with the stored state.
    pub(crate) fn replace(&mut self, more: &[&str]) {
        self.provider = provider(&self.stage, "second", more);
        (self.url, self.grpc) = addresses(&self.provider);
    }
}

fn provider(stage: &Stage, name: &str, more: &[&str]) -> Running {
    let gateway = [
        "--gateway-listen-address=127.0.0.1:0",
        "--certificate-domain=localhost",
        "--deployment-ingress-static-hosts",
        "--deployment-ingress-domain=ingress.localhost",
        "--output=json",
    ];
    stage.provider(name, &[&gateway[..], more].concat())
}

/// Returns the REST and gRPC addresses as soon as both are served.
fn addresses(provider: &Running) -> (String, String) {
    let url = crate::run::tenant::url(provider);
    let output = provider.output();
    let line = output.lines().find(|line| line.contains("\"event\":\"gateway\""));
    let line: Value = serde_json::from_str(line.unwrap()).unwrap();
    (url, line["grpc"].as_str().unwrap().to_owned())
}
