//! Flags of `run`, named as in today's provider where it has them.

use super::compared::ComparedArgs;
use super::ha::HaStore;
use super::kubernetes::IngressArg;
use super::limits::LimitArgs;
use super::operators::InsideArg;
use super::query::NodeArgs;
use super::rules::RuleArgs;
use super::settings::Remarks;
use super::today::TodayArgs;
use super::tx::{Gas, GasArgs};
use super::{BusArgs, ClusterArgs, HaArgs, KubernetesArgs, Output, PricingArgs, SignerArgs, values};
use crate::flight::RecordArgs;
use clap::builder::ArgPredicate;
use clap::{ArgAction, Args, Command};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    // The first field: clap takes a value out of what it has parsed when it gives the value to a field.
    /// Settings that all instances must have alike.
    #[command(flatten)]
    pub compared: ComparedArgs,
    /// How to print what happens.
    #[arg(long, short, value_enum, default_value = "text")]
    pub output: Output,
    /// Run leases on a real cluster: that of --kubeconfig, of KUBECONFIG, or the one this runs in. Without it, and
    /// without --kubeconfig, they run in memory.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub cluster_k8s: bool,
    /// A provider.yaml: only orders that ask for all its attributes are bid on, and its other lines are settings.
    #[arg(long, value_name = "FILE")]
    pub provider_config: Option<PathBuf>,
    /// A YAML file of settings: flags by their names. It goes before the provider.yaml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Stop when what is owed is not done so long after the first signal.
    #[arg(long, default_value = "30s", value_parser = values::go_duration)]
    pub shutdown_grace: Duration,
    /// The flight recorder.
    #[command(flatten)]
    pub record: RecordArgs,
    /// Bids.
    #[command(flatten)]
    pub bids: BidArgs,
    /// Leases.
    #[command(flatten)]
    pub leases: LeaseArgs,
    /// The gateway.
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// Nodes.
    #[command(flatten)]
    pub node: NodeArgs,
    /// The key.
    #[command(flatten)]
    pub signer: SignerArgs,
    /// The fee.
    #[command(flatten)]
    pub gas: GasArgs,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// A real cluster.
    #[command(flatten)]
    pub kubernetes: KubernetesArgs,
    /// The prices.
    #[command(flatten)]
    pub pricing: PricingArgs,
    /// Where events go besides.
    #[command(flatten)]
    pub bus: BusArgs,
    /// Several instances.
    #[command(flatten)]
    pub ha: HaArgs,
    /// What the engine goes by.
    #[command(flatten)]
    pub rules: RuleArgs,
    /// What today's provider takes besides.
    #[command(flatten)]
    pub today: TodayArgs,
    /// What is to be said of files and variables.
    #[arg(skip)]
    pub remarks: Remarks,
}

/// How the provider bids.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bids")]
pub struct BidArgs {
    /// Deposit of every bid; several, with commas, in the order in which they are tried.
    #[arg(
        long,
        value_name = "COIN",
        default_value = "500000uact,500000uakt",
        value_delimiter = ','
    )]
    pub bid_deposit: Vec<String>,
    /// Close a bid that got no lease for so long; 0 for never.
    #[arg(long, default_value = "5m", value_parser = values::go_duration)]
    pub bid_timeout: Duration,
    /// Warn tenants so long before a lease is taken back; 0 for no such promise.
    #[arg(long, default_value = "0", value_parser = values::go_duration)]
    pub reclamation_window: Duration,
}

/// How leases are kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leases")]
pub struct LeaseArgs {
    /// Close a lease whose manifest has not come for so long; 0 for never.
    #[arg(long, default_value = "5m", value_parser = values::go_duration)]
    pub manifest_timeout: Duration,
    /// Take earned money out of escrow so often; 0 for only when it runs out.
    #[arg(long, default_value = "24h", value_parser = values::go_duration)]
    pub withdrawal_period: Duration,
    /// Look so often at how much money a deployment has, from 1m to 24h.
    #[arg(long, default_value = "10m", value_parser = values::go_duration)]
    pub lease_funds_monitor_interval: Duration,
    /// Give every HTTP service a hostname under --deployment-ingress-domain.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value = "false", value_parser = values::go_bool, action = ArgAction::Set)]
    pub deployment_ingress_static_hosts: bool,
    /// Domain of the hostnames that services get.
    #[arg(long, default_value = "")]
    pub deployment_ingress_domain: String,
    /// Hostnames that no tenant gets; a leading dot stands for a domain and all below it.
    #[arg(long, value_delimiter = ',')]
    pub deployment_blocked_hostnames: Vec<String>,
    /// Limit of one question to the chain, other nodes and repetitions included.
    #[arg(long, default_value = "1m", value_parser = values::go_duration)]
    pub rpc_query_timeout: Duration,
}

/// How tenants reach the provider.
#[derive(Debug, Args)]
#[command(next_help_heading = "Gateway")]
pub struct GatewayArgs {
    /// Where manifests, status, logs and shells are served; `none` for nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8443", value_parser = listen)]
    pub gateway_listen_address: Listen,
    /// Where gRPC is served; `none` for nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8444", value_parser = listen)]
    pub gateway_grpc_listen_address: Listen,
    /// Address of a port without TLS for probes, with `/healthz` and `/readyz`; `none` for none.
    #[arg(long, value_name = "ADDRESS", default_value = "none", value_parser = listen)]
    pub gateway_health_listen_address: Listen,
    /// A certificate of a public authority for --cluster-public-hostname, as a PEM file.
    #[arg(long, value_name = "FILE", requires = "gateway_tls_key")]
    pub gateway_tls_cert: Option<PathBuf>,
    /// Private key of that certificate, as a PEM file.
    #[arg(long, value_name = "FILE", requires = "gateway_tls_cert")]
    pub gateway_tls_key: Option<PathBuf>,
    /// Refuse tokens of tenants that are good for longer than this, from their beginning to their end.
    #[arg(long, value_name = "DURATION", value_parser = values::go_duration)]
    pub gateway_token_lifetime_max: Option<Duration>,
    /// Keep a certificate for these host names in the home folder and on the chain: make it where there is none,
    /// renew it before it ends. Without this it is made with `tx cert`.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub certificate_domain: Vec<String>,
    /// What strangers may take.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// An address to listen at, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

fn listen(text: &str) -> Result<Listen, String> {
    if text == "none" {
        return Ok(Listen(None));
    }
    let address = text
        .parse()
        .map_err(|e| format!("{e}; write it as 0.0.0.0:8443, or none"))?;
    Ok(Listen(Some(address)))
}

impl RunArgs {
    /// What was set and has no effect, one line each.
    #[must_use]
    pub fn notices(&self, look: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let of_one =
            "is for a single transaction: what is paid follows from --gas-prices and --gas-adjustment";
        let gas = match self.gas.gas {
            Gas::Auto => None,
            Gas::Limit(_) => Some(format!("--gas {of_one}")),
        };
        let kubernetes = &self.kubernetes;
        let pool = (kubernetes.ip_operator && kubernetes.ip_pool_size == 0).then(|| {
            "--ip-operator without --ip-pool-size: addresses are counted from MetalLB's IPAddressPools; where those cannot \
             be read, leases keep their addresses, and no order for one is bid on"
                .to_owned()
        });
        let fees = self.gas.fees.as_ref().filter(|fees| !fees.is_empty());
        let fees = fees.map(|_| format!("--fees {of_one}"));
        let today = self.today.notices(look);
        let files = self.remarks.unknown.iter().chain(&self.remarks.notes).cloned();
        files.chain(today).chain(gas).chain(fees).chain(pool).collect()
    }

    /// What leases need of a real cluster that this program does not do yet, one line each.
    #[must_use]
    pub fn left_to_others(&self) -> Vec<String> {
        let routes = match self.kubernetes.routes.ingress_mode {
            IngressArg::Ingress => "Ingresses",
            IngressArg::GatewayApi => "HTTPRoutes",
        };
        let names = format!(
            "hostnames of leases are declared as ProviderHost objects and lead nowhere by themselves: the hostname \
             operator must run in the cluster (`provider-daemon operator hostname`), or in this process with \
             --with-operators hostname, which makes {routes} of them"
        );
        let addresses = "leased addresses are declared as ProviderLeasedIP objects and lead nowhere by themselves: the IP \
                         operator must run in the cluster (`provider-daemon operator ip`), or in this process with \
                         --with-operators ip, and MetalLB";
        let inside = |one| self.kubernetes.runs(one);
        let names = (!inside(InsideArg::Hostname)).then_some(names);
        let needs_addresses = self.kubernetes.ip_operator && !inside(InsideArg::Ip);
        let addresses = needs_addresses.then(|| addresses.to_owned());
        if !self.is_real() {
            return Vec::new();
        }
        names.into_iter().chain(addresses).collect()
    }

    const fn is_real(&self) -> bool {
        self.cluster_k8s || self.kubernetes.kubeconfig.is_some()
    }

    /// Domain of Services in the real cluster that leases run on.
    #[must_use]
    pub fn cluster_domain(&self) -> Option<String> {
        self.is_real().then(|| self.kubernetes.domain.get())?
    }

    /// What works, and not as most expect, one line each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let real = self.is_real();
        let cluster = (!real).then_some(
            "without --cluster-k8s workloads are simulated in memory: nothing runs, and a restart forgets them",
        );
        let names = (!self.leases.deployment_ingress_static_hosts).then_some(
            "without --deployment-ingress-static-hosts a service gets no name of its own: manifests whose SDL lists \
             none under `accept:` are refused",
        );
        let shared = (!real && self.ha.ha != HaStore::Off)
            .then_some("--ha without --cluster-k8s: each instance simulates workloads of its own, so that this is for trials");
        let all = cluster.into_iter().chain(names).chain(shared).map(str::to_owned);
        all.chain(self.left_to_others()).collect()
    }
}

const PRICES: [&str; 5] = [
    "bid-price-cpu-scale",
    "bid-price-memory-scale",
    "bid-price-storage-scale",
    "bid-price-endpoint-scale",
    "bid-price-ip-scale",
];

/// Of the flags of `run` whose headings change no bid those that do.
const CHANGE_BIDS: [&str; 9] = [
    "bid-deposit",
    "reclamation-window",
    "overcommit-pct-cpu",
    "overcommit-pct-mem",
    "overcommit-pct-storage",
    "ip-operator",
    "ip-pool-size",
    "k8s-manifest-ns",
    "kube-call-timeout",
];

/// What is convenient in a trial is no default on a real chain: there the operator sets prices and public host. With
/// `explain` the flags of `run` that change no bid can be given and are not shown.
#[must_use]
pub fn for_a_real_chain(root: Command) -> Command {
    let root = root.mut_subcommand("run", with_its_defaults);
    let root = root.mut_subcommand("config", |config| config.mut_subcommands(with_its_defaults));
    root.mut_subcommand("explain", |explain| {
        explain.mut_args(|arg| match arg.get_long() {
            Some(price) if PRICES.contains(&price) => {
                arg.default_value_if("from", ArgPredicate::IsPresent, "0")
            }
            Some("kubeconfig") => arg.help("The cluster of a real provider"),
            Some("cluster-k8s") => arg
                .help("It has a real cluster: that of --kubeconfig, of KUBECONFIG, or the one this runs in"),
            Some(flag) if CHANGE_BIDS.contains(&flag) => arg,
            Some("shutdown-grace") => arg.hide(true),
            _ => match arg.get_help_heading() {
                Some(heading) if changes_no_bid(heading) => arg.hide(true),
                _ => arg,
            },
        })
    })
}

fn with_its_defaults(run: Command) -> Command {
    run.mut_args(|arg| match arg.get_long() {
        Some(price) if PRICES.contains(&price) => arg.default_value("0"),
        Some("cluster-public-hostname") => arg.default_value(""),
        _ => arg,
    })
}

fn changes_no_bid(heading: &str) -> bool {
    [
        "Bids",
        "Bus",
        "Leases",
        "Fee",
        "High availability",
        "Kubernetes",
        "Recording",
        "Rules",
    ]
    .contains(&heading)
        || heading.starts_with("Gateway")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command as Chosen};
    use clap::{CommandFactory, FromArgMatches};

    fn parsed(words: &[&str]) -> Box<RunArgs> {
        let all = [&["provider-daemon", "run"][..], words].concat();
        let matches = for_a_real_chain(Cli::command())
            .try_get_matches_from(all)
            .unwrap();
        match Cli::from_arg_matches(&matches).unwrap().command {
            Chosen::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_of_today_s_chart_is_understood() {
        let args = parsed(&[
            "--cluster-k8s",
            "--node=tcp://a:26657,http://b:26657",
            "--bid-timeout=0",
        ]);
        assert!(args.cluster_k8s);
        assert_eq!(args.node.node, ["tcp://a:26657", "http://b:26657"]);
        assert_eq!(args.bids.bid_timeout, Duration::ZERO);
        assert_eq!(args.pricing.bid_price_cpu_scale.to_string(), "0");
        assert!(args.pricing.strategy(1).is_err(), "nothing has a price");
        assert!(parsed(&["--bid-price-cpu-scale=0.1"]).pricing.strategy(1).is_ok());
        assert!(!parsed(&["--cluster-k8s=false"]).cluster_k8s);
    }

    #[test]
    fn what_is_not_as_most_expect_is_said() {
        let told = |words: &[&str]| parsed(words).warnings().join("\n");
        let both = told(&[]);
        assert!(
            both.contains("nothing runs") && both.contains("`accept:`"),
            "{both}"
        );
        assert!(
            !both.contains("hostname operator"),
            "nothing is reached in memory: {both}"
        );
        let real = ["--cluster-k8s", "--deployment-ingress-static-hosts"];
        let one = told(&real);
        assert!(
            one.lines().count() == 1 && one.contains("makes Ingresses of them"),
            "{one}"
        );
        let routes = told(&[&real[..], &["--ingress-mode=gateway-api"]].concat());
        assert!(
            routes.contains("the hostname operator") && routes.contains("makes HTTPRoutes"),
            "{routes}"
        );
        let inside = told(&[&real[..], &["--with-operators=hostname"]].concat());
        assert_eq!(inside, "", "it makes them itself");
        let none = told(&[&real[..], &["--with-operators=none"]].concat());
        assert!(none.contains("--with-operators hostname"), "{none}");
    }

    #[test]
    fn who_leases_addresses_of_a_cluster_needs_the_operator_for_them() {
        let said = |words: &[&str]| parsed(words).left_to_others().join("\n");
        assert!(!said(&["--cluster-k8s"]).contains("operator ip"));
        assert!(said(&["--cluster-k8s", "--ip-operator"]).contains("`provider-daemon operator ip`"));
        assert!(!said(&["--cluster-k8s", "--ip-operator", "--with-operators=ip"]).contains("operator ip"));
        assert_eq!(said(&["--ip-operator"]), "", "a cluster in memory gives its own");
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let args = parsed(&["--minimum-balance=1000", "--fees=1uakt"]);
        assert_eq!(
            args.notices(|_| None),
            [
                "--minimum-balance: no effect, as in the Go provider",
                "--fees is for a single transaction: what is paid follows from --gas-prices and --gas-adjustment",
            ]
        );
        assert!(parsed(&[]).notices(|_| None).is_empty());
        let words = ["--ip-operator", "--ip-pool-size=8"];
        assert!(parsed(&words).notices(|_| None).is_empty());
        let without = parsed(&words[..1]).notices(|_| None);
        assert!(
            without.len() == 1 && without[0].contains("--ip-pool-size"),
            "{without:?}"
        );
    }
}
