//! Actions of tenants, other providers, auditors and the operator. Some of them are invalid.

use crate::capacity::CLASSES;
use crate::ids::{self, AUDITOR, COMPETITOR, NAMES, PROVIDER, Shape};
use crate::invariants;
use crate::money::coin;
use crate::oracle::Checked;
use crate::world::World;
use akash_provider_core::engine::{Input, Request, RequestId};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{
    BidId, BidState, CloseReason, Dec, DecCoin, DeploymentId, GroupId, GroupState, LeaseId, Msg,
};

#[derive(Debug, Clone)]
pub(crate) struct TenantDeployment {
    pub(crate) id: DeploymentId,
    pub(crate) shapes: Vec<Shape>,
    names: Vec<Vec<String>>,
    /// Version of the manifest on the chain.
    pub(crate) version: u64,
    pub(crate) closed: bool,
}

/// Maximum number of deployments at a time.
const WISHES_MAX: usize = 6;

impl World {
    /// Executes one action of a tenant, another provider, an auditor or the operator.
    pub(crate) fn outside(&mut self) -> Checked {
        match self.random.below(100) {
            0..20 => self.wish(),
            20..45 => self.choose(),
            45..62 => return self.submit(),
            62..66 => self.change_mind(),
            66..70 => self.pause_or_start(),
            70..73 => self.close_lease(),
            73..76 => self.close_deployment(),
            76..78 => self.close_group(),
            78..86 => self.competitor_bids(),
            86..88 => self.audit(),
            88..89 => self.pay_in(),
            _ => return self.operate(),
        }
        Ok(())
    }

    fn names(&mut self) -> Vec<String> {
        let count = self.random.between(1, 2);
        let mut names: Vec<String> = (0..count)
            .map(|_| NAMES[self.random.index(NAMES.len())].to_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Returns `little`, or sometimes a random multiple of `step`, at most `times × step`.
    fn spice_amount(&mut self, little: u64, step: u64, times: u64) -> u64 {
        if self.feature_random.percent(self.features.bulky) {
            return step * self.feature_random.between(1, times);
        }
        little
    }

    fn volume(&mut self) -> Option<(&'static str, u64)> {
        let wanted = self.features.classes && self.feature_random.percent(50);
        let class = [CLASSES[0], CLASSES[1], ids::RAM];
        wanted.then(|| {
            (
                class[self.feature_random.index(3)],
                self.feature_random.between(1, 16),
            )
        })
    }

    fn ports(&mut self) -> u16 {
        let wanted = self.features.ports && self.feature_random.percent(40);
        if wanted {
            [1, 1, 2, 3][self.feature_random.index(4)]
        } else {
            0
        }
    }

    fn wish(&mut self) {
        if self.tenant_deployments.iter().filter(|w| !w.closed).count() >= WISHES_MAX {
            return;
        }
        let groups = self.random.between(1, 2);
        // Some deployments run out of funds within minutes.
        let price = if self.random.percent(15) { 40_000 } else { 400 };
        let shapes: Vec<Shape> = (0..groups)
            .map(|_| Shape {
                denom: self.denom(),
                volume: self.volume(),
                second_address: self.features.ports && self.feature_random.percent(15),
                ports: self.ports(),
                memory: self.spice_amount(128, 8_192, 5),
                disk: self.spice_amount(512, 65_536, 5),
                cpu: self.random.between(2, 15) * 100,
                count: u32::try_from(self.random.between(1, 2)).unwrap(),
                price: if self.random.percent(5) { 1 } else { price },
                ingress: self.random.percent(50),
                audited: self.random.percent(15),
                gpu: ids::GPUS[self.random.index(ids::GPUS.len())],
                address: self.random.percent(25),
            })
            .collect();
        let names = shapes.iter().map(|_| self.names()).collect();
        let id = ids::deployment_id(self.random.index(3), self.tenant_deployments.len() as u64 + 1);
        let specs = shapes.iter().enumerate().map(|(i, s)| ids::spec(i, *s)).collect();
        // Usually the denomination pays for the first group only, sometimes for none.
        let denom = if self.feature_random.percent(80) {
            shapes[0].denom
        } else {
            self.denom()
        };
        let deposit = coin(denom, 500_000);
        let created = self.chain.tenant(TenantMsg::CreateDeployment {
            id: id.clone(),
            groups: specs,
            hash: ids::version_hash(&id, 1),
            deposit,
            reclamation_min_window: None,
        });
        created.unwrap();
        self.tenant_deployments.push(TenantDeployment {
            id,
            shapes,
            names,
            version: 1,
            closed: false,
        });
    }

    fn choose(&mut self) {
        let market = &self.chain.market;
        let open = market.bids().filter(|b| b.state == BidState::Open);
        let bids: Vec<BidId> = open.map(|b| b.id.clone()).collect();
        if let Some(bid) = self.random.pick(&bids) {
            drop(self.chain.tenant(TenantMsg::CreateLease { bid: bid.clone() }));
        }
    }

    pub(crate) fn request(&mut self, request: Request) -> Checked {
        self.requests += 1;
        let id = RequestId(self.requests);
        if let Request::SubmitManifest {
            deployment, hashes, ..
        } = &request
        {
            let version = ids::version_of(hashes.received());
            self.memory.submitted.insert(id, (deployment.clone(), version));
        }
        self.feed(Input::Request(id, request))
    }

    /// Submits a manifest of a tenant, sometimes twice. Some manifests do not match the hash on the chain.
    fn submit(&mut self) -> Checked {
        let Some(wish) = self.random.pick(&self.tenant_deployments).cloned() else {
            return Ok(());
        };
        let mut version = wish.version;
        let mut shapes = wish.shapes.clone();
        match self.random.below(20) {
            0 => version += 1,
            1 => shapes[0].cpu += 100,
            2 => shapes.truncate(shapes.len() - 1),
            _ => {}
        }
        let request = Request::SubmitManifest {
            deployment: wish.id.clone(),
            manifest: ids::manifest(&wish.id, &shapes, &wish.names, version),
            hashes: ids::version_hash(&wish.id, version).into(),
        };
        if self.random.percent(15) {
            self.request(request.clone())?;
        }
        self.request(request)
    }

    /// Submits a manifest that matches the hash on the chain.
    pub(crate) fn submit_right(&mut self, wish: &TenantDeployment) -> Checked {
        self.request(Request::SubmitManifest {
            deployment: wish.id.clone(),
            manifest: ids::manifest(&wish.id, &wish.shapes, &wish.names, wish.version),
            hashes: ids::version_hash(&wish.id, wish.version).into(),
        })
    }

    fn change_mind(&mut self) {
        let names = self.names();
        let Some(at) = self.some_wish() else { return };
        let wish = &mut self.tenant_deployments[at];
        let hash = ids::version_hash(&wish.id, wish.version + 1);
        let id = wish.id.clone();
        if self
            .chain
            .tenant(TenantMsg::UpdateDeployment { id, hash })
            .is_ok()
        {
            let wish = &mut self.tenant_deployments[at];
            wish.version += 1;
            wish.names[0] = names;
        }
    }

    fn some_wish(&mut self) -> Option<usize> {
        let len = self.tenant_deployments.len();
        (len > 0).then(|| self.random.index(len))
    }

    fn some_group(&mut self) -> Option<GroupId> {
        let at = self.some_wish()?;
        let gseq = u32::try_from(self.random.index(self.tenant_deployments[at].shapes.len())).unwrap() + 1;
        let deployment = self.tenant_deployments[at].id.clone();
        Some(deployment.group(gseq))
    }

    fn pause_or_start(&mut self) {
        let Some(id) = self.some_group() else { return };
        let msg = match self.chain.market.group(&id).map(|g| g.state) {
            Some(GroupState::Paused) => TenantMsg::StartGroup { id },
            _ => TenantMsg::PauseGroup { id },
        };
        drop(self.chain.tenant(msg));
    }

    fn close_group(&mut self) {
        if let Some(id) = self.some_group() {
            drop(self.chain.tenant(TenantMsg::CloseGroup { id }));
        }
    }

    fn close_lease(&mut self) {
        let live = invariants::live(&self.chain.market);
        if let Some(id) = self.random.pick(&live) {
            drop(self.chain.tenant(TenantMsg::CloseLease { id: id.clone() }));
        }
    }

    fn close_deployment(&mut self) {
        if let Some(at) = self.some_wish() {
            self.close_wish(at);
        }
    }

    pub(crate) fn close_wish(&mut self, at: usize) {
        let id = self.tenant_deployments[at].id.clone();
        drop(self.chain.tenant(TenantMsg::CloseDeployment { id }));
        self.tenant_deployments[at].closed = true;
    }

    fn pay_in(&mut self) {
        let Some(at) = self.some_wish() else { return };
        let deployment = self.tenant_deployments[at].id.clone();
        let coin = coin(self.denom(), 500_000);
        drop(self.chain.tenant(TenantMsg::Deposit { deployment, coin }));
    }

    fn competitor_bids(&mut self) {
        let snapshot = self.chain.market.snapshot(&COMPETITOR);
        let Some(order) = self.random.pick(&snapshot.orders) else {
            return;
        };
        let id = order.id.clone().bid(COMPETITOR.clone());
        let reason = CloseReason::Unspecified;
        let msg = if self.random.percent(20) {
            Msg::CloseBid { id, reason }
        } else {
            Msg::CreateBid {
                id,
                price: DecCoin::new(&order.spec.resources[0].price.denom, Dec::from_int(1)),
                deposit: self.config.bid_deposit.clone(),
                resources_offer: Vec::new(),
                reclamation_window: None,
            }
        };
        drop(self.chain.competitor(&msg));
    }

    fn audit(&mut self) {
        let (auditor, owner) = (AUDITOR.clone(), PROVIDER.clone());
        let msg = if self.random.percent(70) {
            let attributes = vec![ids::region()];
            TenantMsg::SignProvider {
                auditor,
                owner,
                attributes,
            }
        } else {
            TenantMsg::UnsignProvider { auditor, owner }
        };
        drop(self.chain.tenant(msg));
    }

    /// Sends a random command of the provider's operator to the engine.
    fn operate(&mut self) -> Checked {
        let leases: Vec<LeaseId> = self.chain.market.leases().map(|r| r.lease.id).collect();
        let lease = self.random.pick(&leases).cloned();
        let request = match (self.random.below(10), lease) {
            (0..3, Some(lease)) => {
                let hostnames = self.names();
                Request::TransferHostnames { lease, hostnames }
            }
            (3..5, Some(lease)) => {
                let reason = CloseReason::Decommission;
                Request::EndLease { lease, reason }
            }
            (5..8, _) => Request::Scan {
                dry_run: self.random.percent(50),
            },
            (_, Some(lease)) if self.requests.is_multiple_of(2) => {
                let owner = lease.owner().clone();
                Request::ReleaseBreakerFor { owner }
            }
            _ => Request::ReleaseBreaker,
        };
        self.request(request)
    }
}
