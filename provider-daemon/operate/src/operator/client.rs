//! Client of the socket: the operator commands.

use super::connection::{ask, ask_if_running, ask_within, granted, odd, print};
use super::{capacity, orders};
use crate::args::operator::{
    BreakerAction, EndLeaseArgs, HardenArgs, LogLevelArgs, OperatorCommand, ReconcileArgs, ReleaseArgs,
};
use akash_provider_cli::flags::Output;
use akash_provider_cli::plain;
use akash_provider_core::cluster::Health;
use akash_provider_core::types::{DecCoin, LeaseId};
use akash_provider_service::audit;
use akash_provider_service::history::HistoryHealth;
use akash_provider_service::operator::{ControlRequest, LeaseLine, Response};
use anyhow::bail;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Runs a command against the provider with this home directory.
///
/// # Errors
/// Returns an error if no provider runs, the connection fails, or the provider refuses the request. `harden`
/// reports each lease, and exits with code 1 if any lease could not be hardened.
pub fn run(command: &OperatorCommand, home: &Path) -> anyhow::Result<ExitCode> {
    match command {
        OperatorCommand::Breaker(args) => match &args.action {
            BreakerAction::Show(printed) => show(home, printed.output),
            BreakerAction::Release(args) => release(home, args),
        },
        OperatorCommand::Leases(printed) => leases(home, printed.output),
        OperatorCommand::Capacity(printed) => capacity::show(home, printed.output),
        OperatorCommand::Reconcile(args) => reconcile(home, args),
        OperatorCommand::Harden(args) => harden(home, args),
        OperatorCommand::EndLease(args) => end_lease(home, args),
        OperatorCommand::LogLevel(args) => log_level(home, args),
        OperatorCommand::Orders(args) => orders::list(home, args),
        OperatorCommand::Order(args) => orders::show(home, args),
        OperatorCommand::Audit(args) => audit::run(args, home),
        OperatorCommand::Summary(args) => orders::summarize(home, args),
    }
}

fn show(home: &Path, output: Output) -> anyhow::Result<ExitCode> {
    let Response::Breaker {
        tripped,
        held_owners,
        recent,
        allowed,
        waiting,
        shut_because,
    } = granted(ask(home, &ControlRequest::Breaker)?)?
    else {
        bail!(odd());
    };
    let value = json!({
        "tripped": tripped, "held_owners": held_owners, "recent": recent, "allowed": allowed, "waiting": waiting,
        "shut_because": shut_because,
    });
    print(output, &value, || {
        let counts = format!("{recent} of {allowed} closes within the window");
        let state = match &shut_because {
            _ if tripped => "circuit breaker tripped".to_owned(),
            Some(why) => format!("circuit breaker not tripped; {}", plain::line(why)),
            None if held_owners.is_empty() => "circuit breaker not tripped".to_owned(),
            None => "circuit breaker tripped for some owners".to_owned(),
        };
        let mut text = format!("{state}; {counts}\n");
        if !waiting.is_empty() {
            text.push_str("leases waiting for their close:\n");
            text.push_str(&lines(&waiting));
        }
        if !held_owners.is_empty() {
            text.push_str("owners for which the breaker tripped:\n");
            text.push_str(&lines(&held_owners));
        }
        text
    });
    Ok(ExitCode::SUCCESS)
}

fn release(home: &Path, args: &ReleaseArgs) -> anyhow::Result<ExitCode> {
    let owner = args.owner.clone();
    let request = ControlRequest::ReleaseBreaker { owner };
    let Response::Released { was_tripped, waited } = granted(ask(home, &request)?)? else {
        bail!(odd());
    };
    let value = json!({ "was_tripped": was_tripped, "waited": waited });
    print(args.printed.output, &value, || {
        if !was_tripped {
            return "circuit breaker was not tripped\n".to_owned();
        }
        let waited = lines(&waited);
        let scope = args
            .owner
            .as_ref()
            .map(|owner| format!(" for {owner}"))
            .unwrap_or_default();
        format!("circuit breaker released{scope}; leases that the provider closes now:\n{waited}")
    });
    Ok(ExitCode::SUCCESS)
}

fn reconcile(home: &Path, args: &ReconcileArgs) -> anyhow::Result<ExitCode> {
    let (dry_run, confirm) = (args.dry_run, args.confirm);
    let Response::Scanned { findings } = granted(ask(home, &ControlRequest::Scan { dry_run, confirm })?)?
    else {
        bail!(odd());
    };
    let value = json!({ "dry_run": dry_run, "findings": findings });
    print(args.printed.output, &value, || {
        if findings.is_empty() {
            return "no differences\n".to_owned();
        }
        lines(&findings)
    });
    Ok(ExitCode::SUCCESS)
}

fn log_level(home: &Path, args: &LogLevelArgs) -> anyhow::Result<ExitCode> {
    let level = args.level.clone();
    let Response::LogLevel { level, before } = granted(ask(home, &ControlRequest::LogLevel { level })?)?
    else {
        bail!(odd());
    };
    print(
        args.printed.output,
        &json!({ "level": level, "before": before }),
        || {
            if level == before {
                return format!("log level {level}\n");
            }
            format!("log level {level}, before: {before}\n")
        },
    );
    Ok(ExitCode::SUCCESS)
}

fn leases(home: &Path, output: Output) -> anyhow::Result<ExitCode> {
    let Response::Leases { leases } = granted(ask(home, &ControlRequest::Leases)?)? else {
        bail!(odd());
    };
    print(output, &json!({ "leases": leases }), || {
        if leases.is_empty() {
            return "no leases\n".to_owned();
        }
        leases.iter().map(describe).collect()
    });
    Ok(ExitCode::SUCCESS)
}

/// Prints the status of the operators that are embedded in a provider.
///
/// # Errors
/// Returns an error if no provider runs with the home directory, or if the connection fails.
pub fn operators(home: &Path, output: Output) -> anyhow::Result<ExitCode> {
    let Response::Operators { operators } = granted(ask(home, &ControlRequest::Operators)?)? else {
        bail!(odd());
    };
    print(output, &json!({ "operators": operators }), || {
        if operators.is_empty() {
            return "no operator runs in the process of this provider; add one with --with-operators\n"
                .to_owned();
        }
        operators
            .iter()
            .map(|(name, status)| works(name, status))
            .collect()
    });
    Ok(ExitCode::SUCCESS)
}

fn works(name: &str, status: &Value) -> String {
    let election = &status["election"];
    let work = match (election["is_leader"] == true, election["holder"].as_str()) {
        (true, _) if status["is_ready"] == true => "active".to_owned(),
        (true, _) => "waiting for the cluster".to_owned(),
        (false, Some(holder)) => format!("standby: {} is the leader", plain::line(holder)),
        (false, None) => "waiting for the election".to_owned(),
    };
    let error = election["error"]
        .as_str()
        .map(|error| format!("; {}", plain::line(error)));
    format!("{name}: {work}{}\n", error.unwrap_or_default())
}

/// Formats a lease as one line, followed by one line per problem.
fn describe(line: &LeaseLine) -> String {
    let health = match line.health {
        Health::Good => "healthy",
        Health::Bad => "unhealthy",
        Health::Unknown => "health unknown",
        Health::Out(outage) => outage.name(),
    };
    let clock = clock(line);
    let against = [
        ("invalid record", &line.record_problem),
        ("end delayed", &line.waiting_for),
        ("end held since", &line.held_since),
        ("unhealthy time", &clock),
        ("cluster error", &line.last_error),
        ("payout failed", &line.payout_error),
    ];
    let against = against
        .iter()
        .filter_map(|(what, text)| Some((what, text.as_ref()?)));
    let mut text = format!("{} {}, {health}\n", line.lease, line.phase.replace('_', " "));
    text.push_str(&earnings(line));
    for (what, why) in against {
        text.push_str(&format!("  {what}: {}\n", plain::line(why)));
    }
    text
}

/// Formats the price and the earnings of a lease as one line. Returns an empty text if only the workload of
/// the lease remains to be deleted.
fn earnings(line: &LeaseLine) -> String {
    let Some(price) = &line.price else {
        return String::new();
    };
    let known = |amount: &Option<DecCoin>| {
        amount
            .as_ref()
            .map_or_else(|| "unknown".to_owned(), ToString::to_string)
    };
    format!(
        "  price: {price} per block, {} in 30 days; accrued {}, withdrawn {}\n",
        known(&line.price_30_days),
        known(&line.accrued),
        known(&line.withdrawn)
    )
}

/// Formats the unhealthy time of a lease; `None` for a lease without health problems.
fn clock(line: &LeaseLine) -> Option<String> {
    let is_quiet = matches!(line.health, Health::Good | Health::Unknown) && line.known_unhealthy_ms == 0;
    if is_quiet {
        return None;
    }
    let seconds = |ms: u64| humantime::format_duration(Duration::from_secs(ms / 1000)).to_string();
    let limit = line
        .unhealthy_limit_ms
        .map_or_else(|| "no limit".to_owned(), seconds);
    let state = if line.health.is_counted() {
        "running"
    } else {
        "stopped"
    };
    Some(format!(
        "{} of {limit}, {state}",
        seconds(line.known_unhealthy_ms)
    ))
}

fn end_lease(home: &Path, args: &EndLeaseArgs) -> anyhow::Result<ExitCode> {
    let (lease, reason) = (args.lease.clone(), args.reason.on_chain());
    let Response::Ending = granted(ask(home, &ControlRequest::EndLease { lease, reason })?)? else {
        bail!(odd());
    };
    let value = json!({ "lease": args.lease.to_string(), "reason": reason, "ending": true });
    print(args.printed.output, &value, || {
        format!(
            "closing lease {}; `leases` lists the lease until its workload is deleted\n",
            args.lease
        )
    });
    Ok(ExitCode::SUCCESS)
}

fn harden(home: &Path, args: &HardenArgs) -> anyhow::Result<ExitCode> {
    let leases: Vec<LeaseId> = if args.all {
        let Response::Leases { leases } = granted(ask(home, &ControlRequest::Leases)?)? else {
            bail!(odd());
        };
        leases.into_iter().map(|line| line.lease).collect()
    } else {
        args.lease.clone()
    };
    let mut code = ExitCode::SUCCESS;
    for lease in leases {
        let request = ControlRequest::Harden { lease: lease.clone() };
        let problem = match ask(home, &request)? {
            Response::Hardened => None,
            // A refusal concerns one lease only, so the other leases are still hardened.
            Response::Refused { message } => Some(message),
            _ => bail!(odd()),
        };
        let value = json!({ "lease": lease.to_string(), "hardened": problem.is_none(), "problem": problem });
        print(args.printed.output, &value, || match &problem {
            None => format!("hardened {lease}\n"),
            Some(problem) => format!("cannot harden lease {lease}: {}\n", plain::line(problem)),
        });
        if problem.is_some() {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn lines(texts: &[String]) -> String {
    texts
        .iter()
        .map(|text| format!("  {}\n", plain::line(text)))
        .collect()
}

/// State of a running provider, for `doctor`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunningProvider {
    /// Whether the circuit breaker tripped, for all leases or for some owners.
    pub(crate) is_tripped: bool,
    /// Reason why the circuit breaker prevents all closes; `None` if some leases can be closed.
    pub(crate) closes_held: Option<String>,
    /// Status of each embedded operator, by name.
    pub(crate) operators: BTreeMap<String, String>,
    /// Status of the order history; `None` if the history is disabled or unknown.
    pub(crate) history: Option<HistoryHealth>,
}

/// Returns the state of the provider with this home directory, or `None` if no provider runs.
///
/// # Errors
/// Returns an error if the provider does not respond within `limit`, or denies this system user.
pub(crate) fn running_provider(home: &Path, limit: Duration) -> anyhow::Result<Option<RunningProvider>> {
    let Some(breaker) = ask_if_running(home, &ControlRequest::Breaker, limit)? else {
        return Ok(None);
    };
    let Response::Breaker {
        tripped,
        held_owners,
        shut_because,
        ..
    } = granted(breaker)?
    else {
        bail!(odd());
    };
    let Response::Operators { operators } = granted(ask_within(home, &ControlRequest::Operators, limit)?)?
    else {
        bail!(odd());
    };
    // An earlier version does not know the request.
    let history = match ask_within(home, &ControlRequest::History, limit)? {
        Response::History { health } => health,
        _ => None,
    };
    let line = |(name, status): (String, Value)| (name.clone(), works(&name, &status).trim_end().to_owned());
    Ok(Some(RunningProvider {
        is_tripped: tripped || !held_owners.is_empty(),
        closes_held: shut_because,
        operators: operators.into_iter().map(line).collect(),
        history,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::cluster::Outage;

    #[test]
    fn lease_is_printed_with_its_unhealthy_time_and_problems() {
        let lease: LeaseId =
            "akash1q450w34rcmzlzv5u38f04f6m0laxrt34zpdjla/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
                .parse()
                .unwrap();
        let coin = |amount: &str| DecCoin::new(&"uact".into(), amount.parse().unwrap());
        let line = |health, known_unhealthy_ms| LeaseLine {
            lease: lease.clone(),
            phase: "running".to_owned(),
            health,
            known_unhealthy_ms,
            unhealthy_limit_ms: Some(60_000),
            record_problem: None,
            waiting_for: None,
            held_since: None,
            last_error: None,
            payout_error: (health == Health::Unknown).then(|| "sdk/5: insufficient funds".to_owned()),
            price: (health == Health::Good).then(|| coin("1.5")),
            price_30_days: (health == Health::Good).then(|| coin("648000")),
            accrued: (health == Health::Good).then(|| coin("30.5")),
            withdrawn: None,
        };
        let text = |health, ms| describe(&line(health, ms)).replace(&lease.to_string(), "L");
        let away = Health::Out(Outage::NodeAway);
        assert_eq!(
            text(away, 12_000),
            "L running, node_away\n  unhealthy time: 12s of 1m, stopped\n"
        );
        assert_eq!(
            text(Health::Bad, 13_500),
            "L running, unhealthy\n  unhealthy time: 13s of 1m, running\n"
        );
        assert_eq!(
            text(Health::Good, 0),
            "L running, healthy\n  price: 1.5uact per block, 648000uact in 30 days; accrued 30.5uact, withdrawn unknown\n"
        );
        assert_eq!(
            text(Health::Unknown, 0),
            "L running, health unknown\n  payout failed: sdk/5: insufficient funds\n"
        );
    }
}
