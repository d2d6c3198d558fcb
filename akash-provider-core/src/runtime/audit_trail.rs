//! Acts of the calls in flight, with the lease records that prove a close.

use crate::audit::{Act, ActOutcome, AuditLog, AuditedAct, RecordEvidence};
use crate::cluster::Teardown;
use crate::engine::{Call, Completion};
use crate::error::Failure;
use crate::types::LeaseId;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Maximum number of stored records of closed leases. A record is stored until the teardown of the workload.
const RECORDS_MAX: usize = 4096;
/// Result of a complete teardown.
const DONE: &str = "done";

/// Assigns an audited act to each call that spends money or destroys data.
#[derive(Debug)]
pub(super) struct AuditTrail {
    log: Option<Arc<dyn AuditLog>>,
    /// Newest record of each closed lease.
    records: FxHashMap<LeaseId, RecordEvidence>,
    /// Acts of teardowns in progress. All repeated calls of a teardown share one act.
    teardowns: FxHashMap<LeaseId, Arc<AuditedAct>>,
}

impl AuditTrail {
    pub(super) fn new(log: Option<Arc<dyn AuditLog>>) -> Self {
        Self {
            log,
            records: FxHashMap::default(),
            teardowns: FxHashMap::default(),
        }
    }

    /// Stores the record of a closed lease as evidence for the teardown of its workload.
    pub(super) fn observe(&mut self, completion: &Completion) {
        let Completion::Lease(Ok(observed)) = completion else {
            return;
        };
        let record = RecordEvidence::from_record(observed);
        if let (Some(_), Some(record), Some(value)) = (&self.log, record, &observed.value) {
            if self.records.len() >= RECORDS_MAX {
                self.records.clear();
            }
            self.records.insert(value.lease.id.clone(), record);
        }
    }

    /// Returns the audited act of a call. `act` is computed only if the provider has an audit log.
    pub(super) fn act(&mut self, call: &Call, act: impl FnOnce() -> Option<Act>) -> Option<Arc<AuditedAct>> {
        let log = self.log.clone()?;
        let Call::Teardown(lease) = call else {
            return Some(Arc::new(AuditedAct::new(log, act()?)));
        };
        if let Some(pending) = self.teardowns.get(lease).filter(|act| !act.has_result(DONE)) {
            return Some(Arc::clone(pending));
        }
        self.teardowns.retain(|_, act| !act.has_result(DONE));
        let mut act = act()?;
        act.evidence.record = self.records.remove(lease);
        let act = Arc::new(AuditedAct::new(log, act));
        self.teardowns.insert(lease.clone(), Arc::clone(&act));
        Some(act)
    }
}

/// Returns the outcome of an act, or `None` if the completed call is not an act.
pub(super) fn outcome(completion: &Completion) -> Option<ActOutcome> {
    let failed = |failure: &Failure| failure.message.clone();
    match completion {
        Completion::Tx(result) => Some(ActOutcome::from_tx(result.as_ref().map_err(failed))),
        Completion::Teardown(Ok(Teardown::Done)) => Some(ActOutcome::new(DONE, None)),
        Completion::Teardown(Ok(Teardown::InProgress)) => Some(ActOutcome::new("in_progress", None)),
        Completion::Teardown(Err(failure)) => Some(ActOutcome::new("failed", Some(failed(failure)))),
        _ => None,
    }
}
