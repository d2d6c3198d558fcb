//! The engine.

pub mod effect;
pub mod input;
pub mod status;

pub use effect::{Call, Effect, EffectId};
pub use input::{
    Completion, Input, Leadership, Refusal, RefusalKind, Reply, Request, RequestId, Response, Workloads,
};
pub use status::Status;

use crate::config::{Config, InvalidConfig};
use crate::inventory::Explanation;
use crate::types::{GroupSpec, LeaseId, Mono, Now};

/// Every state machine and ledger of a provider; changes only by [`Engine::step`].
#[derive(Debug)]
pub struct Engine {
    config: Config,
}

impl Engine {
    /// An engine that knows nothing yet; it waits for the first `Resync` and the first inventory.
    ///
    /// # Errors
    /// When the settings make no sense.
    pub fn new(config: Config) -> Result<Self, InvalidConfig> {
        config.validate()?;
        Ok(Self { config })
    }

    /// Takes one input and says what is to be done.
    pub fn step(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let _ = (now, input, &self.config);
        Vec::new()
    }

    /// When [`Engine::handle_timeout`] is due; block-time deadlines come with the blocks by themselves.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Mono> {
        None
    }

    /// Lets deadlines pass. May be called at any time, also for nothing.
    pub fn handle_timeout(&mut self, now: Now) -> Vec<Effect> {
        let _ = now;
        Vec::new()
    }

    /// True when no call is owed that must be waited for before stopping.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        true
    }

    /// A plain snapshot of everything.
    #[must_use]
    pub fn status(&self, now: Now) -> Status {
        let _ = now;
        Status::default()
    }

    /// Why a group would or would not fit right now, node by node.
    #[must_use]
    pub fn explain(&self, group: &GroupSpec) -> Option<Explanation> {
        let _ = group;
        None
    }

    /// True while the chain shows this lease as ours and alive.
    #[must_use]
    pub fn has_lease(&self, lease: &LeaseId) -> bool {
        let _ = lease;
        false
    }
}
