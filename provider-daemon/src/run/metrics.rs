//! Metrics of a provider: the sources and the server.

use crate::args::RunArgs;
use crate::dev::Printer;
use crate::metrics::{Metrics, ProcessSource, serve};
use crate::supervise::{Part, Supervisor};
use futures::FutureExt;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Starts the server of the metrics if enabled. Returns the metrics, to which each part adds its source.
pub(super) fn start(
    args: &RunArgs,
    printer: &Arc<Printer>,
    until: &CancellationToken,
    parts: &mut Supervisor,
) -> Metrics {
    let metrics = Metrics::default();
    metrics.add(ProcessSource::new());
    let Some(address) = args.metrics.metrics_listener.get() else {
        return metrics;
    };
    let (address, served) = (address.to_owned(), metrics.clone());
    let (printer, until) = (Arc::clone(printer), until.clone());
    parts.again(Part::Metrics, move |_| {
        let (address, served) = (address.clone(), served.clone());
        let (printer, until) = (Arc::clone(&printer), until.clone());
        async move {
            serve(&address, served, &until, |url| announce(&printer, url)).await;
            Ok(())
        }
        .boxed()
    });
    metrics
}

fn announce(printer: &Printer, url: &str) {
    if printer.is_text() {
        printer.note(&format!("metrics at {url}"));
    }
    printer.object(json!({ "event": "metrics", "url": url }));
}
