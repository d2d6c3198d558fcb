//! `doctor`: checks of an installation, with a remedy for each problem.
//!
//! ```text
//! settings, key ─▶ facts ─┬─▶ nodes of the chain ─┬─▶ account, certificate, clock ─┐
//!                         ├─▶ API server ─────────┴─▶ rights, capacity, operators ─┼─▶ report, exit code
//!                         └─▶ names, ports, files, Redis ──────────────────────────┘
//! ```
//!
//! Each area has a collector, which gathers facts, and pure functions that judge the facts. All areas run at the same
//! time with limits, so a dead server delays only its own checks.

mod account;
mod audit;
mod bus;
mod certificate;
mod chain;
mod check;
mod cluster_read;
mod definitions;
mod disk;
mod dns;
mod gpus;
mod host;
mod key;
mod kubernetes;
mod nodes;
mod operators;
mod record;
mod report;
mod rights;
mod routes;
mod running;
mod settings;

use crate::args::DoctorArgs;
use crate::operator::{RunningProvider, running_provider};
use akash_provider_chain::Reader;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_cli::node::{addresses, given_chain_id};
use akash_provider_cli::output::say;
use akash_provider_core::Config;
use akash_provider_core::types::{Address, BlockTime};
use akash_provider_service::args::RunArgs;
use akash_provider_service::provider_file::ProviderFile;
use akash_provider_service::run::config::config;
use chain::Probe;
use check::{Area, Check};
use futures::future::{BoxFuture, FutureExt, Shared, join_all};
use futures::stream::{FuturesUnordered, StreamExt};
use report::DoctorReport;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use url::Url;

/// Maximum duration of the checks of one area.
const AREA_LIMIT: Duration = Duration::from_millis(4800);
/// Maximum duration of one check. The remaining time until [`AREA_LIMIT`] is for evaluating the results.
const CHECK_LIMIT: Duration = Duration::from_millis(4500);
/// Maximum wait for a response of the running provider.
const SOCKET_LIMIT: Duration = Duration::from_secs(2);

/// Settings and values that the checks of several areas use.
struct DoctorContext<'a> {
    args: &'a RunArgs,
    home: Option<&'a Path>,
    chain_id: Option<&'a str>,
    /// Configuration of the engine; `None` if the settings are invalid.
    config: Option<Config>,
    /// Key of the account; `None` if it cannot be read.
    key: Option<Arc<PrivateKey>>,
    account: Option<Address>,
    /// Content of `--provider-config`, if it is set and valid.
    record_file: Option<ProviderFile>,
    /// Running provider that uses the home directory.
    running: Result<Option<RunningProvider>, String>,
    /// Time at which the concurrent checks started.
    began: Instant,
}

impl<'a> DoctorContext<'a> {
    fn new(
        args: &'a RunArgs,
        home: Option<&'a Path>,
        key: Option<PrivateKey>,
        account: Option<Address>,
    ) -> Self {
        let chain_id = given_chain_id(&args.node);
        let named = account.clone().or_else(|| Address::from_bytes(&[1; 20]).ok());
        let config = named.and_then(|account| config(args, account, chain_id.unwrap_or("chain")).ok());
        let file = args
            .provider_config
            .as_deref()
            .filter(|file| !file.as_os_str().is_empty());
        let running = home.map_or(Ok(None), |home| running_provider(home, SOCKET_LIMIT));
        Self {
            args,
            home,
            chain_id,
            config,
            key: key.map(Arc::new),
            account,
            record_file: file.and_then(|file| ProviderFile::read(file).ok()),
            running: running.map_err(|error| format!("{error:#}")),
            began: Instant::now(),
        }
    }

    /// Returns the time limit of a check: the shorter of `limit` and the remaining time of all checks.
    fn remaining(&self, limit: Duration) -> Duration {
        limit.min(CHECK_LIMIT.saturating_sub(self.began.elapsed()))
    }

    const fn is_running(&self) -> bool {
        matches!(self.running, Ok(Some(_)))
    }

    fn embedded_operator(&self, name: &str) -> Option<String> {
        let running = self.running.as_ref().ok()?.as_ref()?;
        running.operators.get(name).cloned()
    }

    fn public_url(&self) -> Option<Url> {
        Url::parse(&self.record_file.as_ref()?.host).ok()
    }

    /// Returns the host name for tenants; empty if it is unknown.
    fn host(&self) -> String {
        let url = self.public_url();
        let host = url.as_ref().and_then(Url::host_str);
        let host = host.unwrap_or(&self.args.kubernetes.cluster_public_hostname);
        host.trim_matches(['[', ']', '.']).to_owned()
    }

    /// Returns the gateway port that `provider.yaml` announces to tenants.
    fn public_port(&self) -> Option<u16> {
        self.public_url()?.port()
    }
}

/// Checks an installation and prints the results. The exit code is 3 if there is a failure.
///
/// # Errors
/// Returns an error if the checks cannot run.
pub fn run(args: &DoctorArgs, home: anyhow::Result<PathBuf>) -> anyhow::Result<ExitCode> {
    let mut report = DoctorReport::default();
    let directory = home.as_ref().ok().cloned();
    if args.fix {
        let changes = host::fix(&args.run, directory.as_deref());
        audit::record_changes(&args.run, directory.as_deref(), &changes);
        report.add(Area::Host, changes);
    }
    // The passphrase may be typed, so the time is measured afterwards.
    let key = key::read(&args.run.signer, directory.as_deref());
    let began = Instant::now();
    report.add(Area::Settings, settings::checks(&args.run, home));
    report.add(Area::Key, vec![key.check]);
    let context = DoctorContext::new(&args.run, directory.as_deref(), key.key, key.account);
    report.add(Area::Provider, running::checks(&context.running));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for (area, checks) in runtime.block_on(all(&context)) {
        report.add(area, checks);
    }
    // A name lookup or a decryption may still run.
    runtime.shutdown_background();
    say(&report.render(args.run.output, began.elapsed())?);
    Ok(report.exit_code())
}

async fn all(context: &DoctorContext<'_>) -> Vec<(Area, Vec<Check>)> {
    let nodes = addresses(&context.args.node).unwrap_or_default();
    // Without a chain ID, no response can be trusted.
    let nodes = context.chain_id.map(|_| nodes).unwrap_or_default();
    let chain_id = context.chain_id.unwrap_or_default();
    let probe = |address| {
        chain::probe(address, chain_id, &context.args.node)
            .boxed()
            .shared()
    };
    let probes: Vec<Shared<BoxFuture<'_, Probe>>> = nodes.into_iter().map(probe).collect();
    let reader = first_reader(probes.clone()).boxed().shared();
    let cluster = kubernetes::connect(context).boxed().shared();
    let all_probes = join_all(probes).shared();
    let host = async {
        let (probes, cluster) = tokio::join!(all_probes.clone(), cluster.clone());
        let mut checks = host::checks(context);
        checks.push(host::clock(&probes, cluster.as_ref().ok()));
        checks
    };
    let chain = async {
        if context.chain_id.is_none() {
            return vec![Check::skipped("chain", "--chain-id is missing")];
        }
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
        let now = BlockTime(i64::try_from(now).unwrap_or(i64::MAX));
        chain::judge(&all_probes.clone().await, now)
    };
    let account = async { account::checks(context, reader.clone().await).await };
    let certificate = async { certificate::checks(context, reader.clone().await).await };
    let kubernetes = async { kubernetes::checks(context, cluster.clone().await).await };
    let nodes = async {
        let cluster = cluster.clone().await;
        let (mut nodes, gpus) = tokio::join!(
            nodes::checks(context, cluster.clone()),
            gpus::checks(context, cluster)
        );
        nodes.extend(gpus);
        nodes
    };
    let operators = async { operators::checks(context, cluster.clone().await).await };
    let areas: [(Area, BoxFuture<'_, Vec<Check>>); 9] = [
        (Area::Host, host.boxed()),
        (Area::Chain, chain.boxed()),
        (Area::Account, account.boxed()),
        (Area::Certificate, certificate.boxed()),
        (Area::Dns, dns::checks(context, reader.clone()).boxed()),
        (Area::Kubernetes, kubernetes.boxed()),
        (Area::Nodes, nodes.boxed()),
        (Area::Operators, operators.boxed()),
        (Area::Bus, bus::checks(context.args).boxed()),
    ];
    join_all(areas.map(|(area, checks)| async move { (area, limited(area, checks).await) })).await
}

/// Runs the checks of an area. If the checks exceed the time limit, returns a single failure.
async fn limited(area: Area, checks: BoxFuture<'_, Vec<Check>>) -> Vec<Check> {
    match tokio::time::timeout(AREA_LIMIT, checks).await {
        Ok(checks) => checks,
        Err(_) => vec![Check::failure(
            format!("{area:?}").to_lowercase(),
            format!("no result within {AREA_LIMIT:?}"),
            "run `doctor` again when the machine is less loaded",
        )],
    }
}

/// Returns the client of the first usable node.
async fn first_reader(probes: Vec<Shared<BoxFuture<'_, Probe>>>) -> Option<Reader> {
    let mut probes: FuturesUnordered<_> = probes.into_iter().collect();
    while let Some(probe) = probes.next().await {
        if probe.reader.is_some() {
            return probe.reader;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn area_that_hangs_is_a_failure() {
        let passed = vec![Check::ok("Redis", "version 8")];
        let done = limited(Area::Bus, std::future::ready(passed.clone()).boxed());
        assert_eq!(done.await, passed);
        let hangs = limited(Area::Bus, std::future::pending().boxed()).await;
        assert_eq!(hangs[0].severity(), check::Severity::Failure);
        assert!(hangs[0].help().is_some(), "{hangs:?}");
    }
}
