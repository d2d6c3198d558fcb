//! Writes the labels of nodes as the index says, and tells what came of it.

use super::index::{Index, Work, Write};
use super::node::MANAGER;
use super::shared::Shared;
use crate::apply::Calls;
use crate::operators::board::Board;
use crate::operators::worker::Writes;
use akash_provider_core::error::{Error, ErrorKind};
use kube::core::ApiResource;
use std::sync::Arc;

/// Who writes labels.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) calls: Calls,
    /// Nodes.
    pub(super) resource: ApiResource,
}

impl Writes for Writer {
    type Index = Index;

    fn board(&self) -> &Board<Index> {
        &self.shared.board
    }

    async fn carry_out(&self, name: &str, work: &Work) -> Result<(), Error> {
        let Some(write) = &work.write else {
            return Ok(());
        };
        match self.write(name, write).await {
            Err(error) if error.kind() == ErrorKind::Conflict => self.again(name, write, error).await,
            outcome => outcome,
        }
    }
}

impl Writer {
    async fn write(&self, name: &str, write: &Write) -> Result<(), Error> {
        let labels = &write.patch["metadata"]["labels"];
        tracing::info!(node = name, %labels, "labels of a node are written");
        let call = self
            .calls
            .change_at(MANAGER, &self.resource, name, write.version, &write.patch);
        self.shared.written(name, call.await?);
        Ok(())
    }

    /// Somebody has written the node meanwhile: it is read again. Where that leaves the same to be written it is tried
    /// once more; everything else waits for its turn.
    async fn again(&self, name: &str, write: &Write, conflict: Error) -> Result<(), Error> {
        let Some(meta) = self.calls.metadata(&self.resource, "", name).await? else {
            // The watch tells that it is gone.
            return Ok(());
        };
        self.shared.answered(name, meta);
        let now = self.shared.board.inner().index.work(name).write;
        match now {
            None => Ok(()),
            Some(now) if now.patch == write.patch => self.write(name, &now).await,
            Some(_) => Err(conflict),
        }
    }
}
