//! Recorders of the engine (flight recorder, order history and traces), the export of the log, and the audit log of the
//! provider.

use crate::args::RunArgs;
use crate::audit::{self, Audit, AuditHealth};
use crate::flight;
use crate::history::{self, History, Recorders};
use crate::metrics::Metrics;
#[cfg(feature = "otlp")]
use crate::otlp::{self, Otlp, OtlpSource, TransactionOf};
use akash_provider_chain::AkashClient;
use akash_provider_core::Config;
use akash_provider_core::audit::{Act, ActKind, ActOutcome, AuditedAct};
#[cfg(feature = "otlp")]
use akash_provider_core::chain::ChainTx;
use akash_provider_core::pricing::PricingStrategy;
use akash_provider_core::provider::{Provider, ProviderBuilder};
use akash_provider_core::record::Recorder;
use anyhow::Context;
use std::path::Path;
use std::sync::Arc;

/// Message while the audit log cannot be written.
pub(super) const UNWRITABLE: &str = "audit log not writable, closes of leases and teardowns wait";

#[derive(Debug)]
pub(super) struct Recordings {
    pub(super) flight: Option<flight::Finish>,
    pub(super) history: Option<History>,
    pub(super) audit: Option<Audit>,
    /// Audit record of this run; `None` without an audit log.
    run: Option<AuditedAct>,
    #[cfg(feature = "otlp")]
    otlp: Otlp,
}

impl Recordings {
    /// Starts the enabled recorders. The audit log `audit` already runs. Returns a provider builder with the
    /// recorders and the audit log, and the handles of the recorders.
    pub(super) async fn start(
        args: &RunArgs,
        home: &Path,
        config: &Config,
        pricing: &Arc<dyn PricingStrategy>,
        (chain, metrics, audit): (&AkashClient, &Metrics, Option<Audit>),
    ) -> anyhow::Result<(ProviderBuilder, Self)> {
        let mut recorders: Vec<Box<dyn Recorder>> = Vec::new();
        let mut add = |recorder: Box<dyn Recorder>| recorders.push(recorder);
        #[cfg(not(feature = "otlp"))]
        let _ = (chain, metrics);
        // Before the others, because only the exports have settings that can be invalid.
        #[cfg(feature = "otlp")]
        let otlp = {
            let chain = chain.clone();
            let transaction_of: TransactionOf = Box::new(move |msg| Some(chain.receipt_of(msg)?.hash));
            let (recorder, otlp) =
                otlp::start(&args.otlp, &config.provider, &config.chain_id, transaction_of)?;
            metrics.add(OtlpSource::new(&otlp));
            if let Some(recorder) = recorder {
                add(Box::new(recorder));
            }
            otlp
        };
        let dir = args.record.record.as_ref();
        let flight = dir.map(|dir| flight::start(dir, args.record.record_bytes, config));
        let flight = flight.transpose()?.map(|(recorder, flight)| {
            add(Box::new(recorder));
            flight
        });
        let history = history::start(home, args.history.bounds(), Arc::clone(pricing));
        let history = history.context("cannot start the order history")?;
        let history = history.map(|(recorder, history)| {
            add(Box::new(recorder.of_provider(config.provider.clone())));
            history
        });
        let run = audit.as_ref().map(|audit| audit.act(run_act(config)));
        if let Some(run) = &run {
            // The first line of the process, which also shows whether the log can be written.
            run.record_intent().await?;
        }
        let builder = match Recorders::new(recorders) {
            Some(recorders) => Provider::builder().recorder(recorders),
            None => Provider::builder(),
        };
        let builder = match &audit {
            Some(audit) => builder.audit_log(audit.clone()),
            None => builder,
        };
        let recordings = Self {
            flight,
            history,
            audit,
            run,
            #[cfg(feature = "otlp")]
            otlp,
        };
        Ok((builder, recordings))
    }

    /// Finishes the recordings after the provider has stopped. Writes and sends all remaining data.
    pub(super) async fn finish(self) {
        if let Some(flight) = self.flight {
            flight.wait().await;
        }
        if let Some(history) = self.history {
            history.finish().await;
        }
        if let Some(run) = self.run {
            run.record_outcome(ActOutcome::new("done", None));
        }
        if let Some(audit) = self.audit {
            audit.finish().await;
        }
        #[cfg(feature = "otlp")]
        self.otlp.finish().await;
    }
}

/// Starts the audit log; `None` if it is disabled.
pub(super) fn start_audit_log(args: &RunArgs, home: &Path) -> anyhow::Result<Option<Audit>> {
    let audit = args.audit.settings(home).map(audit::start).transpose();
    audit.context("cannot start the audit log")
}

fn run_act(config: &Config) -> Act {
    let kind = ActKind::Command {
        name: "run",
        destroys: false,
    };
    let mut act = Act::new(kind, audit::this_process(), config.provider.as_str());
    let program = crate::program();
    act.evidence.request = Some(format!("{} {} {}", program.name, program.version, program.commit));
    act
}

pub(super) fn audit_note(health: &AuditHealth) -> String {
    match &health.problem {
        Some(why) => format!("{UNWRITABLE}: {why}"),
        None => "audit log is writable again".to_owned(),
    }
}
