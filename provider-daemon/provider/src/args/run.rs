//! Flags of `run`, with the same names as in the Go provider, if the Go provider has the flag.

use super::NodeArgs;
use super::acme::AcmeArgs;
use super::compared::ComparedArgs;
use super::gas::{Gas, GasArgs};
use super::go_flags::GoFlagArgs;
use super::ha::HaStore;
use super::kubernetes::IngressArg;
use super::limits::LimitArgs;
use super::metrics::MetricsArgs;
use super::operators::EmbeddedOperatorArg;
use super::rules::RuleArgs;
use super::settings::Remarks;
use super::{
    AuditLogArgs, BusArgs, ClusterArgs, HaArgs, KubernetesArgs, OrderHistoryArgs, Output, PricingArgs,
    SignerArgs, values,
};
use crate::flight::RecordArgs;
use akash_provider_cli::setting::{FileKey, HaRule, Reloaded};
use clap::{Args, Command};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Settings that all instances must share.
    #[arg(skip)]
    pub compared: ComparedArgs,
    /// Output format of events
    #[arg(long, short, value_enum, default_value = "text")]
    #[arg(add = HaRule::OUTPUT)]
    pub output: Output,
    /// Run leases on the cluster of --kubeconfig, KUBECONFIG or this pod; otherwise leases run in memory
    #[arg(long)]
    pub cluster_k8s: bool,
    /// provider.yaml: its attributes select the orders to bid on, its other lines are settings
    #[arg(long, value_name = "FILE")]
    #[arg(add = HaRule::ACCOUNT, add = FileKey::Excluded)]
    pub provider_config: Option<PathBuf>,
    /// YAML file of settings by flag name; takes precedence over the provider.yaml
    #[arg(long, value_name = "FILE")]
    #[arg(add = HaRule::PerInstance("its settings are compared individually"), add = FileKey::Excluded)]
    pub config: Option<PathBuf>,
    /// Maximum time to finish pending work after the first SIGINT, SIGTERM or SIGHUP
    #[arg(long, default_value = "30s", value_parser = values::go_duration)]
    #[arg(add = HaRule::MACHINE)]
    pub shutdown_grace: Duration,
    /// Flight recorder.
    #[command(flatten)]
    pub record: RecordArgs,
    /// Order history.
    #[command(flatten)]
    pub history: OrderHistoryArgs,
    /// Export of traces.
    #[cfg(feature = "otlp")]
    #[command(flatten)]
    pub otlp: super::OtlpArgs,
    /// Audit log.
    #[command(flatten)]
    pub audit: AuditLogArgs,
    /// Bids.
    #[command(flatten)]
    pub bids: BidArgs,
    /// Leases.
    #[command(flatten)]
    pub leases: LeaseArgs,
    /// Gateway.
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// ACME client.
    #[command(flatten)]
    pub acme: AcmeArgs,
    /// Nodes of the chain.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Signing key.
    #[command(flatten)]
    pub signer: SignerArgs,
    /// Fees.
    #[command(flatten)]
    pub gas: GasArgs,
    /// In-memory cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Kubernetes cluster.
    #[command(flatten)]
    pub kubernetes: KubernetesArgs,
    /// Prices.
    #[command(flatten)]
    pub pricing: PricingArgs,
    /// Metrics.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Event bus.
    #[command(flatten)]
    pub bus: BusArgs,
    /// High availability.
    #[command(flatten)]
    pub ha: HaArgs,
    /// Engine rules.
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Flags of the Go provider that have no effect here.
    #[command(flatten)]
    pub go_flags: GoFlagArgs,
    /// Notes about settings files and environment variables, for the log.
    #[arg(skip)]
    pub remarks: Remarks,
}

/// Bids.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bids")]
pub struct BidArgs {
    /// Deposit of a bid; comma-separated alternatives are tried from left to right
    #[arg(
        long,
        value_name = "COIN",
        default_value = "500000uact,500000uakt",
        value_delimiter = ','
    )]
    #[arg(add = FileKey::Chart("bidMinDeposit"))]
    pub bid_deposit: Vec<String>,
    /// Close a bid without a lease after this time; 0 disables the limit
    #[arg(long, default_value = "5m", value_parser = values::go_duration)]
    pub bid_timeout: Duration,
    /// Notice period before the provider takes a lease back; 0 offers no reclamation
    #[arg(long, default_value = "0", value_parser = values::go_duration)]
    pub reclamation_window: Duration,
}

/// Leases.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leases")]
pub struct LeaseArgs {
    /// Close a lease without a manifest after this time; 0 disables the limit
    #[arg(long, default_value = "5m", value_parser = values::go_duration)]
    pub manifest_timeout: Duration,
    /// Interval of withdrawals from escrow accounts; 0 withdraws only when an account runs out of funds
    #[arg(long, default_value = "24h", value_parser = values::go_duration)]
    pub withdrawal_period: Duration,
    /// Interval of escrow balance checks, from 1m to 24h
    #[arg(long, default_value = "10m", value_parser = values::go_duration)]
    pub lease_funds_monitor_interval: Duration,
    /// Give every HTTP service a hostname under --deployment-ingress-domain
    #[arg(long)]
    pub deployment_ingress_static_hosts: bool,
    /// Domain of automatic hostnames of services
    #[arg(long, default_value = "")]
    pub deployment_ingress_domain: String,
    /// Hostnames denied to tenants; a leading dot includes all names below the domain
    #[arg(long, value_delimiter = ',')]
    pub deployment_blocked_hostnames: Vec<String>,
    /// Timeout of one chain query, including retries and other nodes
    #[arg(long, default_value = "1m", value_parser = values::go_duration)]
    #[arg(add = HaRule::MACHINE)]
    pub rpc_query_timeout: Duration,
}

/// Gateway for tenants.
#[derive(Debug, Args)]
#[command(next_help_heading = "Gateway")]
pub struct GatewayArgs {
    /// Listen address for manifests, status, logs and shells; `none` disables it
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8443", value_parser = listen)]
    #[arg(add = HaRule::LOCATION)]
    pub gateway_listen_address: ListenAddress,
    /// Listen address of the gRPC gateway; `none` disables it
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8444", value_parser = listen)]
    #[arg(add = HaRule::LOCATION)]
    pub gateway_grpc_listen_address: ListenAddress,
    /// Listen address of `/healthz` and `/readyz` without TLS; `none` disables it
    #[arg(long, value_name = "ADDRESS", default_value = "none", value_parser = listen)]
    #[arg(add = HaRule::LOCATION)]
    pub gateway_health_listen_address: ListenAddress,
    /// Certificate (PEM) of a public CA for --cluster-public-hostname
    #[arg(long, value_name = "FILE", requires = "gateway_tls_key")]
    #[arg(add = HaRule::LOCATION, add = Reloaded)]
    pub gateway_tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate in --gateway-tls-cert
    #[arg(long, value_name = "FILE", requires = "gateway_tls_cert")]
    #[arg(add = HaRule::LOCATION, add = Reloaded)]
    pub gateway_tls_key: Option<PathBuf>,
    /// Maximum lifetime of tenant tokens; tokens with a longer lifetime are rejected
    #[arg(long, value_name = "DURATION", value_parser = values::go_duration)]
    pub gateway_token_lifetime_max: Option<Duration>,
    /// Create and renew a certificate for these host names, on the chain and in the home directory
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    #[arg(add = HaRule::LOCATION)]
    pub certificate_domain: Vec<String>,
    /// Secret in the manifest namespace with the certificate of all instances [default: the home directory]
    #[arg(long, value_name = "NAME", value_parser = values::dns_name)]
    pub provider_certificate_secret: Option<String>,
    /// Limits for unauthenticated clients.
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Listen address, or `None` if disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub Option<SocketAddr>);

fn listen(text: &str) -> Result<ListenAddress, String> {
    if text == "none" {
        return Ok(ListenAddress(None));
    }
    // As in Go: no address is every address.
    let host = text.rsplit_once(':').map(|(host, _)| host);
    let address = match host {
        Some("") => format!("0.0.0.0{text}"),
        Some("localhost") => text.replacen("localhost", "127.0.0.1", 1),
        _ => text.to_owned(),
    };
    let address = address
        .parse()
        .map_err(|e| format!("{e}; expected ADDRESS:PORT such as 0.0.0.0:8443, or none"))?;
    Ok(ListenAddress(Some(address)))
}

impl RunArgs {
    /// Returns one line for each flag that is set but has no effect.
    #[must_use]
    pub fn notices(&self, look: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let of_one = "applies to single transactions: `run` uses --gas-prices and --gas-adjustment";
        let gas = match self.gas.gas {
            Gas::Auto => None,
            Gas::Limit(_) => Some(format!("--gas {of_one}")),
        };
        let kubernetes = &self.kubernetes;
        let pool = (kubernetes.ip_operator && kubernetes.ip_pool_size == 0).then(|| {
            "--ip-operator without --ip-pool-size: addresses are counted from MetalLB's IPAddressPools; if these cannot be \
             read, leases keep their addresses, and orders with addresses are declined"
                .to_owned()
        });
        let fees = self.gas.fees.as_ref().filter(|fees| !fees.is_empty());
        let fees = fees.map(|_| format!("--fees {of_one}"));
        let acme = self.acme.unused(self.gateway.gateway_tls_cert.is_some());
        let acme = acme.filter(|_| self.acme.cert_issuer_enabled);
        let acme = acme.map(|why| format!("--cert-issuer-enabled: {why}"));
        let today = self.go_flags.notices(look);
        let files = self.remarks.unknown.iter().chain(&self.remarks.notes).cloned();
        files
            .chain(today)
            .chain(gas)
            .chain(fees)
            .chain(pool)
            .chain(acme)
            .collect()
    }

    /// Returns one line for each cluster component that this process needs but does not run.
    #[must_use]
    pub fn left_to_others(&self) -> Vec<String> {
        let routes = match self.kubernetes.routes.ingress_mode {
            IngressArg::Ingress => "Ingresses",
            IngressArg::GatewayApi => "HTTPRoutes",
        };
        let names = format!(
            "hostnames of leases are declared as ProviderHost objects, which need an operator to take effect: the hostname \
             operator must run in the cluster (`provider-daemon operator hostname`), or in this process with \
             --with-operators hostname, which creates {routes} for them"
        );
        let addresses = "leased addresses are declared as ProviderLeasedIP objects, which need an operator to take effect: the IP \
                         operator must run in the cluster (`provider-daemon operator ip`), or in this process with \
                         --with-operators ip, and MetalLB";
        let inside = |one| self.kubernetes.runs(one);
        let names = (!inside(EmbeddedOperatorArg::Hostname)).then_some(names);
        let needs_addresses = self.kubernetes.ip_operator && !inside(EmbeddedOperatorArg::Ip);
        let addresses = needs_addresses.then(|| addresses.to_owned());
        if !self.is_real() {
            return Vec::new();
        }
        names.into_iter().chain(addresses).collect()
    }

    const fn is_real(&self) -> bool {
        self.cluster_k8s || self.kubernetes.kubeconfig.is_some()
    }

    /// Returns the DNS domain of the Services in the Kubernetes cluster. Returns `None` without a cluster.
    #[must_use]
    pub fn cluster_domain(&self) -> Option<String> {
        self.is_real().then(|| self.kubernetes.domain.get())?
    }

    /// Returns one warning for each setting with a possibly unexpected effect.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let real = self.is_real();
        let cluster = (!real).then_some(
            "without --cluster-k8s workloads are simulated in memory: nothing runs, and a restart loses them",
        );
        let names = (!self.leases.deployment_ingress_static_hosts).then_some(
            "without --deployment-ingress-static-hosts services get no automatic hostname: manifests with no names \
             under `accept:` are rejected",
        );
        let shared = (!real && self.ha.ha != HaStore::Off)
            .then_some("--ha without --cluster-k8s: each instance simulates separate workloads; use this for trials only");
        let all = cluster.into_iter().chain(names).chain(shared).map(str::to_owned);
        all.chain(self.left_to_others()).collect()
    }
}

/// Flags of prices, which have defaults for trials.
pub const PRICES: [&str; 5] = [
    "bid-price-cpu-scale",
    "bid-price-memory-scale",
    "bid-price-storage-scale",
    "bid-price-endpoint-scale",
    "bid-price-ip-scale",
];

/// Help of `--output` of a command that prints one result.
pub const OUTPUT_OF_A_RESULT: &str = "Output format of the result";

/// Removes the trial defaults of `run`: the operator of a real provider must set prices and the public host
/// name.
#[must_use]
pub fn for_a_real_chain(run: Command) -> Command {
    run.mut_args(|arg| match arg.get_long() {
        Some(price) if PRICES.contains(&price) => arg.default_value("0"),
        Some("cluster-public-hostname") => arg.default_value(""),
        _ => arg,
    })
}

/// Removes the trial defaults from a command that has the flags of `run` and prints one result.
#[must_use]
pub fn with_a_result(command: Command) -> Command {
    for_a_real_chain(command).mut_args(|arg| match arg.get_long() {
        Some("output") => arg.help(OUTPUT_OF_A_RESULT),
        _ => arg,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::run_line::RunLine;

    fn parsed(words: &[&str]) -> Box<RunArgs> {
        RunLine::real(words).unwrap()
    }

    #[test]
    fn accepts_the_command_of_the_go_provider_chart() {
        let args = parsed(&[
            "--cluster-k8s",
            "--node=tcp://a:26657,http://b:26657",
            "--bid-timeout=0",
        ]);
        assert!(args.cluster_k8s);
        assert_eq!(args.node.node, ["tcp://a:26657", "http://b:26657"]);
        assert_eq!(args.bids.bid_timeout, Duration::ZERO);
        assert_eq!(args.pricing.bid_price_cpu_scale.to_string(), "0");
        assert!(args.pricing.strategy(1).is_err(), "prices must have no default");
        assert!(parsed(&["--bid-price-cpu-scale=0.1"]).pricing.strategy(1).is_ok());
        assert!(!parsed(&["--cluster-k8s=false"]).cluster_k8s);
    }

    #[test]
    fn accepts_addresses_short_forms_and_repeated_flags_of_go() {
        let args = parsed(&[
            "-y",
            "-b",
            "sync",
            "-a=1",
            "-s",
            "2",
            "--bid-timeout=5m",
            "--bid-timeout=6m",
        ]);
        assert_eq!(args.bids.bid_timeout.as_secs(), 360, "the last value counts");
        let notices = args.notices(|_| None).join("\n");
        assert!(
            notices.contains("--broadcast-mode, --account-number, --sequence, --yes: "),
            "{notices}"
        );
        for (text, address) in [
            (":8443", "0.0.0.0:8443"),
            ("localhost:8443", "127.0.0.1:8443"),
            ("[::1]:8443", "[::1]:8443"),
        ] {
            let args = parsed(&[&format!("--gateway-listen-address={text}")]);
            let expected = address.parse().unwrap();
            assert_eq!(args.gateway.gateway_listen_address.0, Some(expected), "{text}");
        }
        let lists = parsed(&[
            "--deployment-blocked-hostnames=a",
            "--deployment-blocked-hostnames=b",
        ]);
        assert_eq!(
            lists.leases.deployment_blocked_hostnames,
            ["a", "b"],
            "lists grow"
        );
    }

    #[test]
    fn warns_about_surprising_settings() {
        let warnings = |words: &[&str]| parsed(words).warnings().join("\n");
        let both = warnings(&[]);
        assert!(
            both.contains("nothing runs") && both.contains("`accept:`"),
            "{both}"
        );
        assert!(
            !both.contains("hostname operator"),
            "no operator is needed in memory: {both}"
        );
        let real = ["--cluster-k8s", "--deployment-ingress-static-hosts"];
        let one = warnings(&real);
        assert!(
            one.lines().count() == 1 && one.contains("creates Ingresses for them"),
            "{one}"
        );
        let routes = warnings(&[&real[..], &["--ingress-mode=gateway-api"]].concat());
        assert!(
            routes.contains("the hostname operator") && routes.contains("creates HTTPRoutes"),
            "{routes}"
        );
        let inside = warnings(&[&real[..], &["--with-operators=hostname"]].concat());
        assert_eq!(inside, "", "the embedded operator creates the routes");
        let none = warnings(&[&real[..], &["--with-operators=none"]].concat());
        assert!(none.contains("--with-operators hostname"), "{none}");
    }

    #[test]
    fn requires_the_ip_operator_for_leased_addresses() {
        let warnings = |words: &[&str]| parsed(words).left_to_others().join("\n");
        assert!(!warnings(&["--cluster-k8s"]).contains("operator ip"));
        assert!(warnings(&["--cluster-k8s", "--ip-operator"]).contains("`provider-daemon operator ip`"));
        assert!(
            !warnings(&["--cluster-k8s", "--ip-operator", "--with-operators=ip"]).contains("operator ip")
        );
        assert_eq!(
            warnings(&["--ip-operator"]),
            "",
            "the in-memory cluster assigns addresses"
        );
    }

    #[test]
    fn reports_flags_without_effect() {
        let args = parsed(&["--minimum-balance=1000", "--fees=1uakt"]);
        assert_eq!(
            args.notices(|_| None),
            [
                "--minimum-balance: no effect, as in the Go provider",
                "--fees applies to single transactions: `run` uses --gas-prices and --gas-adjustment",
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
