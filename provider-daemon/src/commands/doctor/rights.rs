//! Rights of the account at the API server.

use super::Context;
use super::check::Check;
use crate::args::ha::HaStore;
use akash_provider_k8s::rights::{Condition, Rule, is_granted, required};
use futures::{FutureExt, StreamExt};
use kube::Client;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

const SUBJECT: &str = "rights";
/// Maximum time to review one right.
const ONE_LIMIT: Duration = Duration::from_secs(3);
/// Maximum time to review all rights.
const LIMIT: Duration = Duration::from_secs(4);
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 16;
const APPLY: &str = "run `kubectl apply --filename deploy/rbac`";

/// RBAC right of this account: one verb on one resource, and whether it is granted.
#[derive(Debug)]
struct RightFacts {
    rule: &'static Rule,
    resource: &'static str,
    verb: &'static str,
    granted: Result<bool, String>,
}

/// Checks with the API server that this account has each RBAC right that the settings require.
pub(super) async fn checks(context: &Context<'_>, client: &Client) -> Vec<Check> {
    let records = context.args.kubernetes.k8s_manifest_ns.as_str();
    let reviews = applicable(context).into_iter();
    let reviews: Vec<_> = reviews
        .map(|right| review(client, right, records).boxed())
        .collect();
    let reviews = futures::stream::iter(reviews).buffer_unordered(AT_ONCE);
    match timeout(LIMIT, reviews.collect::<Vec<_>>()).await {
        Ok(facts) => judge(&facts, records),
        Err(_) => vec![Check::warning(
            SUBJECT,
            format!("not checked completely within {LIMIT:?}"),
            "run `doctor` on a machine near the API server",
        )],
    }
}

/// Returns the rights that the settings require.
fn applicable(context: &Context<'_>) -> Vec<(&'static Rule, &'static str, &'static str)> {
    let mut rights = Vec::new();
    for rule in required() {
        let applies = match rule.condition {
            Condition::Always => true,
            Condition::LeasedIps => context.args.kubernetes.ip_operator,
            Condition::KubernetesElection => context.args.ha.ha == HaStore::Kubernetes,
        };
        if !applies {
            continue;
        }
        for resource in rule.resources {
            rights.extend(rule.verbs.iter().map(|verb| (rule, *resource, *verb)));
        }
    }
    rights
}

async fn review(
    client: &Client,
    (rule, resource, verb): (&'static Rule, &'static str, &'static str),
    records: &str,
) -> RightFacts {
    let granted = is_granted(client, ONE_LIMIT, rule, resource, verb, records).await;
    RightFacts {
        rule,
        resource,
        verb,
        granted: granted.map_err(|error| error.to_string()),
    }
}

/// Returns one failure per resource with missing verbs.
fn judge(facts: &[RightFacts], records: &str) -> Vec<Check> {
    if let Some(why) = facts.iter().find_map(|fact| fact.granted.as_ref().err()) {
        return vec![Check::failure(SUBJECT, format!("cannot review: {why}"), APPLY)];
    }
    let mut missing: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for fact in facts.iter().filter(|fact| fact.granted == Ok(false)) {
        let place = match fact.rule.scope.namespace(records) {
            Some(namespace) => format!(" in namespace {namespace}"),
            None => String::new(),
        };
        let key = (format!("{}{place}", fact.resource), fact.rule.group);
        missing.entry(key).or_default().push(fact.verb);
    }
    let failure = |((resource, group), mut verbs): ((String, &str), Vec<&str>)| {
        verbs.sort_unstable();
        let group = match group {
            "" => String::new(),
            group => format!(" of {group}"),
        };
        Check::failure(
            SUBJECT,
            format!("missing right to {} {resource}{group}", verbs.join(", ")),
            APPLY,
        )
    };
    let failures: Vec<Check> = missing.into_iter().map(failure).collect();
    match failures.is_empty() {
        true => vec![Check::ok(
            SUBJECT,
            format!("all {} of deploy/rbac are granted", facts.len()),
        )],
        false => failures,
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    #[test]
    fn missing_rights_are_grouped_by_resource() {
        let rule = &required()[0];
        let fact = |verb, granted| RightFacts {
            rule,
            resource: rule.resources[0],
            verb,
            granted,
        };
        let granted = judge(&[fact("get", Ok(true)), fact("list", Ok(true))], "lease");
        assert_eq!(granted[0].severity(), Severity::Ok);
        let missing = [
            fact("watch", Ok(false)),
            fact("list", Ok(false)),
            fact("get", Ok(true)),
        ];
        let missing = judge(&missing, "lease");
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].detail(), "missing right to list, watch namespaces");
        assert_eq!(missing[0].severity(), Severity::Failure);
        let unknown = judge(&[fact("get", Err("down".to_owned()))], "lease");
        assert_eq!(unknown[0].severity(), Severity::Failure);
    }
}
