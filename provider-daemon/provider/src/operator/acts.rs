//! Acts of operator commands, for the audit log.

use super::{ControlRequest, Response};
use akash_provider_core::audit::{Act, ActKind, ActOutcome, Actor};

/// Subject of a command that concerns all leases.
const ALL: &str = "all leases";

impl ControlRequest {
    /// Returns the act for the audit log, or `None` if the request changes nothing.
    pub(super) fn act(&self, actor: Actor) -> Option<Act> {
        let command = |name, destroys| ActKind::Command { name, destroys };
        let (kind, subject) = match self {
            Self::ReleaseBreaker { owner } => {
                let subject = owner.as_ref().map_or_else(|| ALL.to_owned(), ToString::to_string);
                (command("breaker_release", false), subject)
            }
            // The embedded operators delete objects after the confirmation.
            Self::Scan { confirm: true, .. } => (command("reconcile_confirm", true), ALL.to_owned()),
            Self::Scan { dry_run: false, .. } => (command("reconcile", false), ALL.to_owned()),
            // Replaces the pods of the lease.
            Self::Harden { lease } => (command("harden", true), lease.to_string()),
            // The close of the lease is a separate act.
            Self::EndLease { lease, .. } => (command("end_lease", false), lease.to_string()),
            Self::LogLevel { level: Some(level) } => (command("log_level", false), level.clone()),
            Self::Scan { dry_run: true, .. }
            | Self::LogLevel { level: None }
            | Self::Breaker
            | Self::Leases
            | Self::Capacity
            | Self::Operators
            | Self::Orders { .. }
            | Self::Order { .. }
            | Self::Summary { .. }
            | Self::History => return None,
        };
        let mut act = Act::new(kind, actor, subject);
        if let Self::EndLease { reason, .. } = self {
            act.reason = Some(reason.name().to_owned());
        }
        act.evidence.request = serde_json::to_string(self).ok();
        Some(act)
    }
}

impl Response {
    pub(super) fn outcome(&self) -> ActOutcome {
        match self {
            Self::Refused { message } => ActOutcome::new("refused", Some(message.clone())),
            _ => ActOutcome::new("done", None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_core::types::{CloseReason, LeaseId};

    #[test]
    fn each_request_that_changes_something_is_an_act() {
        let lease: LeaseId =
            "akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm/1/1/1/akash1y37jralaj00d32s280wjne4kx9rdc5u9u2ewxm"
                .parse()
                .unwrap();
        let scan = |dry_run, confirm| ControlRequest::Scan { dry_run, confirm };
        let end = ControlRequest::EndLease {
            lease: lease.clone(),
            reason: CloseReason::Decommission,
        };
        let level = |level: Option<&str>| ControlRequest::LogLevel {
            level: level.map(str::to_owned),
        };
        let of = |request: &ControlRequest| {
            let act = request.act(Actor::Provider)?;
            Some((act.kind.name(), act.kind.destroys(), act.subject))
        };
        let id = lease.to_string();
        let acts = [
            (
                ControlRequest::ReleaseBreaker { owner: None },
                "breaker_release",
                false,
                ALL,
            ),
            (scan(false, false), "reconcile", false, ALL),
            (scan(false, true), "reconcile_confirm", true, ALL),
            (
                ControlRequest::Harden { lease: lease.clone() },
                "harden",
                true,
                &*id,
            ),
            (end.clone(), "end_lease", false, &*id),
            (level(Some("debug")), "log_level", false, "debug"),
        ];
        for (request, name, destroys, subject) in acts {
            assert_eq!(of(&request), Some((name, destroys, subject.to_owned())));
        }
        for request in [
            ControlRequest::Breaker,
            ControlRequest::Leases,
            ControlRequest::Operators,
            scan(true, false),
            level(None),
            ControlRequest::Summary { since: 0 },
        ] {
            assert_eq!(of(&request), None, "{request:?}");
        }
        let act = end.act(Actor::Provider).unwrap();
        assert_eq!(act.reason.as_deref(), Some("decommission"));
        let request = act.evidence.request.unwrap();
        assert!(request.contains(r#""ask":"end_lease""#), "{request}");
    }
}
