//! Tenants that order continuously, whichever instance is the leader.

use crate::http::curl_after;
use crate::stage::Stage;
use akash_provider_chain::private_key::PrivateKey;
use akash_provider_core::chain::MemoryChain;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::sdl;
use akash_provider_core::types::{Address, Bid, BidState, Coin, DeploymentId, LeaseState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Time between two orders.
const EVERY: Duration = Duration::from_millis(700);
/// Number of kinds of orders, created in turn. The first kind has a bid that stays open. The second kind is
/// closed at once. The others get a lease.
const KINDS: u64 = 4;
/// Time during which a bid without a lease stays open.
const OPEN: Duration = Duration::from_secs(8);

/// One deployment and its progress.
#[derive(Debug, Clone)]
pub(crate) struct Deployment {
    pub(crate) id: DeploymentId,
    made: Instant,
    /// Time from the order to its first bid; `None` without a bid.
    pub(crate) time_to_bid: Option<Duration>,
    pub(crate) has_lease: bool,
    /// The provider accepted the manifest of the deployment.
    pub(crate) accepted: bool,
    pub(crate) closed: bool,
}

pub(crate) struct Tenant {
    pub(crate) chain: MemoryChain,
    pub(crate) key: PrivateKey,
    pub(crate) token: String,
    pub(crate) manifest: String,
    pub(crate) gateways: [String; 2],
    pub(crate) before: Vec<String>,
}

/// Thread that creates orders of tenants until stopped.
pub(crate) struct Crowd {
    pub(crate) all: Arc<Mutex<Vec<Deployment>>>,
    orders: Arc<AtomicBool>,
    goes_on: Arc<AtomicBool>,
    /// Text of the last manifest refusal by a gateway.
    pub(crate) refusal: Arc<Mutex<String>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Crowd {
    pub(crate) fn start(tenant: Tenant) -> Self {
        let (all, orders, goes_on) = (
            Arc::<Mutex<Vec<Deployment>>>::default(),
            Arc::new(AtomicBool::new(true)),
            Arc::new(AtomicBool::new(true)),
        );
        let refusal = Arc::<Mutex<String>>::default();
        let mut life = Life {
            tenant,
            all: Arc::clone(&all),
            refusal: Arc::clone(&refusal),
            asks_first: 0,
        };
        let (may_order, may_live) = (Arc::clone(&orders), Arc::clone(&goes_on));
        let thread = thread::spawn(move || {
            let mut next = Instant::now();
            while may_live.load(Ordering::SeqCst) {
                if may_order.load(Ordering::SeqCst) && Instant::now() >= next {
                    life.order();
                    next = Instant::now() + EVERY;
                }
                life.look();
                sleep(Duration::from_millis(50));
            }
        });
        Self {
            all,
            orders,
            goes_on,
            refusal,
            thread: Mutex::new(Some(thread)),
        }
    }

    /// Stops the creation of orders. The existing deployments continue.
    pub(crate) fn orders_no_more(&self) {
        self.orders.store(false, Ordering::SeqCst);
    }

    pub(crate) fn deployments(&self) -> Vec<Deployment> {
        self.all.lock().unwrap().clone()
    }

    /// Returns true if every order has a bid and every lease has an accepted manifest.
    pub(crate) fn is_served(&self) -> bool {
        let all = self.deployments();
        all.iter()
            .all(|one| one.time_to_bid.is_some() && (!one.has_lease || one.accepted))
    }
}

impl Crowd {
    pub(crate) fn stop(&self) {
        self.goes_on.store(false, Ordering::SeqCst);
        let thread = self.thread.lock().unwrap().take();
        drop(thread.map(JoinHandle::join));
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Life {
    tenant: Tenant,
    all: Arc<Mutex<Vec<Deployment>>>,
    refusal: Arc<Mutex<String>>,
    asks_first: usize,
}

impl Life {
    fn order(&self) {
        let owner: Address = self.tenant.key.address().clone();
        let mut all = self.all.lock().unwrap();
        let id = DeploymentId::new(owner, all.len() as u64 + 1);
        let sdl = sdl::parse(include_str!("../../../samples/web.yaml")).unwrap();
        let deposit = Coin::new("uact", 5_000_000);
        let created = self.tenant.chain.tenant(TenantMsg::CreateDeployment {
            id: id.clone(),
            groups: sdl.groups,
            hash: sdl.hash,
            deposit,
            reclamation_min_window: None,
        });
        created.unwrap();
        all.push(Deployment {
            id,
            made: Instant::now(),
            time_to_bid: None,
            has_lease: false,
            accepted: false,
            closed: false,
        });
    }

    fn look(&mut self) {
        let waiting: Vec<Deployment> = self.all.lock().unwrap().clone();
        for mut one in waiting.into_iter().filter(|one| !one.closed && !one.accepted) {
            let at = usize::try_from(one.id.dseq).unwrap() - 1;
            self.advance(&mut one);
            self.all.lock().unwrap()[at] = one;
        }
    }

    fn advance(&mut self, one: &mut Deployment) {
        if one.time_to_bid.is_none() {
            if bids(&self.tenant.chain, &one.id).is_empty() {
                return;
            }
            one.time_to_bid = Some(one.made.elapsed());
        }
        match one.id.dseq % KINDS {
            0 if one.made.elapsed() < OPEN => {}
            0 | 1 => {
                let id = one.id.clone();
                self.tenant
                    .chain
                    .tenant(TenantMsg::CloseDeployment { id })
                    .unwrap();
                one.closed = true;
            }
            _ if !one.has_lease => {
                let bid = bids(&self.tenant.chain, &one.id).remove(0);
                // A bid that the provider closed gives no lease. `wrongly_closed` counts it at the end.
                one.has_lease = self
                    .tenant
                    .chain
                    .tenant(TenantMsg::CreateLease { bid: bid.id })
                    .is_ok();
            }
            _ => one.accepted = self.send(one.id.dseq),
        }
    }

    /// Sends the manifest, first to the gateway that accepted the previous manifest. Returns true if a
    /// gateway accepts.
    fn send(&mut self, dseq: u64) -> bool {
        for turn in 0..self.tenant.gateways.len() {
            let who = (self.asks_first + turn) % self.tenant.gateways.len();
            match send(&self.tenant, who, dseq) {
                Ok(()) => {
                    self.asks_first = who;
                    return true;
                }
                Err(refusal) => *self.refusal.lock().unwrap() = refusal,
            }
        }
        false
    }
}

pub(crate) fn send(tenant: &Tenant, who: usize, dseq: u64) -> Result<(), String> {
    let before: Vec<&str> = tenant.before.iter().map(String::as_str).collect();
    let (bearer, data) = (
        format!("Authorization: Bearer {}", tenant.token),
        format!("@{}", tenant.manifest),
    );
    let put = format!("{}/deployment/{dseq}/manifest", tenant.gateways[who]);
    let limit = ["--max-time", "4", "--request", "PUT"];
    let words = ["--header", &bearer, "--data-binary", &data, &put];
    let (status, body) = curl_after(&before, &[&limit[..], &words].concat()).unwrap();
    match status {
        200 => Ok(()),
        _ => Err(format!("{put}: {status} {body}")),
    }
}

pub(crate) fn bids(chain: &MemoryChain, id: &DeploymentId) -> Vec<Bid> {
    chain.market(|market| {
        market
            .bids()
            .filter(|bid| bid.id.deployment() == id)
            .cloned()
            .collect()
    })
}

/// Returns the number of closed leases and bids that belong to open deployments.
pub(crate) fn wrongly_closed(stage: &Stage, all: &[Deployment]) -> usize {
    let is_wanted = |id: &DeploymentId| all.iter().any(|one| one.id == *id && !one.closed);
    stage.chain.market(|market| {
        let leases = market
            .leases()
            .filter(|lease| lease.lease.state != LeaseState::Active);
        let leases = leases
            .filter(|lease| is_wanted(lease.lease.id.deployment()))
            .count();
        let bids = market
            .bids()
            .filter(|bid| !matches!(bid.state, BidState::Open | BidState::Active));
        leases + bids.filter(|bid| is_wanted(bid.id.deployment())).count()
    })
}
