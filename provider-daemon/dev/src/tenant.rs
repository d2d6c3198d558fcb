//! Simulated tenant: creates an order, accepts a bid, sends a manifest, updates the manifest, and closes the
//! deployment.

use crate::{CapacityQueue, World};
use akash_provider_cli::plain::count;
use akash_provider_core::cluster::{Cluster, Health};
use akash_provider_core::engine::{LeasePhase, RefusalKind};
use akash_provider_core::error::chain_text;
use akash_provider_core::manifest::{self, Manifest};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Bid, BidState, Coin, DecCoin, DeclineCode, DeploymentId, LeaseId, OrderId, OrderState,
};
use akash_provider_service::error::help;
use akash_provider_service::printer::Printer;
use akash_provider_service::trial;
use anyhow::{Context, anyhow, bail};
use data_encoding::HEXLOWER;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time that a tenant waits for the next event, in block times.
const WAIT_BLOCKS: u32 = 60;
/// Lower bound of the maximum wait, for short block times.
const WAIT_MIN: Duration = Duration::from_secs(20);
/// Maximum number of retries of a tenant while the provider has no lease.
const ATTEMPTS_MAX: u32 = 2;
/// Maximum time that a tenant waits for capacity while the provider has no lease, in block times.
const IDLE_BLOCKS: u32 = 3;
/// Lower bound of the maximum wait for capacity, for short block times.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// Interval at which a tenant checks chain, cluster and provider.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Initial deposit of a deployment, in the smallest unit of the token.
const DEPOSIT: u128 = 50_000_000;

/// Result of the deployment of one SDL.
#[derive(Debug, Clone, Default)]
pub struct DeploymentResult {
    /// Name of the SDL.
    pub name: String,
    /// Time from the creation of the deployment until all orders have a bid.
    pub to_bid: Option<Duration>,
    /// Time from the creation of the deployment until all services run.
    pub to_run: Option<Duration>,
    /// Price per block of each lease.
    pub prices: Vec<DecCoin>,
    /// Reason why the order was declined, or why the deployment failed.
    pub problem: Option<String>,
    /// True if the provider declined the order.
    pub declined: bool,
    /// Code of the reason for a decline.
    pub reason: Option<DeclineCode>,
    /// Duration for which the tenant waited for released capacity.
    pub waited: Option<Duration>,
    /// Remedy for a failure, or the flags with which the provider would bid.
    pub remedy: Option<String>,
}

impl DeploymentResult {
    fn fail(&mut self, error: &anyhow::Error) {
        self.problem = Some(chain_text(error.as_ref()));
        self.remedy = help(error).map(str::to_owned);
    }
}

/// Tenant with one deployment.
#[derive(Debug)]
pub struct SimulatedTenant {
    world: Arc<World>,
    printer: Arc<Printer>,
    id: DeploymentId,
    name: String,
    sdl: Sdl,
    started: Instant,
    /// Queue for capacity; without a queue, the tenant stops after the first decline.
    queue: Option<Arc<CapacityQueue>>,
}

impl SimulatedTenant {
    /// Creates a tenant for one SDL. Each deployment of an account needs a different `dseq`.
    ///
    /// # Errors
    /// Returns an error only for an invalid account number.
    pub fn new(
        world: &Arc<World>,
        printer: &Arc<Printer>,
        account: u32,
        dseq: u64,
        (name, sdl): (String, Sdl),
    ) -> anyhow::Result<Self> {
        let id = DeploymentId::new(trial::tenant(account)?, dseq);
        let (world, printer) = (Arc::clone(world), Arc::clone(printer));
        Ok(Self {
            world,
            printer,
            id,
            name,
            sdl,
            started: Instant::now(),
            queue: None,
        })
    }

    /// Sets the queue in which the tenant waits for capacity.
    #[must_use]
    pub fn with_queue(mut self, queue: &Arc<CapacityQueue>) -> Self {
        self.queue = Some(Arc::clone(queue));
        self
    }

    /// Acts as the tenant until all services run. With `to_the_end`, also updates and closes the deployment.
    pub async fn play(mut self, to_the_end: bool) -> DeploymentResult {
        let (mut waited, mut vain) = (Duration::ZERO, 0);
        let mut outcome = loop {
            let outcome = self.attempt(to_the_end).await;
            let is_for_capacity = outcome.reason.is_some_and(CapacityQueue::is_for_capacity);
            let Some(queue) = self
                .queue
                .clone()
                .filter(|_| is_for_capacity && vain < ATTEMPTS_MAX)
            else {
                break outcome;
            };
            let began = Instant::now();
            let is_taken = || !self.world.status().leases.is_empty();
            let moment = IDLE_MIN.max(self.world.block_time.saturating_mul(IDLE_BLOCKS));
            if !queue.wait(is_taken, moment).await {
                // All capacity is released, so another attempt is unlikely to succeed.
                vain += 1;
            }
            waited += began.elapsed();
            // A closed deployment cannot be reopened, so the next attempt creates a new one.
            self.id.dseq += 1;
        };
        outcome.waited = (waited > Duration::ZERO).then_some(waited);
        if let Some(queue) = &self.queue {
            queue.next();
        }
        outcome
    }

    /// Runs one deployment from its current state on the chain.
    async fn attempt(&mut self, to_the_end: bool) -> DeploymentResult {
        self.started = Instant::now();
        let mut outcome = DeploymentResult {
            name: self.name.clone(),
            ..DeploymentResult::default()
        };
        if let Err(error) = self.life(to_the_end, &mut outcome).await {
            outcome.fail(&error);
            if to_the_end {
                // The deployment is closed after any failure.
                let _ = self
                    .world
                    .chain
                    .tenant(TenantMsg::CloseDeployment { id: self.id.clone() });
            }
        }
        outcome
    }

    async fn life(&self, to_the_end: bool, outcome: &mut DeploymentResult) -> anyhow::Result<()> {
        let record = self
            .world
            .chain
            .market(|m| m.deployment(&self.id).map(|d| d.deployment));
        match &record {
            None => self.order()?,
            Some(record) => self.go_on(record.active),
        }
        if record.as_ref().is_some_and(|r| !r.active) {
            return self.released(&self.leases().0).await;
        }
        let leases = self.lease(outcome).await?;
        if record.is_some_and(|r| r.hash != self.sdl.hash) {
            self.update(&leases).await?;
            return self.close(&leases).await;
        }
        self.send(&self.sdl.manifest, self.sdl.hash).await?;
        self.until("not all services run", || self.all_run(&leases, self.sdl.hash))
            .await?;
        outcome.to_run = Some(self.started.elapsed());
        if to_the_end {
            self.update(&leases).await?;
            self.close(&leases).await?;
        }
        Ok(())
    }

    fn go_on(&self, active: bool) {
        self.printer.name(&self.id, &self.name);
        let detail = if active { "where it was" } else { "it is closed" };
        self.printer.tenant(&self.id, "goes on", detail);
    }

    /// Returns the leases of all groups. Accepts the cheapest bid for each group without a lease.
    async fn lease(&self, outcome: &mut DeploymentResult) -> anyhow::Result<Vec<LeaseId>> {
        let (mut leases, mut prices) = self.leases();
        let bids = self.bids(outcome).await?;
        outcome.to_bid = Some(self.started.elapsed());
        prices.extend(bids.iter().map(|b| b.price.clone()));
        outcome.prices = prices;
        leases.extend(self.take(bids)?);
        // Over the network the provider receives the lease with the next block, and rejects an earlier manifest.
        self.world.settled().await;
        Ok(leases)
    }

    /// Returns all leases, including closed ones, with their prices.
    fn leases(&self) -> (Vec<LeaseId>, Vec<DecCoin>) {
        self.world.chain.market(|market| {
            let mine = market.leases().filter(|l| *l.lease.id.deployment() == self.id);
            mine.map(|l| (l.lease.id, l.lease.price)).unzip()
        })
    }

    fn order(&self) -> anyhow::Result<()> {
        self.printer.name(&self.id, &self.name);
        let denom = self
            .sdl
            .groups
            .first()
            .and_then(|g| g.resources.first())
            .map(|u| u.price.denom.clone());
        let coin = Coin::new(denom.unwrap_or_else(|| "uact".into()), DEPOSIT);
        self.world
            .chain
            .market(|market| market.fund(&self.id.owner, &coin));
        let create = TenantMsg::create_deployment(self.id.clone(), &self.sdl, coin);
        self.act(create, "creation of the deployment")?;
        self.printer
            .tenant(&self.id, "ordered", &count(self.sdl.groups.len(), "group"));
        Ok(())
    }

    fn orders(&self) -> Vec<OrderId> {
        self.world.chain.market(|market| {
            let mine = |o: &&akash_provider_core::types::Order| *o.id.deployment() == self.id;
            market
                .orders()
                .filter(mine)
                .filter(|o| o.state == OrderState::Open)
                .map(|o| o.id.clone())
                .collect()
        })
    }

    async fn bids(&self, outcome: &mut DeploymentResult) -> anyhow::Result<Vec<Bid>> {
        let orders = self.orders();
        let deadline = self.deadline();
        loop {
            let bids: Vec<Bid> = orders.iter().filter_map(|order| self.cheapest(order)).collect();
            if bids.len() == orders.len() {
                return Ok(bids);
            }
            let status = self.world.status();
            if let Some(decline) = status.recent_declines.iter().find(|d| orders.contains(&d.order)) {
                outcome.declined = true;
                outcome.reason = Some(decline.reason);
                bail!("declined ({}): {}", decline.reason, decline.message);
            }
            if Instant::now() >= deadline {
                bail!(
                    "no bid on the order within {}",
                    humantime::format_duration(self.wait_limit())
                );
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    fn cheapest(&self, order: &OrderId) -> Option<Bid> {
        self.world.chain.market(|market| {
            let open = market.bids_of(order).filter(|b| b.state == BidState::Open);
            open.min_by(|a, b| a.price.amount.cmp(&b.price.amount)).cloned()
        })
    }

    fn take(&self, bids: Vec<Bid>) -> anyhow::Result<Vec<LeaseId>> {
        let mut leases = Vec::new();
        for bid in bids {
            let accept = TenantMsg::CreateLease { bid: bid.id.clone() };
            self.act(accept, "acceptance of the bid")?;
            leases.push(bid.id);
        }
        Ok(leases)
    }

    async fn send(&self, manifest: &Manifest, hash: [u8; 32]) -> anyhow::Result<()> {
        let manifest = Arc::new(manifest.clone());
        let deadline = self.deadline();
        loop {
            let answer = self
                .world
                .handle
                .submit_manifest(&self.id, Arc::clone(&manifest), hash)
                .await;
            let Err(refusal) = answer else { return Ok(()) };
            // Temporary rejections are retried, others are final.
            let may_pass = matches!(refusal.kind, RefusalKind::Unavailable | RefusalKind::Busy);
            if !may_pass || Instant::now() >= deadline {
                self.printer
                    .tenant(&self.id, "manifest refused", &refusal.message);
                return Err(refusal).context("manifest rejected");
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Returns true if the provider has deployed this manifest, and all services are healthy.
    async fn all_run(&self, leases: &[LeaseId], hash: [u8; 32]) -> bool {
        let (status, hash) = (self.world.status(), HEXLOWER.encode(&hash));
        let mine = status.deployments.iter().find(|d| d.deployment == self.id);
        let is_accepted = mine.is_some_and(|d| d.manifest.as_ref() == Some(&hash))
            && leases.iter().all(|lease| {
                let info = status.leases.iter().find(|l| l.lease == *lease);
                info.is_some_and(|l| l.phase == LeasePhase::Running && l.health == Health::Good)
            });
        is_accepted && self.all_serve(leases).await
    }

    async fn nothing_runs(&self, leases: &[LeaseId]) -> bool {
        for lease in leases {
            if self.world.cluster.lease_status(lease).await.is_ok() {
                return false;
            }
        }
        true
    }

    /// Returns true if the cluster reports all services as available. The provider may not have observed this
    /// state yet.
    async fn all_serve(&self, leases: &[LeaseId]) -> bool {
        for lease in leases {
            match self.world.cluster.lease_status(lease).await {
                Ok(status) if status.services.values().all(|s| s.available >= s.total) => {}
                Ok(_) | Err(_) => return false,
            }
        }
        true
    }

    async fn update(&self, leases: &[LeaseId]) -> anyhow::Result<()> {
        let mut manifest = self.sdl.manifest.clone();
        for service in manifest.groups.iter_mut().flat_map(|g| &mut g.services) {
            service
                .env
                .get_or_insert_default()
                .push("DEV_UPDATE=1".to_owned());
        }
        let hash = manifest::hash(&manifest);
        let there = self
            .world
            .chain
            .market(|m| m.deployment(&self.id).map(|d| d.deployment.hash));
        // A restored market may have the update already.
        if there != Some(hash) {
            let id = self.id.clone();
            let update = TenantMsg::UpdateDeployment { id, hash };
            self.act(update, "update of the deployment")?;
            self.world.settled().await;
            let what = "one more environment variable in every service";
            self.printer.tenant(&self.id, "updated", what);
        }
        self.send(&manifest, hash).await?;
        self.until("not all services run the update", || self.all_run(leases, hash))
            .await
    }

    async fn close(&self, leases: &[LeaseId]) -> anyhow::Result<()> {
        self.printer.closing(&self.id);
        let close = TenantMsg::CloseDeployment { id: self.id.clone() };
        self.act(close, "close of the deployment")?;
        self.released(leases).await
    }

    async fn released(&self, leases: &[LeaseId]) -> anyhow::Result<()> {
        self.until("the leases are not released", || async {
            let status = self.world.status();
            let gone = leases
                .iter()
                .all(|l| !status.leases.iter().any(|s| s.lease == *l));
            gone && self.nothing_runs(leases).await
        })
        .await
    }

    /// Sends a message of the tenant. `what` names the message in the error.
    fn act(&self, msg: TenantMsg, what: &str) -> anyhow::Result<()> {
        let done = self.world.chain.tenant(msg);
        done.map(drop)
            .map_err(|error| anyhow!("the dev chain rejected the {what}: {error}"))
    }

    async fn until<F: Future<Output = bool>>(
        &self,
        what: &str,
        mut done: impl FnMut() -> F,
    ) -> anyhow::Result<()> {
        let deadline = self.deadline();
        while !done().await {
            if Instant::now() >= deadline {
                bail!("{what} after {}", humantime::format_duration(self.wait_limit()));
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
        Ok(())
    }

    fn wait_limit(&self) -> Duration {
        WAIT_MIN.max(self.world.block_time.saturating_mul(WAIT_BLOCKS))
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.wait_limit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use akash_provider_cli::error::WithHelp;

    #[test]
    fn failed_outcome_has_the_remedy_of_the_error() {
        let mut outcome = DeploymentResult::default();
        outcome.fail(&anyhow!("port in use").context(WithHelp::new("cannot start", "free the port")));
        assert_eq!(outcome.problem.as_deref(), Some("cannot start: port in use"));
        assert_eq!(outcome.remedy.as_deref(), Some("free the port"));
    }
}
