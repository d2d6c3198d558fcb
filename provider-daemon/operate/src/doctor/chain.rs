//! Nodes of the chain. Each node is checked separately, so a dead node delays only its own check.

use super::check::Check;
use akash_provider_chain::endpoints::{Endpoints, LAG_MAX};
use akash_provider_chain::{Fault, Reader, Versions, redact_address};
use akash_provider_cli::flags::NodeArgs;
use akash_provider_cli::node::{limits, roots};
use akash_provider_core::chain::SyncInfo;
use akash_provider_core::types::{BlockTime, Height};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Maximum duration of the check of one node.
const LIMIT: Duration = Duration::from_secs(3);
/// Maximum age of the newest block.
const BLOCK_AGE_MAX: Duration = Duration::from_secs(60);

/// Response of one node.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    address: String,
    state: Result<NodeState, Problem>,
    took: Duration,
    /// Client for this node; `None` if the node is unusable.
    pub(super) reader: Option<Reader>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeState {
    sync: SyncInfo,
    versions: Option<Versions>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    /// The address cannot be used.
    Address(String),
    /// The node failed.
    Node(Fault),
}

impl Probe {
    pub(super) fn block_time(&self) -> Option<BlockTime> {
        self.state.as_ref().ok().map(|state| state.sync.time)
    }

    /// Returns the time by which the newest block is ahead of the local clock. Returns `None` unless the node
    /// has the fault [`Fault::Ahead`].
    pub(super) const fn ahead(&self) -> Option<Duration> {
        match &self.state {
            Err(Problem::Node(Fault::Ahead { by })) => Some(*by),
            _ => None,
        }
    }

    fn height(&self) -> Option<Height> {
        self.state.as_ref().ok().map(|state| state.sync.height)
    }
}

pub(super) async fn probe(address: String, chain_id: &str, args: &NodeArgs) -> Probe {
    let mut limits = limits(args);
    limits.response_time = args.node_timeout.min(LIMIT);
    limits.connect_time = LIMIT;
    limits.attempts = 1;
    let began = Instant::now();
    let pool = Endpoints::with_roots(&[&address], chain_id, limits, &roots(args));
    let (state, reader) = match pool {
        Err(error) => (Err(Problem::Address(error.to_string())), None),
        Ok(pool) => {
            let state = state(&pool).await;
            let reader = state.is_ok().then(|| Reader::new(pool));
            (state.map_err(Problem::Node), reader)
        }
    };
    Probe {
        address: redact_address(&address),
        state,
        took: began.elapsed(),
        reader,
    }
}

async fn state(pool: &Endpoints) -> Result<NodeState, Fault> {
    let response = timeout(LIMIT, pool.sync_info()).await;
    let status = pool.status().into_iter().next();
    let (fault, versions) = status.map_or((None, None), |status| (status.fault, status.versions));
    match response {
        Ok(Ok(sync)) => Ok(NodeState { sync, versions }),
        // The health check reports the cause; the pool refuses the request without it.
        Ok(Err(error)) => Err(fault.unwrap_or(error.fault)),
        Err(_) => Err(fault.unwrap_or(Fault::Timeout(LIMIT))),
    }
}

/// Judges all nodes. `now` is the time of this machine.
pub(super) fn judge(probes: &[Probe], now: BlockTime) -> Vec<Check> {
    let best = probes.iter().filter_map(Probe::height).max();
    probes.iter().map(|probe| judge_node(probe, best, now)).collect()
}

fn judge_node(probe: &Probe, best: Option<Height>, now: BlockTime) -> Check {
    let subject = format!("node {}", probe.address);
    let state = match &probe.state {
        Ok(state) => state,
        Err(Problem::Address(why)) => return Check::failure(subject, why, "correct the address in --node"),
        Err(Problem::Node(fault)) => return judge_fault(subject, fault, best.is_some()),
    };
    let sync = &state.sync;
    let lag = best.unwrap_or_default().saturating_sub(sync.height);
    if lag > LAG_MAX {
        return Check::warning(
            subject,
            format!("height {} is {lag} blocks behind the best node", sync.height),
            "wait until the node has synchronized, or replace it in --node",
        );
    }
    let age = now.since(sync.time);
    if age > BLOCK_AGE_MAX {
        let age = humantime::format_duration(Duration::from_secs(age.as_secs()));
        return Check::failure(
            subject,
            format!("the newest block, {}, is {age} old", sync.height),
            "check the state of the network and the clock of this machine, or replace the node in --node",
        );
    }
    let version = state
        .versions
        .as_ref()
        .and_then(|versions| versions.chosen.clone());
    let version = version.map_or_else(
        || "API version not reported".to_owned(),
        |name| format!("API {name}"),
    );
    Check::ok(
        subject,
        format!(
            "chain {}, height {}, newest block {} s old, {version}, {} ms",
            sync.chain_id,
            sync.height,
            age.as_secs(),
            probe.took.as_millis()
        ),
    )
}

/// Judges a failed node. Returns a warning if the failure may be temporary and another node works, otherwise
/// a failure.
fn judge_fault(subject: String, fault: &Fault, has_other: bool) -> Check {
    match fault {
        Fault::OtherChain { expected, found } => Check::failure(
            subject,
            format!("belongs to chain `{found}`, not `{expected}`"),
            "correct the address in --node, or the ID in --chain-id",
        ),
        Fault::Version { .. } => Check::failure(
            subject,
            fault.to_string(),
            "use a node of a supported network version in --node, or upgrade the provider",
        ),
        Fault::Ahead { by } => Check::failure(
            subject,
            format!(
                "the newest block is {} s ahead of the clock of this machine",
                by.as_secs()
            ),
            "set the clock with `timedatectl set-ntp true`; if the clock is right, replace the node in --node",
        ),
        Fault::CatchingUp { .. } => Check::problem(
            has_other,
            subject,
            fault.to_string(),
            "wait until the node has synchronized, or add another node to --node",
        ),
        fault => Check::problem(
            has_other,
            subject,
            match fault {
                // The remedy replaces the end of the text.
                Fault::NotConnected(why) => {
                    format!(
                        "cannot connect {}",
                        why.split(": is the node").next().unwrap_or(why)
                    )
                }
                fault => fault.to_string(),
            },
            "start the node, or replace its address in --node",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    const NOW: BlockTime = BlockTime(1_000_000_000);

    fn probe(state: Result<(Height, u64), Fault>) -> Probe {
        let state = state.map(|(height, age)| NodeState {
            sync: SyncInfo {
                chain_id: "c".to_owned(),
                height,
                time: NOW.minus(Duration::from_secs(age)),
                catching_up: false,
            },
            versions: None,
        });
        Probe {
            address: "http://node".to_owned(),
            state: state.map_err(Problem::Node),
            took: Duration::ZERO,
            reader: None,
        }
    }

    #[test]
    fn nodes_are_compared() {
        let dead = || Err(Fault::NotConnected("(connection refused)".to_owned()));
        let other = || {
            Err(Fault::OtherChain {
                expected: "c".to_owned(),
                found: "d".to_owned(),
            })
        };
        let [ok, warning, failure] = [Severity::Ok, Severity::Warning, Severity::Failure];
        for (states, wanted) in [
            (vec![Ok((100, 6))], vec![ok]),
            (vec![Ok((100, 6)), Ok((95, 36))], vec![ok, ok]),
            (vec![Ok((100, 6)), Ok((94, 42))], vec![ok, warning]),
            (vec![Ok((100, 61))], vec![failure]),
            (vec![dead()], vec![failure]),
            (vec![dead(), Ok((100, 6))], vec![warning, ok]),
            (vec![other(), Ok((100, 6))], vec![failure, ok]),
            (vec![Err(Fault::CatchingUp { height: 5 })], vec![failure]),
            (
                vec![Err(Fault::Ahead {
                    by: Duration::from_secs(90),
                })],
                vec![failure],
            ),
        ] {
            let probes: Vec<Probe> = states.into_iter().map(probe).collect();
            let checks = judge(&probes, NOW);
            let severities: Vec<Severity> = checks.iter().map(Check::severity).collect();
            assert_eq!(severities, wanted, "{checks:?}");
        }
    }
}
