//! Start and end of the supervised parts of a provider.

use super::Recordings;
use super::bus::Buses;
use super::cluster_proxy::ClusterProxy;
use super::readiness::ReadinessWatch;
use crate::operator;
use crate::printer::Printer;
use crate::printer::follow_facts;
use crate::supervise::{self, Part, PartFailed, Supervisor};
use akash_provider_chain::{AkashClient, ClientSettings};
use akash_provider_core::bus::Bus;
use akash_provider_core::provider::ProviderHandle;
use akash_provider_core::types::Topic;
use futures::FutureExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Maximum time for the supervised parts to stop.
const PARTS_END: Duration = Duration::from_secs(10);

/// Starts the chain client as the first part of the provider.
pub(super) fn connect(
    settings: ClientSettings,
    until: &CancellationToken,
    parts: &mut Supervisor,
) -> anyhow::Result<AkashClient> {
    let (chain, writer) = AkashClient::start(settings, until.clone())?;
    parts.once(Part::Writer, |_| writer.map(Ok).boxed());
    Ok(chain)
}

/// Starts the task that prints events. Events during a restart of this task are not printed.
pub(super) async fn print(
    parts: &mut Supervisor,
    buses: &Buses,
    printer: &Arc<Printer>,
    until: &CancellationToken,
) -> anyhow::Result<()> {
    let (bus, printer, until) = (Arc::clone(&buses.local), Arc::clone(printer), until.clone());
    let mut first = Some(bus.subscribe(&[Topic::Facts]).await?);
    parts.again(Part::Printing, move |_| {
        let (first, bus) = (first.take(), Arc::clone(&bus));
        let (printer, until) = (Arc::clone(&printer), until.clone());
        async move {
            let facts = match first {
                Some(facts) => facts,
                None => bus.subscribe(&[Topic::Facts]).await.map_err(|e| e.to_string())?,
            };
            follow_facts(facts, printer, until).await;
            Ok(())
        }
        .boxed()
    });
    Ok(())
}

/// Waits until all parts have ended, for at most `PARTS_END`.
pub(super) async fn all_ended(parts: Supervisor) -> Result<(), PartFailed> {
    timeout(PARTS_END, parts.end()).await.unwrap_or_else(|_| {
        tracing::warn!(limit = ?PARTS_END, "parts of the provider did not stop within the time limit and were aborted");
        Ok(())
    })
}

/// Starts the provider and the readiness checks. The watchdog monitors both.
pub(super) fn run_and_look<E: Send + 'static>(
    parts: &mut Supervisor,
    running: impl Future<Output = Result<(), E>> + Send + 'static,
    watch: ReadinessWatch,
    handle: &ProviderHandle,
    until: &CancellationToken,
) -> JoinHandle<Result<(), E>> {
    let provider = parts.pulse(Part::Provider);
    let running = provider.clone().watch(running);
    let (watch, handle, until) = (Arc::new(watch), handle.clone(), until.clone());
    parts.again(Part::Watch, move |pulse| {
        let (watch, handle, until) = (Arc::clone(&watch), handle.clone(), until.clone());
        let (pulse, provider) = (pulse.clone(), provider.clone());
        async move {
            watch.follow(&handle, &until, &pulse, &provider).await;
            until.cancelled().await;
            Ok(())
        }
        .boxed()
    });
    tokio::spawn(running)
}

/// Runs the provider until the provider stops or a part fails permanently.
pub(super) async fn supervised<E>(
    mut running: JoinHandle<Result<(), E>>,
    parts: &mut Supervisor,
    stop: &[&CancellationToken],
) -> (Result<(), E>, Option<PartFailed>) {
    let (ended, failure) = tokio::select! {
        ended = &mut running => (ended, None),
        failure = parts.failure() => {
            supervise::stopping();
            // Aborted too, because draining may need the failed part.
            stop.iter().for_each(|token| token.cancel());
            (running.await, Some(failure))
        }
    };
    match ended {
        Ok(ended) => (ended, failure),
        Err(error) => {
            let panicked = || PartFailed::new(Part::Provider, supervise::join_error_text(error), 0);
            (Ok(()), Some(failure.unwrap_or_else(panicked)))
        }
    }
}

pub(super) fn answer_operators(
    parts: &mut Supervisor,
    home: &Path,
    (handle, cluster, records): (&ProviderHandle, &Option<ClusterProxy>, &Recordings),
    until: &CancellationToken,
) {
    let condition = operator::SocketHandler {
        handle: handle.clone(),
        cluster: cluster.clone(),
        history: records.history.clone(),
        audit: records.audit.clone(),
    };
    let (home, until) = (home.to_owned(), until.clone());
    parts.again(Part::OperatorSocket, move |_| {
        let serving = operator::serve(home.clone(), condition.clone(), until.clone());
        let until = until.clone();
        async move {
            serving.await;
            // Without a socket, which was reported, the provider continues.
            until.cancelled().await;
            Ok(())
        }
        .boxed()
    });
}
