//! A daemon with a node that returns false responses, first alone and then together with an honest node. The
//! daemon bids again soon after the false responses end, even if it was restarted while they continued.
//!
//! The campaign `cargo xtask campaign lies` runs each kind of false response for a minute.

use crate::http::curl;
use crate::stage::{ADDRESS, Running, Stage, TENANT, until};
use akash_provider_chain::cert::{CertUsage, OwnCertificate};
use fault_proxy::{Faults, Lie, Proxy};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Maximum time from the last false response to the next bid.
const LIMIT: Duration = Duration::from_secs(30);
/// Number of daemons that run concurrently.
const TOGETHER: usize = 12;
/// Locked while a test chooses and opens free ports, so that no other test opens the same ports.
static PORTS: Mutex<()> = Mutex::new(());
const LIES: [(&str, Lie); 9] = [
    ("largest height", Lie::Height(i64::MAX as u64)),
    ("plausible height", Lie::Height(700)),
    ("chain a little higher", Lie::Chain(30)),
    ("chain much higher", Lie::Chain(900)),
    ("time", Lie::Time),
    ("parameters", Lie::Params),
    ("account sequence", Lie::Account),
    ("certificates", Lie::Certificates),
    ("pushed heights", Lie::Pushes(400)),
];

#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    lie: Lie,
    is_alone: bool,
    is_restarted: bool,
}

fn cases() -> Vec<Case> {
    let all = LIES.into_iter().flat_map(|(name, lie)| {
        let settings = [(true, false), (true, true), (false, false), (false, true)];
        settings.map(|(is_alone, is_restarted)| Case {
            name,
            lie,
            is_alone,
            is_restarted,
        })
    });
    all.collect()
}

impl Case {
    /// Starts the provider. The provider prefers the faster node, which returns false responses.
    fn provider(self, stage: &Stage, lying: &Proxy, honest: &Proxy, name: &str) -> Running {
        let nodes = match self.is_alone {
            true => lying.url(),
            false => format!("{},{}", lying.url(), honest.url()),
        };
        let nodes = format!("--node={nodes}");
        let mut words = vec![nodes.as_str()];
        if self.lie == Lie::Certificates {
            // The gateway reads the certificates of the account.
            words.extend([
                "--gateway-listen-address=127.0.0.1:0",
                "--certificate-domain=localhost",
            ]);
        }
        stage.provider(name, &words)
    }

    /// Makes the provider send the query that gets the false response. Does nothing for a periodic query.
    fn provoke(self, stage: &Stage, provider: &Running) {
        match self.lie {
            Lie::Account => stage.chain.market(|market| {
                market.account_mut(&ADDRESS.parse().unwrap()).sequence += 1;
            }),
            Lie::Certificates => {
                let output = provider.output();
                let url = output.split("gateway at ").nth(1).unwrap();
                let url = url.split(',').next().unwrap();
                let (owner, now) = (TENANT.parse().unwrap(), UNIX_EPOCH.elapsed().unwrap());
                let own = OwnCertificate::make(&owner, &CertUsage::Client, now).unwrap();
                let published = stage.chain.market(|market| market.execute(&own.publish()));
                published.unwrap();
                let file = |name: &str, bytes: &[u8]| {
                    let path = stage.path(name).display().to_string();
                    std::fs::write(&path, bytes).unwrap();
                    path
                };
                let cert = file("tenant.pem", own.cert_pem().as_bytes());
                let key = file("tenant.der", &own.private_key_der().unwrap());
                // The gateway queries the certificate after the handshake, so the response does not matter.
                curl(&["--cert", &cert, "--key-type", "DER", "--key", &key, url]);
            }
            _ => {}
        }
    }

    /// Runs a provider for the duration `length`, with false responses. Returns the time from the last false
    /// response to the next bid, and the number of false responses.
    fn run(self, number: usize, length: Duration) -> (Duration, u64) {
        let ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stage = Stage::new(&format!("lies-{number}"), true);
        // With sequences, a provider reads its account again after another program with the same key.
        stage.start_node_with(FAST, |config| config.takes_unordered = self.lie != Lie::Account);
        let (proxy, honest) = (stage.proxy(), stage.proxy());
        drop(ports);
        honest.set(Faults {
            delay_ms: 300,
            ..Faults::default()
        });
        let mut provider = self.provider(&stage, &proxy, &honest, "first");
        provider.says("ready: bidding");
        stage.bid(&stage.order(1), &provider);
        let faults = || proxy.stats().faults;
        // The closed connection is counted too.
        let before = faults() + 1;
        proxy.set(Faults {
            lie: Some(self.lie),
            ..Faults::default()
        });
        // The status is read with each new subscription.
        proxy.cut();
        let receives = |provider: &Running, before: u64| {
            let dump = || format!("{self:?}\n{}", provider.dump());
            until("a false response", dump, || faults() > before);
        };
        self.provoke(&stage, &provider);
        stage.order(2);
        receives(&provider, before);
        std::thread::sleep(length / 2);
        if self.is_restarted {
            provider.kill();
            let before = faults();
            provider = self.provider(&stage, &proxy, &honest, "second");
            stage.order(3);
            receives(&provider, before);
        }
        std::thread::sleep(length / 2);
        let faults = faults() - before;
        proxy.set(Faults::default());
        let (order, ended) = (stage.order(4), Instant::now());
        until(
            "a bid after the lie",
            || provider.dump(),
            || {
                let dump = || format!("{self:?}: no bid within {LIMIT:?}\n{}", provider.dump());
                assert!(ended.elapsed() < LIMIT, "{}", dump());
                !stage.bids(&order).is_empty()
            },
        );
        assert_eq!(stage.bids(&order).len(), 1, "{self:?}");
        (ended.elapsed(), faults)
    }
}

#[test]
fn a_daemon_bids_within_thirty_seconds_after_a_lie_also_after_a_restart() {
    let seconds = std::env::var("LIES_SECONDS").ok();
    let seconds: Option<u64> = seconds.map(|text| text.parse().unwrap());
    let mut cases: Vec<(usize, Case)> = cases().into_iter().enumerate().collect();
    if seconds.is_none() {
        // One false response per setting. The tests of the chain client cover all kinds of false responses.
        let short = [
            "chain a little higher",
            "parameters",
            "account sequence",
            "pushed heights",
        ];
        cases.retain(|(number, case)| short.get(number % 4) == Some(&case.name));
    }
    let length = Duration::from_secs(seconds.unwrap_or(1));
    let waiting = Mutex::new(cases);
    let next = || waiting.lock().unwrap().pop();
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                while let Some((number, case)) = next() {
                    let (took, faults) = case.run(number, length);
                    let beside = if case.is_alone {
                        "alone"
                    } else {
                        "together with an honest node"
                    };
                    let how = if case.is_restarted {
                        "restarted"
                    } else {
                        "running on"
                    };
                    results.lock().unwrap().push((took, faults));
                    let took = took.as_millis();
                    println!(
                        "{}, {beside}, {how}: {faults} false responses, bid after {took} ms",
                        case.name
                    );
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    let slowest = results.iter().map(|(took, _)| took.as_millis()).max();
    let fewest = results.iter().map(|(_, faults)| faults).min();
    println!(
        "{} cases: at least {} false responses each, slowest bid after {} ms",
        results.len(),
        fewest.unwrap(),
        slowest.unwrap()
    );
}
