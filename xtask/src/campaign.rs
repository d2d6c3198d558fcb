//! `cargo xtask campaign NAME`: the long form of what the test command runs in a small form.

use std::time::Duration;

use clap::{Args as Arguments, ValueEnum};

use crate::error::Result;
#[cfg(test)]
use crate::forms::SmallForm;
use crate::fuzz;
use crate::mutants;
use crate::sim;
use crate::tiers;
use crate::workspace::Workspace;

/// Which campaign.
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    name: Name,
    /// The first seed; the default begins where the test command's seeds end.
    #[arg(long, default_value_t = 1_000_000)]
    seed: u64,
    /// How long a soak takes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    #[command(flatten)]
    mutants: mutants::Args,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Name {
    /// A million simulated histories.
    Sim,
    /// A thousand simulated histories, written down as a flight recorder does and done again from what was written.
    Replay,
    /// The chain client before a node that misbehaves: a hundred seeds of faults, two hundred kills, a cut of a minute.
    Chain,
    /// The daemon before a node that lies for a minute, alone and beside an honest one, running on and restarted.
    Lies,
    /// Two daemons on an API server, a Redis and a chain, under a stream of orders: a hundred fail-overs with a lease of
    /// 4 s, then twenty each on Kubernetes Leases and on Redis with the default lease.
    Ha,
    /// Twenty bursts of fifty orders in one block, with a change of the price policy in the middle of each.
    Bursts,
    /// What strangers send the gateway, guided by coverage: ten minutes for each kind.
    Fuzz,
    /// A real node whose parts are away for a minute each, and a program that is killed a hundred times.
    K8s,
    /// A kubelet that is paused for ten minutes: no lease is closed.
    Kubelet,
    /// Requests through a proxy while the CustomResourceDefinitions of the records are deleted and restored.
    Definitions,
    /// A provider under five orders a second for an hour: memory, descriptors, threads and tasks must not grow.
    Soak,
    /// Whether a test notices when a decision is changed: two hundred changes, an hour on two cores.
    Mutants,
}

/// Runs the campaign.
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

/// Returns the small form of each campaign, by the name as it is typed.
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
    /// What the test command runs of the campaign.
    const fn small_form(self) -> SmallForm {
        match self {
            Self::Sim | Self::Replay => SmallForm::Stage("simulation"),
            Self::Chain => {
                SmallForm::Tests(&["whatever_fails_every_block_is_told_once_and_every_bid_is_sent_once"])
            }
            Self::Lies => {
                SmallForm::Tests(&["a_daemon_bids_within_thirty_seconds_after_a_lie_also_after_a_restart"])
            }
            Self::Ha => SmallForm::Tests(&[
                "hand_overs_under_a_stream_of_orders_leave_one_writer_and_every_order_answered_once",
            ]),
            Self::Bursts => SmallForm::Tests(&[
                "the_orders_of_one_block_have_one_price_although_the_policy_changes_in_the_middle",
            ]),
            Self::Fuzz => {
                SmallForm::Tests(&["certificates", "shell_frames", "tokens", "manifests", "queries"])
            }
            Self::K8s => SmallForm::Tests(&[
                "parts_die_and_no_lease_is_lost",
                "killed_anywhere_it_ends_as_if_it_had_not_been",
            ]),
            Self::Kubelet => SmallForm::Tests(&["a_paused_kubelet_ends_no_lease"]),
            Self::Definitions => SmallForm::Tests(&[
                "deleted_definitions_delete_no_route_and_the_provider_declares_its_records_again",
            ]),
            Self::Soak => SmallForm::Tests(&["what_it_holds_does_not_grow_with_what_it_has_done"]),
            Self::Mutants => SmallForm::Tests(&[
                "every_mutant_is_in_one_part_and_parts_are_as_large_as_asked_for",
                "the_list_of_this_repository_is_well_formed",
            ]),
        }
    }
}

/// The long form of the test in `run::bursts`.
fn bursts(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo(&["test", "--locked", "-p", "provider-daemon"])
        .args(["--test", "integration", "--", "run::bursts::", "--nocapture"])
        .env("BURSTS", "20")
        .follow()
        .map(drop)
}

/// The long form of the test in `run::lies`.
fn lies(workspace: &Workspace) -> Result<()> {
    workspace
        .cargo(&["test", "--locked", "-p", "provider-daemon"])
        .args(["--test", "integration", "--", "run::lies::", "--nocapture"])
        .env("LIES_SECONDS", "60")
        .follow()
        .map(drop)
}

/// The long form of the test in `run::soak`.
fn soak(workspace: &Workspace, minutes: u64) -> Result<()> {
    // The build before it, and the end of the last leases after it.
    const BESIDE: Duration = Duration::from_mins(30);
    let length = Duration::from_mins(minutes);
    workspace
        .cargo(&["test", "--locked", "-p", "provider-daemon"])
        .args(["--test", "integration", "--", "run::soak::"])
        .args(["--nocapture", "--test-threads=1"])
        .env("SOAK_SECONDS", length.as_secs().to_string())
        .limit(length + BESIDE)
        .follow()
        .map(drop)
}

/// The long form of the tests in `chain_faults`.
fn chain(workspace: &Workspace, seed: u64) -> Result<()> {
    const LONG: [(&str, &str); 3] = [
        ("CHAIN_SEEDS", "100"),
        ("CHAIN_KILLS", "200"),
        ("CHAIN_CUT_SECONDS", "60"),
    ];
    let tests = workspace
        .cargo(&["test", "--locked", "-p", "provider-daemon"])
        .args(["--test", "integration", "--no-fail-fast", "--", "chain_faults::"])
        .args(["--nocapture", "--test-threads=1"])
        .env("CHAIN_SEED", seed.to_string());
    let tests = LONG
        .iter()
        .fold(tests, |tests, (name, value)| tests.env(name, value));
    tests.follow().map(drop)
}
