//! Rights of the account at the API server.

use super::DoctorContext;
use super::check::{Check, within};
use akash_provider_cli::plain::count;
use akash_provider_k8s::labels::MANAGED;
use akash_provider_k8s::rights::{Condition, Rule, is_granted, required, required_in_leases};
use akash_provider_k8s::state::is_lease_namespace;
use akash_provider_service::args::ha::HaStore;
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
/// Maximum time to query one RBAC right.
const ONE_LIMIT: Duration = Duration::from_secs(3);
/// Maximum time to query all RBAC rights.
const LIMIT: Duration = Duration::from_secs(4);
/// Maximum number of concurrent requests.
const AT_ONCE: usize = 16;
const APPLY: &str = "run `kubectl apply --filename deploy/rbac`";
/// Maximum number of leases for which the RBAC rights are checked.
const LEASES_MAX: usize = 12;
/// Maximum number of lease namespaces that are listed.
const NAMESPACES_MAX: u32 = 500;

/// RBAC right of the provider (one verb on one resource) and the result of its review.
#[derive(Debug)]
struct RightFacts {
    rule: &'static Rule,
    resource: &'static str,
    verb: &'static str,
    /// Namespace of the right; `None` for the whole cluster.
    namespace: Option<String>,
    granted: Result<bool, String>,
}

/// Checks that the provider has each RBAC right that the settings require.
pub(super) async fn checks(context: &DoctorContext<'_>, client: &Client) -> Vec<Check> {
    let records = context.args.kubernetes.k8s_manifest_ns.as_str();
    let reviews = applicable(context).into_iter();
    let reviews = reviews.map(|right| review(client, right, records.to_owned()).boxed());
    match all(reviews.collect(), context.remaining(LIMIT)).await {
        Some(facts) => judge(RightsScope::Provider, &facts),
        None => vec![unfinished(SUBJECT)],
    }
}

/// Reviews the rights in the namespaces of some leases.
pub(super) async fn lease_checks(context: &DoctorContext<'_>, client: &Client) -> Vec<Check> {
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
        Some(facts) => judge(RightsScope::Leases(namespaces.len()), &facts),
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

/// Returns the results of all reviews, or `None` after the time limit.
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

/// Rule, resource and verb of an RBAC right.
type Right = (&'static Rule, &'static str, &'static str);

fn rights_of(rules: &'static [Rule]) -> impl Iterator<Item = Right> {
    rules.iter().flat_map(|rule| {
        let verbs = move |resource: &'static str| rule.verbs.iter().map(move |verb| (rule, resource, *verb));
        rule.resources.iter().flat_map(move |resource| verbs(resource))
    })
}

fn applicable(context: &DoctorContext<'_>) -> Vec<Right> {
    let applies = |(rule, ..): &Right| match rule.condition {
        Condition::Always => true,
        Condition::LeasedIps => context.args.kubernetes.ip_operator,
        Condition::KubernetesElection => context.args.ha.ha == HaStore::Kubernetes,
        // Checks the right of an unknown condition.
        _ => true,
    };
    rights_of(required()).filter(applies).collect()
}

/// Checks whether a right is granted. `namespace` is the namespace of a lease, or the namespace of the custom
/// resources.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RightsScope {
    /// Rights in the whole cluster, and rights in the namespace of the custom resources.
    Provider,
    /// Rights in the namespaces of leases. The field is the number of all leases, of which `doctor` checks at
    /// most [`LEASES_MAX`].
    Leases(usize),
}

impl RightsScope {
    const fn subject(self) -> &'static str {
        match self {
            Self::Provider => SUBJECT,
            Self::Leases(_) => LEASES,
        }
    }

    fn granted(self, rights: usize) -> String {
        match self {
            Self::Provider => format!("all {rights} of deploy/rbac are granted"),
            Self::Leases(leases) => format!(
                "all rights of deploy/rbac/lease.yaml are granted in {} of {}",
                leases.min(LEASES_MAX),
                count(leases, "lease")
            ),
        }
    }

    /// Formats the namespaces in which a right is missing.
    fn namespaces(self, namespaces: &BTreeSet<&str>) -> String {
        match (self, namespaces.first()) {
            (_, None) => String::new(),
            (Self::Provider, Some(namespace)) => format!(" in namespace {namespace}"),
            (Self::Leases(leases), Some(namespace)) => format!(
                " in {} of {} reviewed namespaces, such as {namespace}",
                namespaces.len(),
                leases.min(LEASES_MAX)
            ),
        }
    }

    fn help(self) -> String {
        match self {
            Self::Provider => APPLY.to_owned(),
            Self::Leases(_) => format!("{APPLY}; a running provider creates missing RoleBindings again"),
        }
    }
}

/// Returns one failure for each resource with missing verbs.
fn judge(place: RightsScope, facts: &[RightFacts]) -> Vec<Check> {
    let subject = place.subject();
    if place == RightsScope::Leases(0) {
        return vec![Check::skipped(subject, "no namespace of a lease exists")];
    }
    if let Some(why) = facts.iter().find_map(|fact| fact.granted.as_ref().err()) {
        return vec![Check::failure(subject, format!("cannot review: {why}"), APPLY)];
    }
    let mut missing: BTreeMap<_, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for fact in facts.iter().filter(|fact| fact.granted == Ok(false)) {
        let namespace = fact.namespace.as_deref();
        let own = namespace.filter(|_| place == RightsScope::Provider);
        let (verbs, namespaces) = missing.entry((fact.resource, own, fact.rule.group)).or_default();
        verbs.insert(fact.verb);
        namespaces.extend(namespace);
    }
    if missing.is_empty() {
        return vec![Check::ok(subject, place.granted(facts.len()))];
    }
    let failures = missing
        .into_iter()
        .map(|((resource, _, group), (verbs, namespaces))| {
            let verbs = verbs.into_iter().collect::<Vec<_>>().join(", ");
            let group = match group {
                "" => String::new(),
                group => format!(" of {group}"),
            };
            let namespaces = place.namespaces(&namespaces);
            let detail = format!("missing right to {verbs} {resource}{group}{namespaces}");
            Check::failure(subject, detail, place.help())
        });
    failures.collect()
}

#[cfg(test)]
mod tests {
    use super::super::check::Severity;
    use super::*;

    fn fact(verb: &'static str, namespace: Option<&str>, granted: Result<bool, String>) -> RightFacts {
        let rule = &required()[0];
        RightFacts {
            rule,
            resource: rule.resources[0],
            verb,
            namespace: namespace.map(str::to_owned),
            granted,
        }
    }

    fn details(checks: &[Check]) -> Vec<&str> {
        checks.iter().map(Check::detail).collect()
    }

    #[test]
    fn missing_rights_are_grouped_by_resource() {
        let provider = |facts: &[RightFacts]| judge(RightsScope::Provider, facts);
        let granted = provider(&[fact("get", None, Ok(true)), fact("list", None, Ok(true))]);
        assert_eq!(granted[0].severity(), Severity::Ok);
        assert_eq!(details(&granted), ["all 2 of deploy/rbac are granted"]);
        let missing = provider(&[
            fact("watch", None, Ok(false)),
            fact("list", None, Ok(false)),
            fact("get", None, Ok(true)),
            fact("get", Some("a"), Ok(false)),
            fact("get", Some("b"), Ok(false)),
        ]);
        assert_eq!(
            details(&missing),
            [
                "missing right to list, watch namespaces",
                "missing right to get namespaces in namespace a",
                "missing right to get namespaces in namespace b",
            ]
        );
        assert_eq!(missing[0].severity(), Severity::Failure);
        let unknown = provider(&[fact("get", None, Err("down".to_owned()))]);
        assert_eq!(unknown[0].severity(), Severity::Failure);
    }

    #[test]
    fn missing_rights_in_leases_are_grouped_over_their_namespaces() {
        let leases = |number, facts: &[RightFacts]| judge(RightsScope::Leases(number), facts);
        assert_eq!(leases(0, &[])[0].severity(), Severity::Skipped);
        let granted = leases(LEASES_MAX + 3, &[fact("get", Some("a"), Ok(true))]);
        assert_eq!(
            details(&granted),
            ["all rights of deploy/rbac/lease.yaml are granted in 12 of 15 leases"]
        );
        let missing = leases(
            3,
            &[
                fact("list", Some("b"), Ok(false)),
                fact("get", Some("a"), Ok(false)),
                fact("get", Some("c"), Ok(true)),
            ],
        );
        assert_eq!(
            details(&missing),
            ["missing right to get, list namespaces in 2 of 3 reviewed namespaces, such as a"]
        );
        assert!(missing[0].help().unwrap().contains("RoleBindings"));
    }
}
