//! Two snapshots result in the same state: one of a single height, and one that was listed while blocks were
//! completed. The events after the height of each snapshot are replayed.

use crate::endpoints::Endpoints;
use crate::limits::EndpointLimits;
use crate::method::Method;
use crate::proto::akash::market::v1beta5 as mkt;
use crate::proto::akash::provider::v1beta4::QueryProviderRequest;
use crate::reader::Reader;
use crate::testing::chain::{Chain, NodeBehavior, account, create, create_bid};
use akash_provider_core::market::TenantMsg;
use akash_provider_core::types::{
    BidId, BidState, ChainEvent, CloseReason, DeploymentId, GroupId, Height, LeaseState, Msg, OrderId,
    Snapshot,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Open orders, and the bids and active leases of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct MarketView {
    orders: BTreeSet<OrderId>,
    bids: BTreeMap<BidId, bool>,
    leases: BTreeMap<BidId, bool>,
}

impl MarketView {
    fn from_snapshot(snapshot: &Snapshot) -> Self {
        let is_live = |state| matches!(state, BidState::Open | BidState::Active);
        let reclaiming = |state| state == LeaseState::Reclaiming;
        let leases = snapshot.leases.iter();
        Self {
            orders: snapshot.orders.iter().map(|o| o.id.clone()).collect(),
            bids: snapshot
                .bids
                .iter()
                .map(|b| (b.id.clone(), is_live(b.state)))
                .collect(),
            leases: leases
                .map(|l| (l.lease.id.clone(), reclaiming(l.lease.state)))
                .collect(),
        }
    }

    fn apply(&mut self, event: &ChainEvent) {
        match event {
            ChainEvent::OrderCreated { id } => drop(self.orders.insert(id.clone())),
            ChainEvent::OrderClosed { id } => drop(self.orders.remove(id)),
            ChainEvent::BidCreated { id, .. } => drop(self.bids.insert(id.clone(), true)),
            ChainEvent::BidClosed { id } => drop(self.bids.insert(id.clone(), false)),
            ChainEvent::LeaseCreated { id, .. } => {
                self.orders.remove(&id.order);
                if id.provider == account(2) {
                    self.leases.insert(id.clone(), false);
                }
                // Bids that lost get no event.
                let lost = self
                    .bids
                    .iter_mut()
                    .filter(|(b, _)| b.order == id.order && *b != id);
                lost.for_each(|(_, live)| *live = false);
            }
            ChainEvent::LeaseClosed { id, .. } => drop(self.leases.remove(id)),
            ChainEvent::LeaseReclaimStarted { id, .. } => drop(self.leases.insert(id.clone(), true)),
            _ => {}
        }
    }

    /// Removes the closed bids of closed orders, because snapshots do not contain these bids.
    fn settled(mut self) -> Self {
        let orders = self.orders.clone();
        self.bids.retain(|id, live| *live || orders.contains(&id.order));
        self
    }
}

#[derive(Debug, Clone)]
enum Act {
    Create(u64, u32),
    Bid(u64, u32, u8),
    CloseBid(u64, u32),
    Lease(u64, u32, u8),
    CloseLease(u64, u32),
    CloseDeployment(u64),
    Pause(u64, u32),
    Start(u64, u32),
    Block,
}

fn act() -> impl Strategy<Value = Act> {
    let (d, g) = (1_u64..6, 1_u32..3);
    prop_oneof![
        3 => (d.clone(), g.clone()).prop_map(|(d, g)| Act::Create(d, g)),
        5 => (d.clone(), g.clone(), 2_u8..4).prop_map(|(d, g, p)| Act::Bid(d, g, p)),
        1 => (d.clone(), g.clone()).prop_map(|(d, g)| Act::CloseBid(d, g)),
        3 => (d.clone(), g.clone(), 2_u8..4).prop_map(|(d, g, p)| Act::Lease(d, g, p)),
        1 => (d.clone(), g.clone()).prop_map(|(d, g)| Act::CloseLease(d, g)),
        1 => d.clone().prop_map(Act::CloseDeployment),
        1 => (d.clone(), g.clone()).prop_map(|(d, g)| Act::Pause(d, g)),
        1 => (d, g).prop_map(|(d, g)| Act::Start(d, g)),
        2 => Just(Act::Block),
    ]
}

fn deployment(dseq: u64) -> DeploymentId {
    DeploymentId::new(account(1), dseq)
}

fn group(dseq: u64, gseq: u32) -> GroupId {
    deployment(dseq).group(gseq)
}

/// Returns the bid on the newest order of a group.
fn bid(chain: &Chain, dseq: u64, gseq: u32, provider: u8) -> BidId {
    let group = group(dseq, gseq);
    let oseq = {
        let state = chain.lock();
        let of_group = state.market.orders().filter(|o| o.id.group == group);
        of_group.map(|o| o.id.oseq).max().unwrap_or(1)
    };
    group.order(oseq).bid(account(provider))
}

/// Executes an action of a provider, or converts an action of the tenant to a message.
fn perform(chain: &Chain, act: &Act) -> Option<TenantMsg> {
    match *act {
        Act::Create(d, g) => Some(create(d, g)),
        Act::Bid(d, g, p) => {
            chain.provider(&create_bid(&bid(chain, d, g, p)));
            None
        }
        Act::CloseBid(d, g) => {
            let id = bid(chain, d, g, 2);
            let reason = CloseReason::Unspecified;
            chain.provider(&Msg::CloseBid { id, reason });
            None
        }
        Act::Lease(d, g, p) => Some(TenantMsg::CreateLease {
            bid: bid(chain, d, g, p),
        }),
        Act::CloseLease(d, g) => Some(TenantMsg::CloseLease {
            id: bid(chain, d, g, 2),
        }),
        Act::CloseDeployment(d) => Some(TenantMsg::CloseDeployment { id: deployment(d) }),
        Act::Pause(d, g) => Some(TenantMsg::PauseGroup { id: group(d, g) }),
        Act::Start(d, g) => Some(TenantMsg::StartGroup { id: group(d, g) }),
        Act::Block => {
            chain.end_block();
            None
        }
    }
}

fn happen(chain: &Chain, acts: &[Act]) {
    for act in acts {
        if let Some(msg) = perform(chain, act) {
            chain.tenant(msg);
        }
    }
    chain.end_block();
}

/// Applies the events of the blocks from `after + 1` to `to`.
fn replay(chain: &Chain, view: &mut MarketView, after: Height, to: Height) {
    for height in after + 1..=to {
        let facts = chain.facts(height);
        let ours = facts.iter().filter(|fact| fact.concerns(&account(2)));
        ours.for_each(|fact| view.apply(fact));
    }
}

async fn check(before: Vec<Act>, during: Vec<Act>, moves_on_at: &'static str) {
    let chain = Chain::new();
    happen(&chain, &before);
    let behavior = Arc::new(Mutex::new(NodeBehavior::default()));
    let node = chain.node(Arc::clone(&behavior)).await;
    let limits = EndpointLimits {
        attempts: 2,
        page: 2,
        ..EndpointLimits::default()
    };
    let reader = Reader::new(Endpoints::new(&[&node.url], "local", limits).unwrap());
    let pinned = reader.take_snapshot(&account(2)).await.unwrap();
    assert!(pinned.is_pinned);
    assert_eq!(
        pinned.snapshot,
        chain.snapshot(2),
        "equal to the snapshot of the market"
    );
    // Blocks are completed while the snapshot is listed.
    {
        let mut behavior = behavior.lock().unwrap();
        behavior.no_pins = true;
        behavior.moves_on_at = Some(moves_on_at);
    }
    let script: Vec<TenantMsg> = during.iter().filter_map(|act| perform(&chain, act)).collect();
    chain.lock().script = script;
    chain.end_block();
    let loose = reader.take_snapshot(&account(2)).await.unwrap();
    assert!(!loose.is_pinned);
    assert!(chain.height() > loose.snapshot.height, "blocks were completed");
    *behavior.lock().unwrap() = NodeBehavior::default();
    let last = chain.end_block();
    let end = reader.take_snapshot(&account(2)).await.unwrap();
    assert_eq!((end.is_pinned, end.snapshot.height), (true, last));
    for start in [pinned.snapshot, loose.snapshot] {
        let mut view = MarketView::from_snapshot(&start);
        replay(&chain, &mut view, start.height, last);
        assert_eq!(view.settled(), MarketView::from_snapshot(&end.snapshot).settled());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 50, ..ProptestConfig::default() })]
    #[test]
    fn snapshot_with_concurrent_blocks_results_in_the_same_state(
        before in proptest::collection::vec(act(), 0..25),
        during in proptest::collection::vec(act(), 0..12),
        path in prop_oneof![
            Just(mkt::QueryOrdersRequest::PATH),
            Just(mkt::QueryBidsRequest::PATH),
            Just(mkt::QueryLeasesRequest::PATH),
            Just(mkt::QueryParamsRequest::PATH),
            Just(QueryProviderRequest::PATH),
        ],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(before, during, path));
    }
}
