//! `doctor`: problems of one installation, each with its severity, and the same checks after the remedies.

use super::doctor::{Results, SETTINGS, certify, installation};
use crate::stage::{ADDRESS, PRICES, Stage};
use akash_provider_core::types::Msg;
use fault_proxy::{Faults, Proxy};
use std::cell::RefCell;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, UNIX_EPOCH};
use testbed::free_port;

const BLOCK: Duration = Duration::from_millis(1);
const NOTHING: fn() = || {};

/// One step: a change of the installation, the flags of `doctor`, and the expected severity of each subject.
type Step<'a> = (&'a dyn Fn(), &'a [&'a str], &'a [(&'a str, &'a str)]);

/// An installation, and a proxy to its node.
struct World {
    stage: Stage,
    proxy: Proxy,
    /// Flag `--node` with the URL of the node and the URL of the proxy.
    nodes: String,
    /// Name of the proxy in the checks of `doctor`: `node` and the URL.
    node: String,
}

impl World {
    fn new() -> Self {
        let stage = installation("doctor-remedies");
        // More blocks than a node may lag behind.
        for _ in 0..12 {
            stage.chain.advance(BLOCK);
        }
        let proxy = stage.proxy();
        Self {
            nodes: format!("--node={},{}", stage.url(), proxy.url()),
            node: format!("node {}", proxy.url()),
            stage,
            proxy,
        }
    }

    /// Sets the balance of the account in the denomination of fees.
    fn set_fees(&self, amount: u128) {
        self.stage.chain.market(|market| {
            let account = market.account_mut(&ADDRESS.parse().unwrap());
            account.coins.insert("uakt".into(), amount);
        });
        self.stage.chain.advance(BLOCK);
    }

    fn revoke_certificate(&self) {
        self.stage.chain.market(|market| {
            let owner = ADDRESS.parse().unwrap();
            let serial = market.certificates(&owner)[0].serial.clone();
            let revoke = Msg::RevokeCertificate { owner, serial };
            market.execute(&revoke).unwrap();
        });
        self.stage.chain.advance(BLOCK);
    }

    #[track_caller]
    fn check(&self, steps: &[Step<'_>]) {
        for (change, flags, expected) in steps {
            change();
            let words = [&["doctor", "--output=json", SETTINGS[0]], &PRICES[..], flags].concat();
            let mut command = self.stage.command(&words);
            // A flag takes precedence over this variable.
            let results = Results::from_command(command.env("AKASH_CLUSTER_PUBLIC_HOSTNAME", "localhost"));
            for (subject, severity) in *expected {
                results.expect(subject, severity);
            }
        }
    }
}

#[test]
fn each_problem_is_reported_until_its_remedy() {
    let world = World::new();
    check_settings_and_balances(&world);
    check_node_and_certificate(&world);
    check_files(&world);
}

fn check_settings_and_balances(world: &World) {
    let (stage, proxy, node) = (&world.stage, &world.proxy, world.node.as_str());
    let port = free_port().unwrap();
    let redis = RefCell::new(None);
    let election = format!("--ha-url=redis://127.0.0.1:{port}");
    let problems = || {
        proxy.set(Faults {
            lag: 10,
            ..Faults::default()
        });
        world.set_fees(20_000);
    };
    let remedies = || {
        proxy.set(Faults::default());
        world.set_fees(1_000_000_000);
        redis.replace(stage.redis(port, &[]));
    };
    world.check(&[
        (
            &problems,
            &[
                &world.nodes,
                "--cluster-public-hostname=127.0.0.1",
                "--bid-deposit=500000ibc/other",
                "--ha=redis",
                &election,
            ],
            &[
                (node, "warning"),
                ("provider record", "warning"),
                ("public host name", "warning"),
                ("certificate", "warning"),
                ("balance for deposits in ibc/other", "failure"),
                ("balance for fees", "warning"),
                ("Redis of --ha", "failure"),
            ],
        ),
        (
            &remedies,
            &[&world.nodes, "--bid-deposit=500000uact"],
            &[
                (node, "ok"),
                ("provider record", "ok"),
                ("certificate", "ok"),
                ("balance for deposits in uact", "ok"),
                ("balance for fees", "ok"),
            ],
        ),
        (
            &NOTHING,
            &["--cluster-public-hostname=203.0.113.5"],
            &[("public host name", "ok")],
        ),
    ]);
    if redis.borrow().is_some() {
        world.check(&[(&NOTHING, &["--ha=redis", &election], &[("Redis of --ha", "ok")])]);
    }
}

fn check_node_and_certificate(world: &World) {
    let (proxy, node) = (&world.proxy, world.node.as_str());
    let alone = format!("--node={}", proxy.url());
    let catching_up = || {
        proxy.set(Faults {
            catching_up: true,
            ..Faults::default()
        });
    };
    let other_versions = || {
        proxy.set(Faults {
            other_versions: true,
            ..Faults::default()
        });
    };
    let no_state = || {
        proxy.set(Faults {
            no_state: true,
            ..Faults::default()
        });
    };
    let revoked = || {
        proxy.set(Faults::default());
        world.revoke_certificate();
    };
    let certified = || {
        proxy.set(Faults::default());
        certify(&world.stage, UNIX_EPOCH.elapsed().unwrap(), true);
    };
    let on_chain = "certificate on the chain";
    world.check(&[
        (&catching_up, &[&alone], &[(node, "failure")]),
        (&revoked, &[&alone], &[(node, "ok"), (on_chain, "failure")]),
        (&other_versions, &[&alone], &[(node, "failure")]),
        (&no_state, &[&alone], &[("account", "failure")]),
        (
            &certified,
            &[&alone],
            &[(node, "ok"), (on_chain, "ok"), ("balance for fees", "ok")],
        ),
    ]);
}

fn check_files(world: &World) {
    let (key, home) = (world.stage.path("key"), world.stage.path("new"));
    fs::copy(world.stage.path("words"), &key).unwrap();
    let readable = || fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let flags = [
        &*format!("--home={}", home.display()),
        &*format!("--key-file={}", key.display()),
    ];
    world.check(&[
        (
            &readable,
            &flags,
            &[("home directory", "warning"), ("file modes", "warning")],
        ),
        (
            &NOTHING,
            &[flags[0], flags[1], "--fix"],
            &[("fix", "ok"), ("file modes", "ok")],
        ),
    ]);
}
