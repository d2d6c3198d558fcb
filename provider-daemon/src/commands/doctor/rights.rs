//! Rights of the account at the API server.

use super::Context;
use super::check::{Check, within};
use crate::args::ha::HaStore;
use crate::plain::count;
use akash_provider_k8s::labels::MANAGED;
use akash_provider_k8s::rights::{Condition, Rule, is_granted, required, required_in_leases};
use akash_provider_k8s::state::is_lease_namespace;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::{Api, Client};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::timeout;

const SUBJECT: &str = "rights";
const LEASES: &str = "rights in leases";
/// Maximum time to review one right.
const ONE_LIMIT: Duration = Duration::from_secs(3);
/// Maximum time to review all rights.
const LIMIT: Duration = Duration::from_secs(4);
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 16;
const APPLY: &str = "run `kubectl apply --filename deploy/rbac`";
/// Maximum number of leases with reviewed rights.
const LEASES_MAX: usize = 12;
/// Maximum number of namespaces in a list.
const NAMESPACES_MAX: u32 = 500;

/// RBAC right of this account: one verb on one resource, and whether it is granted.
#[derive(Debug)]
struct RightFacts {
    rule: &'static Rule,
    resource: &'static str,
    verb: &'static str,
    /// Namespace of the review; `None` for the whole cluster.
    namespace: Option<String>,
    granted: Result<bool, String>,
}

/// Checks with the API server that this account has each RBAC right that the settings require.
pub(super) async fn checks(context: &Context<'_>, client: &Client) -> Vec<Check> {
    let records = context.args.kubernetes.k8s_manifest_ns.as_str();
    let reviews = applicable(context).into_iter();
    let reviews = reviews.map(|right| review(client, right, records.to_owned()).boxed());
    match all(reviews.collect(), context.remaining(LIMIT)).await {
        Some(facts) => judge(&facts),
        None => vec![unfinished(SUBJECT)],
    }
}

/// Reviews the rights in the namespaces of some leases.
pub(super) async fn lease_checks(context: &Context<'_>, client: &Client) -> Vec<Check> {
    let namespaces = match within(context.remaining(ONE_LIMIT), lease_namespaces(client)).await {
        Ok(namespaces) => namespaces,
        Err(why) => {
            let detail = format!("cannot list the namespaces of leases: {why}");
            return vec![Check::warning(LEASES, detail, APPLY)];
        }
    };
    let rights: Vec<Right> = rights_of(required_in_leases()).collect();
    let of_lease = |namespace: &String| {
        let review = |right: &Right| review(client, *right, namespace.clone()).boxed();
        rights.iter().map(review).collect::<Vec<_>>()
    };
    let reviews = namespaces.iter().take(LEASES_MAX).flat_map(of_lease);
    match all(reviews.collect(), context.remaining(LIMIT)).await {
        Some(facts) => judge_leases(&facts, namespaces.len()),
        None => vec![unfinished(LEASES)],
    }
}

async fn lease_namespaces(client: &Client) -> Result<Vec<String>, kube::Error> {
    let params = ListParams::default()
        .labels(&format!("{MANAGED}=true"))
        .limit(NAMESPACES_MAX);
    let list = Api::<Namespace>::all(client.clone())
        .list_metadata(&params)
        .await?;
    let names = list.items.into_iter().filter_map(|item| item.metadata.name);
    Ok(names.filter(|name| is_lease_namespace(name)).collect())
}

/// Returns the results of all reviews, or `None` after the limit.
async fn all(reviews: Vec<BoxFuture<'_, RightFacts>>, limit: Duration) -> Option<Vec<RightFacts>> {
    let reviews = futures::stream::iter(reviews).buffer_unordered(AT_ONCE);
    timeout(limit, reviews.collect()).await.ok()
}

fn unfinished(subject: &str) -> Check {
    Check::warning(
        subject,
        "not checked completely in time",
        "run `doctor` on a machine near the API server",
    )
}

/// Right as rule, resource and verb.
type Right = (&'static Rule, &'static str, &'static str);

fn rights_of(rules: &'static [Rule]) -> impl Iterator<Item = Right> {
    rules.iter().flat_map(|rule| {
        let verbs = move |resource: &'static str| rule.verbs.iter().map(move |verb| (rule, resource, *verb));
        rule.resources.iter().flat_map(move |resource| verbs(resource))
    })
}

/// Returns the rights that the settings require.
fn applicable(context: &Context<'_>) -> Vec<Right> {
    let applies = |(rule, ..): &Right| match rule.condition {
        Condition::Always => true,
        Condition::LeasedIps => context.args.kubernetes.ip_operator,
        Condition::KubernetesElection => context.args.ha.ha == HaStore::Kubernetes,
    };
    rights_of(required()).filter(applies).collect()
}

/// Reviews a right. `namespace` is the namespace of the records or of the lease.
async fn review(client: &Client, (rule, resource, verb): Right, namespace: String) -> RightFacts {
    let granted = is_granted(client, ONE_LIMIT, rule, resource, verb, &namespace).await;
    RightFacts {
        rule,
        resource,
        verb,
        namespace: rule.scope.namespace(&namespace).map(str::to_owned),
        granted: granted.map_err(|error| error.to_string()),
    }
}

/// Returns one failure per resource with missing verbs.
fn judge(facts: &[RightFacts]) -> Vec<Check> {
    if let Some(why) = facts.iter().find_map(|fact| fact.granted.as_ref().err()) {
        return vec![Check::failure(SUBJECT, format!("cannot review: {why}"), APPLY)];
    }
    let mut missing: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for fact in facts.iter().filter(|fact| fact.granted == Ok(false)) {
        let place = match &fact.namespace {
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

/// Judges the rights in the reviewed namespaces of `leases` leases. Returns one failure per resource with missing verbs.
fn judge_leases(facts: &[RightFacts], leases: usize) -> Vec<Check> {
    if leases == 0 {
        return vec![Check::skipped(LEASES, "no namespace of a lease exists")];
    }
    if let Some(why) = facts.iter().find_map(|fact| fact.granted.as_ref().err()) {
        return vec![Check::failure(LEASES, format!("cannot review: {why}"), APPLY)];
    }
    let mut missing: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for fact in facts.iter().filter(|fact| fact.granted == Ok(false)) {
        let (verbs, namespaces) = missing.entry(fact.resource).or_default();
        verbs.insert(fact.verb);
        namespaces.extend(fact.namespace.as_deref());
    }
    let reviewed = leases.min(LEASES_MAX);
    if missing.is_empty() {
        let detail = format!(
            "all of deploy/rbac/lease.yaml are granted in {reviewed} of {}",
            count(leases, "lease")
        );
        return vec![Check::ok(LEASES, detail)];
    }
    let failure = |(resource, (verbs, namespaces)): (&str, (BTreeSet<&str>, BTreeSet<&str>))| {
        let detail = format!(
            "missing right to {} {resource} in {} of {} reviewed namespaces, such as {}",
            verbs.into_iter().collect::<Vec<_>>().join(", "),
            namespaces.len(),
            reviewed,
            namespaces.first().copied().unwrap_or_default()
        );
        let help = format!("{APPLY}; a running provider creates missing RoleBindings again");
        Check::failure(LEASES, detail, help)
    };
    missing.into_iter().map(failure).collect()
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
            namespace: None,
            granted,
        };
        let granted = judge(&[fact("get", Ok(true)), fact("list", Ok(true))]);
        assert_eq!(granted[0].severity(), Severity::Ok);
        let missing = [
            fact("watch", Ok(false)),
            fact("list", Ok(false)),
            fact("get", Ok(true)),
        ];
        let missing = judge(&missing);
        assert_eq!(missing.len(), 1);
        assert_eq!(missing[0].detail(), "missing right to list, watch namespaces");
        assert_eq!(missing[0].severity(), Severity::Failure);
        let unknown = judge(&[fact("get", Err("down".to_owned()))]);
        assert_eq!(unknown[0].severity(), Severity::Failure);
    }
}
