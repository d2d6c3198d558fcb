//! Commands that tenants run next to a replica: in the folder and with the variables of the replica.

use crate::process::{self, CommandSpec};
use crate::{ProcessCluster, no_lease, no_service};
use akash_provider_core::cluster::{ExecIo, ExecRequest, Shell};
use akash_provider_core::types::LeaseId;
use akash_provider_core::{Error, ErrorKind};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const EXEC: &str = "exec";

#[async_trait]
impl Shell for ProcessCluster {
    async fn exec(&self, lease: &LeaseId, request: ExecRequest, io: ExecIo) -> Result<i32, Error> {
        let (program, stop, replicas) = self.beside(lease, &request)?;
        // Tracked, so that the teardown of the lease waits for the command.
        let running = replicas.track_future(process::run(&program, io, &stop));
        running.await.ok_or_else(|| no_lease(EXEC, lease))
    }
}

impl ProcessCluster {
    /// Returns the program for the requested command. Also returns the stop token and the process tracker of
    /// the lease.
    fn beside(
        &self,
        lease: &LeaseId,
        request: &ExecRequest,
    ) -> Result<(CommandSpec, CancellationToken, TaskTracker), Error> {
        let invalid = |message| Error::new(ErrorKind::Invalid, EXEC, message);
        if request.tty {
            return Err(invalid("terminals are not supported; omit --tty"));
        }
        let Some((name, args)) = request.command.split_first() else {
            return Err(invalid("the command is empty"));
        };
        let state = self.state();
        let running = state.get(lease).and_then(|w| w.running.as_ref());
        let running = running.ok_or_else(|| no_lease(EXEC, lease))?;
        let mut services = running.deployment.group.services.iter();
        let service = services.find(|s| s.name == request.service && request.replica < s.count);
        let service = service.ok_or_else(|| {
            let replica = format!("{}-{}", request.service, request.replica);
            no_service(EXEC, lease, &replica)
        })?;
        let program = CommandSpec {
            program: name.clone(),
            args: args.to_vec(),
            ..self.program(running, service, request.replica)?
        };
        Ok((program, running.stop.clone(), running.replicas.clone()))
    }
}
