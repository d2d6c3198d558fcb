//! The embedded market with the provider in it.

use super::output::print_facts;
use super::{Backend, Kubernetes, Link, Printer, Processes, StateFile, link, names};
use crate::args::operators::InsideArg;
use crate::args::{ClusterArgs, DevArgs};
use crate::operators::OperatorPlan;
use akash_provider_core::bidding;
use akash_provider_core::bus::LocalBus;
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::cluster::Cluster;
use akash_provider_core::engine::Status;
use akash_provider_core::inventory::InventorySource;
use akash_provider_core::market::{MarketConfig, network_params};
use akash_provider_core::provider::{Provider, ProviderHandle};
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Address, Attribute, AuditedAttributes, BidState, BlockTime, Coin, GroupSpec, LeaseState, Msg,
};
use akash_provider_core::{Config, Error};
use akash_provider_gateway::Screening;
use anyhow::{Context, anyhow};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How often the provider is asked for its status.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Chain, cluster and provider.
#[derive(Debug)]
pub struct World {
    /// The market. Tenants act on it directly, also where the provider speaks to it over the wire.
    pub chain: MemoryChain,
    /// The provider's account, registered and with money from the start.
    pub provider: Address,
    /// Where leases run; tenants look here whether their services do.
    pub cluster: Arc<dyn Cluster>,
    /// The provider that runs; ready once [`World::start`] has returned.
    pub handle: ProviderHandle,
    /// What bids follow from.
    pub screening: Screening,
    /// Time between two blocks, as the flag says.
    pub block_time: Duration,
    link: Link,
    backend: Arc<Backend>,
    status: watch::Receiver<Arc<Status>>,
    running: JoinHandle<Result<(), Error>>,
    helpers: Vec<JoinHandle<()>>,
    background: CancellationToken,
}

impl World {
    /// Builds everything and starts it; returns when the provider is ready.
    ///
    /// # Errors
    /// A setting makes no sense, or the provider did not become ready.
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
            let (wanted, signed) = bidding::accepting_profile(&groups, names::AUDITOR);
            // What the SDLs ask for comes first; a capability number must not be used twice.
            attributes.retain(|a| !a.key.starts_with("capabilities/storage/"));
            attributes.extend(wanted);
            audits = signed;
        }
        let state = args.state.as_deref().map(StateFile::open).transpose()?;
        let mut config = config(args, sdls)?;
        let chain = match state.as_ref().and_then(StateFile::market) {
            Some(market) => MemoryChain::with_market(market),
            None => market(&mut config, args, &attributes, &audits)?,
        };
        config.chain_id = chain.market(|m| m.chain_id().to_owned());
        if let Some(state) = &state {
            state.breaker().give(&mut config);
            // Before anybody acts on the chain, so that the file lacks no change.
            state.follow(&chain);
        }
        let (background, account) = (CancellationToken::new(), config.provider.clone());
        let link = Link::open(args, &chain, printer, &background).await?;
        let backend = Arc::new(backend(args, &hardware, &config).await?);
        let cluster = backend.cluster();
        let bus = Arc::new(LocalBus::new());
        let pricing = args.pricing.strategy(args.seed)?;
        let screening = Screening {
            config: config.clone(),
            pricing: Arc::clone(&pricing),
        };
        let builder = match state {
            Some(state) => Provider::builder().keeper(state),
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
        // Last: whoever listens has subscribed by now, and misses no fact.
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

    /// The provider's newest status, asked for once for all tenants: each of them asking would keep it from work.
    #[must_use]
    pub fn status(&self) -> Arc<Status> {
        self.status.borrow().clone()
    }

    /// Returns when the provider can see what was done to the market: over the wire, with the next block.
    pub async fn settled(&self) {
        let height = || self.chain.market(|m| m.height());
        let before = height();
        while self.link.is_wire() && height() == before {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Where the market can be asked over the wire, when the provider asks it there.
    #[must_use]
    pub fn rpc_url(&self) -> Option<String> {
        self.link.rpc_url()
    }

    /// The capacity of the cluster, as it changes.
    #[must_use]
    pub fn inventory(&self) -> Arc<dyn InventorySource> {
        self.backend.inventory()
    }

    /// What is left of leases, bids, reservations, hostnames and workloads, one line each.
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
        let held = status.inventory.active.iter().chain(&status.inventory.pending);
        left.extend(held.map(|r| format!("reservation {}", r.order)));
        left.extend(status.hostnames.keys().map(|name| format!("hostname {name}")));
        match self.backend.leftovers().await {
            Ok(lines) => left.extend(lines),
            Err(error) => left.push(format!("what the cluster has is unknown: {error:#}")),
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

    /// What workloads are, in a word, and what people would take for more than it is.
    #[must_use]
    pub fn notice(&self) -> Option<(&'static str, &'static str)> {
        self.backend.notice()
    }

    /// True when the provider has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Waits for the provider, which was told to stop, and ends the rest.
    ///
    /// # Errors
    /// The provider's own error.
    pub async fn stop(self) -> anyhow::Result<()> {
        // The provider first: its last facts are still printed and kept.
        let result = self.running.await;
        self.background.cancel();
        for helper in self.helpers {
            helper.await.context("a part of the embedded market")?;
        }
        // Both are closed, whichever of them fails.
        let (link, backend) = (self.link.close().await, self.backend.close().await);
        link.and(backend)?;
        Ok(result.context("the provider")??)
    }
}

fn config(args: &DevArgs, sdls: &[(String, Sdl)]) -> anyhow::Result<Config> {
    let mut config = Config::new(link::account(args)?, names::CHAIN_ID);
    config.external_ports = args.cluster.cluster_node_port_quantity;
    let kubernetes = &args.kubernetes;
    // Addresses are handed out by the operators of a real cluster, and none runs here; processes have none.
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

/// Returns a reclamation window that the chain accepts and that is long enough for these SDLs; `None` where none of them
/// requests a window.
pub(crate) fn widest_reclamation<'a>(sdls: impl IntoIterator<Item = &'a Sdl>) -> Option<Duration> {
    let wanted = sdls.into_iter().filter_map(|sdl| sdl.reclamation_min_window);
    let least = network_params().min_reclamation_window;
    wanted.max().map(|window| window.max(least))
}

/// Volumes of the unit that has the most of them.
pub(crate) fn most_volumes<'a>(groups: impl IntoIterator<Item = &'a GroupSpec>) -> u32 {
    let units = groups.into_iter().flat_map(|g| &g.resources);
    let most = units.map(|u| u.resources.storage.len()).max().unwrap_or(0);
    u32::try_from(most).unwrap_or(u32::MAX)
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
    let options = args.cluster.inventory_options();
    // A newcomer's names lead somewhere without a pod of an operator.
    let domain = &args.deployment_ingress_domain;
    let operators = OperatorPlan::read(&args.kubernetes, &[InsideArg::Hostname], domain, None)?;
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
        .context("the clock is before 1970")?;
    let genesis = BlockTime(i64::try_from(since.as_millis())?);
    if args.kubernetes.kubeconfig.is_some() {
        // What is on the cluster tells by this who made it.
        config.chain_id = format!("{}-{}", names::CHAIN_ID, genesis.0);
    }
    let chain = MemoryChain::new(MarketConfig::new(config.chain_id.clone(), genesis));
    let record = akash_provider_core::types::ProviderRecord {
        owner: config.provider.clone(),
        host_uri: "https://localhost:8443".to_owned(),
        info: Default::default(),
        attributes: attributes.to_vec(),
    };
    chain.market(|market| {
        for denom in ["uact", "uakt"] {
            market.fund(
                &config.provider,
                &Coin {
                    denom: denom.into(),
                    amount: 1_000_000_000_000,
                },
            );
        }
        market
            .execute(&Msg::CreateProvider(record))
            .map_err(|e| anyhow!("registering the provider: {e}"))?;
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
        loop {
            tokio::select! {
                biased;
                () = background.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            sender.send_replace(handle.status().await);
        }
    };
    (tokio::spawn(asking), status)
}

/// Makes blocks, and tells the cluster of them.
fn make_blocks(
    chain: &MemoryChain,
    backend: &Arc<Backend>,
    block_time: Duration,
    background: &CancellationToken,
) -> JoinHandle<()> {
    let (chain, backend, background) = (chain.clone(), Arc::clone(backend), background.clone());
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(block_time);
        loop {
            tokio::select! {
                biased;
                () = background.cancelled() => return,
                _ = ticks.tick() => {}
            }
            // By the block time and not by the clock: a run that is held up still has blocks of the same length.
            chain.advance(block_time);
            backend.tick().await;
        }
    })
}
