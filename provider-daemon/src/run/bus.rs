//! The bus of `run`: that of the process, and beside it one that others read where there is one.

use crate::args::bus::BusArgs;
use crate::dev::Printer;
use akash_provider_core::bus::{Bus, FanOut, LocalBus};
use akash_provider_redis::RedisBus;
use std::sync::Arc;
use std::time::Duration;

/// How long the last events may take to where others read them.
const LAST_EVENTS: Duration = Duration::from_secs(5);

/// What the provider publishes on.
pub(super) struct Buses {
    /// Of this process.
    pub(super) local: Arc<LocalBus>,
    all: Option<Arc<FanOut>>,
}

impl Buses {
    /// Says where events go besides. That nothing answers there now is no failure.
    ///
    /// # Errors
    /// A file that a flag names cannot be used.
    pub(super) fn open(args: &BusArgs, printer: &Printer) -> anyhow::Result<Self> {
        let local = Arc::new(LocalBus::new());
        let all = args.location()?.map(|location| {
            printer.note(&format!("events are published at {location} too"));
            let distant: Arc<dyn Bus> = Arc::new(RedisBus::new(location));
            Arc::new(FanOut::new(Arc::clone(&local) as Arc<dyn Bus>, vec![distant]))
        });
        Ok(Self { local, all })
    }

    /// The bus that the provider publishes on.
    pub(super) fn of_provider(&self) -> Arc<dyn Bus> {
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
