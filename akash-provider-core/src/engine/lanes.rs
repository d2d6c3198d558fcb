//! Calls to the cluster for one lease go one at a time, whoever wants them: a tenant may send a new manifest
//! while the old one is being deployed.

use super::{Call, Completion, Effect, EffectId, Engine};
use crate::error::{ErrorKind, Failure};
use crate::types::LeaseId;
use std::collections::VecDeque;

impl Call {
    /// The lease whose workload it is about.
    pub(super) fn workload(&self) -> Option<&LeaseId> {
        match self {
            Self::Record(deployment) | Self::Deploy { deployment, .. } => Some(&deployment.lease),
            Self::Teardown(lease) => Some(lease),
            Self::FetchOrder(_)
            | Self::CountBids(_)
            | Self::FetchProvider
            | Self::FetchAudit(_)
            | Self::FetchBid(_)
            | Self::FetchLease(_)
            | Self::FetchDeployment(_)
            | Self::FetchSnapshot
            | Self::CalculatePrice(_)
            | Self::Broadcast(_)
            | Self::ListWorkloads => None,
        }
    }
}

impl Engine {
    /// The call, if it may go now; otherwise it goes when those before it have ended.
    pub(super) fn wait_in_lane(&mut self, id: EffectId, call: Call) -> Option<Call> {
        let Some(lease) = call.workload() else {
            return Some(call);
        };
        self.lane_of.insert(id, lease.clone());
        match self.busy.get_mut(lease) {
            Some(line) => {
                line.push_back((id, call));
                None
            }
            None => {
                self.busy.insert(lease.clone(), VecDeque::new());
                Some(call)
            }
        }
    }

    /// A call for this lease has ended: the next one goes, or fails where it may no longer be made.
    pub(super) fn next_in_lane(&mut self, lease: &LeaseId) {
        let Some((id, call)) = self.busy.get_mut(lease).and_then(VecDeque::pop_front) else {
            self.busy.remove(lease);
            return;
        };
        let config = std::sync::Arc::clone(&self.config);
        let cx = self.cx(&config);
        // What was wanted before another led may no longer be right.
        let outdated = match &call {
            Call::Record(deployment) | Call::Deploy { deployment, .. } => deployment.epoch != cx.epoch(),
            _ => false,
        };
        if cx.may_write() && !outdated {
            self.out.push(Effect::Call(id, call));
            return;
        }
        let failure = Failure {
            kind: ErrorKind::Unavailable,
            transient: true,
            message: "it may no longer be made by this instance".to_owned(),
        };
        let completion = match call {
            Call::Teardown(_) => Completion::Teardown(Err(failure)),
            _ => Completion::Cluster(Err(failure)),
        };
        self.completed(id, completion);
    }
}
