//! The engine's side of deployments: their machines and what those want.

use super::deployment::{Action, Deployment as Machine, Input};
use super::workload;
use crate::engine::input::Reply;
use crate::engine::table::Lane;
use crate::engine::{EffectId, Engine, Target};
use crate::types::{CloseReason, DeploymentId, Event};
use std::sync::Arc;

impl Engine {
    /// The machine of a deployment is there.
    pub(in crate::engine) fn deployment_slot(&mut self, id: &DeploymentId) {
        if !self.leases.deployments.contains(id) {
            self.changes += 1;
            self.leases.deployments.insert(id, Machine::new(id));
        }
    }

    /// Feeds one input to one deployment; nothing happens where there is none.
    pub(in crate::engine) fn drive_deployment(&mut self, id: &DeploymentId, input: Input) {
        let config = Arc::clone(&self.config);
        let cx = self.cx(&config);
        let Some(actions) = self.leases.deployments.drive(&cx, id, input) else {
            return;
        };
        self.changes += 1;
        for action in actions {
            match action {
                Action::Call(call) => {
                    let effect = self.call(Target::Deployment(id.clone()), call);
                    self.leases.deployments.sent(id, Lane::Main, effect);
                }
                Action::Check(submission, record) => {
                    let checked = self.check(&submission, &record);
                    // At once, so that nothing comes between the claims of the check and the record of them.
                    self.drive_deployment(id, Input::Checked(checked));
                }
                Action::Undo(accepted) => {
                    self.undo_claims(&accepted);
                    // A part of it may be in the cluster all the same, and only a list can say so.
                    self.scan.doubt_cluster();
                }
                Action::Reply(request, result) => {
                    // An outage is no fault of the manifest and no news of it.
                    if let Some(refusal) = result.as_ref().err().filter(|r| r.kind.is_of_manifest()) {
                        let (deployment, message) = (id.clone(), refusal.message.clone());
                        self.publish(Event::ManifestRefused { deployment, message });
                    }
                    self.reply(request, result.map(|()| Reply::Done));
                }
                Action::Deliver { deployment, purge } => {
                    self.deliver(&deployment, purge);
                }
                Action::CancelEnd(lease) => {
                    self.drive_workload(&lease, workload::Input::CancelEnd(CloseReason::ManifestTimeout));
                }
                Action::LookAtCluster => self.scan.doubt_cluster(),
                Action::EndLease(lease, reason) => {
                    self.drive_workload(
                        &lease,
                        workload::Input::End {
                            reason,
                            granted: false,
                        },
                    );
                }
                Action::Publish(event) => self.publish(event),
                Action::Unexpected => self.outbox.count_unexpected(),
            }
        }
    }

    /// A completion of a deployment's call; late ones are dropped.
    pub(in crate::engine) fn deployment_completed(
        &mut self,
        id: &DeploymentId,
        effect: EffectId,
        input: Input,
    ) {
        if self.leases.deployments.answered(id, Lane::Main, effect) {
            self.drive_deployment(id, input);
        }
    }

    /// A manifest of this deployment is being recorded.
    pub(in crate::engine) fn is_recording(&self, id: &DeploymentId) -> bool {
        self.leases.deployments.get(id).is_some_and(Machine::is_recording)
    }
}
