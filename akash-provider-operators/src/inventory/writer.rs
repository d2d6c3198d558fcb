//! Writes the labels of nodes, and reports the results to the index.

use super::index::{InventoryWork, LabelIndex, LabelWrite};
use super::node::MANAGER;
use super::shared::InventoryOperatorState;
use crate::operator_state::{OperatorIndex, OperatorState};
use crate::worker::ObjectWriter;
use akash_provider_core::error::{Error, ErrorKind};
use akash_provider_kube_kernel::calls::KubeCalls;
use kube::core::ApiResource;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub(super) struct LabelWriter {
    pub(super) shared: Arc<InventoryOperatorState>,
    pub(super) calls: KubeCalls,
    /// API resource of nodes.
    pub(super) resource: ApiResource,
}

impl ObjectWriter for LabelWriter {
    type Index = LabelIndex;

    fn state(&self) -> &OperatorState<LabelIndex> {
        &self.shared.state
    }

    async fn carry_out(&self, name: &str, work: &InventoryWork) -> Result<(), Error> {
        let Some(write) = &work.write else {
            return Ok(());
        };
        match self.write(name, write).await {
            Err(error) if error.kind() == ErrorKind::Conflict => self.again(name, write, error).await,
            outcome => outcome,
        }
    }
}

impl LabelWriter {
    async fn write(&self, name: &str, write: &LabelWrite) -> Result<(), Error> {
        let labels = &write.patch["metadata"]["labels"];
        let call = self
            .calls
            .change_at(MANAGER, &self.resource, name, write.version, &write.patch);
        let meta = call.await?;
        tracing::info!(node = name, %labels, "labels of a node updated");
        self.shared.written(name, meta);
        Ok(())
    }

    /// Handles a write conflict. Reads the node again, and repeats the write once if the patch is still
    /// correct.
    async fn again(&self, name: &str, write: &LabelWrite, conflict: Error) -> Result<(), Error> {
        let Some(meta) = self.calls.metadata(&self.resource, "", name).await? else {
            // The watch reports the deletion.
            return Ok(());
        };
        self.shared.apply_response(name, meta);
        let now = self.shared.state.inner().index.work(name).write;
        match now {
            None => Ok(()),
            Some(now) if now.patch == write.patch => self.write(name, &now).await,
            Some(_) => Err(conflict),
        }
    }
}
