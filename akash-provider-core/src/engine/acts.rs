//! Acts of calls, for the audit log.

use super::leases::workload::ReportSource;
use super::{Call, CallTarget, EffectId, Engine, order};
use crate::audit::{Act, ActKind, Actor};
use crate::types::{BidId, BidOutcome, CloseReason, LeaseId, Msg};

impl Engine {
    /// Returns the act of a call in flight, with its reason and evidence. Only `Broadcast` and `Teardown`
    /// calls have an act.
    #[must_use]
    pub fn act_of_call(&self, id: EffectId, call: &Call) -> Option<Act> {
        let mut act = if let Call::Broadcast(msg) = call {
            self.act_of_msg(id, msg)
        } else if let Call::Teardown(lease) = call {
            self.act_of_teardown(lease)
        } else {
            return None;
        };
        act.evidence.height = Some(self.progress.height());
        Some(act)
    }

    fn act_of_msg(&self, id: EffectId, msg: &Msg) -> Act {
        let act = Act::from_msg(msg, Actor::Provider);
        match msg {
            Msg::CloseBid { id: bid, .. } => match self.outbox.target(id) {
                Some(CallTarget::WorkloadChain(_)) => Act {
                    kind: ActKind::LeaseClose,
                    ..act
                },
                _ => act.with_reason(self.reason_of_bid_close(bid)),
            },
            Msg::CreateBid { .. } => act.with_reason("open_order"),
            Msg::WithdrawLease { .. } => act.with_reason("payout_due"),
            Msg::StartReclaim { .. }
            | Msg::CreateProvider(_)
            | Msg::UpdateProvider(_)
            | Msg::CreateCertificate { .. }
            | Msg::RevokeCertificate { .. } => act,
        }
    }

    /// Returns the reason why the provider closes a bid, or `unspecified` if the reason is unknown.
    fn reason_of_bid_close(&self, bid: &BidId) -> &'static str {
        let phase = self.market.order(&bid.order).map(order::Order::phase);
        match phase {
            Some(order::OrderStage::Closing { ending, .. }) => {
                ending.bid_outcome().map_or("unspecified", BidOutcome::name)
            }
            _ => "unspecified",
        }
    }

    fn act_of_teardown(&self, lease: &LeaseId) -> Act {
        let mut act = Act::new(ActKind::Teardown, Actor::Provider, lease.to_string());
        let Some(workload) = self.workload(lease) else {
            return act;
        };
        act.reason = workload
            .closed_because()
            .map(CloseReason::name)
            .map(str::to_owned);
        act.evidence.report = workload.close_report().map(|report| {
            let source = match report.by {
                ReportSource::Chain => "chain",
                ReportSource::Scan => "scan",
            };
            (source, report.height)
        });
        act
    }
}
