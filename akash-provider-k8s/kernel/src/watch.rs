//! List and watch of one kind, repeated after every gap.

mod config;
mod definitions;
mod follow;
mod object;
mod reading;
mod state;

pub use config::{WatchConfig, asked_to_wait};
pub use definitions::{DEFINITIONS, Definitions};
pub use follow::{Follower, Sink, WatchObserver};
pub use object::{Decoded, FromObject, Unreadable};
pub use reading::{Bookkeeping, ListerWatcher, ObjectParts, Paths, Pruned};
pub use state::WatchState;
