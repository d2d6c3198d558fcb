//! Rights that the provider requires. A test compares this list with `deploy/rbac`.

/// Scope of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RuleScope {
    /// Whole cluster.
    Cluster,
    /// Namespace of the records, as `--k8s-manifest-ns` names it.
    Records,
    /// Namespace of a lease.
    Lease,
    /// Namespace with this name.
    Namespace(&'static str),
}

impl RuleScope {
    /// Returns the namespace of the scope, or `None` for the whole cluster. For `Records` and `Lease`, the
    /// namespace is `variable`.
    #[must_use]
    pub const fn namespace<'a>(&self, variable: &'a str) -> Option<&'a str> {
        match self {
            Self::Cluster => None,
            Self::Records | Self::Lease => Some(variable),
            Self::Namespace(name) => Some(name),
        }
    }
}

/// Condition under which a provider uses a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Condition {
    /// Every provider.
    Always,
    /// The provider leases IP addresses.
    LeasedIps,
    /// Several instances elect a leader with a Lease object.
    KubernetesElection,
}

/// RBAC rule: verbs on resources of one API group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Rule {
    /// Scope of the rule.
    pub scope: RuleScope,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Resources, with their subresource after `/`.
    pub resources: &'static [&'static str],
    /// Name of the only object to which the rule applies; `None` for all objects.
    pub name: Option<&'static str>,
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// Condition under which the provider uses the rule.
    pub condition: Condition,
}

const WRITE_ALL: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
const WRITE_WATCHED: &[&str] = &["list", "watch", "create", "patch", "delete"];
const READ: &[&str] = &["get", "list", "watch"];
const WATCH: &[&str] = &["list", "watch"];
/// Name of the ClusterRole with the rights in the namespaces of leases.
const LEASE_ROLE: &str = "akash-provider-rs-lease";
/// Name of the Lease object of the leader election.
const ELECTION: &str = "akash-provider";

const fn rule(
    scope: RuleScope,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
) -> Rule {
    Rule {
        scope,
        group,
        resources,
        name: None,
        verbs,
        condition: Condition::Always,
    }
}

impl Rule {
    const fn with_name(self, name: &'static str) -> Self {
        Self {
            name: Some(name),
            ..self
        }
    }

    const fn with_condition(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }
}

const RULES: [Rule; 22] = {
    use RuleScope::{Cluster, Namespace, Records};
    [
        rule(Cluster, "", &["namespaces"], WRITE_ALL),
        rule(Cluster, "", &["services"], WRITE_ALL),
        rule(Cluster, "apps", &["deployments", "statefulsets"], WRITE_ALL),
        rule(Cluster, "networking.k8s.io", &["networkpolicies"], WRITE_ALL),
        rule(Cluster, "", &["resourcequotas", "serviceaccounts"], WRITE_WATCHED),
        rule(Cluster, "rbac.authorization.k8s.io", &["roles"], WRITE_WATCHED),
        rule(Cluster, "", &["pods"], &["get", "list", "watch", "delete"]),
        rule(Cluster, "", &["events"], READ),
        rule(Cluster, "events.k8s.io", &["events"], WATCH),
        rule(Cluster, "", &["nodes", "persistentvolumes"], READ),
        rule(
            Cluster,
            "storage.k8s.io",
            &["storageclasses", "csistoragecapacities"],
            READ,
        ),
        rule(Cluster, "metallb.io", &["ipaddresspools"], READ).with_condition(Condition::LeasedIps),
        rule(Cluster, "ceph.rook.io", &["cephclusters", "cephblockpools"], READ),
        rule(
            Cluster,
            "apiextensions.k8s.io",
            &["customresourcedefinitions"],
            WATCH,
        ),
        rule(Cluster, "rbac.authorization.k8s.io", &["clusterroles"], &["bind"]).with_name(LEASE_ROLE),
        rule(
            Cluster,
            "rbac.authorization.k8s.io",
            &["rolebindings"],
            WRITE_WATCHED,
        ),
        rule(
            Namespace("default"),
            "discovery.k8s.io",
            &["endpointslices"],
            WATCH,
        ),
        rule(
            Records,
            "akash.network",
            &["manifests", "providerhosts", "providerleasedips"],
            &[
                "get",
                "list",
                "watch",
                "create",
                "update",
                "delete",
                "deletecollection",
            ],
        ),
        rule(
            Records,
            "",
            &["secrets"],
            &["get", "list", "create", "patch", "delete"],
        ),
        rule(Records, "coordination.k8s.io", &["leases"], &["create"])
            .with_condition(Condition::KubernetesElection),
        rule(Records, "coordination.k8s.io", &["leases"], &["get", "patch"])
            .with_name(ELECTION)
            .with_condition(Condition::KubernetesElection),
        rule(
            Namespace("kube-node-lease"),
            "coordination.k8s.io",
            &["leases"],
            &["get"],
        ),
    ]
};

const LEASE_RULES: [Rule; 3] = [
    rule(
        RuleScope::Lease,
        "",
        &["secrets"],
        &["list", "create", "patch", "delete"],
    ),
    rule(RuleScope::Lease, "", &["pods/log"], &["get"]),
    rule(RuleScope::Lease, "", &["pods/exec"], &["get", "create"]),
];

/// Returns the rights that the provider requires outside of lease namespaces.
#[must_use]
pub const fn required() -> &'static [Rule] {
    &RULES
}

/// Returns the rights of the provider in each lease namespace, as in `deploy/rbac/lease.yaml`. The provider
/// creates its role binding in each of these namespaces.
#[must_use]
pub const fn required_in_leases() -> &'static [Rule] {
    &LEASE_RULES
}
