//! Connects the deployment state machines to the engine.

use super::deployment::{Deployment as Machine, DeploymentAction, DeploymentInput};
use super::workload;
use crate::engine::counts::ScanReason;
use crate::engine::input::Reply;
use crate::engine::table::Lane;
use crate::engine::{CallTarget, EffectId, Engine};
use crate::types::{CloseReason, DeploymentId, Event};
use std::sync::Arc;

impl Engine {
    pub(in crate::engine) fn ensure_deployment(&mut self, id: &DeploymentId) {
        if !self.leases.deployments.contains(id) {
            self.changes += 1;
            self.leases.deployments.insert(id, Machine::new(id));
        }
    }

    pub(in crate::engine) fn drive_deployment(&mut self, id: &DeploymentId, input: DeploymentInput) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let Some(actions) = self.leases.deployments.drive(&cx, id, input) else {
            return;
        };
        self.changes += 1;
        for action in actions {
            match action {
                DeploymentAction::Call(call) => {
                    let effect = self.call(CallTarget::Deployment(id.clone()), call);
                    self.leases.deployments.set_pending(id, Lane::Main, effect);
                }
                DeploymentAction::Check(submission, record) => {
                    let checked = self.check(&submission, &record);
                    // Immediately, so that no other input comes between the claims and their recording.
                    self.drive_deployment(id, DeploymentInput::Checked(checked));
                }
                DeploymentAction::Undo(accepted) => {
                    self.undo_claims(&accepted);
                    // Parts of the manifest may be stored in the cluster, which only a listing shows.
                    self.scan.request_listing(ScanReason::UnknownWorkload);
                }
                DeploymentAction::Reply(request, result) => {
                    // Only refusals caused by the manifest are published, not outages.
                    if let Some(refusal) = result.as_ref().err().filter(|r| r.kind.is_manifest_error()) {
                        let (deployment, message) = (id.clone(), refusal.message.clone());
                        self.publish(Event::ManifestRefused { deployment, message });
                    }
                    self.reply(request, result.map(|()| Reply::Done));
                }
                DeploymentAction::Deliver { deployment, purge } => {
                    self.deliver(&deployment, purge);
                }
                DeploymentAction::CancelEnd(lease) => {
                    self.drive_workload(
                        &lease,
                        workload::WorkloadInput::CancelEnd(CloseReason::ManifestTimeout),
                    );
                }
                DeploymentAction::ListCluster => self.scan.request_listing(ScanReason::UnknownWorkload),
                DeploymentAction::EndLease(lease, reason) => {
                    self.drive_workload(
                        &lease,
                        workload::WorkloadInput::End {
                            reason,
                            granted: false,
                        },
                    );
                }
                DeploymentAction::Publish(event) => self.publish(event),
                DeploymentAction::Unexpected => self.outbox.count_unexpected(),
            }
        }
    }

    /// Processes the completion of a deployment's call. Late completions are dropped.
    pub(in crate::engine) fn deployment_completed(
        &mut self,
        id: &DeploymentId,
        effect: EffectId,
        input: DeploymentInput,
    ) {
        if self.leases.deployments.clear_pending(id, Lane::Main, effect) {
            self.drive_deployment(id, input);
        }
    }

    pub(in crate::engine) fn is_recording(&self, id: &DeploymentId) -> bool {
        self.leases.deployments.get(id).is_some_and(Machine::is_recording)
    }
}
