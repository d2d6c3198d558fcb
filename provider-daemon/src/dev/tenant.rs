//! A tenant: orders, chooses a bid, sends a manifest, updates it, closes.

use super::{Printer, Turns, World, names};
use crate::plain::count;
use akash_provider_core::cluster::{Cluster, Health};
use akash_provider_core::engine::{LeasePhase, RefusalKind};
use akash_provider_core::manifest::{self, Manifest};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl::Sdl;
use akash_provider_core::types::{
    Bid, BidState, Coin, DecCoin, DeclineCode, DeploymentId, LeaseId, OrderId, OrderState,
};
use anyhow::{Context, anyhow, bail};
use data_encoding::HEXLOWER;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Blocks a tenant waits for the next thing to happen before it gives up.
const PATIENCE_BLOCKS: u32 = 60;
/// And never less than this, so that fast blocks do not make tenants impatient.
const PATIENCE: Duration = Duration::from_secs(20);
/// Tries of one that waits for room when nothing is taken any more.
const VAIN_MAX: u32 = 2;
/// How long nothing may be taken until it is certain that nobody has to end first, in blocks.
const MOMENT_BLOCKS: u32 = 3;
/// And never less than this.
const MOMENT: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// First money of a deployment.
const DEPOSIT: u128 = 50_000_000;

/// What a tenant sends to get what an SDL asks for.
pub(crate) fn create_deployment(id: DeploymentId, sdl: &Sdl, deposit: Coin) -> TenantMsg {
    TenantMsg::CreateDeployment {
        id,
        groups: sdl.groups.clone(),
        hash: sdl.hash,
        deposit,
        reclamation_min_window: sdl.reclamation_min_window,
    }
}

/// How one SDL fared.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Name of the SDL, by which it is printed.
    pub name: String,
    /// From the order to the bid.
    pub to_bid: Option<Duration>,
    /// From the order to all services running.
    pub to_run: Option<Duration>,
    /// Price per block, group by group.
    pub prices: Vec<DecCoin>,
    /// Why it was declined or failed.
    pub problem: Option<String>,
    /// It was the provider's decision not to bid.
    pub declined: bool,
    /// Why not.
    pub reason: Option<DeclineCode>,
    /// How long it waited until others gave room back.
    pub waited: Option<Duration>,
    /// What to say to `dev` so that it is served.
    pub mend: Option<String>,
}

/// A tenant with one deployment.
#[derive(Debug)]
pub struct Tenant {
    world: Arc<World>,
    printer: Arc<Printer>,
    id: DeploymentId,
    name: String,
    sdl: Sdl,
    started: Instant,
    /// It waits for room with the others; who does not takes the first no.
    turns: Option<Arc<Turns>>,
}

impl Tenant {
    /// A tenant for one SDL; deployments of the same account have numbers of their own.
    ///
    /// # Errors
    /// Never, in practice: the account number fits.
    pub fn new(
        world: &Arc<World>,
        printer: &Arc<Printer>,
        account: u32,
        dseq: u64,
        (name, sdl): (String, Sdl),
    ) -> anyhow::Result<Self> {
        let id = DeploymentId {
            owner: names::tenant(account)?,
            dseq,
        };
        let (world, printer) = (Arc::clone(world), Arc::clone(printer));
        Ok(Self {
            world,
            printer,
            id,
            name,
            sdl,
            started: Instant::now(),
            turns: None,
        })
    }

    /// It waits for room as long as others come and go.
    #[must_use]
    pub fn in_turn(mut self, turns: &Arc<Turns>) -> Self {
        self.turns = Some(Arc::clone(turns));
        self
    }

    /// Plays until everything runs; with `to_the_end` also an update and the close.
    pub async fn play(mut self, to_the_end: bool) -> Outcome {
        let (mut waited, mut vain) = (Duration::ZERO, 0);
        let mut outcome = loop {
            let outcome = self.attempt(to_the_end).await;
            let is_for_room = outcome.reason.is_some_and(Turns::is_for_room);
            let Some(turns) = self.turns.clone().filter(|_| is_for_room && vain < VAIN_MAX) else {
                break outcome;
            };
            let began = Instant::now();
            let is_taken = || !self.world.status().leases.is_empty();
            let moment = MOMENT.max(self.world.block_time.saturating_mul(MOMENT_BLOCKS));
            if !turns.wait(is_taken, moment).await {
                // Nothing is in its way, so this is nearly its last try.
                vain += 1;
            }
            waited += began.elapsed();
            // A deployment that was closed stays closed: this is another one.
            self.id.dseq += 1;
        };
        outcome.waited = (waited > Duration::ZERO).then_some(waited);
        if let Some(turns) = &self.turns {
            turns.next();
        }
        outcome
    }

    /// One deployment, from wherever it is.
    async fn attempt(&mut self, to_the_end: bool) -> Outcome {
        self.started = Instant::now();
        let mut outcome = Outcome {
            name: self.name.clone(),
            ..Outcome::default()
        };
        if let Err(error) = self.life(to_the_end, &mut outcome).await {
            outcome.problem = Some(format!("{error:#}"));
            if to_the_end {
                // Whatever went wrong, nothing is left behind on purpose.
                let _ = self
                    .world
                    .chain
                    .tenant(TenantMsg::CloseDeployment { id: self.id.clone() });
            }
        }
        outcome
    }

    /// Goes on from wherever the chain says that this deployment is.
    async fn life(&self, to_the_end: bool, outcome: &mut Outcome) -> anyhow::Result<()> {
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
        self.until("all services running", || self.all_run(&leases, self.sdl.hash))
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

    /// A lease for every group: the ones there are, and the cheapest bids for the rest.
    async fn lease(&self, outcome: &mut Outcome) -> anyhow::Result<Vec<LeaseId>> {
        let (mut leases, mut prices) = self.leases();
        let bids = self.bids(outcome).await?;
        outcome.to_bid = Some(self.started.elapsed());
        prices.extend(bids.iter().map(|b| b.price.clone()));
        outcome.prices = prices;
        leases.extend(self.take(bids)?);
        // Over the wire the provider knows of the lease with the next block, and refuses a manifest before.
        self.world.settled().await;
        Ok(leases)
    }

    /// Every lease there ever was, and its price.
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
        let coin = Coin {
            denom: denom.unwrap_or_else(|| "uact".into()),
            amount: DEPOSIT,
        };
        self.world
            .chain
            .market(|market| market.fund(&self.id.owner, &coin));
        let create = create_deployment(self.id.clone(), &self.sdl, coin);
        let created = self.world.chain.tenant(create);
        created.map_err(|e| anyhow!("the chain refuses the deployment: {e}"))?;
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

    /// The cheapest bid of every order, once there is one each.
    async fn bids(&self, outcome: &mut Outcome) -> anyhow::Result<Vec<Bid>> {
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
                bail!("no bid within {}", humantime::format_duration(self.patience()));
            }
            tokio::time::sleep(LOOK_EVERY).await;
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
            let taken = self
                .world
                .chain
                .tenant(TenantMsg::CreateLease { bid: bid.id.clone() });
            taken.map_err(|e| anyhow!("the chain refuses the lease: {e}"))?;
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
            // What may change by itself is asked again; the rest is final.
            let may_pass = matches!(refusal.kind, RefusalKind::Unavailable | RefusalKind::Busy);
            if !may_pass || Instant::now() >= deadline {
                self.printer
                    .tenant(&self.id, "manifest refused", &refusal.message);
                return Err(refusal).context("the manifest was refused");
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The provider has this manifest, deployed it, and knows that every service is healthy.
    async fn all_run(&self, leases: &[LeaseId], hash: [u8; 32]) -> bool {
        let (status, hash) = (self.world.status(), HEXLOWER.encode(&hash));
        let mine = status.deployments.iter().find(|d| d.deployment == self.id);
        let known = mine.is_some_and(|d| d.manifest.as_ref() == Some(&hash))
            && leases.iter().all(|lease| {
                let info = status.leases.iter().find(|l| l.lease == *lease);
                info.is_some_and(|l| l.phase == LeasePhase::Running && l.health == Health::Good)
            });
        known && self.all_serve(leases).await
    }

    async fn nothing_runs(&self, leases: &[LeaseId]) -> bool {
        for lease in leases {
            if self.world.cluster.lease_status(lease).await.is_ok() {
                return false;
            }
        }
        true
    }

    /// The provider may know an update as deployed and its health not yet; the cluster knows.
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
        // A market from a state file may have the update already.
        if there != Some(hash) {
            let id = self.id.clone();
            let updated = self.world.chain.tenant(TenantMsg::UpdateDeployment { id, hash });
            updated.map_err(|e| anyhow!("the chain refuses the update: {e}"))?;
            self.world.settled().await;
            let what = "one more environment variable in every service";
            self.printer.tenant(&self.id, "updated", what);
        }
        self.send(&manifest, hash).await?;
        self.until("the update running", || self.all_run(leases, hash))
            .await
    }

    async fn close(&self, leases: &[LeaseId]) -> anyhow::Result<()> {
        self.printer.closing(&self.id);
        let closed = self
            .world
            .chain
            .tenant(TenantMsg::CloseDeployment { id: self.id.clone() });
        closed.map_err(|e| anyhow!("the chain refuses the close: {e}"))?;
        self.released(leases).await
    }

    async fn released(&self, leases: &[LeaseId]) -> anyhow::Result<()> {
        self.until("everything released", || async {
            let status = self.world.status();
            let gone = leases
                .iter()
                .all(|l| !status.leases.iter().any(|s| s.lease == *l));
            gone && self.nothing_runs(leases).await
        })
        .await
    }

    async fn until<F: Future<Output = bool>>(
        &self,
        what: &str,
        mut done: impl FnMut() -> F,
    ) -> anyhow::Result<()> {
        let deadline = self.deadline();
        while !done().await {
            if Instant::now() >= deadline {
                bail!(
                    "{what}: not within {}",
                    humantime::format_duration(self.patience())
                );
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    fn patience(&self) -> Duration {
        PATIENCE.max(self.world.block_time.saturating_mul(PATIENCE_BLOCKS))
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.patience()
    }
}
