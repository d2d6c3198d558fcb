//! Stages of the test command with a real Kubernetes. For each tier a cluster is started, checked, used by
//! the tests of the tier, and stopped in any case.

use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use std::thread;

use testbed::{ClusterOptions, Testbed, Tier};

use crate::report::{Notes, StageKind, StageReport};
use crate::suites::{self, Suite};
use crate::workspace::Workspace;

/// Test and bench targets of each tier. Benches run in their short form.
const TESTS: [(Tier, StageKind, &str, &[&str]); 2] = [
    (
        Tier::Api,
        StageKind::Api,
        "api tier",
        &["--test=api_tier", "--bench=cluster"],
    ),
    (Tier::Node, StageKind::Node, "node tier", &["--test=node_tier"]),
];
/// Prefixes of the names of further clusters, as in `second-TIER`. Exclusive tests mostly wait for the cluster, so they
/// run on these clusters in parallel. No name may contain `test-TIER`: the processes of the first cluster are found by
/// the text `test-TIER`. The containers of three clusters of the node tier would slow down their API servers.
const fn further(tier: Tier) -> &'static [&'static str] {
    match tier {
        Tier::Api => &["second", "third"],
        Tier::Node | Tier::Scale => &["second"],
    }
}
/// Environment variable with the state folders of the clusters.
pub(crate) const VARIABLE: &str = "AKASH_TESTBED_DIR";

/// Returns the options of a cluster with this checkout's CustomResourceDefinitions.
pub(crate) fn options(workspace: &Workspace, tier: Tier, name: &str, dir: Option<&Path>) -> ClusterOptions {
    ClusterOptions {
        tier,
        name: name.to_owned(),
        dir: dir.map_or_else(|| default_dir(&workspace.target, name), Path::to_owned),
        crds: workspace.root.join("deploy").join("crds"),
    }
}

pub(crate) fn default_dir(target: &Path, name: &str) -> PathBuf {
    target.join("cluster").join(name)
}

/// Tier with its built test programs.
pub(crate) struct Prepared<'a> {
    workspace: &'a Workspace,
    tier: Tier,
    kind: StageKind,
    name: &'static str,
    suites: Vec<Suite>,
}

/// Builds the clusters' programs and the tests of each tier before the first test. A later build would wait
/// for the builds in the background.
///
/// If the machine cannot run a cluster, reports each tier as skipped and returns an empty list.
pub(crate) fn prepare<'a>(workspace: &'a Workspace, report: &mut StageReport) -> Vec<Prepared<'a>> {
    if let Some(obstacle) = testbed::obstacle() {
        for (_, kind, name, _) in TESTS {
            report.stage(kind, name, || Ok(vec![format!("skipped: {obstacle}")]));
        }
        return Vec::new();
    }
    let tiers = TESTS.map(|(tier, ..)| tier);
    let mut prepared = Vec::new();
    report.stage(StageKind::Build, "testbed binaries", || {
        testbed::build(&tiers)?;
        for (tier, kind, name, targets) in TESTS {
            prepared.push(Prepared {
                workspace,
                tier,
                kind,
                name,
                suites: suites(workspace, targets)?,
            });
        }
        Ok(Notes::new())
    });
    prepared
}

/// Runs the tests of each tier as a stage.
pub(crate) fn run_all(tiers: Vec<Prepared<'_>>, report: &mut StageReport) {
    for prepared in tiers {
        report.stage(prepared.kind, prepared.name, || on_cluster(prepared));
    }
}

/// Builds the tests of a tier. The build uses the features of the whole workspace, so that no crate is
/// compiled twice.
fn suites(workspace: &Workspace, targets: &[&str]) -> Result<Vec<Suite>> {
    let mut cargo = vec!["test", "--locked", "--workspace", "--all-features"];
    cargo.extend(targets);
    suites::build(workspace, &cargo)
}

pub(crate) fn run(workspace: &Workspace, tier: Tier) -> Result<()> {
    let found = TESTS.into_iter().find(|(found, ..)| *found == tier);
    let (_, kind, name, targets) = found.with_context(|| format!("no test is for the tier {tier}"))?;
    let suites = suites(workspace, targets)?;
    let prepared = Prepared {
        workspace,
        tier,
        kind,
        name,
        suites,
    };
    for note in on_cluster(prepared)? {
        println!("{name}: {note}");
    }
    Ok(())
}

/// Node tier campaign: duration of each outage in seconds, and number of kills.
const CAMPAIGN: [(&str, &str); 2] = [("K8S_OUTAGE_S", "60"), ("K8S_KILLS", "100")];

/// Runs the node tier with long outages and many kills.
pub(crate) fn campaign(workspace: &Workspace, seed: u64) -> Result<()> {
    node_campaign(workspace, DAEMON, &[], seed, &CAMPAIGN)
}

/// Runs the test in which the kubelet pauses for ten times the unhealthy limit.
pub(crate) fn paused_kubelet(workspace: &Workspace, seed: u64) -> Result<()> {
    const TEST: &str = "outages::paused_kubelet_ends_no_lease";
    node_campaign(workspace, DAEMON, &[TEST], seed, &[("K8S_OUTAGE_S", "600")])
}

/// Sends requests through a proxy while the CustomResourceDefinitions of the provider are deleted and
/// restored.
pub(crate) fn definitions(workspace: &Workspace, seed: u64) -> Result<()> {
    const TEST: &str = "proxied::definitions::";
    node_campaign(workspace, "akash-provider-k8s", &[TEST, "--ignored"], seed, &[])
}

const DAEMON: &str = "provider-daemon";

/// Runs node tier tests of a package on a temporary cluster.
fn node_campaign(
    workspace: &Workspace,
    package: &str,
    tests: &[&str],
    seed: u64,
    numbers: &[(&str, &str)],
) -> Result<()> {
    let options = options(workspace, Tier::Node, "campaign", None);
    with_cluster(&options, |cluster| {
        let tests = workspace
            .cargo(&["test", "--locked", "-p", package, "--all-features"])
            .args(["--test", "node_tier", "--no-fail-fast", "--"])
            .args(tests)
            .args(["--nocapture", "--test-threads=1"])
            .env(VARIABLE, cluster.dir())
            .env("K8S_SEED", seed.to_string());
        let tests = numbers
            .iter()
            .fold(tests, |tests, (name, value)| tests.env(name, value));
        tests.follow().map(drop)
    })
}

/// Test runs of the campaign: election store, election lease duration in seconds, and number of fail-overs.
const HAND_OVERS: [(&str, &str, &str); 3] = [
    ("kubernetes", "4", "100"),
    ("kubernetes", "12", "20"),
    ("redis", "12", "20"),
];

/// Runs the campaign of fail-overs between two daemons.
pub(crate) fn hand_overs(workspace: &Workspace, seed: u64) -> Result<()> {
    let options = options(workspace, Tier::Api, "campaign-ha", None);
    with_cluster(&options, |cluster| {
        for (store, lease, count) in HAND_OVERS {
            workspace
                .cargo(&["test", "--locked", "-p", "provider-daemon", "--all-features"])
                .args(["--test", "api_tier", "--", "ha_campaign::", "--nocapture"])
                .env(VARIABLE, cluster.dir())
                .env("HA_SEED", seed.to_string())
                .env("HA_STORE", store)
                .env("HA_LEASE_S", lease)
                .env("HA_HAND_OVERS", count)
                .follow()?;
        }
        Ok(())
    })
}

pub(crate) fn with_cluster<T>(
    options: &ClusterOptions,
    work: impl FnOnce(&Testbed) -> Result<T>,
) -> Result<T> {
    let outcome = Testbed::up(options)
        .map_err(Into::into)
        .and_then(|cluster| work(&cluster));
    let down = take_down(options);
    let done = outcome?;
    down?;
    Ok(done)
}

fn on_cluster(prepared: Prepared<'_>) -> Result<Notes> {
    let Prepared {
        workspace,
        tier,
        name,
        suites,
        ..
    } = prepared;
    // Special names, so that a developer's running cluster is not touched.
    let first = options(workspace, tier, &format!("test-{tier}"), None);
    let further = further(tier).iter();
    let further: Vec<_> = further
        .map(|prefix| options(workspace, tier, &format!("{prefix}-{tier}"), None))
        .collect();
    let outcome = thread::scope(|scope| {
        let starts = further.iter().map(|options| scope.spawn(|| Testbed::up(options)));
        for line in testbed::check(&first)? {
            println!("{name}: {line}");
        }
        let mut clusters = vec![Testbed::up(&first)?];
        for start in starts {
            let start = start.join();
            let cluster = start.map_err(|_| anyhow!("the start of a further cluster panicked"))?;
            clusters.push(cluster?);
        }
        tests(name, suites, &clusters)
    });
    let down: Vec<Result<()>> = [&first].into_iter().chain(&further).map(take_down).collect();
    let notes = outcome?;
    down.into_iter().collect::<Result<()>>()?;
    Ok(notes)
}

fn take_down(options: &ClusterOptions) -> Result<()> {
    match Testbed::at(&options.dir)? {
        Some(cluster) => Ok(cluster.down()?),
        None => Ok(()),
    }
}

/// Runs the tests of a tier on these clusters.
fn tests(name: &str, suites: Vec<Suite>, clusters: &[Testbed]) -> Result<Notes> {
    let dirs =
        std::env::join_paths(clusters.iter().map(Testbed::dir)).context("cannot join the state folders")?;
    suites::run_with(name, suites, (VARIABLE, &dirs))
}
