//! Tenants of one provider: orders, leases, manifests over the gateway, and closes.

use crate::http::curl;
use crate::run::served::Served;
use crate::stage::ADDRESS;
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{BidId, DeploymentId};
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The deployments of this test have sequence numbers (dseq) above this value.
const FIRST: u64 = 1_000;
/// Maximum number of processes that send manifests concurrently.
const SENDING_MAX: usize = 64;

struct Order {
    id: DeploymentId,
    bid: BidId,
    closes_at: Instant,
}

/// Tenants that create and close leases.
pub(crate) struct Crowd<'a> {
    served: &'a Served,
    /// Duration of a lease.
    life: Duration,
    next: u64,
    ordered: VecDeque<Order>,
    leased: VecDeque<Order>,
    sending: Vec<JoinHandle<bool>>,
    sent: usize,
    failed: usize,
    manifest: PathBuf,
}

impl<'a> Crowd<'a> {
    pub(crate) fn new(served: &'a Served, life: Duration) -> Self {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples/web.yaml");
        let (code, text, problem) = served.stage.ran(&["sdl", "manifest", sample]);
        assert_eq!(code, 0, "{problem}");
        let manifest = served.stage.path("manifest.json");
        fs::write(&manifest, text).unwrap();
        Self {
            served,
            life,
            next: FIRST,
            ordered: VecDeque::new(),
            leased: VecDeque::new(),
            sending: Vec::new(),
            sent: 0,
            failed: 0,
            manifest,
        }
    }

    pub(crate) fn order(&mut self) {
        self.next += 1;
        let id = self
            .served
            .stage
            .order_of(self.served.tenant.address(), self.next);
        let bid: BidId = format!("{id}/1/1/{ADDRESS}").parse().unwrap();
        let closes_at = Instant::now() + self.life;
        self.ordered.push_back(Order { id, bid, closes_at });
    }

    /// Accepts the bids on pending orders, and sends the manifests.
    pub(crate) fn lease(&mut self) {
        let chain = &self.served.stage.chain;
        for _ in 0..self.ordered.len() {
            let Some(order) = self.ordered.pop_front() else {
                return;
            };
            if chain.market(|market| market.bid(&order.bid).is_none()) {
                self.ordered.push_back(order);
                continue;
            }
            let bid = order.bid.clone();
            chain.tenant(TenantMsg::CreateLease { bid }).unwrap();
            let put = format!("{}/deployment/{}/manifest", self.served.url, order.id.dseq);
            let bearer = format!("Authorization: Bearer {}", self.served.token());
            let data = format!("@{}", self.manifest.display());
            self.sending.push(std::thread::spawn(move || {
                let words = [
                    "--request",
                    "PUT",
                    "--header",
                    bearer.as_str(),
                    "--data-binary",
                    data.as_str(),
                    put.as_str(),
                ];
                // The provider learns of the lease one block later.
                (0..40).any(|_| {
                    std::thread::sleep(Duration::from_millis(500));
                    curl(&words).is_some_and(|(status, _)| status == 200)
                })
            }));
            self.leased.push_back(order);
        }
    }

    fn close(&mut self) {
        while self
            .leased
            .front()
            .is_some_and(|order| order.closes_at <= Instant::now())
        {
            let Some(order) = self.leased.pop_front() else {
                return;
            };
            // The provider may have closed the lease before.
            let _ = self
                .served
                .stage
                .chain
                .tenant(TenantMsg::CloseDeployment { id: order.id });
        }
    }

    pub(crate) fn reap(&mut self, all: bool) {
        let sending = std::mem::take(&mut self.sending);
        for one in sending {
            if !all && !one.is_finished() {
                self.sending.push(one);
                continue;
            }
            match one.join().unwrap() {
                true => self.sent += 1,
                false => self.failed += 1,
            }
        }
    }

    /// Creates one order per interval `pause`, for the duration `long`. Skips an order if too many manifests
    /// are in transit. Between the orders, accepts bids, sends manifests, closes leases, and calls `look`.
    pub(crate) fn lives(
        &mut self,
        began: Instant,
        long: Duration,
        pause: Duration,
        mut look: impl FnMut(&Served),
    ) {
        let mut next_order = began;
        while began.elapsed() < long {
            if next_order <= Instant::now() {
                // Relative to the planned time, so that a slow iteration does not lower the rate.
                next_order += pause;
                if self.sending.len() < SENDING_MAX {
                    self.order();
                }
            }
            self.lease();
            self.close();
            self.reap(false);
            look(self.served);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) const fn ordered(&self) -> u64 {
        self.next - FIRST
    }

    /// Returns true if no order waits for a bid.
    pub(crate) fn is_leased(&self) -> bool {
        self.ordered.is_empty()
    }

    /// Returns the numbers of accepted and of refused manifests.
    pub(crate) const fn manifests(&self) -> (usize, usize) {
        (self.sent, self.failed)
    }
}
