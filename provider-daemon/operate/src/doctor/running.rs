//! Provider that runs with the home directory, and its order history.

use super::check::Check;
use crate::operator::RunningProvider;
use akash_provider_cli::plain::count;
use akash_provider_service::history::{HistoryHealth, INTERRUPTION_HELP};

pub(super) fn checks(running: &Result<Option<RunningProvider>, String>) -> Vec<Check> {
    let mut checks = vec![judge_running(running)];
    if let Ok(Some(running)) = running {
        checks.extend(running.history.as_ref().map(judge_history));
    }
    checks
}

fn judge_history(history: &HistoryHealth) -> Check {
    const SUBJECT: &str = "order history";
    let missing = count(usize::try_from(history.dropped).unwrap_or(usize::MAX), "fact");
    match &history.problem {
        Some(why) => Check::warning(
            SUBJECT,
            format!("not recorded, {missing} missing: {why}"),
            INTERRUPTION_HELP,
        ),
        None if history.dropped > 0 => {
            Check::ok(SUBJECT, format!("recorded, {missing} missing since the start"))
        }
        None => Check::ok(SUBJECT, "recorded"),
    }
}

fn judge_running(running: &Result<Option<RunningProvider>, String>) -> Check {
    const SUBJECT: &str = "provider";
    match running {
        Ok(None) => Check::skipped(SUBJECT, "no provider runs with this home directory"),
        Ok(Some(running)) if running.is_tripped => Check::failure(
            SUBJECT,
            "running, but the circuit breaker tripped, so unhealthy leases are not closed",
            "check the leases with `leases`, then run `breaker release`",
        ),
        Ok(Some(running)) => {
            let reason = running.closes_held.as_deref();
            Check::ok(
                SUBJECT,
                format!("running; {}", reason.unwrap_or("circuit breaker not tripped")),
            )
        }
        Err(why) => Check::failure(
            SUBJECT,
            format!("running, but does not respond: {why}"),
            "run `doctor` as the system user that runs the provider, with the version of the running \
             provider",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn tripped_breaker_is_a_failure() {
        let running = |is_tripped| {
            Ok(Some(RunningProvider {
                is_tripped,
                closes_held: Some("no lease is closed after a start".to_owned()),
                operators: BTreeMap::new(),
                history: None,
            }))
        };
        for (state, wanted) in [
            (Ok(None), Severity::Skipped),
            (running(false), Severity::Ok),
            (running(true), Severity::Failure),
            (Err("permission denied".to_owned()), Severity::Failure),
        ] {
            assert_eq!(judge_running(&state).severity(), wanted);
        }
    }
}
