//! `cargo xtask bench`: measures speed and size of release builds. A check never fails because of a slow
//! figure, because the machine may be busy.

mod build;
mod ha;
mod k8s;
mod operate;
mod operators;

use anyhow::{Result, bail};
use clap::{Args as Arguments, ValueEnum};

use crate::error::from_findings;
use crate::figures::{self, Figure};
#[cfg(test)]
use crate::forms::SmallForm;
use crate::process::Process;
use crate::sim;
use crate::workspace::Workspace;

/// Arguments of `cargo xtask bench`.
#[derive(Debug, Arguments)]
pub(crate) struct Args {
    /// Benchmark to run
    #[arg(value_enum, default_value_t)]
    what: Benchmark,
    /// Print one JSON object per line: name, value, unit
    #[arg(long)]
    json: bool,
}

/// Benchmark to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Benchmark {
    /// Core
    #[default]
    Core,
    /// Chain client, with a development network
    Chain,
    /// Kubernetes backend, on temporary clusters
    K8s,
    /// Operators, as release builds on a large cluster
    Operators,
    /// Gateway, on memory backends
    Gateway,
    /// Release build on a temporary cluster: high availability, and an instance with a thousand leases
    Ha,
    /// Release build: metrics of a provider with a thousand leases, order history, doctor, idle memory
    Operate,
    /// Complete builds of the daemon and the tests; takes a quarter of an hour on two cores
    Build,
}

/// Returns the command line of each benchmark, such as `bench core`, and the short form of the benchmark.
#[cfg(test)]
pub(crate) fn small_forms() -> impl Iterator<Item = (String, SmallForm)> {
    let named = |what: &Benchmark| {
        let value = what.to_possible_value()?;
        Some((format!("bench {}", value.get_name()), what.small_form()))
    };
    Benchmark::value_variants().iter().filter_map(named)
}

#[cfg(test)]
impl Benchmark {
    /// Returns the short form of the benchmark. The test command runs the short form.
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
                    "measures_cost_of_recording",
                    "measures_size_of_recording_with_live_leases",
                    "measures_speed_of_replay",
                    "figures_of_takeovers_and_of_leases",
                ],
            ),
            Self::Operate => SmallForm::Both(
                &[("akash-provider-service", "history")],
                &[
                    "measures_cost_of_a_scrape",
                    "measures_time_of_doctor",
                    "measures_memory_of_an_idle_provider",
                ],
            ),
            // The build stages of the test command are the short form.
            Self::Build => SmallForm::Stage("build of tests, programs"),
        }
    }
}

/// Target for a measured figure.
#[derive(Debug, Clone, Copy)]
enum FigureTarget {
    AtLeast(f64),
    AtMost(f64),
    /// No target. The figure is only printed.
    Known,
}

/// Figures of the core, with their targets. A missing figure fails the benchmark.
const CORE: [(&str, FigureTarget); 10] = [
    ("engine_inputs_per_s", FigureTarget::AtLeast(2_000_000.0)),
    ("fit_1000_first_us", FigureTarget::AtMost(20.0)),
    ("fit_1000_none_us", FigureTarget::AtMost(20.0)),
    // Two sizes show whether the cost grows with the number of nodes.
    ("fit_1000_alloc_bytes", FigureTarget::Known),
    ("fit_100_alloc_bytes", FigureTarget::Known),
    ("engine_bytes_per_idle_lease", FigureTarget::AtMost(4_096.0)),
    ("event_cost_ratio", FigureTarget::AtMost(2.0)),
    ("price_scale_us", FigureTarget::AtMost(2.0)),
    ("core_cold_build_s", FigureTarget::AtMost(60.0)),
    ("sim_histories_per_s", FigureTarget::Known),
];

const K8S: [(&str, FigureTarget); 10] = [
    // Latency of one write on this machine. A deploy consists of a few writes.
    ("k8s_write_p50_ms", FigureTarget::Known),
    ("k8s_idle_calls_per_lease_min", FigureTarget::AtMost(0.0)),
    ("k8s_adopt_1000_ready_ms", FigureTarget::AtMost(3_000.0)),
    ("k8s_adopt_1000_writes", FigureTarget::AtMost(0.0)),
    ("k8s_deploy_calls", FigureTarget::AtMost(12.0)),
    ("k8s_deploy_p50_ms", FigureTarget::AtMost(25.0)),
    ("k8s_deploy_50_p50_ms", FigureTarget::AtMost(500.0)),
    ("inventory_snapshot_5000_ms", FigureTarget::AtMost(50.0)),
    ("inventory_update_us", FigureTarget::AtMost(1_000.0)),
    ("inventory_rss_mib", FigureTarget::AtMost(150.0)),
];

/// Figures of the operators. Each figure is measured in a separate process.
const OPERATORS: [(&str, FigureTarget); 25] = [
    ("hostnames_10000_made_s", FigureTarget::Known),
    ("hostnames_10000_start_ms", FigureTarget::AtMost(5_000.0)),
    ("hostnames_10000_start_writes", FigureTarget::AtMost(0.0)),
    ("hostname_operator_rss_mib", FigureTarget::Known),
    ("hostname_change_writes", FigureTarget::AtMost(1.0)),
    ("hostname_change_reads", FigureTarget::AtMost(0.0)),
    ("hostname_change_ms", FigureTarget::AtMost(50.0)),
    ("hostname_change_p99_ms", FigureTarget::AtMost(50.0)),
    ("ips_1000_made_s", FigureTarget::Known),
    ("ips_1000_start_ms", FigureTarget::AtMost(2_000.0)),
    ("ips_1000_start_writes", FigureTarget::AtMost(0.0)),
    ("inventory_labels_5000_s", FigureTarget::Known),
    ("inventory_5000_start_ms", FigureTarget::Known),
    ("inventory_5000_start_writes", FigureTarget::AtMost(0.0)),
    ("inventory_stream_ms", FigureTarget::AtMost(1_000.0)),
    ("inventory_stream_p99_ms", FigureTarget::AtMost(1_000.0)),
    // With a subscriber, for which the whole cluster is encoded repeatedly, and without.
    ("inventory_subscribed_pod_event_us", FigureTarget::Known),
    ("inventory_pod_event_us", FigureTarget::AtMost(50.0)),
    ("inventory_operator_rss_mib", FigureTarget::AtMost(150.0)),
    ("hostname_idle_calls_per_min", FigureTarget::AtMost(0.0)),
    ("ip_idle_calls_per_min", FigureTarget::AtMost(0.0)),
    ("inventory_idle_calls_per_min", FigureTarget::AtMost(0.0)),
    ("hostname_idle_cpu_ms_per_min", FigureTarget::Known),
    ("ip_idle_cpu_ms_per_min", FigureTarget::Known),
    ("inventory_idle_cpu_ms_per_min", FigureTarget::Known),
];

const CHAIN: [(&str, FigureTarget); 9] = [
    ("burst_100_blocks", FigureTarget::AtMost(1.0)),
    ("burst_1000_blocks", FigureTarget::AtMost(2.0)),
    ("catchup_blocks_per_s", FigureTarget::AtLeast(500.0)),
    ("sign_per_s", FigureTarget::AtLeast(5_000.0)),
    ("idle_subscriptions", FigureTarget::AtMost(1.0)),
    ("idle_questions", FigureTarget::AtMost(0.0)),
    // Additional memory of a client after four minutes compared with one minute, with a slow node. Responses
    // in flight differ by about 50 KiB. 150 retained bytes per order of 900 would show.
    ("chain_slow_endpoint_growth_kib", FigureTarget::AtMost(128.0)),
    ("chain_slow_endpoint_live_kib", FigureTarget::Known),
    ("chain_slow_endpoint_rss_kib", FigureTarget::Known),
];

/// Figures of the gateway. The rates are low, because the load generator uses the same cores.
const GATEWAY: [(&str, FigureTarget); 14] = [
    ("status_rps", FigureTarget::AtLeast(25_000.0)),
    ("status_p99_ms", FigureTarget::Known),
    ("status_daemon_cpu_us", FigureTarget::Known),
    ("status_load_cpu_us", FigureTarget::Known),
    ("lease_status_rps", FigureTarget::AtLeast(15_000.0)),
    ("lease_status_p99_ms", FigureTarget::Known),
    ("lease_status_daemon_cpu_us", FigureTarget::Known),
    ("lease_status_load_cpu_us", FigureTarget::Known),
    // The allocator moves some pages. A leak of one pointer per request would show.
    ("growth_bytes_per_request", FigureTarget::AtMost(4.0)),
    ("logs_lines_per_s", FigureTarget::AtLeast(400_000.0)),
    ("logs_daemon_cpu_us", FigureTarget::Known),
    ("logs_load_cpu_us", FigureTarget::Known),
    ("ws_10000_idle_mib", FigureTarget::AtMost(150.0)),
    ("storm_p99_ms", FigureTarget::AtMost(50.0)),
];

/// Figures of high availability, and of a thousand leases.
const HA: [(&str, FigureTarget); 14] = [
    ("bus_redis_events_per_s", FigureTarget::AtLeast(20_000.0)),
    ("bus_lag_p50_ms", FigureTarget::Known),
    ("bus_lag_p99_ms", FigureTarget::AtMost(20.0)),
    // CPU time of the whole process per order, from its event to the end of its lease, and the additional
    // time with `--record`.
    ("recorder_order_cpu_us", FigureTarget::Known),
    ("recorder_order_cpu_recorded_us", FigureTarget::Known),
    ("recorder_overhead_percent", FigureTarget::AtMost(3.0)),
    ("recorder_bytes_per_lease_hour", FigureTarget::Known),
    ("replay_inputs_per_s", FigureTarget::AtLeast(500_000.0)),
    ("takeover_kill_s", FigureTarget::AtMost(15.0)),
    ("takeover_stop_s", FigureTarget::AtMost(3.0)),
    ("standby_idle_mib", FigureTarget::AtMost(40.0)),
    ("start_ready_1000_leases_ms", FigureTarget::AtMost(3_000.0)),
    ("cpu_idle_1000_leases_percent", FigureTarget::AtMost(0.2)),
    ("rss_1000_leases_mib", FigureTarget::AtMost(64.0)),
];

const OPERATE: [(&str, FigureTarget); 8] = [
    ("metrics_scrape_1000_leases_ms", FigureTarget::AtMost(20.0)),
    ("metrics_scrape_kib", FigureTarget::AtMost(512.0)),
    // From the events of the engine to the record in the file, and the part in the engine.
    ("record_decision_us", FigureTarget::AtMost(20.0)),
    ("record_decision_engine_us", FigureTarget::Known),
    ("doctor_s", FigureTarget::AtMost(5.0)),
    // With metrics, recording, order history and gateway.
    ("idle_memory_mib", FigureTarget::AtMost(32.0)),
    ("idle_private_memory_mib", FigureTarget::Known),
    ("binary_mib", FigureTarget::AtMost(40.0)),
];

/// Figures of builds from scratch.
const BUILD: [(&str, FigureTarget); 4] = [
    // Half of the initial value of 1,482.
    ("build_release_cold_cpu_s", FigureTarget::AtMost(741.0)),
    ("build_release_cold_s", FigureTarget::Known),
    ("build_test_cold_cpu_s", FigureTarget::Known),
    ("build_test_cold_s", FigureTarget::Known),
];

/// Number of simulated seeds. Fewer seeds give an unstable rate.
const SIM_SEEDS: u64 = 5_000;

/// Runs the benchmark and prints the figures. Fails if a figure is missing.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut found = Vec::new();
    let outcome = match args.what {
        Benchmark::Core => core(workspace, &mut found),
        Benchmark::Chain => chain(workspace, &mut found),
        Benchmark::K8s => k8s::measure(workspace, &mut found),
        Benchmark::Operators => operators::measure(workspace, &mut found),
        Benchmark::Gateway => bench(workspace, "akash-provider-gateway", "gateway", &mut found),
        Benchmark::Ha => ha::measure(workspace, &mut found),
        Benchmark::Operate => operate::measure(workspace, &mut found),
        Benchmark::Build => build::measure(workspace, &mut found),
    };
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
    from_findings("missing figures", &missing(&found, args.what.figures()))
}

impl Benchmark {
    /// Returns the figures of the benchmark with their targets.
    const fn figures(self) -> &'static [(&'static str, FigureTarget)] {
        match self {
            Self::Core => &CORE,
            Self::Chain => &CHAIN,
            Self::K8s => &K8S,
            Self::Operators => &OPERATORS,
            Self::Gateway => &GATEWAY,
            Self::Ha => &HA,
            Self::Operate => &OPERATE,
            Self::Build => &BUILD,
        }
    }
}

fn chain(workspace: &Workspace, found: &mut Vec<Figure>) -> Result<()> {
    bench(workspace, "akash-provider-chain", "sign", found)?;
    bench(workspace, "provider-daemon", "chain", found)
}

/// Runs a bench of a package, and adds its figures to `found`.
fn bench(workspace: &Workspace, package: &str, bench: &str, found: &mut Vec<Figure>) -> Result<()> {
    let bench = ["bench", "--locked", "-p", package, "--bench", bench];
    collect(workspace.cargo(&bench), found)
}

/// Returns an error if no cluster can be started.
fn expect_cluster() -> Result<()> {
    match testbed::obstacle() {
        Some(obstacle) => bail!("cannot start a cluster: {obstacle}"),
        None => Ok(()),
    }
}

/// Runs a program, and adds its figures to `found`. If the program fails, adds the figures that it printed
/// before the failure.
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

fn missing(found: &[Figure], wanted: &[(&str, FigureTarget)]) -> Vec<String> {
    let absent = |name: &str| !found.iter().any(|figure| figure.name == name);
    wanted
        .iter()
        .filter(|(name, _)| absent(name))
        .map(|(name, _)| (*name).to_owned())
        .collect()
}

fn row(figure: &Figure) -> String {
    let aim = Benchmark::value_variants()
        .iter()
        .flat_map(|benchmark| benchmark.figures())
        .find(|(name, _)| *name == figure.name)
        .map_or(FigureTarget::Known, |(_, aim)| *aim);
    let verdict = match aim {
        FigureTarget::AtLeast(bound) => format!("at least {bound}: {}", reached(figure.value >= bound)),
        FigureTarget::AtMost(bound) => format!("at most {bound}: {}", reached(figure.value <= bound)),
        FigureTarget::Known => String::new(),
    };
    format!(
        "{:<34} {:>16.2} {:<12} {verdict}",
        figure.name, figure.value, figure.unit
    )
    .trim_end()
    .to_owned()
}

fn reached(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "NOT reached" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(name: &str, value: f64) -> Figure {
        Figure::new(name, value, "us")
    }

    #[test]
    fn figure_is_printed_with_its_target() {
        assert!(row(&micros("price_scale_us", 1.5)).ends_with("at most 2: reached"));
        assert!(row(&micros("price_scale_us", 2.5)).ends_with("at most 2: NOT reached"));
        assert!(row(&micros("engine_inputs_per_s", 1.0)).ends_with("NOT reached"));
        assert!(row(&micros("something_else", 1.0)).ends_with("us"));
    }

    #[test]
    fn missing_figure_is_reported() {
        let mut all: Vec<Figure> = CORE.iter().map(|(name, _)| micros(name, 1.0)).collect();
        assert!(missing(&all, &CORE).is_empty());
        all.remove(0);
        assert_eq!(missing(&all, &CORE), ["engine_inputs_per_s"]);
    }

    #[test]
    fn figures_before_a_failure_are_collected() {
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
