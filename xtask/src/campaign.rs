//! `cargo xtask campaign NAME`: runs a test for longer than the test command does.

use anyhow::Result;
use std::time::Duration;

use clap::{Args as Arguments, ValueEnum};

#[cfg(test)]
use crate::forms::SmallForm;
use crate::fuzz;
use crate::mutants;
use crate::process::Process;
use crate::sim;
use crate::tiers;
use crate::workspace::Workspace;

/// Campaign to run
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    name: Name,
    /// First seed; the default is higher than all seeds of the test command
    #[arg(long, default_value_t = 1_000_000)]
    seed: u64,
    /// Duration of the soak campaign, in minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    #[command(flatten)]
    mutants: mutants::Args,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Name {
    /// A million simulated histories
    Sim,
    /// A thousand simulated histories, recorded and replayed
    Replay,
    /// Chain client with a faulty node: a hundred seeds of faults, two hundred kills, a minute without
    /// connection
    Chain,
    /// Daemon with a chain node that returns false data for a minute: alone or with an honest node, with or
    /// without a restart
    Lies,
    /// Two daemons that receive orders: a hundred fail-overs with an election lease of 4 s, then forty with
    /// the default
    Ha,
    /// Twenty bursts of fifty orders in one block, with a change of the price policy in the middle of each
    /// burst
    Bursts,
    /// Coverage-guided fuzzing of the gateway: ten minutes per target
    Fuzz,
    /// Outages of each Kubernetes component for one minute, and a hundred kills of the provider
    K8s,
    /// A kubelet that is paused for ten minutes: no lease is closed
    Kubelet,
    /// Requests to hostnames while the CustomResourceDefinitions of the provider's records are deleted and
    /// restored
    Definitions,
    /// A provider with metrics and recording, and five orders per second for an hour: after ten minutes, memory,
    /// descriptors, threads and tasks must not grow
    Soak,
    /// Mutation tests: two hundred changes of decisions, an hour on two cores
    Mutants,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    match args.name {
        Name::Sim => sim::run(
            workspace,
            &sim::Args {
                seeds: 1_000_000,
                seed: args.seed,
            },
        ),
        Name::Replay => sim::tapes(workspace, args.seed),
        Name::Chain => chain(workspace, args.seed),
        Name::Lies => lies(workspace),
        Name::Bursts => bursts(workspace),
        Name::Ha => tiers::hand_overs(workspace, args.seed),
        Name::Fuzz => fuzz::run(workspace, args.seed),
        Name::K8s => tiers::campaign(workspace, args.seed),
        Name::Kubelet => tiers::paused_kubelet(workspace, args.seed),
        Name::Definitions => tiers::definitions(workspace, args.seed),
        Name::Soak => soak(workspace, args.minutes),
        Name::Mutants => mutants::run(workspace, args.seed, &args.mutants),
    }
}

/// Returns the command line of each campaign, such as `campaign sim`, and the short form of the campaign.
#[cfg(test)]
pub(crate) fn small_forms() -> impl Iterator<Item = (String, SmallForm)> {
    let named = |name: &Name| {
        let value = name.to_possible_value()?;
        Some((format!("campaign {}", value.get_name()), name.small_form()))
    };
    Name::value_variants().iter().filter_map(named)
}

#[cfg(test)]
impl Name {
    /// Returns the short form of the campaign, which the test command runs.
    const fn small_form(self) -> SmallForm {
        match self {
            Self::Sim | Self::Replay => SmallForm::Stage("simulation"),
            Self::Chain => {
                SmallForm::Tests(&["every_block_is_received_once_and_every_bid_sent_once_under_any_fault"])
            }
            Self::Lies => {
                SmallForm::Tests(&["a_daemon_bids_within_thirty_seconds_after_a_lie_also_after_a_restart"])
            }
            Self::Ha => SmallForm::Tests(&[
                "hand_overs_under_a_stream_of_orders_leave_one_writer_and_every_order_answered_once",
            ]),
            Self::Bursts => SmallForm::Tests(&["orders_of_one_block_have_one_price_during_policy_change"]),
            Self::Fuzz => {
                SmallForm::Tests(&["certificates", "shell_frames", "tokens", "manifests", "queries"])
            }
            Self::K8s => SmallForm::Tests(&[
                "stopped_components_lose_no_lease",
                "kills_at_any_time_do_not_change_the_result",
            ]),
            Self::Kubelet => SmallForm::Tests(&["paused_kubelet_ends_no_lease"]),
            Self::Definitions => SmallForm::Tests(&[
                "deleted_definitions_delete_no_route_and_the_provider_declares_its_records_again",
            ]),
            Self::Soak => SmallForm::Tests(&["resource_usage_does_not_grow_with_load"]),
            Self::Mutants => SmallForm::Tests(&[
                "every_mutant_is_in_one_shard_of_requested_size",
                "list_of_this_repository_is_valid",
            ]),
        }
    }
}

/// Returns the integration tests of the program with `filter` in their names.
fn daemon_tests(workspace: &Workspace, filter: &str) -> Process {
    workspace
        .cargo(&["test", "--locked", "-p", "provider-daemon"])
        .args(["--test", "integration", "--", filter, "--nocapture"])
}

fn bursts(workspace: &Workspace) -> Result<()> {
    let tests = daemon_tests(workspace, "run::bursts::");
    tests.env("BURSTS", "20").follow().map(drop)
}

fn lies(workspace: &Workspace) -> Result<()> {
    let tests = daemon_tests(workspace, "run::lies::");
    tests.env("LIES_SECONDS", "60").follow().map(drop)
}

/// Runs the test in `run::soak` with large parameters and the release build.
fn soak(workspace: &Workspace, minutes: u64) -> Result<()> {
    // Time for the build before the soak, and for the end of the last leases after it.
    const BESIDE: Duration = Duration::from_mins(30);
    let length = Duration::from_mins(minutes);
    workspace
        .cargo(&["build", "--locked", "--release", "-p", "provider-daemon"])
        .run()?;
    daemon_tests(workspace, "run::soak::")
        .args(["--test-threads=1"])
        .env("SOAK_SECONDS", length.as_secs().to_string())
        .env("MEASURED_PROGRAM", workspace.released("provider-daemon"))
        .limit(length + BESIDE)
        .follow()
        .map(drop)
}

fn chain(workspace: &Workspace, seed: u64) -> Result<()> {
    const LONG: [(&str, &str); 3] = [
        ("CHAIN_SEEDS", "100"),
        ("CHAIN_KILLS", "200"),
        ("CHAIN_CUT_SECONDS", "60"),
    ];
    let tests = daemon_tests(workspace, "chain_faults::")
        .args(["--test-threads=1"])
        .env("CHAIN_SEED", seed.to_string());
    let tests = LONG
        .iter()
        .fold(tests, |tests, (name, value)| tests.env(name, value));
    tests.follow().map(drop)
}
