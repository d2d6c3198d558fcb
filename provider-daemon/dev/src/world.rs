//! Embedded market with a provider.

use crate::args::DevArgs;
use crate::{Link, MarketFile, link};
use akash_provider_core::bidding;
use akash_provider_core::bus::LocalBus;
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::engine::Status;
use akash_provider_core::inventory::InventorySource;
use akash_provider_core::market::MarketConfig;
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Address, Attribute, AuditedAttributes, BidState, BlockTime, Coin, GroupSpec, LeaseState, Msg,
};
use akash_provider_core::{Config, Error};
use akash_provider_gateway::Screening;
use akash_provider_service::args::ClusterArgs;
use akash_provider_service::args::operators::EmbeddedOperatorArg;
use akash_provider_service::backend::{Backend, Kubernetes, Processes};
use akash_provider_service::operators::OperatorPlan;
use akash_provider_service::printer::{Printer, print_facts};
use akash_provider_service::trial::{self, most_volumes, widest_reclamation};
use anyhow::{Context, anyhow};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Polling interval of the provider's status and the block height.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Chain, cluster and provider.
#[derive(Debug)]
pub struct World {
    /// Chain of the market, which tenants always use directly.
    pub chain: MemoryChain,
    /// Account of the provider, registered and funded from the start.
    pub provider: Address,
    /// Cluster of the leases.
    pub cluster: Arc<dyn Cluster>,
    /// Handle of the running provider, ready after [`World::start`].
    pub handle: ProviderHandle,
    /// Bid configuration and price strategy of the provider, for bid screening.
    pub screening: Screening,
    /// Time between two blocks.
    pub block_time: Duration,
    link: Link,
    backend: Arc<Backend>,
    status: watch::Receiver<Arc<Status>>,
    running: JoinHandle<Result<(), Error>>,
    helpers: Vec<JoinHandle<()>>,
    background: CancellationToken,
}

impl World {
    /// Starts the chain, the cluster and the provider, and waits until the provider is ready.
    ///
    /// # Errors
    /// Returns an error if a setting is invalid, or if the provider does not become ready.
    pub async fn start(
        args: &DevArgs,
        sdls: &[(String, Sdl)],
        printer: &Arc<Printer>,
        shutdown: CancellationToken,
        abort: CancellationToken,
    ) -> anyhow::Result<Self> {
        let groups: Vec<GroupSpec> = sdls.iter().flat_map(|(_, sdl)| sdl.groups.clone()).collect();
        let mut hardware = args.cluster.clone();
        let (mut attributes, mut audits) = (hardware.attributes(&args.attribute), Vec::new());
        if args.accept_any {
            hardware.grow_for(&groups);
            let (wanted, signed) = bidding::accepting_profile(&groups, trial::AUDITOR);
            // The attributes of the SDLs come first, because a capability number must be unique.
            attributes.retain(|a| !a.key.starts_with("capabilities/storage/"));
            attributes.extend(wanted);
            audits = signed;
        }
        let state = args.state.as_deref().map(MarketFile::open).transpose()?;
        let mut config = config(args, sdls)?;
        let chain = match state.as_ref().and_then(MarketFile::market) {
            Some(market) => MemoryChain::with_market(market),
            None => market(&mut config, args, &attributes, &audits)?,
        };
        config.chain_id = chain.market(|m| m.chain_id().to_owned());
        if let Some(state) = &state {
            state.breaker().apply_to(&mut config);
            // Before the first change of the chain, so that the file contains all changes.
            state.follow(&chain);
        }
        let (background, account) = (CancellationToken::new(), config.provider.clone());
        let link = Link::open(args, &chain, printer, &background).await?;
        let backend = Arc::new(backend(args, &hardware, &config).await?);
        let cluster = backend.cluster();
        let bus = Arc::new(LocalBus::new());
        let pricing = args.pricing.strategy(args.seed)?;
        let screening = Screening::new(config.clone(), Arc::clone(&pricing));
        let builder = match state {
            Some(state) => Provider::builder().state_store(state),
            None => Provider::builder(),
        };
        let (provider, handle) = builder
            .config(config)
            .cluster(Arc::clone(&cluster))
            .chain(link.client())
            .bus(bus.clone())
            .pricing(pricing)
            .inventory(backend.inventory())
            .build()?;
        let mut helpers = vec![print_facts(&bus, printer, &background).await?];
        helpers.push(make_blocks(&chain, &backend, args.block_time, &background));
        // Started last, so that all subscribers receive the first events.
        let running = tokio::spawn(provider.run_until(shutdown, abort));
        let (watcher, status) = watch_status(&handle, &background);
        helpers.push(watcher);
        let block_time = args.block_time;
        let world = Self {
            chain,
            provider: account,
            link,
            cluster,
            handle,
            screening,
            block_time,
            backend,
            status,
            running,
            helpers,
            background,
        };
        world.handle.wait_ready().await?;
        Ok(world)
    }

    /// Returns the latest status of the provider. One periodic query serves all tenants.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        self.status.borrow().clone()
    }

    /// Waits until the provider can observe earlier changes of the market: with `--wire`, until the next
    /// block.
    pub async fn settled(&self) {
        let height = || self.chain.market(|m| m.height());
        let before = height();
        while self.link.is_wire() && height() == before {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the RPC URL of the development network, or `None` for a direct connection.
    #[must_use]
    pub fn rpc_url(&self) -> Option<String> {
        self.link.rpc_url()
    }

    /// Returns the inventory of the cluster.
    #[must_use]
    pub fn inventory(&self) -> Arc<dyn InventorySource> {
        self.backend.inventory()
    }

    /// Returns the remaining leases, bids, reservations, hostnames and workloads, one line each.
    pub async fn leftovers(&self) -> Vec<String> {
        let status = self.handle.status().await;
        let mut left = Vec::new();
        left.extend(
            status
                .leases
                .iter()
                .map(|l| format!("lease {} ({})", l.lease, l.phase)),
        );
        left.extend(
            status
                .orders
                .iter()
                .map(|o| format!("order {} ({})", o.order, o.phase)),
        );
        let reservations = status.inventory.active.iter().chain(&status.inventory.pending);
        left.extend(reservations.map(|r| format!("reservation {}", r.order)));
        left.extend(status.hostnames.keys().map(|name| format!("hostname {name}")));
        match self.backend.leftovers().await {
            Ok(lines) => left.extend(lines),
            Err(error) => left.push(format!("cannot list the cluster: {error:#}")),
        }
        self.chain.market(|market| {
            let open = market.bids().filter(|b| b.state == BidState::Open);
            left.extend(open.map(|b| format!("open bid {}", b.id)));
            let live = market
                .leases()
                .filter(|l| matches!(l.lease.state, LeaseState::Active | LeaseState::Reclaiming));
            left.extend(live.map(|l| format!("live lease {} on the chain", l.lease.id)));
        });
        left
    }

    /// Returns the keyword and the text of a notice. Returns `None` if workloads run as pods.
    #[must_use]
    pub fn notice(&self) -> Option<(&'static str, &'static str)> {
        self.backend.notice()
    }

    /// Returns whether the provider has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Waits until the provider has ended after a shutdown, and then stops the rest of the market.
    ///
    /// # Errors
    /// Returns the failure of the provider.
    pub async fn stop(self) -> anyhow::Result<()> {
        // The provider ends first, so that its last events are printed and stored.
        let result = self.running.await;
        self.background.cancel();
        for helper in self.helpers {
            helper
                .await
                .context("a background task of the embedded market failed")?;
        }
        // Both are closed, even if one fails.
        let (link, backend) = (self.link.close().await, self.backend.close().await);
        link.and(backend)?;
        Ok(result.context("the provider failed")??)
    }
}

fn config(args: &DevArgs, sdls: &[(String, Sdl)]) -> anyhow::Result<Config> {
    let mut config = Config::new(link::account(args)?, trial::CHAIN_ID);
    config.external_ports = args.cluster.cluster_node_port_quantity;
    let kubernetes = &args.kubernetes;
    // Leased addresses of a Kubernetes cluster need an operator, which does not run here; processes have no addresses.
    let has_addresses = kubernetes.kubeconfig.is_none() && !args.processes;
    config.leased_ips = args.cluster.leased_ips > 0 && has_addresses;
    config.overcommit_cpu_percent = kubernetes.overcommit_pct_cpu;
    config.overcommit_memory_percent = kubernetes.overcommit_pct_mem;
    config.overcommit_storage_percent = kubernetes.overcommit_pct_storage;
    config.average_block_time = args.block_time;
    config.unhealthy_limit = (!args.unhealthy_limit.is_zero()).then_some(args.unhealthy_limit);
    let domain = &args.deployment_ingress_domain;
    config.static_hosts_domain = (!domain.is_empty()).then(|| domain.clone());
    if args.accept_any {
        config.reclamation_window = widest_reclamation(sdls.iter().map(|(_, sdl)| sdl));
        config.max_volumes_per_unit = config
            .max_volumes_per_unit
            .max(most_volumes(sdls.iter().flat_map(|(_, sdl)| &sdl.groups)));
    }
    Ok(config)
}

async fn backend(args: &DevArgs, hardware: &ClusterArgs, config: &Config) -> anyhow::Result<Backend> {
    if args.processes {
        let processes = Processes::open(hardware, args.state.as_deref()).await?;
        return Ok(Backend::Processes(Box::new(processes)));
    }
    let Some(kubeconfig) = &args.kubernetes.kubeconfig else {
        return Ok(Backend::in_memory(hardware).await);
    };
    let (provider, chain_id) = (config.provider.clone(), &config.chain_id);
    // Automatic hostnames work without an operator in the cluster.
    let domain = &args.deployment_ingress_domain;
    let operators = OperatorPlan::read(&args.kubernetes, &[EmbeddedOperatorArg::Hostname], domain, None)?;
    let options = operators.share(args.cluster.inventory_options());
    let kubernetes = Kubernetes::connect(kubeconfig, &args.kubernetes, provider, chain_id, &options).await?;
    kubernetes.run_operators(operators);
    Ok(Backend::Kubernetes(Box::new(kubernetes)))
}

fn market(
    config: &mut Config,
    args: &DevArgs,
    attributes: &[Attribute],
    audits: &[AuditedAttributes],
) -> anyhow::Result<MemoryChain> {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .context("the system clock is before 1970")?;
    let genesis = BlockTime(i64::try_from(since.as_millis())?);
    if args.kubernetes.kubeconfig.is_some() {
        // The chain ID identifies the owner of objects in the cluster.
        config.chain_id = format!("{}-{}", trial::CHAIN_ID, genesis.0);
    }
    let chain = MemoryChain::new(MarketConfig::new(config.chain_id.clone(), genesis));
    chain.wait_for_block_end();
    let record = akash_provider_core::types::ProviderRecord {
        owner: config.provider.clone(),
        host_uri: "https://localhost:8443".to_owned(),
        info: Default::default(),
        attributes: attributes.to_vec(),
    };
    chain.market(|market| {
        for denom in ["uact", "uakt"] {
            market.fund(&config.provider, &Coin::new(denom, 1_000_000_000_000));
        }
        market
            .execute(&Msg::CreateProvider(record))
            .map_err(|e| anyhow!("cannot register the provider: {e}"))?;
        for audit in audits {
            market.sign_as(&audit.auditor, &config.provider, audit.attributes.clone());
        }
        Ok(chain.clone())
    })
}

fn watch_status(
    handle: &ProviderHandle,
    background: &CancellationToken,
) -> (JoinHandle<()>, watch::Receiver<Arc<Status>>) {
    let (handle, background) = (handle.clone(), background.clone());
    let (sender, status) = watch::channel(Arc::default());
    let asking = async move {
        while background
            .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
            .await
            .is_some()
        {
            sender.send_replace(handle.status().await);
        }
    };
    (tokio::spawn(asking), status)
}

/// After each interval `block_time`, adds a block to the chain and advances the cluster.
fn make_blocks(
    chain: &MemoryChain,
    backend: &Arc<Backend>,
    block_time: Duration,
    background: &CancellationToken,
) -> JoinHandle<()> {
    let (chain, backend, background) = (chain.clone(), Arc::clone(backend), background.clone());
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(block_time);
        while background.run_until_cancelled(ticks.tick()).await.is_some() {
            // Advanced by the block time instead of the clock, so that delayed blocks have the same length.
            chain.advance(block_time);
            backend.tick().await;
        }
    })
}
