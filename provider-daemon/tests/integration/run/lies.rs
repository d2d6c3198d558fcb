//! A daemon before a node that lies, alone and beside an honest node: soon after the lie ends it bids again, also after a restart
//! in the middle of the lie.
//!
//! The campaign takes a minute for each lie: `cargo xtask campaign lies`.

use crate::stage::{Running, Stage, until};
use fault_proxy::{Faults, Lie, Proxy};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FAST: Option<Duration> = Some(Duration::from_millis(250));
/// Longest time from the end of a lie to the next bid.
const LIMIT: Duration = Duration::from_secs(30);
/// Daemons that run together.
const TOGETHER: usize = 12;
/// Held from the choice of a free port until it is used.
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
    fn provider(self, stage: &Stage, proxy: &Proxy, name: &str) -> Running {
        let lying = proxy.url();
        let nodes = match self.is_alone {
            true => lying,
            false => format!("{lying},{}", stage.url()),
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

    /// Time from the end of the lie to the next bid, and the number of false responses.
    fn run(self, number: usize, length: Duration) -> (Duration, u64) {
        let ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stage = Stage::new(&format!("lies-{number}"), true);
        stage.start_node(FAST);
        let proxy = stage.proxy();
        drop(ports);
        let mut provider = self.provider(&stage, &proxy, "first");
        provider.says("ready: bidding");
        stage.bid(&stage.order(1), &provider);
        proxy.set(Faults {
            lie: Some(self.lie),
            ..Faults::default()
        });
        stage.order(2);
        std::thread::sleep(length / 2);
        if self.is_restarted {
            provider.kill();
            provider = self.provider(&stage, &proxy, "second");
        }
        std::thread::sleep(length / 2);
        proxy.set(Faults::default());
        let (order, ended) = (stage.order(3), Instant::now());
        until(
            "a bid after the lie",
            || provider.told(),
            || {
                let told = || format!("{self:?}: no bid within {LIMIT:?}\n{}", provider.told());
                assert!(ended.elapsed() < LIMIT, "{}", told());
                !stage.bids(&order).is_empty()
            },
        );
        assert_eq!(stage.bids(&order).len(), 1, "{self:?}");
        (ended.elapsed(), proxy.stats().faults)
    }
}

#[test]
fn a_daemon_bids_within_thirty_seconds_after_a_lie_also_after_a_restart() {
    let seconds = std::env::var("LIES_SECONDS").ok();
    let seconds: Option<u64> = seconds.map(|text| text.parse().unwrap());
    let mut cases: Vec<(usize, Case)> = cases().into_iter().enumerate().collect();
    if seconds.is_none() {
        // One of each setting; the crate of the chain client has a table of all lies.
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
    std::thread::scope(|scope| {
        for _ in 0..TOGETHER {
            scope.spawn(|| {
                while let Some((number, case)) = next() {
                    let (took, faults) = case.run(number, length);
                    let beside = if case.is_alone {
                        "alone"
                    } else {
                        "beside an honest node"
                    };
                    let how = if case.is_restarted {
                        "restarted"
                    } else {
                        "running on"
                    };
                    let took = took.as_millis();
                    println!(
                        "{}, {beside}, {how}: {faults} false responses, bid after {took} ms",
                        case.name
                    );
                }
            });
        }
    });
}
