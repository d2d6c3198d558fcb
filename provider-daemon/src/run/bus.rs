//! The bus of `run`: that of the process, and beside it one that others read where there is one.

use super::writers::Writers;
use crate::args::bus::BusArgs;
use crate::dev::Printer;
use akash_provider_core::bus::{Bus, FanOut, LocalBus};
use akash_provider_redis::{Location, RedisBus};
use std::sync::Arc;
use std::time::Duration;

/// How long the last events may take to where others read them.
const LAST_EVENTS: Duration = Duration::from_secs(5);

/// What the provider publishes on.
pub(super) struct Buses {
    /// Of this process.
    pub(super) local: Arc<LocalBus>,
    remote: Option<Location>,
}

/// The bus that the provider publishes on.
pub(super) struct ProviderBus {
    all: Option<Arc<FanOut>>,
    local: Arc<LocalBus>,
}

impl Buses {
    /// Reads the location of the remote bus. Nothing is connected, so the server may be down.
    ///
    /// # Errors
    /// A file that a flag names cannot be used.
    pub(super) fn open(args: &BusArgs, printer: &Printer) -> anyhow::Result<Self> {
        let remote = args.location()?;
        if let Some(location) = &remote {
            printer.note(&format!("events are published at {location} too"));
        }
        let local = Arc::new(LocalBus::new());
        Ok(Self { local, remote })
    }

    /// Returns the bus of the provider. The remote bus gets events from the leader of `writers` only.
    pub(super) fn of_provider(&self, writers: &Writers) -> ProviderBus {
        let local = Arc::clone(&self.local);
        let all = self.remote.clone().map(|location| {
            let remote = writers.bus(RedisBus::new(location));
            Arc::new(FanOut::new(Arc::clone(&local) as Arc<dyn Bus>, vec![remote]))
        });
        ProviderBus { all, local }
    }
}

impl ProviderBus {
    pub(super) fn bus(&self) -> Arc<dyn Bus> {
        match &self.all {
            Some(all) => Arc::clone(all) as Arc<dyn Bus>,
            None => Arc::clone(&self.local) as Arc<dyn Bus>,
        }
    }

    /// Lets others have what waits for them.
    pub(super) async fn finish(&self) {
        if let Some(all) = &self.all {
            all.finish(LAST_EVENTS).await;
        }
    }
}
