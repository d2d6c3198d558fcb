//! The flight recorder: every input of the engine in files, and the same decisions made again from them.
//!
//! ```text
//! engine ─▶ recorder ─▶ queue (bounded) ─▶ writer: cover secrets, encode, compress ─▶ 000001.flight, 000002.flight, …
//!                                                                                         │
//!                             effects as recorded, or the first difference ◀─ replay ◀─ reader
//! ```
//! Nothing waits for it. What the queue has no room for is counted, and told in the recording; the next state of the
//! engine follows, from which a replay goes on. `docs/flight-recorder.md` has the format.

mod bundle;
mod cover;
mod format;
mod health;
mod reader;
mod recorder;
mod replay;
mod shelf;
mod words;
mod writer;

pub use bundle::{BundleArgs, bundle};
pub use health::{Health, RecordingStatus};
pub use recorder::{Finish, FlightRecorder, start};
pub use replay::{ReplayArgs, replay};

use akash_provider_core::engine::{Engine, Input};
use akash_provider_core::types::{Address, Now};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What `run` keeps of itself.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recording")]
pub struct RecordArgs {
    /// Keep every input of the provider in this folder, for `provider-daemon replay`: without values of the environment,
    /// commands, arguments and logins of manifests.
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// Most bytes of that folder; the oldest of it goes first. At least 1Mi.
    #[arg(long, value_name = "BYTES", default_value = "256Mi", value_parser = limit)]
    pub record_bytes: u64,
}

/// Below that not even the state of a small provider has room.
const LIMIT_MIN: u64 = 1 << 20;

fn limit(text: &str) -> Result<u64, String> {
    let bytes = crate::args::values::bytes(text)?;
    match u64::try_from(bytes) {
        Ok(bytes) if bytes >= LIMIT_MIN => Ok(bytes),
        _ => Err("must be at least 1Mi".to_owned()),
    }
}

/// Whose recording it is: the beginning of each file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The version that made it; another one may decide otherwise.
    pub(crate) version: String,
    pub(crate) chain_id: String,
    pub(crate) provider: Address,
    /// When the process started that it is of, in milliseconds of the clock on the wall.
    pub(crate) started: u64,
}

/// What happened.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are turns, and each of them would be one more allocation"
)]
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    /// The engine, and the clock on the wall, before what follows. A replay can begin here.
    State {
        now: Now,
        wall: u64,
        engine: Box<Engine>,
    },
    /// It took an input, or let its deadlines pass, and so many effects came of it.
    Turn {
        now: Now,
        input: Option<Input>,
        effects: u32,
        digest: u64,
    },
    /// So many turns are missing here, because they came faster than they were written.
    Gap { turns: u64 },
    /// The provider has ended.
    End,
}

fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A time for people; one beyond what can be written is its number.
pub(crate) fn shown_time(wall: u64) -> String {
    /// The year 9999, where the form ends.
    const LAST: u64 = 253_402_300_799_999;
    if wall > LAST {
        return wall.to_string();
    }
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(wall)).to_string()
}

#[cfg(test)]
mod tests;
