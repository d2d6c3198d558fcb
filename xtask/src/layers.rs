//! `cargo xtask layers`: checks the allowed dependencies between crates.
//!
//! ```text
//!     examples/*                     provider-daemon
//!         │                        ╱        │        ╲
//!         │   akash-provider-dev   akash-provider-operate ─► akash-provider-tenant
//!         │                        ╲        │                      │
//!         │                     akash-provider-service             │
//!         │           ╱                     │        ╲             │
//!         │   akash-provider-               │  akash-provider-   akash-provider-
//!         │   {k8s, process, redis}         │       cli          {gateway, devnet}
//!         │           ╲                     │        │             ╱
//!         │            ╲                 akash-provider-chain ◄───╯
//!         │             ╲                   │
//!         └───────────────────────► akash-provider-core
//!
//!     akash-provider-service ─► akash-provider-k8s ────┐
//!            │                                         ▼
//!            └─────► akash-provider-operators ─► akash-provider-kube-model
//!                                                      ▼
//!                                              akash-provider-kube-kernel ─► akash-provider-core
//! ```
//! The commands for development, for operators and for tenants are crates of their own. Only the program depends on the
//! commands for development.
//!
//! The gateway serves any provider, and the development network serves any client. They therefore do not depend on a
//! cluster backend or on a part of the daemon. The examples share the tenant and the market of
//! `example-embedded`. `testbed` and `fault-proxy`, which injects faults in front of a node, depend on none
//! of these crates. `xtask` and tests use `testbed`. `operator-bench` measures the operators of the daemon
//! from outside.

use anyhow::{Result, ensure};
use std::collections::BTreeSet;

use crate::error::from_findings;
use crate::workspace::{Package, Workspace};

const CORE: &str = "akash-provider-core";
const CHAIN: &str = "akash-provider-chain";
const BACKENDS: [&str; 4] = [
    KUBERNETES,
    "akash-provider-process",
    "akash-provider-redis",
    CHAIN,
];
/// Watches and writes of Kubernetes objects, which the Kubernetes backend and the operators use.
const KERNEL: &str = "akash-provider-kube-kernel";
/// Facts about leases on Kubernetes, which the Kubernetes backend and the operators use.
const MODEL: &str = "akash-provider-kube-model";
const KUBERNETES: &str = "akash-provider-k8s";
/// Operators of hostnames, leased addresses and nodes. They do not depend on the Kubernetes backend.
const OPERATORS: &str = "akash-provider-operators";
const DAEMON: &str = "provider-daemon";
/// Server crates for embedders. In the workspace, these crates depend only on the core and the chain client.
const SERVERS: [&str; 2] = ["akash-provider-gateway", "akash-provider-devnet"];
/// Package with the code that the commands of the daemon share. This package depends on no cluster backend.
const CLI: &str = "akash-provider-cli";
/// The provider's own parts: the provider on a real chain, its state, supervision, metrics and operators.
const SERVICE: &str = "akash-provider-service";
/// Commands for the operator of a provider. They query the gateway of a provider with a part of the tenant
/// commands.
const OPERATE: &str = "akash-provider-operate";
/// Commands for development. Only the program depends on them.
const DEV: &str = "akash-provider-dev";
/// Commands of tenants. They depend on no cluster backend. The only dependency on the provider is the format
/// of gateway messages.
const TENANT: &str = "akash-provider-tenant";
/// Example of a server, with the permitted dependencies of an embedder.
const EMBEDDER: &str = "example-own-gateway";
/// First example; other examples reuse its tenant and market.
const CANONICAL: &str = "example-embedded";

/// Package of the development commands. Only this package may depend on `TESTBED` outside of tests.
const TOOL: &str = "xtask";
const TESTBED: &str = "testbed";
/// Package of the operator benchmark, which may depend on the core and the backends to decode objects.
const OPERATOR_BENCH: &str = "operator-bench";

/// Reported reason if the core depends on the chain's wire format.
const CHAIN_WIRE: &str = "the wire format of the chain belongs to akash-provider-chain";

/// Crates that the core must not use, regardless of the features. A name is also a prefix: `kube` bans
/// `kube-client`.
const BANNED: [(&str, &str); 22] = [
    ("kube", "Kubernetes belongs to akash-provider-k8s"),
    ("k8s-openapi", "Kubernetes belongs to akash-provider-k8s"),
    ("gateway-api", "Kubernetes belongs to akash-provider-k8s"),
    ("cosmrs", CHAIN_WIRE),
    ("cosmos-sdk-proto", CHAIN_WIRE),
    ("tendermint", CHAIN_WIRE),
    ("prost", "wire types are converted at the border"),
    ("tonic", "wire types are converted at the border"),
    ("k256", "keys belong to akash-provider-chain"),
    ("axum", "serving belongs to the daemon"),
    ("hyper", "the core does not access the network"),
    ("reqwest", "the core does not access the network"),
    ("tower", "the core does not access the network"),
    ("rustls", "TLS belongs to the daemon and the backends"),
    ("ring", "TLS belongs to the daemon and the backends"),
    ("openssl", "no system C library is linked"),
    ("native-tls", "no system C library is linked"),
    ("clap", "flags belong to the daemon"),
    ("tracing-subscriber", "the embedder selects the log output"),
    ("rusqlite", "durable state belongs to the daemon"),
    ("redb", "durable state belongs to the daemon"),
    ("redis", "the bus on Redis belongs to akash-provider-redis"),
];

/// Crates that the core must not use if its default features are disabled. Such a core has no tasks, timers,
/// input or output.
const BANNED_WHEN_PURE: [(&str, &str); 10] = [
    ("tokio", "the pure core has no tasks or timers"),
    ("futures", "the pure core awaits nothing"),
    ("async-trait", "the pure core awaits nothing"),
    ("mio", "the pure core has no input and output"),
    ("socket2", "the pure core has no input and output"),
    ("process-wrap", "the pure core starts no process"),
    ("mockall", "mocks are for tests"),
    ("schemars", "the schema of events is the feature `schema`"),
    ("tracing", "the pure core returns events instead of logs"),
    ("getrandom", "randomness comes from a seed parameter"),
];

/// Crates that a server must not depend on, because embedders choose cluster, flags and storage.
const BANNED_IN_SERVERS: [(&str, &str); 17] = [
    (KUBERNETES, "a server works with any cluster"),
    (KERNEL, "a server works with any cluster"),
    (MODEL, "a server works with any cluster"),
    (OPERATORS, "a server works with any cluster"),
    ("akash-provider-process", "a server works with any cluster"),
    (DAEMON, "the daemon depends on the servers"),
    ("kube", "Kubernetes belongs to akash-provider-k8s"),
    ("k8s-openapi", "Kubernetes belongs to akash-provider-k8s"),
    ("gateway-api", "Kubernetes belongs to akash-provider-k8s"),
    ("schemars", "custom resources belong to akash-provider-kube-model"),
    ("clap", "flags belong to the daemon"),
    ("redb", "durable state belongs to the daemon"),
    ("rusqlite", "durable state belongs to the daemon"),
    ("redis", "the embedder selects the bus"),
    ("tracing-subscriber", "the embedder selects the log output"),
    ("openssl-sys", "no system C library is linked"),
    ("native-tls", "no system C library is linked"),
];

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut findings = misplaced(workspace);
    let all = tree(workspace, CORE, "--all-features")?;
    findings.extend(banned(&all, &BANNED).map(|found| format!("{CORE}: {found}")));
    let pure = tree(workspace, CORE, "--no-default-features")?;
    findings.extend(
        banned(&pure, &BANNED)
            .chain(banned(&pure, &BANNED_WHEN_PURE))
            .map(|found| format!("{CORE} without default features: {found}")),
    );
    for name in SERVERS.into_iter().chain([EMBEDDER]) {
        let all = tree(workspace, name, "--all-features")?;
        findings.extend(banned(&all, &BANNED_IN_SERVERS).map(|found| format!("{name}: {found}")));
    }
    from_findings("layers", &findings)
}

/// Returns the packages in the dependency tree of `package`, including `package`.
fn tree(workspace: &Workspace, package: &str, features: &str) -> Result<BTreeSet<String>> {
    let lines = workspace
        .cargo(&[
            "tree", "--locked", "-p", package, "-e", "normal", "--target", "all", "--prefix", "none",
            features,
        ])
        .lines()?;
    let names: BTreeSet<String> = lines.iter().filter_map(|line| package_name(line)).collect();
    ensure!(names.contains(package), "`cargo tree` does not list {package}");
    Ok(names)
}

/// Parses `serde v1.0.2 (proc-macro) (*)`.
fn package_name(line: &str) -> Option<String> {
    let (name, rest) = line.trim().split_once(' ')?;
    rest.starts_with('v').then(|| name.to_owned())
}

fn banned<'a>(
    names: &'a BTreeSet<String>,
    bans: &'a [(&'a str, &'a str)],
) -> impl Iterator<Item = String> + 'a {
    names.iter().flat_map(move |name| {
        bans.iter()
            .filter(move |(family, _)| is_of_family(name, family))
            .map(move |(_, reason)| format!("`{name}` is in its tree: {reason}"))
    })
}

fn is_of_family(name: &str, family: &str) -> bool {
    name.strip_prefix(family)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

/// Returns forbidden dependencies between crates, and examples that depend on several backends.
fn misplaced(workspace: &Workspace) -> Vec<String> {
    let ours: BTreeSet<&str> = workspace.members().map(|member| member.name.as_str()).collect();
    let mut findings = Vec::new();
    for member in workspace.members() {
        let wanted: BTreeSet<&str> = member.dependencies().filter(|name| ours.contains(name)).collect();
        for name in &wanted {
            if !may_depend(workspace, member, name) {
                findings.push(format!(
                    "`{}` depends on `{name}`; the layers forbid it",
                    member.name
                ));
            }
        }
        if is_example(workspace, member) && wanted.iter().filter(|name| BACKENDS.contains(name)).count() > 1 {
            findings.push(format!(
                "`{}` replaces more than one backend: each example replaces one",
                member.name
            ));
        }
    }
    findings
}

fn may_depend(workspace: &Workspace, member: &Package, on: &str) -> bool {
    match member.name.as_str() {
        DAEMON => [CLI, TENANT, SERVICE, OPERATE, DEV].contains(&on),
        OPERATE => {
            [CORE, CLI, TENANT, SERVICE, MODEL, OPERATORS].contains(&on)
                || BACKENDS.contains(&on)
                || SERVERS.contains(&on)
        }
        DEV => [CORE, CLI, SERVICE].contains(&on) || BACKENDS.contains(&on) || SERVERS.contains(&on),
        SERVICE => {
            [CORE, CLI, MODEL, OPERATORS].contains(&on) || BACKENDS.contains(&on) || SERVERS.contains(&on)
        }
        TENANT => [CORE, CHAIN, CLI, "akash-provider-gateway"].contains(&on),
        CLI => on == CORE || on == CHAIN,
        name if SERVERS.contains(&name) => on == CORE || on == CHAIN,
        KUBERNETES | OPERATORS => [CORE, KERNEL, MODEL].contains(&on),
        MODEL => on == CORE || on == KERNEL,
        KERNEL => on == CORE,
        name if BACKENDS.contains(&name) => on == CORE,
        CANONICAL => on == CORE,
        _ if is_example(workspace, member) => {
            on == CORE || on == CANONICAL || BACKENDS.contains(&on) || SERVERS.contains(&on)
        }
        TOOL => on == TESTBED,
        OPERATOR_BENCH => on == CORE || on == MODEL || BACKENDS.contains(&on),
        // Core and testbed have no dependencies in the workspace. A new crate needs a line here and in the
        // diagram.
        _ => false,
    }
}

fn is_example(workspace: &Workspace, member: &Package) -> bool {
    workspace
        .members_under("examples")
        .any(|example| example.name == member.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tests::workspace_of;

    #[test]
    fn names_are_read_from_a_tree() {
        let lines = [
            "akash-provider-core v0.1.0 (/w/core)",
            "serde_derive v1.0.2 (proc-macro) (*)",
            "",
            "[build]",
        ];
        let names: Vec<_> = lines.iter().filter_map(|line| package_name(line)).collect();
        assert_eq!(names, ["akash-provider-core", "serde_derive"]);
    }

    #[test]
    fn ban_covers_family_but_not_similar_names() {
        let names = ["kube-client", "kubert", "clap_derive", "tokio"]
            .map(str::to_owned)
            .into();
        let found: Vec<String> = banned(&names, &BANNED).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("`clap_derive`") && found[1].starts_with("`kube-client`"));
        assert_eq!(banned(&names, &BANNED_WHEN_PURE).count(), 1);
    }

    #[test]
    fn server_does_not_depend_on_cluster_or_daemon() {
        let names = [
            "akash-provider-k8s",
            "kube-core",
            "redb",
            "axum",
            "provider-daemon",
        ]
        .map(str::to_owned)
        .into();
        assert_eq!(banned(&names, &BANNED_IN_SERVERS).count(), 4);
    }

    #[test]
    fn dependencies_in_the_diagram_are_allowed() {
        let workspace = workspace_of(
            &[
                ("core", "akash-provider-core", &["serde"]),
                (
                    "k8s",
                    "akash-provider-k8s",
                    &["akash-provider-core", "akash-provider-kube-model"],
                ),
                (
                    "k8s/model",
                    "akash-provider-kube-model",
                    &["akash-provider-core", "akash-provider-kube-kernel"],
                ),
                (
                    "operators",
                    "akash-provider-operators",
                    &["akash-provider-kube-kernel", "akash-provider-kube-model"],
                ),
                (
                    "k8s/kernel",
                    "akash-provider-kube-kernel",
                    &["akash-provider-core"],
                ),
                (
                    "gateway",
                    "akash-provider-gateway",
                    &["akash-provider-core", "akash-provider-chain"],
                ),
                ("chain", "akash-provider-chain", &["akash-provider-core"]),
                ("examples/embedded", "example-embedded", &["akash-provider-core"]),
                (
                    "examples/a",
                    "example-a",
                    &["akash-provider-core", "example-embedded"],
                ),
            ],
            &[],
        );
        assert_eq!(misplaced(&workspace), Vec::<String>::new());
    }

    #[test]
    fn commands_depend_on_the_provider() {
        let workspace = workspace_of(
            &[
                ("core", "akash-provider-core", &[]),
                ("chain", "akash-provider-chain", &[]),
                ("k8s", "akash-provider-k8s", &[]),
                ("operators", "akash-provider-operators", &[]),
                ("gateway", "akash-provider-gateway", &[]),
                ("devnet", "akash-provider-devnet", &[]),
                (
                    "daemon",
                    "provider-daemon",
                    &[
                        "akash-provider-dev",
                        "akash-provider-operate",
                        "akash-provider-tenant",
                    ],
                ),
                (
                    "dev",
                    "akash-provider-dev",
                    &["akash-provider-service", "akash-provider-devnet"],
                ),
                (
                    "operate",
                    "akash-provider-operate",
                    &["akash-provider-service", "akash-provider-tenant"],
                ),
                (
                    "provider",
                    "akash-provider-service",
                    &[
                        "akash-provider-core",
                        "akash-provider-k8s",
                        "akash-provider-gateway",
                        "akash-provider-operators",
                    ],
                ),
                ("cli", "akash-provider-cli", &["akash-provider-chain"]),
                (
                    "tenant",
                    "akash-provider-tenant",
                    &["akash-provider-cli", "akash-provider-gateway"],
                ),
            ],
            &[],
        );
        assert_eq!(misplaced(&workspace), Vec::<String>::new());
    }

    #[test]
    fn other_dependencies_are_refused() {
        let workspace = workspace_of(
            &[
                ("core", "akash-provider-core", &["akash-provider-k8s"]),
                ("k8s", "akash-provider-k8s", &["akash-provider-chain"]),
                ("chain", "akash-provider-chain", &["akash-provider-gateway"]),
                (
                    "k8s/kernel",
                    "akash-provider-kube-kernel",
                    &["akash-provider-kube-model"],
                ),
                (
                    "k8s/model",
                    "akash-provider-kube-model",
                    &["akash-provider-operators"],
                ),
                ("operators", "akash-provider-operators", &["akash-provider-k8s"]),
                ("gateway", "akash-provider-gateway", &["akash-provider-k8s"]),
                ("daemon", "provider-daemon", &["akash-provider-k8s"]),
                (
                    "provider",
                    "akash-provider-service",
                    &["provider-daemon", "akash-provider-operate"],
                ),
                ("dev", "akash-provider-dev", &["akash-provider-operate"]),
                ("operate", "akash-provider-operate", &["akash-provider-dev"]),
                (
                    "examples/a",
                    "example-a",
                    &["akash-provider-k8s", "akash-provider-chain"],
                ),
                ("examples/embedded", "example-embedded", &["example-a"]),
                ("cli", "akash-provider-cli", &["akash-provider-k8s"]),
                ("tenant", "akash-provider-tenant", &["provider-daemon"]),
            ],
            &[],
        );
        assert_eq!(misplaced(&workspace).len(), 16, "{:?}", misplaced(&workspace));
    }
}
