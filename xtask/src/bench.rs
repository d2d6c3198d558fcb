//! `cargo xtask bench`: speed and size, in release. Figures inform; no check fails because a machine was busy.

mod build;
mod chain;
mod gateway;
mod ha;
mod k8s;
mod operators;

use clap::{Args as Arguments, ValueEnum};

use crate::error::{Error, Result};
use crate::figures::{self, Figure};
#[cfg(test)]
use crate::forms::SmallForm;
use crate::process::Process;
use crate::sim;
use crate::workspace::Workspace;

/// How to print.
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(value_enum, default_value_t)]
    what: What,
    /// One JSON object a line: name, value, unit.
    #[arg(long)]
    json: bool,
}

/// What to measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum What {
    /// The core by itself.
    #[default]
    Core,
    /// The chain client, before a development network.
    Chain,
    /// The Kubernetes backend, on clusters that come up for it.
    K8s,
    /// The operators, as released programs on a large cluster.
    Operators,
    /// The gateway, on backends in memory.
    Gateway,
    /// Several instances, and one with a thousand leases, as the released program on a cluster that comes up for it.
    Ha,
    /// Builds from nothing, of the daemon and of the tests: a quarter of an hour on two cores.
    Build,
}

/// Returns the small form of each bench, by the name as it is typed.
#[cfg(test)]
pub(crate) fn small_forms() -> impl Iterator<Item = (String, SmallForm)> {
    let named = |what: &What| {
        let value = what.to_possible_value()?;
        Some((format!("bench {}", value.get_name()), what.small_form()))
    };
    What::value_variants().iter().filter_map(named)
}

#[cfg(test)]
impl What {
    /// What the test command runs of the bench.
    const fn small_form(self) -> SmallForm {
        match self {
            Self::Core => SmallForm::Benches(&[
                ("akash-provider-core", "figures"),
                ("akash-provider-core", "memory"),
            ]),
            Self::Chain => {
                SmallForm::Benches(&[("akash-provider-chain", "sign"), ("provider-daemon", "chain")])
            }
            Self::K8s => SmallForm::Benches(&[
                ("akash-provider-k8s", "cluster"),
                ("akash-provider-k8s", "inventory"),
            ]),
            Self::Operators => SmallForm::Tests(&["the_operators_are_measured_in_a_small_form"]),
            Self::Gateway => SmallForm::Benches(&[("akash-provider-gateway", "gateway")]),
            Self::Ha => SmallForm::Both(
                &[("akash-provider-redis", "bus")],
                &[
                    "figures_of_a_recording",
                    "figures_of_a_recording_of_leases_that_live",
                    "figures_of_a_replay",
                    "figures_of_takeovers_and_of_leases",
                ],
            ),
            // The stages that build are a small form of their own: they build what is left.
            Self::Build => SmallForm::Stage("build of tests, programs"),
        }
    }
}

/// What a figure is held against.
#[derive(Debug, Clone, Copy)]
enum Aim {
    AtLeast(f64),
    AtMost(f64),
    /// Worth knowing, with no number to reach.
    Known,
}

/// Every figure of the core that must be printed, and what it is held against.
const CORE: [(&str, Aim); 10] = [
    ("engine_inputs_per_s", Aim::AtLeast(2_000_000.0)),
    ("fit_1000_first_us", Aim::AtMost(20.0)),
    ("fit_1000_none_us", Aim::AtMost(20.0)),
    // Two sizes tell whether it grows with the nodes.
    ("fit_1000_alloc_bytes", Aim::Known),
    ("fit_100_alloc_bytes", Aim::Known),
    ("engine_bytes_per_idle_lease", Aim::AtMost(4_096.0)),
    ("event_cost_ratio", Aim::AtMost(2.0)),
    ("price_scale_us", Aim::AtMost(2.0)),
    ("core_cold_build_s", Aim::AtMost(60.0)),
    ("sim_histories_per_s", Aim::Known),
];

/// The same of the Kubernetes backend.
const K8S: [(&str, Aim); 10] = [
    // What one write takes on this machine: deploys are a few of them.
    ("k8s_write_p50_ms", Aim::Known),
    ("k8s_idle_calls_per_lease_min", Aim::AtMost(0.0)),
    ("k8s_adopt_1000_ready_ms", Aim::AtMost(3_000.0)),
    ("k8s_adopt_1000_writes", Aim::AtMost(0.0)),
    ("k8s_deploy_calls", Aim::AtMost(12.0)),
    ("k8s_deploy_p50_ms", Aim::AtMost(25.0)),
    ("k8s_deploy_50_p50_ms", Aim::AtMost(500.0)),
    ("inventory_snapshot_5000_ms", Aim::AtMost(50.0)),
    ("inventory_update_us", Aim::AtMost(1_000.0)),
    ("inventory_rss_mib", Aim::AtMost(150.0)),
];

/// The same of the operators, each in a process of its own.
const OPERATORS: [(&str, Aim); 25] = [
    ("hostnames_10000_made_s", Aim::Known),
    ("hostnames_10000_start_ms", Aim::AtMost(5_000.0)),
    ("hostnames_10000_start_writes", Aim::AtMost(0.0)),
    ("hostname_operator_rss_mib", Aim::Known),
    ("hostname_change_writes", Aim::AtMost(1.0)),
    ("hostname_change_reads", Aim::AtMost(0.0)),
    ("hostname_change_ms", Aim::AtMost(50.0)),
    ("hostname_change_p99_ms", Aim::AtMost(50.0)),
    ("ips_1000_made_s", Aim::Known),
    ("ips_1000_start_ms", Aim::AtMost(2_000.0)),
    ("ips_1000_start_writes", Aim::AtMost(0.0)),
    ("inventory_labels_5000_s", Aim::Known),
    ("inventory_5000_start_ms", Aim::Known),
    ("inventory_5000_start_writes", Aim::AtMost(0.0)),
    ("inventory_stream_ms", Aim::AtMost(1_000.0)),
    ("inventory_stream_p99_ms", Aim::AtMost(1_000.0)),
    // With somebody who reads the stream, to whom the whole cluster is written again and again, and without.
    ("inventory_subscribed_pod_event_us", Aim::Known),
    ("inventory_pod_event_us", Aim::AtMost(50.0)),
    ("inventory_operator_rss_mib", Aim::AtMost(150.0)),
    ("hostname_idle_calls_per_min", Aim::AtMost(0.0)),
    ("ip_idle_calls_per_min", Aim::AtMost(0.0)),
    ("inventory_idle_calls_per_min", Aim::AtMost(0.0)),
    ("hostname_idle_cpu_ms_per_min", Aim::Known),
    ("ip_idle_cpu_ms_per_min", Aim::Known),
    ("inventory_idle_cpu_ms_per_min", Aim::Known),
];

/// The same of the chain client.
const CHAIN: [(&str, Aim); 9] = [
    ("burst_100_blocks", Aim::AtMost(1.0)),
    ("burst_1000_blocks", Aim::AtMost(2.0)),
    ("catchup_blocks_per_s", Aim::AtLeast(500.0)),
    ("sign_per_s", Aim::AtLeast(5_000.0)),
    ("idle_subscriptions", Aim::AtMost(1.0)),
    ("idle_questions", Aim::AtMost(0.0)),
    // By how much more a client has allocated after four minutes than after one, before a node that answers late.
    // Answers on their way make some 50 KiB of difference; 150 bytes kept of each of 900 orders would show.
    ("chain_slow_endpoint_growth_kib", Aim::AtMost(128.0)),
    ("chain_slow_endpoint_live_kib", Aim::Known),
    ("chain_slow_endpoint_rss_kib", Aim::Known),
];

/// The same of the gateway. The load is a process on the same cores, so the CPU of both belongs to each rate.
const GATEWAY: [(&str, Aim); 14] = [
    ("status_rps", Aim::AtLeast(25_000.0)),
    ("status_p99_ms", Aim::Known),
    ("status_daemon_cpu_us", Aim::Known),
    ("status_load_cpu_us", Aim::Known),
    ("lease_status_rps", Aim::AtLeast(15_000.0)),
    ("lease_status_p99_ms", Aim::Known),
    ("lease_status_daemon_cpu_us", Aim::Known),
    ("lease_status_load_cpu_us", Aim::Known),
    // The allocator moves some pages; a leak of one pointer a request would show.
    ("growth_bytes_per_request", Aim::AtMost(4.0)),
    ("logs_lines_per_s", Aim::AtLeast(400_000.0)),
    ("logs_daemon_cpu_us", Aim::Known),
    ("logs_load_cpu_us", Aim::Known),
    ("ws_10000_idle_mib", Aim::AtMost(150.0)),
    ("storm_p99_ms", Aim::AtMost(50.0)),
];

/// The same of several instances, and of one with a thousand leases.
const HA: [(&str, Aim); 14] = [
    ("bus_redis_events_per_s", Aim::AtLeast(20_000.0)),
    ("bus_lag_p50_ms", Aim::Known),
    ("bus_lag_p99_ms", Aim::AtMost(20.0)),
    // Processor time of the whole process for an order from its event to the end of its lease, and how much more it is
    // with `--record`.
    ("recorder_order_cpu_us", Aim::Known),
    ("recorder_order_cpu_recorded_us", Aim::Known),
    ("recorder_overhead_percent", Aim::AtMost(3.0)),
    ("recorder_bytes_per_lease_hour", Aim::Known),
    ("replay_inputs_per_s", Aim::AtLeast(500_000.0)),
    ("takeover_kill_s", Aim::AtMost(15.0)),
    ("takeover_stop_s", Aim::AtMost(3.0)),
    ("standby_idle_mib", Aim::AtMost(40.0)),
    ("start_ready_1000_leases_ms", Aim::AtMost(3_000.0)),
    ("cpu_idle_1000_leases_percent", Aim::AtMost(0.2)),
    ("rss_1000_leases_mib", Aim::AtMost(64.0)),
];

/// The same of builds from nothing.
const BUILD: [(&str, Aim); 5] = [
    // Half of what it was before it was looked at: 1,482.
    ("build_release_cold_cpu_s", Aim::AtMost(741.0)),
    ("build_release_cold_s", Aim::Known),
    ("build_test_cold_cpu_s", Aim::Known),
    ("build_test_cold_s", Aim::Known),
    ("binary_mib", Aim::AtMost(40.0)),
];

/// Seeds enough for a steady rate.
const SIM_SEEDS: u64 = 5_000;

/// Measures, prints, and fails when a figure is missing.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut found = Vec::new();
    let (outcome, wanted) = match args.what {
        What::Core => (core(workspace, &mut found), &CORE[..]),
        What::Chain => (chain::measure(workspace, &mut found), &CHAIN[..]),
        What::K8s => (k8s::measure(workspace, &mut found), &K8S[..]),
        What::Operators => (operators::measure(workspace, &mut found), &OPERATORS[..]),
        What::Gateway => (gateway::measure(workspace, &mut found), &GATEWAY[..]),
        What::Ha => (ha::measure(workspace, &mut found), &HA[..]),
        What::Build => (build::measure(workspace, &mut found), &BUILD[..]),
    };
    // Also those that were measured before a failure.
    for figure in &found {
        println!(
            "{}",
            if args.json {
                figures::json(figure)?
            } else {
                row(figure)
            }
        );
    }
    outcome?;
    Error::from_findings("figures that nothing measured", &missing(&found, wanted))
}

/// Runs a program and adds the figures that it prints, also those that it printed before it failed.
fn collect(program: Process, found: &mut Vec<Figure>) -> Result<()> {
    let (lines, outcome) = program.collect(|_| {})?;
    found.extend(figures::find(lines.iter().map(String::as_str)));
    if outcome.is_err() {
        lines.iter().for_each(|line| eprintln!("{line}"));
    }
    outcome
}

fn core(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    let core = [
        "bench",
        "--locked",
        "-p",
        "akash-provider-core",
        "--features",
        "conformance",
    ];
    let benches = workspace
        .cargo(&core)
        .args(["--bench", "figures", "--bench", "memory"]);
    collect(benches, found)?;
    found.push(build::core(workspace)?);
    found.extend(sim::seeds(
        workspace,
        sim::Form::Released,
        &sim::Args {
            seeds: SIM_SEEDS,
            seed: 1,
        },
    )?);
    Ok(())
}

fn missing(found: &[Figure], wanted: &[(&str, Aim)]) -> Vec<String> {
    let absent = |name: &str| !found.iter().any(|figure| figure.name == name);
    wanted
        .iter()
        .filter(|(name, _)| absent(name))
        .map(|(name, _)| (*name).to_owned())
        .collect()
}

fn row(figure: &Figure) -> String {
    let aim = CORE
        .iter()
        .chain(&CHAIN)
        .chain(&K8S)
        .chain(&OPERATORS)
        .chain(&GATEWAY)
        .chain(&HA)
        .chain(&BUILD)
        .find(|(name, _)| *name == figure.name)
        .map_or(Aim::Known, |(_, aim)| *aim);
    let verdict = match aim {
        Aim::AtLeast(bound) => format!("at least {bound}: {}", reached(figure.value >= bound)),
        Aim::AtMost(bound) => format!("at most {bound}: {}", reached(figure.value <= bound)),
        Aim::Known => String::new(),
    };
    format!(
        "{:<34} {:>16.2} {:<12} {verdict}",
        figure.name, figure.value, figure.unit
    )
    .trim_end()
    .to_owned()
}

fn reached(held: bool) -> &'static str {
    if held { "reached" } else { "NOT reached" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(name: &str, value: f64) -> Figure {
        Figure::new(name, value, "us")
    }

    #[test]
    fn a_figure_stands_beside_its_aim() {
        assert!(row(&micros("price_scale_us", 1.5)).ends_with("at most 2: reached"));
        assert!(row(&micros("price_scale_us", 2.5)).ends_with("at most 2: NOT reached"));
        assert!(row(&micros("engine_inputs_per_s", 1.0)).ends_with("NOT reached"));
        assert!(row(&micros("something_else", 1.0)).ends_with("us"));
    }

    #[test]
    fn a_figure_that_nothing_measured_is_missed() {
        let mut all: Vec<Figure> = CORE.iter().map(|(name, _)| micros(name, 1.0)).collect();
        assert!(missing(&all, &CORE).is_empty());
        all.remove(0);
        assert_eq!(missing(&all, &CORE), ["engine_inputs_per_s"]);
    }

    #[test]
    fn figures_measured_before_a_failure_are_found() {
        let script = r#"echo '{"name":"a","value":1,"unit":"us"}'; exit 3"#;
        let bench = Process::new("sh", std::path::Path::new("/")).args(["-c", script]);
        let mut found = Vec::new();
        let error = collect(bench, &mut found).unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert_eq!(found, [micros("a", 1.0)]);
    }

    #[test]
    fn json_has_three_keys() {
        assert_eq!(
            figures::json(&micros("a", 1.5)).unwrap(),
            r#"{"name":"a","value":1.5,"unit":"us"}"#
        );
    }
}
