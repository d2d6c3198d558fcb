//! Event buses of `run`: the bus of the process, and an optional remote bus.

use crate::args::bus::BusArgs;
use crate::printer::Printer;
use crate::writers::Writers;
use akash_provider_core::bus::{Bus, FanOut, LocalBus};
use akash_provider_redis::Location;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time to send the last events to the remote bus.
const LAST_EVENTS: Duration = Duration::from_secs(5);

pub(super) struct Buses {
    /// Bus within this process.
    pub(super) local: Arc<LocalBus>,
    remote: Option<Location>,
}

pub(super) struct ProviderBus {
    all: Option<Arc<FanOut>>,
    local: Arc<LocalBus>,
}

impl Buses {
    /// Creates the buses. The remote bus connects later.
    ///
    /// # Errors
    /// Returns an error if a credential file is invalid.
    pub(super) fn open(args: &BusArgs, printer: &Printer) -> anyhow::Result<Self> {
        let remote = args.location()?;
        if let Some(location) = &remote {
            printer.note(&format!("publishing events to {location}"));
        }
        let local = Arc::new(LocalBus::new());
        Ok(Self { local, remote })
    }

    /// Returns the bus of the provider. Events reach the remote bus only while this instance leads.
    pub(super) fn provider_bus(&self, writers: &Writers) -> ProviderBus {
        let local = Arc::clone(&self.local);
        let all = self.remote.clone().map(|location| {
            let remote = writers.bus(location);
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

    /// Sends the pending events to the remote bus. Stops after the time `LAST_EVENTS`.
    pub(super) async fn finish(&self) {
        if let Some(all) = &self.all {
            all.finish(LAST_EVENTS).await;
        }
    }
}
